//! Memory of long lists of ids, kept for the next one.
//!
//! New memory has to be cleared by the system, page by page, and on a virtual machine by its host
//! too: that can take longer than the ids take to be found. So the longest list that was given back
//! stays, within a bound.

use std::sync::Mutex;

/// Lists of fewer bytes are left to the allocator, which keeps such itself.
const LEAST: usize = 1 << 20;

/// The most bytes that are kept.
const MOST: usize = 1 << 25;

/// So many times as much room as is wanted is too much to be given away.
const TOO_MUCH: usize = 8;

/// A list that nobody has in use, or none.
pub struct Kept<T>(Mutex<Vec<T>>);

impl<T: Copy> Kept<T> {
    pub const fn none() -> Kept<T> {
        Kept(Mutex::new(Vec::new()))
    }

    /// Returns an empty list with room for so many items, or more.
    pub fn take(&self, room: usize) -> Vec<T> {
        let mut list = Vec::new();
        // Nobody is waited for: there is other memory.
        if let (true, Ok(mut kept)) = (room >= LEAST / size_of::<T>(), self.0.try_lock())
            && kept.capacity() / TOO_MUCH <= room
        {
            list = std::mem::take(&mut *kept);
        }
        list.reserve_exact(room);
        list
    }

    /// Keeps the memory of a list, if it is long enough, and not too long.
    pub fn give(&self, mut list: Vec<T>) {
        let bytes = list.capacity() * size_of::<T>();
        if let (LEAST..=MOST, Ok(mut kept)) = (bytes, self.0.try_lock())
            && kept.capacity() < list.capacity()
        {
            list.clear();
            *kept = list;
        }
    }

    /// Returns the list with little more memory than its items need; the rest may be kept.
    pub fn fitted(&self, mut list: Vec<T>) -> Vec<T> {
        if list.capacity() / 4 * 3 > list.len() {
            let exact = list.as_slice().to_vec();
            self.give(std::mem::replace(&mut list, exact));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = LEAST / 4;

    fn list(capacity: usize, count: usize) -> Vec<u32> {
        let mut list = Vec::with_capacity(capacity);
        list.resize(count, 7);
        list
    }

    #[test]
    fn a_list_that_was_given_back_is_the_next() {
        let kept = Kept::none();
        let first = list(2 * ROOM, 5);
        let place = first.as_ptr();
        kept.give(first);
        let (next, other) = (kept.take(ROOM), kept.take(ROOM));
        assert_eq!((next.as_ptr(), next.len()), (place, 0));
        assert_ne!(other.as_ptr(), place);
    }

    #[test]
    fn the_longest_is_kept() {
        let kept = Kept::none();
        let lists = [list(ROOM, 0), list(3 * ROOM, 0), list(2 * ROOM, 0)];
        let place = lists[1].as_ptr();
        lists.into_iter().for_each(|list| kept.give(list));
        let longest = kept.take(ROOM);
        assert_eq!(longest.as_ptr(), place);
    }

    #[test]
    fn there_is_as_much_room_as_was_asked_for() {
        let kept = Kept::none();
        kept.give(list(2 * ROOM, 9));
        for room in [0, 1, ROOM, 3 * ROOM] {
            let list = kept.take(room);
            assert!(list.is_empty() && list.capacity() >= room);
        }
    }

    #[test]
    fn what_is_short_or_too_long_is_not_kept() {
        let kept = Kept::none();
        for capacity in [0, ROOM - 1, MOST / 4 + 1] {
            kept.give(list(capacity, 0));
            assert_eq!(kept.0.lock().unwrap().capacity(), 0);
        }
    }

    #[test]
    fn much_memory_is_not_given_away_for_little() {
        let kept = Kept::none();
        kept.give(list(TOO_MUCH * ROOM + TOO_MUCH, 0));
        assert!(kept.take(1).capacity() < ROOM);
        assert!(kept.take(ROOM).capacity() < 2 * ROOM);
        assert!(kept.take(ROOM + 1).capacity() > 2 * ROOM);
    }

    #[test]
    fn a_list_that_has_far_too_much_room_is_put_elsewhere() {
        let kept = Kept::none();
        let long = list(4 * ROOM, 3 * ROOM);
        let place = long.as_ptr();
        let long = kept.fitted(long);
        assert_eq!(long.as_ptr(), place);
        let short = kept.fitted(list(4 * ROOM, 3));
        assert_eq!((short.capacity(), short), (3, vec![7; 3]));
        assert!(kept.take(ROOM).capacity() >= 4 * ROOM);
    }
}
