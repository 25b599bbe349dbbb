//! AVX2 and AVX-512.

#![expect(unsafe_code, reason = "intrinsics of instruction sets that were detected")]

use super::classes;
use super::instructions::{Block, INDICES, Instructions, Masks, Work};
use super::packed::{COUNT_SHIFT, ID_BITS, Packed};
use super::words::{Found, WORD_TABLE_BITS, WordTable};
use crate::hash::GOLDEN_RATIO;
use std::arch::x86_64::*;

/// Makes types whose values prove that the processor has some instructions, since only `new`
/// returns one.
macro_rules! make_proofs {
    ($($name:ident [$($feature:tt)*])*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            pub fn new() -> Option<$name> {
                (true $(&& is_x86_feature_detected!($feature))*).then_some($name(()))
            }

            #[inline]
            pub fn run<W: Work>(self, work: W) -> W::Result {
                #[target_feature($(enable = $feature,)*)]
                fn run<W: Work>(isa: $name, work: W) -> W::Result {
                    work.run(isa)
                }
                // SAFETY: `self` proves that the processor has these instructions.
                unsafe { run(self, work) }
            }
        }
    )*};
}

make_proofs! {
    Avx512 [
        "avx2" "bmi1" "bmi2" "lzcnt" "popcnt"
        "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vbmi" "avx512vbmi2"
    ]
    Avx2 ["avx2" "bmi1" "bmi2" "lzcnt" "popcnt"]
}

impl Instructions for Avx512 {
    type Bytes = __m512i;

    with_features! { "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2"
        fn load(self, block: &Block) -> __m512i {
            // SAFETY: the block has the 64 bytes that are loaded, which need no alignment.
            unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
        }

        fn within(self, bytes: __m512i, first: u8, count: u8) -> u64 {
            let from_first = _mm512_sub_epi8(bytes, _mm512_set1_epi8(first as i8));
            _mm512_cmplt_epu8_mask(from_first, _mm512_set1_epi8(count as i8))
        }

        fn find_pieces(
            self,
            text: &[u8],
            bounds: &[u32; 9],
            table: &WordTable,
            values: &mut [Packed; 8],
        ) -> Option<Found> {
            // Longer vectors gain nothing, because rows are loaded one by one.
            Avx2(()).find_pieces(text, bounds, table, values)
        }

        fn unpack(self, packed: &[Packed; 8], ids: &mut [u32; 32]) -> usize {
            let mut count = 0;
            for half in packed.as_chunks::<4>().0 {
                // SAFETY: the half has the 32 bytes that are loaded, which need no alignment.
                let packed = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
                // Each number has four lanes of 32 bits. Three of them get an id; the count tells
                // which.
                let numbers = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
                let twice = _mm512_permutexvar_epi64(numbers, _mm512_castsi256_si512(packed));
                let lanes = [0, 8, 16, 24, 20, 28, 36, 44];
                let [first, last] = [0, 2 * ID_BITS as u8]
                    .map(|first| i64::from_le_bytes(lanes.map(|bit| first + bit)));
                let bits = _mm512_set4_epi64(last, first, last, first);
                let all = _mm512_multishift_epi64_epi8(bits, twice);
                let all = _mm512_and_si512(all, _mm512_set1_epi32((1 << ID_BITS) - 1));
                let [one, two, three] = [1, 2, 3].map(|count| count << (COUNT_SHIFT - 32));
                let counts = _mm512_shuffle_epi32::<0b11_11_01_01>(twice);
                let least = _mm512_set4_epi32(-1, three, two, one);
                let is_id = _mm512_cmpge_epu32_mask(counts, least);
                let found = _mm512_maskz_compress_epi32(is_id, all);
                // SAFETY: there is room for the 64 bytes that are stored, after at most 16 ids.
                unsafe { _mm512_storeu_si512(ids[count..].as_mut_ptr().cast(), found) };
                count += is_id.count_ones() as usize;
            }
            count
        }

        fn look_up(self, block: &Block, table: &[u8; 256], found: &mut Block) {
            let quarters = table.as_chunks::<64>().0;
            // SAFETY: each quarter and the block have the 64 bytes that are loaded.
            let load = |block: &Block| unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            let bytes = load(block);
            // A look-up takes seven bits of each byte.
            let low = _mm512_permutex2var_epi8(load(&quarters[0]), bytes, load(&quarters[1]));
            let high = _mm512_permutex2var_epi8(load(&quarters[2]), bytes, load(&quarters[3]));
            let all = _mm512_mask_blend_epi8(_mm512_movepi8_mask(bytes), low, high);
            // SAFETY: there is room for the 64 bytes that are stored, which need no alignment.
            unsafe { _mm512_storeu_si512(found.as_mut_ptr().cast(), all) };
        }

        fn write_indices(self, bits: u8, first: u16, indices: &mut [u16; 8]) {
            let all = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7);
            let all = _mm_add_epi16(_mm_set1_epi16(first as i16), all);
            let chosen = _mm_maskz_compress_epi16(bits, all);
            // SAFETY: there is room for the eight that are stored, which need no alignment.
            unsafe { _mm_storeu_si128(indices.as_mut_ptr().cast(), chosen) };
        }

        fn write_offsets(self, bits: u64, base: u32, offsets: &mut [u32; 64]) {
            // SAFETY: the constant has the 64 bytes that are loaded.
            let all = unsafe { _mm512_loadu_si512(ZERO_TO_63.as_ptr().cast()) };
            let chosen = _mm512_maskz_compress_epi8(bits, all);
            let base = _mm512_set1_epi32(base as i32);
            let quarters = [
                _mm512_castsi512_si128(chosen),
                _mm512_extracti32x4_epi32::<1>(chosen),
                _mm512_extracti32x4_epi32::<2>(chosen),
                _mm512_extracti32x4_epi32::<3>(chosen),
            ];
            let used = bits.count_ones().div_ceil(16) as usize;
            for (sixteen, quarter) in
                offsets.as_chunks_mut::<16>().0.iter_mut().zip(quarters).take(used)
            {
                let wide = _mm512_add_epi32(base, _mm512_cvtepu8_epi32(quarter));
                // SAFETY: there is room for the sixteen that are stored, which need no alignment.
                unsafe { _mm512_storeu_si512(sixteen.as_mut_ptr().cast(), wide) };
            }
        }
    }
}

const ZERO_TO_63: Block = {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};

impl Avx2 {
    with_features! { "avx2"
        fn classes(self, bytes: [__m256i; 2]) -> [__m256i; 2] {
            let [of_low, of_high] = [&classes::OF_LOW, &classes::OF_HIGH].map(|row| {
                // SAFETY: the row has the 16 bytes that are loaded, which need no alignment.
                _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
            });
            bytes.map(|half| {
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(half), _mm256_set1_epi8(0xF));
                let of_high = _mm256_shuffle_epi8(of_high, high);
                // A byte outside ASCII finds 0.
                _mm256_and_si256(_mm256_shuffle_epi8(of_low, half), of_high)
            })
        }

        fn letters(self, classes: [__m256i; 2]) -> [__m256i; 2] {
            // The two highest bits are the letters.
            classes.map(|half| _mm256_or_si256(half, _mm256_slli_epi16::<1>(half)))
        }

        fn upper(self, letters: [__m256i; 2], bytes: [__m256i; 2]) -> [__m256i; 2] {
            // Bit 5 tells small letters from capitals.
            [0, 1].map(|i| _mm256_andnot_si256(_mm256_slli_epi16::<2>(bytes[i]), letters[i]))
        }

        fn bits(self, bytes: [__m256i; 2], bit: u32) -> u64 {
            let shift = _mm_cvtsi32_si128(7 - bit as i32);
            let [low, high] =
                bytes.map(|half| _mm256_movemask_epi8(_mm256_sll_epi16(half, shift)) as u32);
            u64::from(high) << 32 | u64::from(low)
        }
    }
}

/// Looks up four words, and writes the values of the first two and of the last two. Returns which
/// of the words are in their slots.
#[inline]
#[target_feature(enable = "avx2")]
fn find_four(
    words: __m256i,
    table: &WordTable,
    first: &mut [Packed; 2],
    last: &mut [Packed; 2],
) -> __m256i {
    // The slot is in the upper half of a product of 64 bits. Of this half, `crossed` has the
    // products of one upper half, and `carried` what the product of the lower halves carries.
    const NUMBER: i64 = GOLDEN_RATIO as i64;
    const SWAPPED: i64 = NUMBER.rotate_left(32);
    let carried = _mm256_mul_epu32(words, _mm256_set1_epi64x(NUMBER));
    let crossed = _mm256_mullo_epi32(words, _mm256_set1_epi64x(SWAPPED));
    let crossed = _mm256_add_epi32(crossed, _mm256_slli_epi64::<32>(crossed));
    let products = _mm256_add_epi32(carried, crossed);
    let slots = _mm256_srli_epi64::<{ 64 - WORD_TABLE_BITS as i32 }>(products);
    let offsets = _mm256_slli_epi64::<4>(slots);
    let row = |offset: i64| {
        let row = table.as_ptr().wrapping_byte_add(offset as usize);
        // SAFETY: the table has a row of 16 bytes for each slot.
        unsafe { _mm_loadu_si128(row.cast()) }
    };
    let [a, b] = [row(_mm256_extract_epi64::<0>(offsets)), row(_mm256_extract_epi64::<1>(offsets))];
    let [c, d] = [row(_mm256_extract_epi64::<2>(offsets)), row(_mm256_extract_epi64::<3>(offsets))];
    let (even, odd) = (_mm256_set_m128i(c, a), _mm256_set_m128i(d, b));
    let values = _mm256_unpackhi_epi64(even, odd);
    // SAFETY: there is room for two on each side.
    unsafe {
        _mm256_storeu2_m128i(last.as_mut_ptr().cast(), first.as_mut_ptr().cast(), values);
    }
    _mm256_cmpeq_epi64(_mm256_unpacklo_epi64(even, odd), words)
}

/// Returns the upper halves of eight numbers: 0, 1, 4 and 5, and then 2, 3, 6 and 7.
#[inline]
#[target_feature(enable = "avx2")]
fn upper_halves(numbers: [__m256i; 2]) -> __m256i {
    let [first, second] = [_mm256_castsi256_ps(numbers[0]), _mm256_castsi256_ps(numbers[1])];
    _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(first, second))
}

impl Instructions for Avx2 {
    type Bytes = [__m256i; 2];

    #[inline(always)]
    fn masks(self, block: &Block) -> Masks {
        let bytes = self.load(block);
        let of_bytes = self.classes(bytes);
        let letters = self.letters(of_bytes);
        let is = |class: u8| self.bits(of_bytes, class.trailing_zeros());
        let spaces = is(classes::SPACES);
        Masks {
            letters: self.bits(letters, 7),
            upper: self.bits(self.upper(letters, bytes), 7),
            numbers: is(classes::NUMBERS),
            whitespace: is(classes::CONTROLS) | spaces,
            spaces,
            newlines: is(classes::NEWLINES),
            apostrophes: is(classes::APOSTROPHES),
            slashes: is(classes::SLASHES),
            non_ascii: self.bits(bytes, 7),
        }
    }

    with_features! { "avx2,popcnt"
        fn find_pieces(
            self,
            text: &[u8],
            bounds: &[u32; 9],
            table: &WordTable,
            values: &mut [Packed; 8],
        ) -> Option<Found> {
            // Read before the vectors, from which the compiler would extract them.
            let starts = bounds.map(|at| text.as_ptr().wrapping_add(at as usize).cast::<i64>());
            // SAFETY: there are nine bounds, and eight are loaded, which need no alignment.
            let first = unsafe { _mm256_loadu_si256(bounds.as_ptr().cast()) };
            // SAFETY: as before.
            let next = unsafe { _mm256_loadu_si256(bounds[1..].as_ptr().cast()) };
            let last = _mm256_set1_epi32(text.len().checked_sub(8)?.min(i32::MAX as usize) as i32);
            let is_whole = _mm256_cmpeq_epi32(_mm256_max_epu32(first, last), last);
            if _mm256_movemask_epi8(is_whole) != -1 {
                return None;
            }
            // SAFETY: the text has eight bytes from each start on.
            let word = |i: usize| unsafe { starts[i].read_unaligned() };
            let lengths = _mm256_sub_epi32(next, first);
            let (eight, nine) = (_mm256_set1_epi32(8), _mm256_set1_epi32(9));
            let is_longer = _mm256_cmpeq_epi32(_mm256_max_epu32(lengths, nine), lengths);
            let unused_bytes = _mm256_sub_epi32(eight, _mm256_min_epu32(lengths, eight));
            // By the mask the compiler knows that no shift is too long.
            let unused_bits =
                _mm256_and_si256(_mm256_slli_epi32::<3>(unused_bytes), _mm256_set1_epi32(63));
            // The pieces 0, 1, 4 and 5, and the pieces 2, 3, 6 and 7, because most instructions
            // work within the halves of a vector.
            let words = [
                _mm256_set_epi64x(word(5), word(4), word(1), word(0)),
                _mm256_set_epi64x(word(7), word(6), word(3), word(2)),
            ];
            let zeros = _mm256_setzero_si256();
            let unused =
                [_mm256_unpacklo_epi32(unused_bits, zeros), _mm256_unpackhi_epi32(unused_bits, zeros)];
            let shifted = [0, 1].map(|i| _mm256_sllv_epi64(words[i], unused[i]));
            let [a, b, c, d] = values.as_chunks_mut().0 else { return None };
            let is_known = [
                find_four(_mm256_srlv_epi64(shifted[0], unused[0]), table, a, c),
                find_four(_mm256_srlv_epi64(shifted[1], unused[1]), table, b, d),
            ];
            let last_bytes = _mm256_srli_epi32::<24>(upper_halves(shifted));
            let ends_in_zero = _mm256_cmpeq_epi32(last_bytes, zeros);
            let is_found = _mm256_andnot_si256(ends_in_zero, upper_halves(is_known));
            let bits = |lanes| _mm256_movemask_ps(_mm256_castsi256_ps(lanes)) as u8;
            let missing = !bits(_mm256_or_si256(is_found, is_longer));
            Some(Found { missing, longer: bits(is_longer) })
        }

        fn unpack(self, packed: &[Packed; 8], ids: &mut [u32; 32]) -> usize {
            // Four bytes for each id. The second id begins at bit 4 of the third byte.
            let bytes = _mm_setr_epi32(0x03_02_01_00, 0x05_04_03_02, 0x07_07_06_05, 0);
            let bytes = _mm256_set_m128i(_mm_add_epi8(bytes, _mm_set1_epi8(8)), bytes);
            let shifts = _mm256_setr_epi32(0, 4, 0, 0, 0, 4, 0, 0);
            let mask = _mm256_set1_epi32((1 << ID_BITS) - 1);
            // Read before the vectors, from which the compiler would extract them.
            let counts = packed.map(|number| number.inner_count() & 3);
            let mut count = 0;
            for (two, counts) in packed.as_chunks::<2>().0.iter().zip(counts.as_chunks::<2>().0) {
                // SAFETY: the two have the 16 bytes that are loaded, which need no alignment.
                let numbers = unsafe { _mm_loadu_si128(two.as_ptr().cast()) };
                let all = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(numbers), bytes);
                let all = _mm256_and_si256(_mm256_srlv_epi32(all, shifts), mask);
                let all = [_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)];
                for (some, more) in all.into_iter().zip(counts) {
                    let room = ids.as_mut_ptr().wrapping_add(count);
                    // SAFETY: at most 21 of the 32 ids come before the four that are stored.
                    unsafe { _mm_storeu_si128(room.cast(), some) };
                    count += more;
                }
            }
            count
        }

        fn write_indices(self, bits: u8, first: u16, indices: &mut [u16; 8]) {
            // SAFETY: the row has the eight bytes that are loaded.
            let all = unsafe { _mm_loadl_epi64(INDICES[usize::from(bits)].as_ptr().cast()) };
            let all = _mm_add_epi16(_mm_cvtepu8_epi16(all), _mm_set1_epi16(first as i16));
            // SAFETY: there is room for the eight that are stored, which need no alignment.
            unsafe { _mm_storeu_si128(indices.as_mut_ptr().cast(), all) };
        }

        fn write_offsets(self, bits: u64, base: u32, offsets: &mut [u32; 64]) {
            let (mut count, mut bases) = (0, _mm256_set1_epi32(base as i32));
            for byte in bits.to_le_bytes() {
                // SAFETY: the row has the eight bytes that are loaded.
                let all = unsafe { _mm_loadl_epi64(INDICES[usize::from(byte)].as_ptr().cast()) };
                let all = _mm256_add_epi32(_mm256_cvtepu8_epi32(all), bases);
                let room = offsets.as_mut_ptr().wrapping_add(count);
                // SAFETY: at most eight offsets of each earlier byte come before.
                unsafe { _mm256_storeu_si256(room.cast(), all) };
                count += byte.count_ones() as usize;
                bases = _mm256_add_epi32(bases, _mm256_set1_epi32(8));
            }
        }

        fn load(self, block: &Block) -> [__m256i; 2] {
            let (first, second) = block.split_at(32);
            // SAFETY: each half has the 32 bytes that are loaded, which need no alignment.
            [first, second].map(|half| unsafe { _mm256_loadu_si256(half.as_ptr().cast()) })
        }

        fn within(self, bytes: [__m256i; 2], first: u8, count: u8) -> u64 {
            let (first, last) = (_mm256_set1_epi8(first as i8), _mm256_set1_epi8((count - 1) as i8));
            let [low, high] = bytes.map(|half| {
                let from_first = _mm256_sub_epi8(half, first);
                // min(x, last) == x is x <= last, without signs.
                let is_within = _mm256_cmpeq_epi8(_mm256_min_epu8(from_first, last), from_first);
                _mm256_movemask_epi8(is_within) as u32
            });
            u64::from(high) << 32 | u64::from(low)
        }

        fn look_up(self, block: &Block, table: &[u8; 256], found: &mut Block) {
            let (rows, _) = table.as_chunks::<16>();
            for (half, found) in
                block.as_chunks::<32>().0.iter().zip(found.as_chunks_mut::<32>().0)
            {
                // SAFETY: the half has the 32 bytes that are loaded, which need no alignment.
                let bytes = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
                let mut all = _mm256_setzero_si256();
                let is_ascii = _mm256_movemask_epi8(bytes) == 0;
                for (number, row) in rows.iter().enumerate().take(if is_ascii { 8 } else { 16 }) {
                    // A byte of this row becomes 70 to 7F, and any other at least 80, which finds
                    // 0.
                    let first = _mm256_set1_epi8((number << 4) as i8);
                    let index =
                        _mm256_adds_epu8(_mm256_xor_si256(bytes, first), _mm256_set1_epi8(0x70));
                    // SAFETY: the row has the 16 bytes that are loaded, which need no alignment.
                    let row = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
                    let row = _mm256_broadcastsi128_si256(row);
                    all = _mm256_or_si256(all, _mm256_shuffle_epi8(row, index));
                }
                // SAFETY: there is room for the 32 bytes that are stored, which need no alignment.
                unsafe { _mm256_storeu_si256(found.as_mut_ptr().cast(), all) };
            }
        }
    }
}
