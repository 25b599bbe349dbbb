//! NEON.

#![expect(unsafe_code, reason = "intrinsics of NEON, which was detected")]

use super::instructions::{Block, INDICES, Instructions};
use super::packed::{ID_BITS, Packed};
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

        fn write_indices(self, bits: u8, first: u16, indices: &mut [u16; 8]) {
            // SAFETY: the row has the eight bytes that are loaded.
            let all = unsafe { vld1_u8(INDICES[usize::from(bits)].as_ptr()) };
            let all = vaddw_u8(vdupq_n_u16(first), all);
            // SAFETY: there is room for the eight that are stored.
            unsafe { vst1q_u16(indices.as_mut_ptr(), all) };
        }

        fn unpack(self, packed: &[Packed; 8], ids: &mut [u32; 32]) -> usize {
            // Four bytes for each id. The second id begins at bit 4 of the third byte.
            const BYTES: [u8; 16] = [0, 1, 2, 3, 2, 3, 4, 5, 5, 6, 7, 7, 0, 0, 0, 0];
            // SAFETY: the constant has the 16 bytes that are loaded.
            let of_first = unsafe { vld1q_u8(BYTES.as_ptr()) };
            let of_second = vaddq_u8(of_first, vdupq_n_u8(8));
            // SAFETY: the array has the four numbers that are loaded.
            let shifts = unsafe { vld1q_s32([0, -4, 0, 0].as_ptr()) };
            let mask = vdupq_n_u32((1 << ID_BITS) - 1);
            let mut count = 0;
            for two in packed.as_chunks::<2>().0 {
                // SAFETY: the two have the 16 bytes that are loaded.
                let numbers = unsafe { vld1q_u8(two.as_ptr().cast()) };
                for (number, bytes) in two.iter().zip([of_first, of_second]) {
                    let all = vreinterpretq_u32_u8(vqtbl1q_u8(numbers, bytes));
                    let all = vandq_u32(vshlq_u32(all, shifts), mask);
                    // SAFETY: at most 21 of the 32 ids come before the four that are stored.
                    unsafe { vst1q_u32(ids.as_mut_ptr().wrapping_add(count), all) };
                    count += number.inner_count() & 3;
                }
            }
            count
        }

        fn write_offsets(self, bits: u64, base: u32, offsets: &mut [u32; 64]) {
            let counts = vget_lane_u64::<0>(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(bits))));
            // The product adds to each byte the bytes below it.
            let begins = (counts.wrapping_mul(0x0101_0101_0101_0101) << 8).to_le_bytes();
            for ((byte, begin), first) in bits.to_le_bytes().into_iter().zip(begins).zip(0..) {
                // SAFETY: the row has the eight bytes that are loaded.
                let all = unsafe { vld1_u8(INDICES[usize::from(byte)].as_ptr()) };
                let all = vmovl_u8(all);
                let bases = vdupq_n_u32(base.wrapping_add(8 * first));
                let eight = uint32x4x2_t(
                    vaddw_u16(bases, vget_low_u16(all)),
                    vaddw_high_u16(bases, all),
                );
                let room = offsets.as_mut_ptr().wrapping_add(usize::from(begin));
                // SAFETY: at most eight offsets of each earlier byte come before.
                unsafe { vst1q_u32_x2(room, eight) };
            }
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
