//! Large pages for large memory.

/// Memory of so many bytes or more is on pages of its own.
const LARGE: usize = 1 << 22;

/// Asks the system for large pages where a list has, or will have, its items, if that is much
/// memory: with small ones each is looked up, and first cleared, by itself. It should come before
/// the memory is written to.
#[allow(unsafe_code)]
pub fn use_large_pages<T>(list: &Vec<T>) {
    let (start, length) = (list.as_ptr() as usize, list.capacity() * size_of::<T>());
    #[cfg(target_os = "linux")]
    if length >= LARGE {
        const SMALL: usize = 4096;
        let first = start.next_multiple_of(SMALL);
        let length = (start + length).saturating_sub(first) / SMALL * SMALL;
        // SAFETY: this is advice on memory of the list, which changes nothing in it.
        unsafe { libc::madvise(first as *mut _, length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, length >= LARGE);
}
