//! Memory: pooled buffers, uninitialised output, huge pages, and prefetching.

pub mod huge_pages;
mod output;
pub mod pool;
mod prefetch;

pub use output::Output;
pub use prefetch::prefetch;
