//! NEON.

#![expect(unsafe_code, reason = "intrinsics of NEON, which was detected")]

use super::instructions::{Block, Instructions};
use std::arch::{aarch64::*, is_aarch64_feature_detected};

/// A proof that the processor has NEON, since only `new` makes one.
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

        fn within(self, bytes: [uint8x16_t; 4], first: u8, count: u8) -> u64 {
            let (first, count) = (vdupq_n_u8(first), vdupq_n_u8(count));
            // A byte within keeps its own bit of eight. Three pairwise sums join eight bits.
            let weights = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let [a, b, c, d] =
                bytes.map(|quarter| vandq_u8(vcltq_u8(vsubq_u8(quarter, first), count), weights));
            let pairs = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)))
        }

        fn look_up(self, block: &Block, table: &[u8; 256], found: &mut Block) {
            let quarters = table.as_chunks::<64>().0;
            // SAFETY: each quarter has the 64 bytes that are loaded.
            let rows: [uint8x16x4_t; 4] =
                std::array::from_fn(|i| unsafe { vld1q_u8_x4(quarters[i].as_ptr()) });
            let blocks = block.as_chunks::<16>().0.iter().zip(found.as_chunks_mut::<16>().0);
            for (bytes, found) in blocks {
                // SAFETY: the bytes are the 16 that are loaded.
                let bytes = unsafe { vld1q_u8(bytes.as_ptr()) };
                let mut all = vdupq_n_u8(0);
                for (row, first) in rows.into_iter().zip([0, 64, 128, 192]) {
                    // A byte of another row leaves the value found so far.
                    all = vqtbx4q_u8(all, row, vsubq_u8(bytes, vdupq_n_u8(first)));
                }
                // SAFETY: there is room for the 16 bytes that are stored.
                unsafe { vst1q_u8(found.as_mut_ptr(), all) };
            }
        }
    }
}
