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
    /// Reads a line to behind its newline, and appends its text.
    ///
    /// An error leaves any bytes behind the old end of `text`, and the position within the line.
    /// So does a line without a text, which is read to its end.
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
        // Each escape is longer than its character.
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
    /// Bit 0 belongs to the innermost container, bit 1 to the one around it. Objects are ones.
    inner: u64,
    /// The containers around those of `inner`, 64 of them in a number.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::simd::{Isa, Work};
    use crate::test_inputs::Rng;

    /// Reads one line; returns what is found, or None if it is not JSON, and the text.
    struct Read<'a>(&'a str);

    impl Work for Read<'_> {
        type Result = (Option<Found>, String);

        fn run<I: Instructions>(self, isa: I) -> Self::Result {
            let mut interrupt = Interrupt::never();
            let mut reader = Reader::new(isa, self.0.as_bytes(), &mut interrupt);
            let mut text = b"before ".to_vec();
            let found = reader.read_line(b"text", &mut text);
            assert!(found.is_err() || reader.at > self.0.find('\n').unwrap_or(self.0.len()));
            let text = String::from_utf8(text).expect("UTF-8");
            (found.ok(), text.strip_prefix("before ").expect("still there").to_owned())
        }
    }

    fn read(line: &str) -> (Option<Found>, String) {
        let mut results = Isa::all().into_iter().map(|isa| isa.run(Read(line)));
        let first = results.next().expect("an instruction set");
        assert!(results.all(|other| other == first), "{line}");
        first
    }

    #[test]
    fn the_last_value_of_the_field_counts() {
        for (line, text) in [
            (r#"{"text":"a"}"#, "a"),
            (r#"{"a": {"text": "b"}, "text": "a", "b": [{"text": "c"}]}"#, "a"),
            (r#"{"text": "a", "text": {"text": "b"}, "te\u0078t": "c"}"#, "c"),
            ("\u{feff} {\t\"text\" : \"\" , \"x\":[ ] , \"y\":{ } }\r\n{\"text\":\"b\"}", ""),
            (r#"{"": "", "texts": "", "tex": 1, "text": "\u00e9\n"}"#, "\u{e9}\n"),
        ] {
            assert_eq!(read(line), (Some(Found::Text), text.to_owned()), "{line}");
        }
    }

    #[test]
    fn lines_without_a_text_have_a_reason() {
        for (line, found) in [
            ("", Some(Found::Blank)),
            (" \t\r", Some(Found::Blank)),
            ("\u{feff}", Some(Found::Blank)),
            ("\n{", Some(Found::Blank)),
            ("{}", Some(Found::NoField)),
            ("[]", Some(Found::NoField)),
            ("[\"text\", [\"text\"]]", Some(Found::NoField)),
            ("\"text\"", Some(Found::NoField)),
            ("-1e5 ", Some(Found::NoField)),
            (r#"{"x": [[{"text": "a"}]]}"#, Some(Found::NoField)),
            (r#"{"text": "a", "text": 1}"#, Some(Found::NotString)),
            (r#"{"text": {"text": "a"}}"#, Some(Found::NotString)),
            (r#"{"text": []}"#, Some(Found::NotString)),
            (r#"{"text": null, "text": "\ud800"}"#, Some(Found::LoneSurrogate)),
            ("\u{feff}\u{feff}{}", None),
            (" \u{feff}{}", None),
            ("{", None),
            ("{]", None),
            ("[}", None),
            ("}", None),
            ("{\"a\"}", None),
            ("{\"a\":}", None),
            ("{\"a\":1,}", None),
            ("{\"a\":1 \"b\":1}", None),
            ("{,}", None),
            ("[1,]", None),
            ("[,1]", None),
            ("[1 1]", None),
            ("{\"a\":[1}]", None),
            ("{} {}", None),
            ("{}}", None),
            ("{\"a\":\n1}", None),
            ("\u{b}", None),
        ] {
            assert_eq!(read(line).0, found, "{line}");
        }
    }

    #[test]
    fn values_nest_to_any_depth() {
        let mut rng = Rng::new(3);
        for depth in [1, 63, 64, 65, 127, 128, 129, 1000, 100_000] {
            let kinds: Vec<bool> = (0..depth).map(|_| rng.below(2) == 1).collect();
            let openers = kinds.iter().map(|&is_object| if is_object { "{\"text\":" } else { "[" });
            let closers = kinds.iter().rev().map(|&is_object| if is_object { "}" } else { "]" });
            let (openers, closers): (String, String) = (openers.collect(), closers.collect());
            let line = format!("{{\"x\":{openers}0{closers},\"text\":\"a\"}}");
            assert_eq!(read(&line), (Some(Found::Text), "a".to_owned()));
            let wrong = closers.replacen(']', "}", 1);
            if wrong != closers {
                assert_eq!(read(&format!("{openers}0{wrong}")).0, None);
            }
            assert_eq!(read(&format!("{openers}0{closers}]")).0, None);
            assert_eq!(read(&openers).0, None);
        }
    }
}
