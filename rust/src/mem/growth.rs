//! Memory whose size follows from the input.
//!
//! Rust's collections end the process if the system refuses memory. These functions end only the
//! call: they unwind with `OutOfMemory`, for which `python/interrupt.rs` raises MemoryError. The
//! objects that the call was changing are dropped, as after any panic, so that nothing half-made
//! stays in use.
//!
//! Memory of a fixed size below a few kilobytes is allocated without them.

use std::collections::TryReserveError;
use std::hint::black_box;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

/// Unwinding begins with a small object of the runtime, which ends the process if there is no room
/// for it. So a thread that runs out of memory first frees one of these boxes: allocators keep
/// freed memory for the next request of the same size by the same thread.
#[expect(clippy::vec_box, reason = "each is freed by itself")]
static RESERVE: Mutex<Vec<Box<RuntimeException>>> = Mutex::new(Vec::new());

/// As large as the object that `resume_unwind` allocates.
type RuntimeException = [usize; 7];

/// More threads than will run out of memory at the same time.
const RESERVE_COUNT: usize = 256;

/// Sets the reserve aside again, as far as the system grants it.
pub fn refill_reserve() {
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    while reserve.len() < RESERVE_COUNT && has_room(RESERVE_COUNT * 128) {
        reserve.push(Box::default());
    }
}

/// The payload of a call that unwinds because the system refused memory.
pub struct OutOfMemory;

/// Unwinds unless the memory was granted.
#[inline(always)]
pub fn granted(result: Result<(), TryReserveError>) {
    if result.is_err() {
        out_of_memory();
    }
}

// `resume_unwind`, because `panic!` would write on stderr.
#[cold]
#[inline(never)]
fn out_of_memory() -> ! {
    drop(RESERVE.lock().unwrap_or_else(PoisonError::into_inner).pop());
    resume_unwind(Box::new(OutOfMemory))
}

/// The memory that must be free when a thread begins: for its stack, and for the runtimes of C and
/// Rust, which end the process if they get none.
pub const THREAD_BYTES: usize = 3 << 20;

/// Returns whether the system would grant memory now.
pub fn has_room(bytes: usize) -> bool {
    let mut room = Vec::<u8>::new();
    let is_granted = room.try_reserve_exact(bytes).is_ok();
    black_box(room); // else the compiler would remove the allocation
    is_granted
}

/// Unwinds unless the system would grant memory now, for code that cannot ask for it.
pub fn require_room(bytes: usize) {
    if !has_room(bytes) {
        out_of_memory();
    }
}

/// Returns a box of an object whose few lists are made without `with_room`.
pub fn boxed<T: Default>() -> Box<T> {
    require_room(2 * size_of::<T>() + (1 << 16));
    Box::default()
}

pub fn with_room<T>(count: usize) -> Vec<T> {
    let mut list = Vec::new();
    granted(list.try_reserve_exact(count));
    list
}

pub fn filled<T: Clone>(item: T, count: usize) -> Vec<T> {
    let mut list = with_room(count);
    list.resize(count, item);
    list
}

pub fn copied<T: Copy>(items: &[T]) -> Vec<T> {
    let mut list = with_room(items.len());
    list.extend_from_slice(items);
    list
}

/// Returns the items of an iterator that knows their number.
pub fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut list = with_room(items.len());
    list.extend(items);
    list
}

#[inline(always)]
pub fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        granted(list.try_reserve(1));
    }
    list.push(item);
}

#[inline(always)]
pub fn append<T: Copy>(list: &mut Vec<T>, items: &[T]) {
    granted(list.try_reserve(items.len()));
    list.extend_from_slice(items);
}

/// Makes a list as long as `count`, if it is shorter.
pub fn lengthen<T: Clone>(list: &mut Vec<T>, count: usize, item: T) {
    if count > list.len() {
        granted(list.try_reserve(count - list.len()));
        list.resize(count, item);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn refused_memory_unwinds() {
        let requests: [fn() -> Vec<u64>; 3] = [
            || with_room(usize::MAX / 16),
            || filled(1, usize::MAX / 16),
            || {
                let mut list = vec![1];
                granted(list.try_reserve(usize::MAX / 16));
                list
            },
        ];
        for request in requests {
            assert!(catch_unwind(request).is_err_and(|panic| panic.is::<OutOfMemory>()));
        }
    }

    // Other tests may take a few boxes at the same time.
    #[test]
    fn unwinding_takes_from_the_reserve_and_catching_refills_it() {
        let count = || RESERVE.lock().unwrap_or_else(PoisonError::into_inner).len();
        refill_reserve();
        assert!(catch_unwind(|| with_room::<u64>(usize::MAX / 16)).is_err());
        assert!(count() < RESERVE_COUNT);
        refill_reserve();
        assert!(count() > RESERVE_COUNT - 8);
    }

    #[test]
    fn lists_have_their_items() {
        let mut list = collected(1..4);
        push(&mut list, 4);
        append(&mut list, &[5, 6]);
        lengthen(&mut list, 8, 7);
        lengthen(&mut list, 2, 9);
        assert_eq!(copied(&list), [1, 2, 3, 4, 5, 6, 7, 7]);
        assert_eq!(filled(3, 2), [3, 3]);
    }
}
