//! One line of JSON: the last value of a field of the outermost object.

use super::reader::{Fault, Reader};
use super::string::is_escaped_field;
use crate::mem::growth::push;
use crate::simd::Instructions;

/// The result of reading a line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// White space alone.
    Blank,
    NoField,
    NotString,
    LoneSurrogate,
    Text,
}

/// As `json.loads` does with bytes, one byte order mark is skipped.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl<I: Instructions> Reader<'_, '_, I> {
    /// Reads a line and its newline, and appends its text.
    ///
    /// After an error, the position is within the line, and `text` may have any bytes after its
    /// old end. The bytes may also be there after a line without a text, which is read to its end.
    #[inline(always)]
    pub fn read_line(&mut self, field: &[u8], text: &mut Vec<u8>) -> Result<Found, Fault> {
        let start = text.len();
        let mut found = Found::NoField;
        let mut open = Containers::default();
        let mut is_field = false; // whether the current value belongs to the field
        if self.rest().starts_with(BYTE_ORDER_MARK) {
            self.at += BYTE_ORDER_MARK.len();
        }
        if self.skip_spaces()? == b'\n' {
            self.at += 1;
            return Ok(Found::Blank);
        }
        loop {
            // A value begins here, or a name and its value.
            self.check_interrupt()?;
            if open.innermost == Some(Container::Object) {
                let is_name_of_field = self.read_name(field)?;
                is_field = is_name_of_field && open.depth == 1;
            }
            let first = self.peek();
            if is_field && first == b'"' {
                self.at += 1;
                text.truncate(start);
                let has_lone_surrogate = self.read_string(text)?;
                found = if has_lone_surrogate { Found::LoneSurrogate } else { Found::Text };
            } else {
                if is_field {
                    found = Found::NotString;
                    is_field = false;
                }
                match first {
                    b'"' => {
                        self.at += 1;
                        self.skip_string()?;
                    }
                    b'{' | b'[' => {
                        self.at += 1;
                        let container = Container::opened_by(first);
                        if self.skip_spaces()? != container.closer() {
                            open.push(container);
                            continue;
                        }
                        self.at += 1;
                    }
                    _ => self.skip_atom()?,
                }
            }
            // A value ends here.
            loop {
                let next = self.skip_spaces()?;
                let Some(container) = open.innermost else {
                    self.expect(b'\n')?;
                    return Ok(found);
                };
                self.at += 1;
                if next == b',' {
                    self.skip_spaces()?;
                    break;
                }
                if next != container.closer() {
                    return Err(Fault::NotJson);
                }
                open.pop();
                self.check_interrupt()?;
            }
        }
    }

    /// Reads a name and its colon, up to the value; returns whether the name is `field`.
    #[inline(always)]
    fn read_name(&mut self, field: &[u8]) -> Result<bool, Fault> {
        self.expect(b'"')?;
        let start = self.at;
        let length = self.skip_string()?;
        // Each escape is longer than its character, so equal lengths mean that there is no escape.
        let name = self.data.get(start..self.at).unwrap_or_default();
        let is_field = length == field.len()
            && match name.split_last() {
                Some((_, plain)) if plain.len() == length => plain == field,
                _ => is_escaped_field(name, field),
            };
        self.skip_spaces()?;
        self.expect(b':')?;
        self.skip_spaces()?;
        Ok(is_field)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

impl Container {
    #[inline(always)]
    fn opened_by(byte: u8) -> Container {
        if byte == b'{' { Container::Object } else { Container::Array }
    }

    #[inline(always)]
    fn closer(self) -> u8 {
        match self {
            Container::Array => b']',
            Container::Object => b'}',
        }
    }
}

/// The open arrays and objects, of any depth: one bit for each.
#[derive(Default)]
struct Containers {
    innermost: Option<Container>,
    depth: usize,
    /// Bit 0 is the innermost container, bit 1 the container around it. Objects are ones.
    inner: u64,
    /// The containers around the 64 in `inner`, again 64 in a number.
    outer: Vec<u64>,
}

impl Containers {
    #[inline(always)]
    fn push(&mut self, container: Container) {
        if self.depth.is_multiple_of(64) && self.depth > 0 {
            push(&mut self.outer, self.inner);
        }
        self.depth += 1;
        self.inner = self.inner << 1 | u64::from(container == Container::Object);
        self.innermost = Some(container);
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.inner >>= 1;
        if self.depth.is_multiple_of(64) {
            self.inner = self.outer.pop().unwrap_or(0);
        }
        let container = if self.inner & 1 == 1 { Container::Object } else { Container::Array };
        self.innermost = (self.depth > 0).then_some(container);
    }
}
