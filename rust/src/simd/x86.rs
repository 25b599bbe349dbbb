//! AVX2 and AVX-512.

#![expect(unsafe_code, reason = "intrinsics of instruction sets that were detected")]

use super::escapes::SHORT_ESCAPES;
use super::instructions::{Block, COUNT_SHIFT, ID_BITS, Instructions, Work};
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

    const UNESCAPES_BLOCKS: bool = true;

    with_features! { "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2"
        fn load(self, block: &Block) -> __m512i {
            // SAFETY: the block has the 64 bytes that are loaded, which need no alignment.
            unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
        }

        fn within(self, bytes: __m512i, first: u8, count: u8) -> u64 {
            let from_first = _mm512_sub_epi8(bytes, _mm512_set1_epi8(first as i8));
            _mm512_cmplt_epu8_mask(from_first, _mm512_set1_epi8(count as i8))
        }

        fn find_words(self, words: [u64; 8], lengths: [u32; 8], table: &WordTable) -> Found {
            let to_vector = |[a, b, c, d, e, f, g, h]: [u64; 8]| {
                let [a, b, c, d] = [a, b, c, d].map(|word| word as i64);
                let [e, f, g, h] = [e, f, g, h].map(|word| word as i64);
                _mm512_set_epi64(h, g, f, e, d, c, b, a)
            };
            // SAFETY: the array has the 32 bytes that are loaded, which need no alignment.
            let lengths = unsafe { _mm256_loadu_si256(lengths.as_ptr().cast()) };
            let longer = _mm256_cmpgt_epu32_mask(lengths, _mm256_set1_epi32(8));
            let bytes = _mm256_min_epu32(lengths, _mm256_set1_epi32(8));
            let bits = _mm512_slli_epi64::<3>(_mm512_cvtepu32_epi64(bytes));
            let unused_bits = _mm512_sub_epi64(_mm512_set1_epi64(64), bits);
            let shifted = _mm512_sllv_epi64(to_vector(words), unused_bits);
            let ends_in_zero = _mm512_cmplt_epu64_mask(shifted, _mm512_set1_epi64(1 << 56));
            let words = _mm512_srlv_epi64(shifted, unused_bits);
            let hashes = _mm512_mullo_epi64(words, _mm512_set1_epi64(GOLDEN_RATIO as i64));
            let slots = _mm512_srli_epi64::<{ 64 - WORD_TABLE_BITS }>(hashes);
            let mut slot_of = [0_u64; 8];
            // SAFETY: the array has room for the 64 bytes that are stored.
            unsafe { _mm512_storeu_si512(slot_of.as_mut_ptr().cast(), slots) };
            let slots = slot_of.map(|slot| &table[slot as usize & (table.len() - 1)]);
            let known = to_vector(slots.map(|slot| slot[0]));
            let values = slots.map(|slot| slot[1]);
            Found { values, missing: ends_in_zero | _mm512_cmpneq_epu64_mask(known, words), longer }
        }

        fn unpack(self, packed: &[u64; 4]) -> ([u32; 16], usize) {
            // SAFETY: the array has the 32 bytes that are loaded, which need no alignment.
            let packed = unsafe { _mm256_loadu_si256(packed.as_ptr().cast()) };
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
            let mut ids = [0; 16];
            let found = _mm512_maskz_compress_epi32(is_id, all);
            // SAFETY: there is room for the 64 bytes that are stored, which need no alignment.
            unsafe { _mm512_storeu_si512(ids.as_mut_ptr().cast(), found) };
            (ids, is_id.count_ones() as usize)
        }

        fn unescape(self, block: &Block, escaped: u64, kept: u64) -> (Block, u64) {
            // SAFETY: the block has the 64 bytes that are loaded, which need no alignment.
            let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            let [low, high] = [0, 64].map(|first| {
                // SAFETY: the table has 128 bytes, and 64 are loaded, which need no alignment.
                unsafe { _mm512_loadu_si512(SHORT_ESCAPES[first..].as_ptr().cast()) }
            });
            // The look-up ignores the highest bit of a byte.
            let non_ascii = _mm512_movepi8_mask(bytes);
            let replaced = _mm512_mask2_permutex2var_epi8(low, bytes, escaped, high);
            let wrong = (_mm512_testn_epi8_mask(replaced, replaced) | non_ascii) & escaped;
            let mut moved = [0; 64];
            let kept = _mm512_maskz_compress_epi8(kept, replaced);
            // SAFETY: there is room for the 64 bytes that are stored, which need no alignment.
            unsafe { _mm512_storeu_si512(moved.as_mut_ptr().cast(), kept) };
            (moved, wrong)
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

impl Instructions for Avx2 {
    type Bytes = [__m256i; 2];

    with_features! { "avx2"
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
