//! Texts of JSON Lines: one top-level string field of each line, without the rest of the line.

use std::fmt;

use memchr::memchr;
use serde_core::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use simdutf8::basic::from_utf8;

use crate::interrupt::{Interrupt, Interrupted};
use crate::mem::growth::{push, require_room};
use crate::mem::pool::BufferPool;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The texts in UTF-8, joined.
    pub data: Vec<u8>,
    /// Where each text begins in `data`, and the end of the last.
    pub offsets: Vec<u64>,
    /// The row of each text.
    pub rows: Vec<u64>,
    pub others: Vec<Line>,
    /// The row after the last line.
    pub next_row: u64,
}

/// A line without a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub row: u64,
    pub start: usize,
    pub end: usize,
    /// Whether the line is JSON that lacks the field. If not, `json.loads` must decide.
    pub has_no_field: bool,
}

pub fn buffer_pool() -> &'static BufferPool<u8> {
    static POOL: BufferPool<u8> = BufferPool::new();
    &POOL
}

/// Reads a field of some whole lines; `row` is the row of the first line.
pub fn texts_of_lines(
    lines: &[u8],
    field: &str,
    mut row: u64,
    interrupt: &mut Interrupt<'_>,
) -> Result<Texts, Interrupted> {
    // A text is at most as long as its line.
    let data = buffer_pool().take(lines.len());
    let mut texts = Texts { data, offsets: vec![0], ..Texts::default() };
    let mut start = 0;
    while start < lines.len() {
        let rest = &lines[start..];
        let length = memchr(b'\n', rest).map_or(rest.len(), |index| index + 1);
        interrupt.advance(length)?;
        let text_start = texts.data.len();
        let has_field = read_line(&rest[..length], field, &mut texts.data);
        let end = start + length;
        if has_field == Some(true) {
            push(&mut texts.offsets, texts.data.len() as u64);
            push(&mut texts.rows, row);
        } else {
            texts.data.truncate(text_start);
            let has_no_field = has_field.is_some();
            push(&mut texts.others, Line { row, start, end, has_no_field });
        }
        row += 1;
        start = end;
    }
    texts.next_row = row;
    Ok(texts)
}

/// Appends the text of a line, and returns whether it has the field; None if it is not read.
fn read_line(line: &[u8], field: &str, text: &mut Vec<u8>) -> Option<bool> {
    let line = from_utf8(line).ok()?;
    // The parser unescapes strings into a list of its own, which doubles as it grows.
    require_room(4 * line.len());
    let mut json = serde_json::Deserializer::from_str(line);
    let has_field = json.deserialize_any(Field { name: field, text }).ok()?;
    json.end().ok().map(|()| has_field)
}

/// Appends the last value of a field of an object, which must be a string.
struct Field<'a> {
    name: &'a str,
    text: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = bool;

    fn expecting(&self, message: &mut fmt::Formatter<'_>) -> fmt::Result {
        message.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let start = self.text.len();
        let mut has_field = false;
        while let Some(is_field) = members.next_key_seed(Read(|name: &str| name == self.name))? {
            if is_field {
                self.text.truncate(start);
                members.next_value_seed(Read(|text: &str| self.text.extend(text.as_bytes())))?;
                has_field = true;
            } else {
                // Nested values are skipped without recursion, however deep.
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(has_field)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        IgnoredAny.visit_seq(items).map(|IgnoredAny| false)
    }
}

/// Calls a function with a string.
struct Read<F>(F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Read<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<T, D::Error> {
        json.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Read<F> {
    type Value = T;

    fn expecting(&self, message: &mut fmt::Formatter<'_>) -> fmt::Result {
        message.write_str("a string")
    }

    fn visit_str<E>(self, string: &str) -> Result<T, E> {
        Ok((self.0)(string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_from_some_lines_and_others_are_left() {
        let lines = b"{\"a\": [{}], \"text\": \"\\u00e9\"}\n\n{\"a\": 1}\n{\"text\": NaN}\n[1]\n\
            {\"text\": \"a\", \"te\\u0078t\": \"b\"}";
        let texts = texts_of_lines(lines, "text", 7, &mut Interrupt::never());
        let others =
            [(8, 30, 31, false), (9, 31, 40, true), (10, 40, 54, false), (11, 54, 58, true)]
                .map(|(row, start, end, has_no_field)| Line { row, start, end, has_no_field });
        let data = "\u{e9}b".into();
        let (offsets, rows) = (vec![0, 2, 3], vec![7, 12]);
        assert_eq!(texts, Ok(Texts { data, offsets, rows, others: others.into(), next_row: 13 }));
    }

    #[test]
    fn many_lines_are_interrupted() {
        let mut is_interrupted = || true;
        let mut interrupt = Interrupt::new(&mut is_interrupted);
        let lines = b"{}\n".repeat(1 << 18);
        assert_eq!(texts_of_lines(&lines, "text", 0, &mut interrupt), Err(Interrupted));
    }
}
