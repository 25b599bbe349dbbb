//! Targets of ids: a list, an array, or a count.

use crate::cache::{Cache, Packed};
use crate::mem::pool::BufferPool;

/// The least room, in ids, for the rest of a text.
const MIN_ROOM_AHEAD: usize = 1 << 20;

/// A target of ids.
pub trait Sink {
    /// Takes the ids of pieces, in order. `bounds` has the start of each piece, and its end.
    fn take_packed(&mut self, packed: &[Packed], bounds: &[u32], cache: &Cache);

    fn take(&mut self, ids: &[u32]);

    /// Returns how many ids the sink has taken.
    fn count(&self) -> usize;

    /// Makes room for the first of `_more` ids, or for all.
    fn expect(&mut self, _more: usize) {}
}

/// A number of ids.
#[derive(Default)]
pub struct Count(pub usize);

impl Sink for Count {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], _bounds: &[u32], _cache: &Cache) {
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

    fn pool() -> &'static BufferPool<Self>;
}

macro_rules! ids {
    ($($type:ty)*) => {
        $(impl Id for $type {
            #[inline(always)]
            fn of(id: u32) -> $type {
                id as $type
            }

            fn pool() -> &'static BufferPool<$type> {
                static POOL: BufferPool<$type> = BufferPool::new();
                &POOL
            }
        })*
    };
}

ids!(u16 u32);

impl<T: Id> Sink for Vec<T> {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], _bounds: &[u32], cache: &Cache) {
        const ROOM: usize = 4;
        let mut length = self.len();
        lengthen(self, length + ROOM * packed.len());
        for (i, ids) in packed.iter().enumerate() {
            if ids.is_spilled() {
                let more = cache.spilled(*ids);
                lengthen(self, length + more.len() + ROOM * (packed.len() - i));
                for (room, &id) in self[length..].iter_mut().zip(more) {
                    *room = T::of(id);
                }
                length += more.len();
            } else {
                // Writing all four, however many are valid, is faster than a branch.
                if let Some(room) = self[length..].first_chunk_mut::<ROOM>() {
                    *room = ids.inner_ids().map(T::of);
                }
                length += ids.inner_count();
            }
        }
        self.truncate(length);
    }

    fn take(&mut self, ids: &[u32]) {
        self.extend(ids.iter().map(|&id| T::of(id)));
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn expect(&mut self, more: usize) {
        // Not all at once: the rest of the text may have fewer ids a byte.
        self.reserve_exact(more.min(self.len() / 4 + MIN_ROOM_AHEAD));
    }
}

/// Makes a list longer. Since `expect` mostly makes enough room, the list grows by a quarter only.
#[inline(always)]
fn lengthen<T: Id>(ids: &mut Vec<T>, length: usize) {
    if length > ids.capacity() {
        ids.reserve_exact(length - ids.len() + ids.len() / 4);
    }
    ids.resize(length, T::default());
}
