//! The native engine of bpetite: the hot work, with the same results as the Python engine.

#![cfg_attr(
    not(feature = "extension-module"),
    expect(dead_code, unused_imports, reason = "Python uses it")
)]

mod analysis;
mod cache;
#[cfg(test)]
mod conformance;
mod corpora;
mod decode;
mod encode;
mod hash;
mod interrupt;
mod mem;
mod merge;
#[cfg(feature = "extension-module")]
mod python;
mod simd;
mod split;
mod stream;
#[cfg(test)]
mod test_inputs;
mod tokens;
mod train;
mod types;
mod utf8;
mod vocabulary;
