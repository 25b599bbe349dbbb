//! Texts of JSON Lines: one top-level string field of each line, without the rest of the line.
//!
//! `scanner` splits blocks of a file into lines, `line` reads one line, `string` reads strings, and
//! `reader` has the parts of the grammar that both need.

mod line;
mod reader;
mod scanner;
mod string;

pub use scanner::{FieldScanner, buffer_pool};
