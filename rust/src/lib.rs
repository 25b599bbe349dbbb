//! The native core of bpetite: what takes the time, with the same results as in Python.

#![deny(unsafe_code)]
#![allow(clippy::match_overlapping_arm, reason = "the first arm that fits is the rule")]

pub mod cache;
pub mod decode;
pub mod encode;
#[cfg(test)]
mod generated;
pub mod held;
pub mod kept;
pub mod key;
pub mod merge;
pub mod pages;
pub mod parallel;
#[cfg(feature = "extension-module")]
mod python;
pub mod scan;
pub mod simd;
pub mod spans;
pub mod tokens;
pub mod train;
pub mod unicode;
pub mod vocabulary;
mod window;
