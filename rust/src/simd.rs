//! What the processor can do with many bytes at once: which of 64 are letters, digits and so on,
//! and whole loops compiled for what it has.
//!
//! Every kernel gives the same results, and differs in speed alone. `BPETITE_SIMD` names one, for
//! tests and benchmarks; without it the best is taken that the processor has.

use std::sync::OnceLock;

/// Of 64 bytes, which are ASCII characters of a class: bit 0 is for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    pub letters: u64,
    pub upper: u64,
    pub numbers: u64,
    pub spaces: u64,
    pub blanks: u64,
    pub line_ends: u64,
    pub apostrophes: u64,
    pub slashes: u64,
    /// Bytes that are no ASCII characters.
    pub high: u64,
}

/// Of 64 bytes, which are the first of characters that are not ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leads {
    pub all: u64,
    /// Those of some characters of three bytes that are all letters without case, which are most
    /// of those of Chinese, Japanese and Korean: U+4E00 to U+9FFF and U+B000 to U+CFFF.
    pub uncased: u64,
    /// Those of some characters of two bytes that are all letters: U+0100 to U+027F, Latin, and
    /// U+0400 to U+047F, Cyrillic.
    pub cased: u64,
}

pub type Block = [u8; 64];

/// Words of up to 8 bytes, filled up with zeros, and what belongs to each; each at its own place,
/// or not at all. The word 0 is none.
pub type WordTable = [[u64; 2]; 1 << WORD_TABLE_BITS];

pub const WORD_TABLE_BITS: u32 = 14; // 256 KB, which the second cache of a processor holds

/// Returns where a word is in the table, if it is there.
#[inline(always)]
pub fn place_of_word(word: u64) -> usize {
    (word.wrapping_mul(MIX) >> (64 - WORD_TABLE_BITS)) as usize & ((1 << WORD_TABLE_BITS) - 1)
}

const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is found of eight words: bit 0 is for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What belongs to each word, or anything if it is missing.
    pub values: [u64; 8],
    /// Words that are not in the table, or end in a zero.
    pub missing: u8,
    /// Those of more than 8 bytes.
    pub longer: u8,
}

/// What a processor's vector instructions are asked for.
pub trait Vectors: Copy {
    fn masks(self, block: &Block) -> Masks;

    fn leads(self, block: &Block) -> Leads;

    /// Looks for eight words at once, each of which is the first `lengths[i]` bytes of `words[i]`,
    /// or all of them.
    #[inline(always)]
    fn find_words(self, words: [u64; 8], lengths: [u32; 8], table: &WordTable) -> Found {
        find_words(words, lengths, table)
    }

    /// Writes `first` + the place of each bit of `bits`, in order; what is behind them is anything.
    #[inline(always)]
    fn write_numbers(self, bits: u8, first: u16, numbers: &mut [u16; 8]) {
        write_numbers(bits, first, numbers);
    }

    /// Writes `base` + the place of each bit of `bits`, in order; what is behind them is anything.
    fn write_places(self, bits: u64, base: u32, places: &mut [u32; 64]);
}

/// Work to be compiled for each kernel; `run` must be `#[inline(always)]` down to the loops.
pub trait Work {
    type Result;

    fn run<V: Vectors>(self, vectors: V) -> Self::Result;
}

/// A set of instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Scalar,
}

impl Kernel {
    /// Returns the kernel that `BPETITE_SIMD` names, or else the best that this processor has. That
    /// it is a name at all is looked at by the Python code that imports this.
    pub fn get() -> Kernel {
        static KERNEL: OnceLock<Kernel> = OnceLock::new();
        *KERNEL.get_or_init(|| {
            let wanted = std::env::var("BPETITE_SIMD").ok();
            let kernels = Kernel::all();
            let named = kernels.iter().find(|kernel| Some(kernel.name()) == wanted.as_deref());
            *named.or(kernels.first()).unwrap_or(&Kernel(Kind::Scalar))
        })
    }

    /// Returns all kernels that this processor can run, the best first.
    pub fn all() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                kernels.push(Kernel(Kind::Avx512));
            }
            if x86::has_avx2() {
                kernels.push(Kernel(Kind::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        kernels.push(Kernel(Kind::Neon));
        kernels.push(Kernel(Kind::Scalar));
        kernels
    }

    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
            Kind::Scalar => "scalar",
        }
    }

    /// Returns whether this is the one without vectors.
    pub fn is_scalar(self) -> bool {
        self.0 == Kind::Scalar
    }

    /// Does some work with this kernel's instructions.
    #[inline]
    #[allow(unsafe_code)]
    pub fn run<W: Work>(self, work: W) -> W::Result {
        match self.0 {
            // SAFETY: `all` is where kernels come from, and this one is only among them where
            // the processor has these instructions.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { x86::run_avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::run_avx2(work) },
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => work.run(arm::Neon),
            Kind::Scalar => work.run(Scalar),
        }
    }
}

/// Asks the processor to bring what is referred to near; it changes nothing else.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch<T>(target: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees; a reference is a valid address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(target).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = target;
}

/// The reference.
#[derive(Clone, Copy)]
struct Scalar;

impl Vectors for Scalar {
    fn masks(self, block: &Block) -> Masks {
        let bits = |is| bits(block, is);
        Masks {
            letters: bits(u8::is_ascii_alphabetic),
            upper: bits(u8::is_ascii_uppercase),
            numbers: bits(u8::is_ascii_digit),
            spaces: bits(|byte| matches!(byte, b' ' | 0x09..=0x0D)),
            blanks: bits(|byte| *byte == b' '),
            line_ends: bits(|byte| matches!(byte, b'\r' | b'\n')),
            apostrophes: bits(|byte| *byte == b'\''),
            slashes: bits(|byte| *byte == b'/'),
            high: bits(|byte| *byte >= 0x80),
        }
    }

    fn leads(self, block: &Block) -> Leads {
        let third = bits(block, |byte| *byte == 0xE4) & bits(block, |byte| *byte >= 0xB8) >> 1;
        Leads {
            all: bits(block, |byte| *byte >= 0xC0),
            uncased: bits(block, |byte| matches!(byte, 0xE5..=0xE9 | 0xEB..=0xEC)) | third,
            cased: bits(block, |byte| matches!(byte, 0xC4..=0xC9 | 0xD0..=0xD1)),
        }
    }

    #[inline(always)]
    fn write_places(self, bits: u64, base: u32, places: &mut [u32; 64]) {
        write_places(bits, base, places);
    }
}

#[inline(always)]
fn find_words(words: [u64; 8], lengths: [u32; 8], table: &WordTable) -> Found {
    let mut found = Found { values: [0; 8], missing: 0, longer: 0 };
    for i in 0..8 {
        let others = 64 - 8 * lengths[i].min(8);
        let moved = words[i] << others;
        let word = moved >> others;
        let [known, value] = table[place_of_word(word)];
        found.values[i] = value;
        found.missing |= u8::from((known != word) | (moved >> 56 == 0)) << i;
        found.longer |= u8::from(lengths[i] > 8) << i;
    }
    found
}

#[inline(always)]
fn write_numbers(bits: u8, first: u16, numbers: &mut [u16; 8]) {
    let mut count = 0;
    for i in 0..8 {
        numbers[count & 7] = first + i;
        count += usize::from(bits >> i & 1);
    }
}

fn bits(block: &Block, is: fn(&u8) -> bool) -> u64 {
    block.iter().enumerate().fold(0, |bits, (i, byte)| bits | u64::from(is(byte)) << i)
}

/// Writes eight places at a time, of which the last few may not be any: that is faster than to
/// ask after each whether there is another.
#[inline(always)]
fn write_places(mut bits: u64, base: u32, places: &mut [u32; 64]) {
    for eight in places.as_chunks_mut::<8>().0 {
        for place in eight {
            *place = base.wrapping_add(bits.trailing_zeros());
            bits &= bits.wrapping_sub(1);
        }
        if bits == 0 {
            break;
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::{
        Block, Found, Leads, MIX, Masks, Vectors, WORD_TABLE_BITS, WordTable, Work, write_places,
    };
    use std::arch::x86_64::*;

    pub fn has_avx512() -> bool {
        has_avx2()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
    }

    pub fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
    pub fn run_avx512<W: Work>(work: W) -> W::Result {
        work.run(Avx512)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub fn run_avx2<W: Work>(work: W) -> W::Result {
        work.run(Avx2)
    }

    /// Only to be had inside `run_avx512`.
    #[derive(Clone, Copy)]
    pub struct Avx512;

    /// Only to be had inside `run_avx2`.
    #[derive(Clone, Copy)]
    pub struct Avx2;

    impl Vectors for Avx512 {
        #[inline(always)]
        fn masks(self, block: &Block) -> Masks {
            // SAFETY: who has this value is inside `run_avx512`: the processor has AVX-512.
            unsafe { avx512_masks(block) }
        }

        #[inline(always)]
        fn leads(self, block: &Block) -> Leads {
            // SAFETY: as above.
            unsafe { avx512_leads(block) }
        }

        #[inline(always)]
        fn find_words(self, words: [u64; 8], lengths: [u32; 8], table: &WordTable) -> Found {
            // SAFETY: as above.
            unsafe { avx512_find_words(words, lengths, table) }
        }

        #[inline(always)]
        fn write_numbers(self, bits: u8, first: u16, numbers: &mut [u16; 8]) {
            // SAFETY: as above.
            unsafe { avx512_numbers(bits, first, numbers) }
        }

        #[inline(always)]
        fn write_places(self, bits: u64, base: u32, places: &mut [u32; 64]) {
            // SAFETY: as above.
            unsafe { avx512_places(bits, base, places) }
        }
    }

    impl Vectors for Avx2 {
        #[inline(always)]
        fn masks(self, block: &Block) -> Masks {
            // SAFETY: who has this value is inside `run_avx2`: the processor has AVX2.
            unsafe { avx2_masks(block) }
        }

        #[inline(always)]
        fn leads(self, block: &Block) -> Leads {
            // SAFETY: as above.
            unsafe { avx2_leads(block) }
        }

        #[inline(always)]
        fn write_places(self, bits: u64, base: u32, places: &mut [u32; 64]) {
            write_places(bits, base, places);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn avx512_masks(block: &Block) -> Masks {
        // SAFETY: the block has the 64 bytes that are loaded, which need no alignment.
        let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let is = |byte: u8| _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte as i8));
        let within = |bytes: __m512i, first: u8, count: u8| {
            let from_first = _mm512_sub_epi8(bytes, _mm512_set1_epi8(first as i8));
            _mm512_cmplt_epu8_mask(from_first, _mm512_set1_epi8(count as i8))
        };
        let lower_case = _mm512_or_si512(bytes, _mm512_set1_epi8(0x20));
        let blanks = is(b' ');
        Masks {
            letters: within(lower_case, b'a', 26),
            upper: within(bytes, b'A', 26),
            numbers: within(bytes, b'0', 10),
            spaces: within(bytes, 0x09, 5) | blanks,
            blanks,
            line_ends: is(b'\r') | is(b'\n'),
            apostrophes: is(b'\''),
            slashes: is(b'/'),
            high: _mm512_movepi8_mask(bytes),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn avx512_leads(block: &Block) -> Leads {
        // SAFETY: as in `avx512_masks`.
        let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let from = |first: u8| _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(first as i8));
        let within = |first: u8, last: u8| from(first) & !from(last + 1);
        Leads {
            all: from(0xC0),
            uncased: within(0xE5, 0xE9) | within(0xEB, 0xEC) | within(0xE4, 0xE4) & from(0xB8) >> 1,
            cased: within(0xC4, 0xC9) | within(0xD0, 0xD1),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
    fn avx512_places(bits: u64, base: u32, places: &mut [u32; 64]) {
        const PLACES: Block = {
            let mut places = [0; 64];
            let mut i = 0;
            while i < 64 {
                places[i] = i as u8;
                i += 1;
            }
            places
        };
        // SAFETY: the constant has the 64 bytes that are loaded.
        let all = unsafe { _mm512_loadu_si512(PLACES.as_ptr().cast()) };
        let found = _mm512_maskz_compress_epi8(bits, all);
        let base = _mm512_set1_epi32(base as i32);
        let quarters = [
            _mm512_castsi512_si128(found),
            _mm512_extracti32x4_epi32::<1>(found),
            _mm512_extracti32x4_epi32::<2>(found),
            _mm512_extracti32x4_epi32::<3>(found),
        ];
        let count = bits.count_ones() as usize;
        for ((i, sixteen), quarter) in
            places.as_chunks_mut::<16>().0.iter_mut().enumerate().zip(quarters)
        {
            if i * 16 >= count {
                break;
            }
            let wide = _mm512_add_epi32(base, _mm512_cvtepu8_epi32(quarter));
            // SAFETY: there is room for the sixteen that are stored, which need no alignment.
            unsafe { _mm512_storeu_si512(sixteen.as_mut_ptr().cast(), wide) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2")]
    fn avx512_find_words(words: [u64; 8], lengths: [u32; 8], table: &WordTable) -> Found {
        let all = |[a, b, c, d, e, f, g, h]: [u64; 8]| {
            let [a, b, c, d] = [a, b, c, d].map(|word| word as i64);
            let [e, f, g, h] = [e, f, g, h].map(|word| word as i64);
            _mm512_set_epi64(h, g, f, e, d, c, b, a)
        };
        // SAFETY: the array has the 32 bytes that are loaded, which need no alignment.
        let lengths = unsafe { _mm256_loadu_si256(lengths.as_ptr().cast()) };
        let longer = _mm256_cmpgt_epu32_mask(lengths, _mm256_set1_epi32(8));
        let bytes = _mm256_min_epu32(lengths, _mm256_set1_epi32(8));
        let bits = _mm512_slli_epi64::<3>(_mm512_cvtepu32_epi64(bytes));
        let others = _mm512_sub_epi64(_mm512_set1_epi64(64), bits);
        let moved = _mm512_sllv_epi64(all(words), others);
        let no_end = _mm512_cmplt_epu64_mask(moved, _mm512_set1_epi64(1 << 56));
        let words = _mm512_srlv_epi64(moved, others);
        let mixed = _mm512_mullo_epi64(words, _mm512_set1_epi64(MIX as i64));
        let places = _mm512_srli_epi64::<{ 64 - WORD_TABLE_BITS }>(mixed);
        let mut place_of = [0_u64; 8];
        // SAFETY: the array has room for the 64 bytes that are stored.
        unsafe { _mm512_storeu_si512(place_of.as_mut_ptr().cast(), places) };
        let slots = place_of.map(|place| &table[place as usize & (table.len() - 1)]);
        let known = all(slots.map(|slot| slot[0]));
        let values = slots.map(|slot| slot[1]);
        Found { values, missing: no_end | _mm512_cmpneq_epu64_mask(known, words), longer }
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512vbmi2")]
    fn avx512_numbers(bits: u8, first: u16, numbers: &mut [u16; 8]) {
        let all =
            _mm_add_epi16(_mm_set1_epi16(first as i16), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
        let found = _mm_maskz_compress_epi16(bits, all);
        // SAFETY: there is room for the eight that are stored, which need no alignment.
        unsafe { _mm_storeu_si128(numbers.as_mut_ptr().cast(), found) };
    }

    /// The bits of 64 bytes, of which those that are have their highest bit set.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits([first, second]: [__m256i; 2]) -> u64 {
        let high = _mm256_movemask_epi8(second) as u32;
        u64::from(high) << 32 | u64::from(_mm256_movemask_epi8(first) as u32)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn is([first, second]: [__m256i; 2], byte: u8) -> [__m256i; 2] {
        let byte = _mm256_set1_epi8(byte as i8);
        [_mm256_cmpeq_epi8(first, byte), _mm256_cmpeq_epi8(second, byte)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn within([first, second]: [__m256i; 2], from: u8, count: u8) -> [__m256i; 2] {
        let (from, most) = (_mm256_set1_epi8(from as i8), _mm256_set1_epi8(count as i8 - 1));
        let (first, second) = (_mm256_sub_epi8(first, from), _mm256_sub_epi8(second, from));
        // min(x, most) == x is x <= most, without signs.
        [
            _mm256_cmpeq_epi8(_mm256_min_epu8(first, most), first),
            _mm256_cmpeq_epi8(_mm256_min_epu8(second, most), second),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn halves(block: &Block) -> [__m256i; 2] {
        // SAFETY: the block has 32 bytes from 0 and from 32 on; they need no alignment.
        unsafe {
            let halves: *const __m256i = block.as_ptr().cast();
            [_mm256_loadu_si256(halves), _mm256_loadu_si256(halves.add(1))]
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_masks(block: &Block) -> Masks {
        let bytes = halves(block);
        let space = _mm256_set1_epi8(0x20);
        let lower_case = [_mm256_or_si256(bytes[0], space), _mm256_or_si256(bytes[1], space)];
        let blanks = bits(is(bytes, b' '));
        Masks {
            letters: bits(within(lower_case, b'a', 26)),
            upper: bits(within(bytes, b'A', 26)),
            numbers: bits(within(bytes, b'0', 10)),
            spaces: bits(within(bytes, 0x09, 5)) | blanks,
            blanks,
            line_ends: bits(is(bytes, b'\r')) | bits(is(bytes, b'\n')),
            apostrophes: bits(is(bytes, b'\'')),
            slashes: bits(is(bytes, b'/')),
            high: bits(bytes),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_leads(block: &Block) -> Leads {
        let bytes = halves(block);
        let third = bits(is(bytes, 0xE4)) & bits(within(bytes, 0xB8, 0x48)) >> 1;
        Leads {
            all: bits(within(bytes, 0xC0, 0x40)),
            uncased: bits(within(bytes, 0xE5, 5)) | bits(within(bytes, 0xEB, 2)) | third,
            cased: bits(within(bytes, 0xC4, 6)) | bits(within(bytes, 0xD0, 2)),
        }
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod arm {
    use super::{Block, Leads, Masks, Vectors, write_places};
    use std::arch::aarch64::*;

    #[derive(Clone, Copy)]
    pub struct Neon;

    impl Vectors for Neon {
        #[inline(always)]
        fn masks(self, block: &Block) -> Masks {
            // SAFETY: every processor of this architecture has NEON.
            unsafe { neon_masks(block) }
        }

        #[inline(always)]
        fn leads(self, block: &Block) -> Leads {
            // SAFETY: as above.
            unsafe { neon_leads(block) }
        }

        #[inline(always)]
        fn write_places(self, bits: u64, base: u32, places: &mut [u32; 64]) {
            write_places(bits, base, places);
        }
    }

    type Quarters = [uint8x16_t; 4];

    #[inline]
    #[target_feature(enable = "neon")]
    fn quarters(block: &Block) -> Quarters {
        // SAFETY: the block has 16 bytes from each quarter on; they need no alignment.
        std::array::from_fn(|i| unsafe { vld1q_u8(block.as_ptr().add(16 * i)) })
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn bits(bytes: Quarters) -> u64 {
        // Each byte that is keeps its own bit of eight; three pairwise sums put eight together.
        let weights = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
        let [a, b, c, d] = bytes.map(|bytes| vandq_u8(bytes, weights));
        let pairs = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
        vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn within(bytes: Quarters, first: u8, count: u8) -> u64 {
        let within = |b| vcltq_u8(vsubq_u8(b, vdupq_n_u8(first)), vdupq_n_u8(count));
        bits(bytes.map(within))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn neon_masks(block: &Block) -> Masks {
        let bytes = quarters(block);
        let blanks = within(bytes, b' ', 1);
        Masks {
            letters: within(bytes.map(|b| vorrq_u8(b, vdupq_n_u8(0x20))), b'a', 26),
            upper: within(bytes, b'A', 26),
            numbers: within(bytes, b'0', 10),
            spaces: within(bytes, 0x09, 5) | blanks,
            blanks,
            line_ends: within(bytes, b'\r', 1) | within(bytes, b'\n', 1),
            apostrophes: within(bytes, b'\'', 1),
            slashes: within(bytes, b'/', 1),
            high: within(bytes, 0x80, 0x80),
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn neon_leads(block: &Block) -> Leads {
        let bytes = quarters(block);
        let third = within(bytes, 0xE4, 1) & within(bytes, 0xB8, 0x48) >> 1;
        Leads {
            all: within(bytes, 0xC0, 0x40),
            uncased: within(bytes, 0xE5, 5) | within(bytes, 0xEB, 2) | third,
            cased: within(bytes, 0xC4, 6) | within(bytes, 0xD0, 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unicode::{Classes, LETTER, LOWER, UPPER};

    #[test]
    fn leads_of_letters_are_of_letters_alone() {
        for character in ('\u{80}'..=char::MAX).step_by(if cfg!(miri) { 997 } else { 1 }) {
            let mut block = [0; 64];
            character.encode_utf8(&mut block[..4]);
            let leads = Scalar.leads(&block);
            let class = Classes::get().of(character.into());
            if leads.uncased == 1 {
                assert_eq!((class, character.len_utf8()), (LETTER | UPPER | LOWER, 3));
            }
            if leads.cased == 1 {
                assert_eq!((class & LETTER, character.len_utf8()), (LETTER, 2), "{character}");
            }
        }
    }

    struct MasksOf<'a>(&'a Block);

    impl Work for MasksOf<'_> {
        type Result = (Masks, Leads);

        fn run<V: Vectors>(self, vectors: V) -> (Masks, Leads) {
            (vectors.masks(self.0), vectors.leads(self.0))
        }
    }

    struct PlacesOf(u64, u32);

    impl Work for PlacesOf {
        type Result = Vec<u32>;

        fn run<V: Vectors>(self, vectors: V) -> Vec<u32> {
            let mut places = [0; 64];
            vectors.write_places(self.0, self.1, &mut places);
            places[..self.0.count_ones() as usize].to_vec()
        }
    }

    #[test]
    fn all_kernels_say_what_the_scalar_one_says() {
        for kernel in Kernel::all() {
            for start in 0..=255_u8 {
                for step in [0, 1, 3, 85] {
                    let block =
                        std::array::from_fn(|i| start.wrapping_add((i as u8).wrapping_mul(step)));
                    let wanted = MasksOf(&block).run(Scalar);
                    assert_eq!(kernel.run(MasksOf(&block)), wanted, "{kernel:?}");
                }
            }
        }
    }

    struct Find<'a>([u64; 8], [u32; 8], &'a WordTable);

    impl Work for Find<'_> {
        type Result = Found;

        fn run<V: Vectors>(self, vectors: V) -> Found {
            vectors.find_words(self.0, self.1, self.2)
        }
    }

    struct NumbersOf(u8, u16);

    impl Work for NumbersOf {
        type Result = Vec<u16>;

        fn run<V: Vectors>(self, vectors: V) -> Vec<u16> {
            let mut numbers = [0; 8];
            vectors.write_numbers(self.0, self.1, &mut numbers);
            numbers[..self.0.count_ones() as usize].to_vec()
        }
    }

    #[test]
    fn all_kernels_find_the_same_words() {
        let mut table: Box<WordTable> =
            vec![[0; 2]; 1 << WORD_TABLE_BITS].try_into().expect("of this length");
        for word in 1..1000 {
            table[place_of_word(word)] = [word, word + 7];
        }
        for first in (0..2000).step_by(8) {
            let words = std::array::from_fn(|i| (first + i as u64) | 0xABCD << 48);
            let lengths = std::array::from_fn(|i| 1 + (first as u32 / 8 * 5 + i as u32) % 11);
            let wanted = Find(words, lengths, &table).run(Scalar);
            for kernel in Kernel::all() {
                assert_eq!(kernel.run(Find(words, lengths, &table)), wanted, "{kernel:?}");
            }
        }
    }

    #[test]
    fn numbers_are_those_of_the_bits() {
        for kernel in Kernel::all() {
            for bits in 0..=u8::MAX {
                let numbers: Vec<u16> =
                    (0..8).filter(|i| bits >> i & 1 == 1).map(|i| i + 300).collect();
                assert_eq!(kernel.run(NumbersOf(bits, 300)), numbers, "{kernel:?}");
            }
        }
    }

    #[test]
    fn places_are_those_of_the_bits() {
        let mut bits = 1_u64;
        for kernel in Kernel::all() {
            for round in 0..200_u32 {
                bits = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ bits >> 29;
                let some = bits << (round % 64);
                for bits in [0, 1, u64::MAX, some, some & bits >> 7] {
                    let places: Vec<u32> =
                        (0..64).filter(|i| bits >> i & 1 == 1).map(|i| i + round).collect();
                    assert_eq!(kernel.run(PlacesOf(bits, round)), places, "{kernel:?}");
                }
            }
        }
    }
}
