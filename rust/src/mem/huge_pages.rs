//! Huge pages for large memory.

/// Memory of this length contains a whole huge page of 2 MB, wherever it begins.
const MIN_BYTES: usize = 1 << 22;

/// Asks the system for huge pages for a large list before it is filled. Fewer pages are faster,
/// because the system clears each page and looks it up by itself.
pub fn use_huge_pages<T>(list: &Vec<T>) {
    advise_huge_pages(list.as_ptr() as usize, list.capacity() * size_of::<T>());
}

/// Asks for huge pages for `length` bytes from an address on.
#[cfg_attr(target_os = "linux", expect(unsafe_code, reason = "advice on memory"))]
pub fn advise_huge_pages(start: usize, length: usize) {
    #[cfg(target_os = "linux")]
    if length >= MIN_BYTES {
        const PAGE_BYTES: usize = 4096;
        let first = start.next_multiple_of(PAGE_BYTES);
        let length = (start + length).saturating_sub(first) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: this advice changes nothing in memory, and fails if there is no such memory.
        unsafe { libc::madvise(first as *mut _, length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, length >= MIN_BYTES);
}
