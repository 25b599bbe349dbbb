//! Uninitialised memory, filled from its start.

use std::mem::MaybeUninit;

/// Memory whose first `filled` bytes are initialised.
pub struct Output<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> Output<'a> {
    pub fn new(memory: &'a mut [MaybeUninit<u8>]) -> Output<'a> {
        Output { memory, filled: 0 }
    }

    pub fn filled(&self) -> usize {
        self.filled
    }

    #[expect(unsafe_code, reason = "reading the filled bytes")]
    pub fn bytes(&self) -> &[u8] {
        let filled = &self.memory[..self.filled];
        // SAFETY: the first `filled` bytes are initialised.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }

    /// Appends bytes, or returns false if the room is too small.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let room = self.memory.get_mut(self.filled..).and_then(|rest| rest.get_mut(..bytes.len()));
        room.is_some_and(|room| {
            copy(bytes, room);
            self.filled += bytes.len();
            true
        })
    }

    /// Appends the first bytes of each slot, given with their number, while there is room for a
    /// whole slot; returns the number of slots taken.
    ///
    /// A copy of the whole slot is faster, because its length is constant.
    #[inline(always)]
    pub fn push_slots<'s, const N: usize>(
        &mut self,
        slots: impl Iterator<Item = (&'s [u8; N], usize)>,
    ) -> usize {
        let (mut rest, mut count) = (&mut self.memory[self.filled..], 0);
        for (slot, length) in slots {
            let Some(room) = rest.first_chunk_mut::<N>() else { break };
            copy(slot, room);
            rest = &mut rest[length.min(N)..];
            count += 1;
        }
        let left = rest.len();
        self.filled = self.memory.len() - left;
        count
    }
}

fn copy(bytes: &[u8], room: &mut [MaybeUninit<u8>]) {
    for (room, &byte) in room.iter_mut().zip(bytes) {
        room.write(byte);
    }
}
