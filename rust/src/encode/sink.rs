//! Targets of ids: a list or a count.

use crate::cache::Cache;
use crate::mem::growth::granted;
use crate::mem::pool::BufferPool;
use crate::simd::{Instructions, Packed};

/// The least room, in ids, for the rest of a text.
const MIN_ROOM_AHEAD: usize = 1 << 20;

/// A target of ids.
pub trait Sink {
    /// Takes the ids of pieces, in order. `bounds` has the start and the end of each piece.
    fn take_packed(
        &mut self,
        isa: impl Instructions,
        packed: &[Packed],
        bounds: &[u32],
        cache: &Cache,
    );

    fn take(&mut self, ids: &[u32]);

    fn count(&self) -> usize;

    /// Makes room for `_more` ids, or at least for the first of them.
    fn expect(&mut self, _more: usize) {}

    /// Makes room for the ids of `_count` pieces that are not spilled.
    fn expect_pieces(&mut self, _count: usize) {}
}

#[derive(Default)]
pub struct Count(pub usize);

impl Sink for Count {
    #[inline(always)]
    fn take_packed(
        &mut self,
        _isa: impl Instructions,
        packed: &[Packed],
        _bounds: &[u32],
        _cache: &Cache,
    ) {
        self.0 += packed.iter().map(|packed| packed.count()).sum::<usize>();
    }

    fn take(&mut self, ids: &[u32]) {
        self.0 += ids.len();
    }

    fn count(&self) -> usize {
        self.0
    }
}

/// The integer type of an array of ids.
pub trait Id: Copy + Default + Send + Sync + 'static {
    fn of(id: u32) -> Self;

    /// Writes the ids that are in eight numbers, and anything after the last. Returns how many they
    /// are.
    #[inline(always)]
    fn unpack(isa: impl Instructions, packed: &[Packed; GROUP], room: &mut Room<Self>) -> usize {
        let mut ids = [0; PIECE_IDS * GROUP];
        let count = isa.unpack(packed, &mut ids);
        *room = ids.map(Self::of);
        count
    }

    fn pool() -> &'static BufferPool<Self>;
}

impl Id for u16 {
    #[inline(always)]
    fn of(id: u32) -> u16 {
        id as u16
    }

    fn pool() -> &'static BufferPool<u16> {
        static POOL: BufferPool<u16> = BufferPool::new();
        &POOL
    }
}

impl Id for u32 {
    #[inline(always)]
    fn of(id: u32) -> u32 {
        id
    }

    #[inline(always)]
    fn unpack(isa: impl Instructions, packed: &[Packed; GROUP], room: &mut Room<u32>) -> usize {
        isa.unpack(packed, room)
    }

    fn pool() -> &'static BufferPool<u32> {
        static POOL: BufferPool<u32> = BufferPool::new();
        &POOL
    }
}

/// A list of ids, with cleared room after them.
#[derive(Default)]
pub struct IdList<T> {
    room: Vec<T>,
    count: usize,
}

/// The room for the ids of a piece, unless they are spilled.
const PIECE_IDS: usize = 4;

/// The number of pieces whose ids are taken together.
const GROUP: usize = 8;

/// The room for the ids of a group.
type Room<T> = [T; PIECE_IDS * GROUP];

impl<T: Id> IdList<T> {
    pub fn within(room: Vec<T>) -> IdList<T> {
        IdList { room, count: 0 }
    }

    pub fn all(&self) -> &[T] {
        &self.room[..self.count]
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }

    pub fn into_vec(mut self) -> Vec<T> {
        self.room.truncate(self.count);
        self.room
    }

    /// Makes room for pieces, and for other ids.
    #[inline(always)]
    fn make_room(&mut self, pieces: usize, others: usize) {
        let length = self.count + PIECE_IDS * pieces + others;
        if length > self.room.len() {
            self.lengthen(length);
        }
    }

    /// Since `expect` usually makes enough room, the list grows only by a quarter.
    #[inline(never)]
    fn lengthen(&mut self, length: usize) {
        if length > self.room.capacity() {
            let more = length - self.room.len() + self.count / 4;
            granted(self.room.try_reserve_exact(more));
        }
        self.room.resize(length, T::default());
    }

    /// Takes the ids of pieces, in order. Calls `begin` with the number of each piece and the index
    /// of its first id.
    #[inline(always)]
    pub fn take_each(
        &mut self,
        isa: impl Instructions,
        packed: &[Packed],
        cache: &Cache,
        mut begin: impl FnMut(usize, usize),
    ) {
        self.make_room(packed.len(), 0);
        for (first, some) in (0..).step_by(GROUP).zip(packed.chunks(GROUP)) {
            let begin = |i, index| begin(first + i, index);
            match some.try_into() {
                Ok(group) if !any_is_spilled(group) => self.take_group(isa, group, begin),
                _ => self.take_some(some, packed.len() - first, cache, begin),
            }
        }
    }

    /// Takes the ids of a group of pieces without spilled ids.
    #[inline(always)]
    fn take_group(
        &mut self,
        isa: impl Instructions,
        group: &[Packed; GROUP],
        mut begin: impl FnMut(usize, usize),
    ) {
        let mut index = self.count;
        for (i, ids) in group.iter().enumerate() {
            begin(i, index);
            index += ids.inner_count();
        }
        let Some(room) = self.room[self.count..].first_chunk_mut() else {
            debug_assert!(false, "make_room was not called");
            return;
        };
        self.count += T::unpack(isa, group, room);
    }

    /// Takes the ids of some of the last `left` pieces.
    #[inline(always)]
    fn take_some(
        &mut self,
        packed: &[Packed],
        left: usize,
        cache: &Cache,
        mut begin: impl FnMut(usize, usize),
    ) {
        // A local count stays in a register.
        let mut count = self.count;
        for (i, ids) in packed.iter().enumerate() {
            begin(i, count);
            if ids.is_spilled() {
                let more = cache.spilled(*ids);
                self.count = count;
                self.make_room(left - i, more.len());
                self.take(more);
                count = self.count;
            } else {
                if let Some(room) = self.room[count..].first_chunk_mut::<PIECE_IDS>() {
                    *room = ids.inner_ids().map(T::of);
                }
                count += ids.inner_count();
            }
        }
        self.count = count;
    }
}

#[inline(always)]
fn any_is_spilled(group: &[Packed; GROUP]) -> bool {
    Packed(group.iter().fold(0, |bits, ids| bits | ids.0)).is_spilled()
}

impl<T: Id> Sink for IdList<T> {
    #[inline(always)]
    fn take_packed(
        &mut self,
        isa: impl Instructions,
        packed: &[Packed],
        _bounds: &[u32],
        cache: &Cache,
    ) {
        self.take_each(isa, packed, cache, |_, _| ());
    }

    #[inline(always)]
    fn take(&mut self, ids: &[u32]) {
        self.make_room(0, ids.len());
        for (room, &id) in self.room[self.count..].iter_mut().zip(ids) {
            *room = T::of(id);
        }
        self.count += ids.len();
    }

    fn count(&self) -> usize {
        self.count
    }

    fn expect(&mut self, more: usize) {
        // Not for all at once, because the rest of the text may have fewer ids per byte.
        let more = more.min(self.count / 4 + MIN_ROOM_AHEAD);
        let more = (self.count + more).saturating_sub(self.room.len());
        granted(self.room.try_reserve_exact(more));
    }

    #[inline(always)]
    fn expect_pieces(&mut self, count: usize) {
        self.make_room(count, 0);
    }
}
