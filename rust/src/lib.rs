pub mod cache;
pub mod decode;
pub mod encode;
pub mod merge;
mod python;
pub mod scan;
pub mod simd;
pub mod train;
pub mod unicode;
