//! Memory: growing lists, pooled buffers, uninitialised output, huge pages, and prefetching.

pub mod growth;
pub mod huge_pages;
mod output;
pub mod pool;
mod prefetch;

pub use output::Output;
pub use prefetch::prefetch;
