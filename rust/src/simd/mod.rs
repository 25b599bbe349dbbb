//! Vector instructions: masks of 64 bytes, searches for eight pieces, and whole loops compiled for
//! one instruction set.
//!
//! All instruction sets give the same results at different speeds. The default is the fastest one
//! that the processor has; `BPETITE_SIMD` selects another for tests and benchmarks.

/// Implements methods by functions compiled for instructions whose existence `self` proves.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! with_features {
    ($features:literal $(
        fn $name:ident(self, $($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {$(
        #[inline(always)]
        fn $name(self, $($argument: $type),*) $(-> $result)? {
            #[inline]
            #[target_feature(enable = $features)]
            fn $name($($argument: $type),*) $(-> $result)? $body
            // SAFETY: `self` proves that the processor has these instructions.
            unsafe { $name($($argument),*) }
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod classes;
mod instructions;
mod packed;
mod scalar;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

pub use instructions::{Block, Instructions, Leads, Masks, Work};
#[cfg(test)]
pub use packed::ID_BITS;
pub use packed::{Packed, TRANSIENT};
pub use scalar::Scalar;
pub use words::{WORD_TABLE_BITS, WordTable, slot_of_word};

/// The names of all instruction sets, the fastest of each processor first.
pub const INSTRUCTION_SETS: [&str; 4] = ["avx512", "avx2", "neon", "scalar"];

/// An instruction set of this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(arm::Neon),
    Scalar,
}

impl Isa {
    /// Returns the instruction set that `BPETITE_SIMD` names, or else the fastest.
    ///
    /// A name that this processor lacks is ignored. Python refuses unknown names at import.
    pub fn get() -> Isa {
        static ISA: OnceLock<Isa> = OnceLock::new();
        *ISA.get_or_init(|| {
            let requested = std::env::var("BPETITE_SIMD").ok();
            let all = Isa::all();
            let named = all.iter().find(|isa| Some(isa.name()) == requested.as_deref());
            *named.or(all.first()).unwrap_or(&Isa::Scalar)
        })
    }

    /// Returns all instruction sets of this processor, the fastest first.
    pub fn all() -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(x86::Avx512::new().map(Isa::Avx512));
            all.extend(x86::Avx2::new().map(Isa::Avx2));
        }
        #[cfg(target_arch = "aarch64")]
        all.extend(arm::Neon::new().map(Isa::Neon));
        all.push(Isa::Scalar);
        all
    }

    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "neon",
            Isa::Scalar => "scalar",
        }
    }

    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Result {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(isa) => isa.run(work),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(isa) => isa.run(work),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(isa) => work.run(isa),
            Isa::Scalar => work.run(Scalar),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words::Found;
    use super::*;
    use crate::hash::GOLDEN_RATIO;
    use crate::test_inputs::Rng;

    /// Makes tests that run on each instruction set of the processor.
    macro_rules! test_instruction_sets {
        ($(fn $name:ident($isa:ident) $body:block)*) => {$(
            #[test]
            fn $name() {
                struct Test;

                impl Work for Test {
                    type Result = ();

                    fn run<I: Instructions>(self, $isa: I) $body
                }
                Isa::all().into_iter().for_each(|isa| isa.run(Test));
            }
        )*};
    }

    /// Returns a bit for each byte, set if the predicate is true of it.
    fn bits(block: &Block, is: fn(&u8) -> bool) -> u64 {
        block.iter().enumerate().fold(0, |bits, (i, byte)| bits | u64::from(is(byte)) << i)
    }

    test_instruction_sets! {
        fn masks_and_leads_are_those_of_plain_predicates(isa) {
            for (start, step) in (0..=255_u8).flat_map(|start| [0, 1, 3, 85].map(|s| (start, s))) {
                let block = std::array::from_fn(|i| start.wrapping_add((i as u8).wrapping_mul(step)));
                let is = |is| bits(&block, is);
                let masks = Masks {
                    letters: is(u8::is_ascii_alphabetic),
                    upper: is(u8::is_ascii_uppercase),
                    numbers: is(u8::is_ascii_digit),
                    whitespace: is(|byte| matches!(byte, b' ' | 0x09..=0x0D)),
                    spaces: is(|byte| *byte == b' '),
                    newlines: is(|byte| matches!(byte, b'\r' | b'\n')),
                    apostrophes: is(|byte| *byte == b'\''),
                    slashes: is(|byte| *byte == b'/'),
                    non_ascii: is(|byte| !byte.is_ascii()),
                };
                let from_4e00 = is(|byte| *byte == 0xE4) & is(|byte| *byte >= 0xB8) >> 1;
                let leads = Leads {
                    all: is(|byte| *byte >= 0xC0),
                    uncased: is(|byte| matches!(byte, 0xE5..=0xE9 | 0xEB..=0xEC)) | from_4e00,
                    cased: is(|byte| matches!(byte, 0xC4..=0xC9 | 0xD0..=0xD1)),
                };
                assert_eq!((isa.masks(&block), isa.leads(&block)), (masks, leads));
            }
        }

        fn bytes_are_looked_up(isa) {
            let table = std::array::from_fn(|i| (i as u8).wrapping_mul(77) ^ 5);
            for start in 0..=255_u8 {
                let block = std::array::from_fn(|i| start.wrapping_add((i as u8).wrapping_mul(37)));
                let mut found = [0; 64];
                isa.look_up(&block, &table, &mut found);
                assert_eq!(found, block.map(|byte| table[usize::from(byte)]));
            }
        }

        fn pieces_are_found_as_the_reference_finds_them(isa) {
            let mut rng = Rng::new(1);
            let mut table: Box<WordTable> =
                vec![[0; 2]; 1 << WORD_TABLE_BITS].try_into().expect("of this length");
            for _ in 0..2000 {
                // One byte in four is a zero, with which some pieces end.
                let byte = |_| if rng.below(4) == 0 { 0 } else { rng.below(256) as u8 };
                let text: [u8; 96] = std::array::from_fn(byte);
                let (mut bounds, mut words) = ([0; 9], [0; 8]);
                for i in 0..8 {
                    bounds[i + 1] = bounds[i] + 1 + rng.below(11) as u32;
                    let (start, end) = (bounds[i] as usize, bounds[i + 1] as usize);
                    words[i] = text[start..end.min(start + 8)].iter().rfold(0, |word, &byte| word << 8 | u64::from(byte));
                }
                for &word in words.iter().filter(|_| rng.below(2) == 0) {
                    table[slot_of_word(word)] = [word, word ^ 5];
                }
                let [expected, values] = &mut [[Packed(0); 8]; 2];
                let found = Scalar.find_pieces(&text, &bounds, &table, expected);
                assert_eq!(isa.find_pieces(&text, &bounds, &table, values), found);
                let Found { missing, longer } = found.expect("eight bytes are left");
                for i in (0..8).filter(|i| (missing | longer) >> i & 1 == 0) {
                    assert_eq!([values[i], expected[i]], [Packed(words[i] ^ 5); 2]);
                }
            }
        }

        fn pieces_near_the_end_are_not_looked_up(isa) {
            let table: Box<WordTable> =
                vec![[0; 2]; 1 << WORD_TABLE_BITS].try_into().expect("of this length");
            let bounds = [0, 1, 2, 3, 4, 5, 6, 7, 8];
            for length in 0..20 {
                let mut values = [Packed(0); 8];
                let found = isa.find_pieces(&vec![b'a'; length], &bounds, &table, &mut values);
                assert_eq!(found, (length >= 15).then_some(Found { missing: 0xFF, longer: 0 }));
            }
        }

        fn indices_are_those_of_the_bits(isa) {
            for bits in 0..=u8::MAX {
                let expected: Vec<u16> = (0..8).filter(|i| bits >> i & 1 == 1).map(|i| i + 300).collect();
                let mut indices = [0; 8];
                isa.write_indices(bits, 300, &mut indices);
                assert_eq!(indices[..expected.len()], expected);
            }
        }

        fn numbers_are_unpacked_as_the_reference_unpacks_them(isa) {
            let mut random = 1_u64;
            for _ in 0..2000 {
                let packed = std::array::from_fn(|_| {
                    random = random.wrapping_mul(GOLDEN_RATIO) ^ random >> 29;
                    Packed(random >> 2)
                });
                let [expected, ids] = &mut [[0; 32]; 2];
                let count = Scalar.unpack(&packed, expected);
                assert_eq!(isa.unpack(&packed, ids), count);
                assert_eq!(ids[..count], expected[..count]);
            }
        }

        fn offsets_are_those_of_the_bits(isa) {
            let mut random = 1_u64;
            for round in 0..200_u32 {
                random = random.wrapping_mul(GOLDEN_RATIO) ^ random >> 29;
                let some = random << (round % 64);
                for bits in [0, 1, u64::MAX, some, some & random >> 7] {
                    let expected: Vec<u32> =
                        (0..64).filter(|i| bits >> i & 1 == 1).map(|i| i + round).collect();
                    let mut offsets = [0; 64];
                    isa.write_offsets(bits, round, &mut offsets);
                    assert_eq!(offsets[..expected.len()], expected);
                }
            }
        }
    }
}
