//! Blocks of a file, split into lines.

use memchr::{memchr, memrchr};

use super::line::Found;
use super::reader::{Fault, Reader};
use crate::interrupt::{Interrupt, Interrupted};
use crate::mem::growth::{append, push};
use crate::mem::pool::BufferPool;
use crate::simd::{Block, Instructions, Isa, Work};
use simdutf8::basic::from_utf8;

/// UTF-8 is checked in segments of about this length, so that a segment is still in the processor's
/// cache when its lines are read.
const SEGMENT_BYTES: usize = 1 << 17;

/// The buffer of an unfinished line is freed after use if it is longer than this.
const PENDING_MAX_KEPT_BYTES: usize = 1 << 22;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The texts in UTF-8, joined.
    pub data: Vec<u8>,
    /// Where each text begins in `data`, and the end of the last.
    pub offsets: Vec<u64>,
    /// The line of each text.
    pub rows: Vec<u64>,
    pub refused: Vec<Refused>,
}

/// A line that has no text, although it is not blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub line: u64,
    /// Where the line begins.
    pub byte: u64,
    pub reason: &'static str,
}

pub fn buffer_pool() -> &'static BufferPool<u8> {
    static POOL: BufferPool<u8> = BufferPool::new();
    &POOL
}

/// Takes one field from JSON Lines, block by block.
pub struct FieldScanner {
    field: Vec<u8>,
    isa: Isa,
    /// The unfinished line.
    pending: Vec<u8>,
    position: Position,
}

/// A position in the lines of all blocks.
#[derive(Clone, Copy, Default)]
struct Position {
    line: u64,
    byte: u64,
}

impl FieldScanner {
    pub fn new(field: &str, isa: Isa) -> FieldScanner {
        let field = field.as_bytes().to_vec();
        FieldScanner { field, isa, pending: Vec::new(), position: Position::default() }
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Returns the texts of the lines that end in a block. In the last block, all lines end.
    ///
    /// After an interrupt, the scanner must not be used again.
    pub fn feed(
        &mut self,
        block: &[u8],
        is_last: bool,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Texts, Interrupted> {
        let mut texts = Texts { offsets: vec![0], ..Texts::default() };
        // Only the block is searched: searching the unfinished line each time would be quadratic.
        let end = if is_last { block.len() } else { end_of(memrchr(b'\n', block), 0) };
        let (mut lines, unfinished) = block.split_at(end);
        if is_last || !lines.is_empty() {
            // A text is at most as long as its line, and `push_slot` copies a whole block.
            let room = self.pending.len() + lines.len() + size_of::<Block>();
            texts.data = buffer_pool().take(room);
            if !self.pending.is_empty() {
                let (end_of_line, others) = lines.split_at(end_of(memchr(b'\n', lines), end));
                let mut line = std::mem::take(&mut self.pending);
                append(&mut line, end_of_line);
                self.read(&line, &mut texts, interrupt)?;
                if line.capacity() <= PENDING_MAX_KEPT_BYTES {
                    line.clear();
                    self.pending = line;
                }
                lines = others;
            }
            self.read(lines, &mut texts, interrupt)?;
        }
        append(&mut self.pending, unfinished);
        Ok(texts)
    }

    /// Reads whole lines.
    fn read(
        &mut self,
        data: &[u8],
        texts: &mut Texts,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        let position = &mut self.position;
        self.isa.run(Lines { data, field: &self.field, position, texts, interrupt })
    }
}

/// Returns the end of a line whose newline has this index, or `end` without a newline.
fn end_of(newline: Option<usize>, end: usize) -> usize {
    newline.map_or(end, |index| index + 1)
}

/// Whole lines to read.
struct Lines<'a, 'i> {
    data: &'a [u8],
    field: &'a [u8],
    position: &'a mut Position,
    texts: &'a mut Texts,
    interrupt: &'a mut Interrupt<'i>,
}

impl Work for Lines<'_, '_> {
    type Result = Result<(), Interrupted>;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> Self::Result {
        let Lines { data, field, position, texts, interrupt } = self;
        let mut reader = Reader::new(isa, data, interrupt);
        while reader.at < data.len() {
            let rest = reader.rest();
            let after = rest.get(SEGMENT_BYTES..).unwrap_or_default();
            let length = (rest.len() - after.len()) + end_of(memchr(b'\n', after), after.len());
            let is_utf8 = reader.is_utf8(&rest[..length])?;
            let end = reader.at + length;
            while reader.at < end {
                reader.check_interrupt()?;
                let (start, text_start) = (reader.at, texts.data.len());
                let found = reader.read_line(field, &mut texts.data);
                reader.at = reader.at.min(data.len()); // the last line may have no newline
                let mut reason = match found {
                    Ok(Found::Blank | Found::Text) => None,
                    Ok(Found::NoField) => Some("no field"),
                    Ok(Found::NotString) => Some("not a string"),
                    Ok(Found::LoneSurrogate) => Some("lone surrogate"),
                    Err(Fault::NotJson) => {
                        let line = &data[start..];
                        reader.at = start + end_of(memchr(b'\n', line), line.len());
                        Some("not JSON")
                    }
                    Err(Fault::Interrupted) => return Err(Interrupted),
                };
                if !is_utf8 && from_utf8(&data[start..reader.at]).is_err() {
                    reason = Some("not UTF-8");
                }
                if let Some(reason) = reason {
                    texts.data.truncate(text_start);
                    let Position { line, byte } = *position;
                    push(&mut texts.refused, Refused { line, byte, reason });
                } else if found == Ok(Found::Text) {
                    push(&mut texts.offsets, texts.data.len() as u64);
                    push(&mut texts.rows, position.line);
                }
                position.line += 1;
                position.byte += (reader.at - start) as u64;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    /// Feeds data in blocks of a length; returns each text with its line, and the refused lines.
    fn scanned(isa: Isa, data: &[u8], length: usize) -> (Vec<(u64, String)>, Vec<Refused>) {
        let mut scanner = FieldScanner::new("text", isa);
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let mut take = |texts: Texts| {
            for (bounds, row) in texts.offsets.windows(2).zip(&texts.rows) {
                let text = &texts.data[bounds[0] as usize..bounds[1] as usize];
                found.push((*row, String::from_utf8(text.to_vec()).expect("UTF-8")));
            }
            assert_eq!(texts.offsets.len(), texts.rows.len() + 1);
            assert_eq!(texts.offsets.last(), Some(&(texts.data.len() as u64)));
            refused.extend(texts.refused);
            buffer_pool().put_back(texts.data);
        };
        for block in data.chunks(length) {
            take(scanner.feed(block, false, &mut Interrupt::never()).expect("no interrupt"));
        }
        take(scanner.feed(b"", true, &mut Interrupt::never()).expect("no interrupt"));
        assert_eq!(scanner.pending_bytes(), 0);
        (found, refused)
    }

    #[test]
    fn any_blocks_give_the_same_lines() {
        let data =
            b"\xEF\xBB\xBF{\"text\": \"a\"}\r\n\n \n{\"x\": 1}\n{\"text\": \"\\ud83d\\ude42\"}\n\
            {\"text\": 1}\n{\"text\": \"\xFF\"}\n{\"text\": \"\xE4\xBD\xA0\"}\n{\n\
            {\"text\": \"\\ud800\"}\n{\"text\": \"b\"}";
        let texts = [(0, "a"), (4, "\u{1f642}"), (7, "\u{4f60}"), (10, "b")];
        let texts: Vec<_> = texts.map(|(row, text)| (row, text.to_owned())).into();
        let refused: Vec<_> = [
            (3, 21, "no field"),
            (5, 55, "not a string"),
            (6, 67, "not UTF-8"),
            (8, 97, "not JSON"),
            (9, 99, "lone surrogate"),
        ]
        .map(|(line, byte, reason)| Refused { line, byte, reason })
        .into();
        for isa in Isa::all() {
            for length in 1..=data.len() {
                assert_eq!(scanned(isa, data, length), (texts.clone(), refused.clone()));
            }
        }
    }

    #[test]
    fn long_input_has_segments_and_long_lines() {
        let mut rng = Rng::new(5);
        let (mut data, mut texts) = (Vec::new(), Vec::new());
        for row in 0..30 {
            let letter = ["a", "\u{e9}", "\u{4f60}", "\\n"][rng.below(4)];
            let count = if rng.below(10) == 0 { 1 << 18 } else { rng.below(20_000) };
            data.extend(format!("{{\"text\": \"{}\"}}\n", letter.repeat(count)).as_bytes());
            texts.push((row, letter.replace("\\n", "\n").repeat(count)));
        }
        let bad_line = data.iter().rposition(|&byte| byte == b'{').expect("a line");
        data.splice(bad_line..bad_line, *b"\xFF\n");
        if let Some(last) = texts.last_mut() {
            last.0 += 1;
        }
        for isa in Isa::all() {
            for length in [1 << 12, 1 << 20, data.len()] {
                let (found, refused) = scanned(isa, &data, length);
                assert!(found == texts);
                assert_eq!((refused.len(), refused[0].byte), (1, bad_line as u64));
            }
        }
    }

    #[test]
    fn long_lines_and_many_lines_are_interrupted() {
        const LENGTH: usize = 1 << 20;
        let text = [b"{\"text\": \"".as_slice(), &[b'a'; LENGTH]].concat();
        let escapes = [b"{\"text\": \"".as_slice(), &b"\\u00e9".repeat(LENGTH / 6)].concat();
        let array = [b"[".as_slice(), &b"1, ".repeat(LENGTH / 3)].concat();
        for data in [
            text,
            escapes,
            array,
            b"{}\n".repeat(LENGTH / 3),
            vec![b' '; LENGTH],
            vec![b'1'; LENGTH],
            vec![b'['; LENGTH],
            vec![b'\n'; LENGTH],
        ] {
            for isa in Isa::all() {
                let mut checks = 0;
                let mut is_interrupted = || {
                    checks += 1;
                    checks > 1
                };
                let mut interrupt = Interrupt::new(&mut is_interrupted);
                let result = FieldScanner::new("text", isa).feed(&data, true, &mut interrupt);
                assert_eq!(result, Err(Interrupted));
            }
        }
    }
}
