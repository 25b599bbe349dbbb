//! Large pages for large memory.

/// Memory of so many bytes or more is on pages of its own.
const LARGE: usize = 1 << 22;

/// Asks the system for large pages where a list has, or will have, its items, if that is much
/// memory: with small ones each is looked up, and first cleared, by itself. It should come before
/// the memory is written to.
pub fn use_large_pages<T>(list: &Vec<T>) {
    advise(list.as_ptr() as usize, list.capacity() * size_of::<T>());
}

/// The same of memory from an address on, so many bytes of it.
#[allow(unsafe_code)]
pub fn advise(start: usize, length: usize) {
    #[cfg(target_os = "linux")]
    if length >= LARGE {
        const SMALL: usize = 4096;
        let first = start.next_multiple_of(SMALL);
        let length = (start + length).saturating_sub(first) / SMALL * SMALL;
        // SAFETY: this is advice, which changes nothing in memory; where there is none it fails.
        unsafe { libc::madvise(first as *mut _, length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, length >= LARGE);
}
