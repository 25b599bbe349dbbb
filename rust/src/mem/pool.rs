//! A pool for the buffers of long lists of ids, and of long texts.
//!
//! The system clears new memory page by page, and so does the host of a virtual machine, which can
//! take longer than finding the ids. The pool therefore keeps the longest buffer that was put back,
//! within a bound.

use std::sync::Mutex;

use super::growth::{copied, granted};

/// Shorter buffers are left to the allocator, which reuses them itself.
const POOL_MIN_BYTES: usize = 1 << 20;
const POOL_MAX_BYTES: usize = 1 << 25;

/// A buffer that is more than this many times as long as the request stays in the pool.
const MAX_SURPLUS_FACTOR: usize = 8;

/// A pool of at most one buffer.
pub struct BufferPool<T>(Mutex<Vec<T>>);

impl<T: Copy> BufferPool<T> {
    pub const fn new() -> BufferPool<T> {
        BufferPool(Mutex::new(Vec::new()))
    }

    /// Returns an empty list with room for `room` items or more.
    pub fn take(&self, room: usize) -> Vec<T> {
        let mut list = Vec::new();
        // If another thread has the lock, new memory is better than waiting.
        if let (true, Ok(mut pooled)) = (room >= POOL_MIN_BYTES / size_of::<T>(), self.0.try_lock())
            && pooled.capacity() / MAX_SURPLUS_FACTOR <= room
        {
            list = std::mem::take(&mut *pooled);
        }
        granted(list.try_reserve_exact(room));
        list
    }

    /// Keeps the memory of a list if it is within the bounds and longer than the pool's memory.
    pub fn put_back(&self, mut list: Vec<T>) {
        let bytes = list.capacity() * size_of::<T>();
        if let (POOL_MIN_BYTES..=POOL_MAX_BYTES, Ok(mut pooled)) = (bytes, self.0.try_lock())
            && pooled.capacity() < list.capacity()
        {
            list.clear();
            *pooled = list;
        }
    }

    /// Returns the list in a buffer of about its length, and puts back a much longer one.
    pub fn shrunk(&self, mut list: Vec<T>) -> Vec<T> {
        if list.capacity() / 4 * 3 > list.len() {
            let exact = copied(&list);
            self.put_back(std::mem::replace(&mut list, exact));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = POOL_MIN_BYTES / 4;

    fn list(capacity: usize, count: usize) -> Vec<u32> {
        let mut list = Vec::with_capacity(capacity);
        list.resize(count, 7);
        list
    }

    #[test]
    fn the_longest_buffer_put_back_is_the_next() {
        let pool = BufferPool::new();
        let lists = [list(ROOM, 0), list(3 * ROOM, 5), list(2 * ROOM, 0)];
        let longest = lists[1].as_ptr();
        lists.into_iter().for_each(|list| pool.put_back(list));
        let (next, other) = (pool.take(ROOM), pool.take(ROOM));
        assert_eq!((next.as_ptr(), next.len()), (longest, 0));
        assert_ne!(other.as_ptr(), longest);
    }

    #[test]
    fn a_list_has_the_requested_room() {
        let pool = BufferPool::new();
        pool.put_back(list(2 * ROOM, 9));
        for room in [0, 1, ROOM, 3 * ROOM] {
            let list = pool.take(room);
            assert!(list.is_empty() && list.capacity() >= room);
        }
    }

    #[test]
    fn buffers_beyond_the_bounds_are_not_kept() {
        let pool = BufferPool::new();
        for capacity in [0, ROOM - 1, POOL_MAX_BYTES / 4 + 1] {
            pool.put_back(list(capacity, 0));
            assert_eq!(pool.0.lock().unwrap().capacity(), 0);
        }
    }

    #[test]
    fn a_short_request_leaves_a_long_buffer() {
        let pool = BufferPool::new();
        pool.put_back(list(MAX_SURPLUS_FACTOR * (ROOM + 1), 0));
        assert!(pool.take(1).capacity() < ROOM);
        assert!(pool.take(ROOM).capacity() < 2 * ROOM);
        assert!(pool.take(ROOM + 1).capacity() > 2 * ROOM);
    }

    #[test]
    fn only_a_list_with_much_surplus_moves() {
        let pool = BufferPool::new();
        let long = list(4 * ROOM, 3 * ROOM);
        let address = long.as_ptr();
        let long = pool.shrunk(long);
        assert_eq!(long.as_ptr(), address);
        let short = pool.shrunk(list(4 * ROOM, 3));
        assert_eq!((short.capacity(), short), (3, vec![7; 3]));
        assert!(pool.take(ROOM).capacity() >= 4 * ROOM);
    }
}
