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

    /// Returns the number of initialised bytes.
    pub fn filled(&self) -> usize {
        self.filled
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

    /// Appends the first `length` bytes of a slot, or returns false if a whole slot has no room.
    ///
    /// A copy of the whole slot is faster, because its length is constant.
    #[inline(always)]
    pub fn push_slot<const N: usize>(&mut self, slot: &[u8; N], length: usize) -> bool {
        let rest = self.memory.get_mut(self.filled..);
        rest.and_then(|rest| rest.first_chunk_mut::<N>()).is_some_and(|room| {
            copy(slot, room);
            self.filled += length.min(N);
            true
        })
    }
}

fn copy(bytes: &[u8], room: &mut [MaybeUninit<u8>]) {
    for (room, &byte) in room.iter_mut().zip(bytes) {
        room.write(byte);
    }
}
