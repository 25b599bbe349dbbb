//! NEON.

#![expect(unsafe_code, reason = "intrinsics of NEON, which was detected")]

use super::instructions::{Block, Instructions};
use std::arch::{aarch64::*, is_aarch64_feature_detected};

/// A proof that the processor has NEON: only `new` makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

impl Neon {
    pub fn new() -> Option<Neon> {
        is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

impl Instructions for Neon {
    type Bytes = [uint8x16_t; 4];

    with_features! { "neon"
        fn load(self, block: &Block) -> [uint8x16_t; 4] {
            let quarters = block.as_chunks::<16>().0;
            // SAFETY: each quarter has the 16 bytes that are loaded, which need no alignment.
            std::array::from_fn(|i| unsafe { vld1q_u8(quarters[i].as_ptr()) })
        }

        fn to_lower(self, bytes: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
            bytes.map(|quarter| vorrq_u8(quarter, vdupq_n_u8(0x20)))
        }

        fn within(self, bytes: [uint8x16_t; 4], first: u8, count: u8) -> u64 {
            let (first, count) = (vdupq_n_u8(first), vdupq_n_u8(count));
            // A byte within keeps its own bit of eight. Three pairwise sums join eight bits.
            let weights = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let [a, b, c, d] =
                bytes.map(|quarter| vandq_u8(vcltq_u8(vsubq_u8(quarter, first), count), weights));
            let pairs = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)))
        }
    }
}
