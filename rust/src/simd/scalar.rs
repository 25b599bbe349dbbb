//! The instruction set without vectors.

use super::instructions::{Block, Instructions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar;

impl Instructions for Scalar {
    const FINDS_WINDOWS: bool = false;

    type Bytes = Block;

    fn load(self, block: &Block) -> Block {
        *block
    }

    fn within(self, bytes: Block, first: u8, count: u8) -> u64 {
        let is_within = |byte: &u8| u64::from(byte.wrapping_sub(first) < count);
        bytes.iter().rev().fold(0, |bits, byte| bits << 1 | is_within(byte))
    }
}
