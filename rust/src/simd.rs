//! Which of 64 bytes are letters, digits and so on, as bits: by whatever the processor has.
//!
//! Each kernel says the same, and differs in speed alone. `BPETITE_SIMD` names one, for tests and
//! benchmarks; without it the best is taken that the processor has.

use std::sync::OnceLock;

/// Of 64 bytes, which are ASCII characters of a class: bit 0 is for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    pub letters: u64,
    pub upper: u64,
    pub numbers: u64,
    pub spaces: u64,
    /// Bytes that are no ASCII characters.
    pub high: u64,
}

pub type Block = [u8; 64];

/// A way to make masks.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub name: &'static str,
    masks: fn(&Block) -> Masks,
}

impl Kernel {
    #[inline(always)]
    pub fn masks(self, block: &Block) -> Masks {
        (self.masks)(block)
    }

    /// Returns the kernel that `BPETITE_SIMD` names, or else the best that this processor has.
    pub fn get() -> Kernel {
        static KERNEL: OnceLock<Kernel> = OnceLock::new();
        *KERNEL.get_or_init(|| {
            let wanted = std::env::var("BPETITE_SIMD").ok();
            let kernels = Kernel::all();
            let named = kernels.iter().find(|kernel| Some(kernel.name) == wanted.as_deref());
            *named.or(kernels.first()).expect("there is always the scalar one")
        })
    }

    /// Returns all kernels that this processor can run, the best first.
    pub fn all() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                kernels.push(Kernel { name: "avx512", masks: x86::avx512 });
            }
            if is_x86_feature_detected!("avx2") {
                kernels.push(Kernel { name: "avx2", masks: x86::avx2 });
            }
        }
        #[cfg(target_arch = "aarch64")]
        kernels.push(Kernel { name: "neon", masks: arm::neon });
        kernels.push(Kernel { name: "scalar", masks: scalar });
        kernels
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
fn scalar(block: &Block) -> Masks {
    let bits = |is: fn(&u8) -> bool| {
        block.iter().enumerate().fold(0, |bits, (i, byte)| bits | u64::from(is(byte)) << i)
    };
    Masks {
        letters: bits(u8::is_ascii_alphabetic),
        upper: bits(u8::is_ascii_uppercase),
        numbers: bits(u8::is_ascii_digit),
        spaces: bits(|byte| matches!(byte, b' ' | 0x09..=0x0D)),
        high: bits(|byte| *byte >= 0x80),
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::{Block, Masks};
    use std::arch::x86_64::*;

    pub fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }

    pub fn avx512(block: &Block) -> Masks {
        // SAFETY: `Kernel::all` gives this one away only where `has_avx512` is true.
        unsafe { avx512_masks(block) }
    }

    pub fn avx2(block: &Block) -> Masks {
        // SAFETY: `Kernel::all` gives this one away only where the processor has AVX2.
        unsafe { avx2_masks(block) }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn avx512_masks(block: &Block) -> Masks {
        // SAFETY: the block has the 64 bytes that are loaded, which need no alignment.
        let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let within = |bytes: __m512i, first: u8, count: u8| {
            let from_first = _mm512_sub_epi8(bytes, _mm512_set1_epi8(first as i8));
            _mm512_cmplt_epu8_mask(from_first, _mm512_set1_epi8(count as i8))
        };
        let lower_case = _mm512_or_si512(bytes, _mm512_set1_epi8(0x20));
        Masks {
            letters: within(lower_case, b'a', 26),
            upper: within(bytes, b'A', 26),
            numbers: within(bytes, b'0', 10),
            spaces: within(bytes, 0x09, 5)
                | _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b' ' as i8)),
            high: _mm512_movepi8_mask(bytes),
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn avx2_masks(block: &Block) -> Masks {
        let half = |start: usize| {
            // SAFETY: the block has 32 bytes from `start`, 0 or 32, on; they need no alignment.
            let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(start).cast()) };
            let within = |bytes: __m256i, first: u8, count: u8| {
                // min(x, count - 1) == x is x < count, without signs.
                let from_first = _mm256_sub_epi8(bytes, _mm256_set1_epi8(first as i8));
                let least = _mm256_min_epu8(from_first, _mm256_set1_epi8(count as i8 - 1));
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, from_first)) as u32
            };
            let lower_case = _mm256_or_si256(bytes, _mm256_set1_epi8(0x20));
            [
                within(lower_case, b'a', 26),
                within(bytes, b'A', 26),
                within(bytes, b'0', 10),
                within(bytes, 0x09, 5) | within(bytes, b' ', 1),
                _mm256_movemask_epi8(bytes) as u32,
            ]
        };
        let (first, second) = (half(0), half(32));
        let [letters, upper, numbers, spaces, high] =
            std::array::from_fn(|i| u64::from(second[i]) << 32 | u64::from(first[i]));
        Masks { letters, upper, numbers, spaces, high }
    }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod arm {
    use super::{Block, Masks};
    use std::arch::aarch64::*;

    pub fn neon(block: &Block) -> Masks {
        // SAFETY: every processor of this architecture has NEON.
        unsafe { neon_masks(block) }
    }

    #[target_feature(enable = "neon")]
    unsafe fn neon_masks(block: &Block) -> Masks {
        let quarters: [uint8x16_t; 4] = std::array::from_fn(|i| {
            // SAFETY: the block has 16 bytes from each quarter on; they need no alignment.
            unsafe { vld1q_u8(block.as_ptr().add(16 * i)) }
        });
        let bits = |is: &dyn Fn(uint8x16_t) -> uint8x16_t| {
            // Each byte that is keeps its own bit of eight; three pairwise sums put eight together.
            let weights = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
            let [a, b, c, d] = quarters.map(|bytes| vandq_u8(is(bytes), weights));
            let pairs = vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d));
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)))
        };
        let within =
            |bytes, first, count| vcltq_u8(vsubq_u8(bytes, vdupq_n_u8(first)), vdupq_n_u8(count));
        Masks {
            letters: bits(&|bytes| within(vorrq_u8(bytes, vdupq_n_u8(0x20)), b'a', 26)),
            upper: bits(&|bytes| within(bytes, b'A', 26)),
            numbers: bits(&|bytes| within(bytes, b'0', 10)),
            spaces: bits(&|bytes| vorrq_u8(within(bytes, 0x09, 5), within(bytes, b' ', 1))),
            high: bits(&|bytes| vcgeq_u8(bytes, vdupq_n_u8(0x80))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_say_what_the_scalar_one_says() {
        for kernel in Kernel::all() {
            for start in 0..=255_u8 {
                for step in [0, 1, 3, 85] {
                    let block = std::array::from_fn(|i| start.wrapping_add(i as u8 * step));
                    assert_eq!(kernel.masks(&block), scalar(&block), "{}", kernel.name);
                }
            }
        }
    }
}
