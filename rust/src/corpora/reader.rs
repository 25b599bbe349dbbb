//! A position in JSON, and the parts of the grammar that are neither strings nor nested.

use crate::interrupt::{INTERRUPT_CHECK_BYTES, Interrupt, Interrupted};
use crate::simd::{Block, Instructions};
use crate::utf8;

/// Why a line was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    NotJson,
    Interrupted,
}

impl From<Interrupted> for Fault {
    fn from(Interrupted: Interrupted) -> Fault {
        Fault::Interrupted
    }
}

/// Reads JSON. A line ends at a newline or at the end of the data; no method reads beyond it.
pub struct Reader<'a, 'i, I> {
    pub isa: I,
    pub data: &'a [u8],
    pub at: usize,
    /// The last bytes of the data, padded with zeros.
    tail: [u8; TAIL_BYTES + 64],
    /// The offset of the last block whose ends were searched, and these ends.
    searched: usize,
    ends: Ends,
    next_check: usize,
    interrupt: &'a mut Interrupt<'i>,
}

/// Where strings and digits end in a block. One search of 64 bytes serves several short values.
#[derive(Clone, Copy, Default)]
pub struct Ends {
    /// The bytes that end a run of plain characters: quotes, backslashes and control characters.
    pub plain: u64,
    /// The bytes other than digits.
    digits: u64,
}

/// At most this many bytes at the end of the data fall short of a block.
const TAIL_BYTES: usize = 63;

impl<'a, 'i, I: Instructions> Reader<'a, 'i, I> {
    #[inline(always)]
    pub fn new(isa: I, data: &'a [u8], interrupt: &'a mut Interrupt<'i>) -> Reader<'a, 'i, I> {
        let last = &data[data.len().saturating_sub(TAIL_BYTES)..];
        let mut tail = [0; TAIL_BYTES + 64];
        tail[..last.len()].copy_from_slice(last);
        let (searched, ends, next_check) = (0, Ends::default(), INTERRUPT_CHECK_BYTES);
        Reader { isa, data, at: 0, tail, searched, ends, next_check, interrupt }
    }

    /// Checks for an interrupt if much was read since the last check. Every loop must call it.
    #[inline(always)]
    pub fn check_interrupt(&mut self) -> Result<(), Interrupted> {
        #[cold]
        #[inline(never)]
        fn check(interrupt: &mut Interrupt<'_>) -> Result<(), Interrupted> {
            interrupt.check()
        }
        if !self.is_check_due() {
            return Ok(());
        }
        self.next_check = self.at + INTERRUPT_CHECK_BYTES;
        check(self.interrupt)
    }

    #[inline(always)]
    pub fn is_check_due(&self) -> bool {
        self.at >= self.next_check
    }

    pub fn is_utf8(&mut self, bytes: &[u8]) -> Result<bool, Interrupted> {
        utf8::is_utf8(bytes, self.interrupt)
    }

    /// Returns the next byte, or a newline at the end of the data.
    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(b'\n')
    }

    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Returns the next 64 bytes. After the data come zeros, which end strings and digits.
    #[inline(always)]
    pub fn block(&self) -> &Block {
        if let Some(block) = self.rest().first_chunk() {
            return block;
        }
        let at = self.at.saturating_sub(self.data.len().saturating_sub(TAIL_BYTES));
        self.tail.get(at..).and_then(|tail| tail.first_chunk()).unwrap_or(&[0; 64])
    }

    /// Returns how many of the next 64 bytes come before the first `end`. `goes_on` is the same
    /// test for one byte.
    #[inline(always)]
    pub fn before_end(
        &mut self,
        end: impl Fn(Ends) -> u64,
        goes_on: impl Fn(&&u8) -> bool,
    ) -> usize {
        if !I::FINDS_WINDOWS {
            return self.rest().iter().take(64).take_while(goes_on).count();
        }
        let shift = self.at.wrapping_sub(self.searched).try_into().unwrap_or(u32::MAX);
        let mut bits = end(self.ends).checked_shr(shift).unwrap_or(0);
        if bits == 0 {
            self.searched = self.at;
            self.ends = self.ends_in(self.block());
            bits = end(self.ends);
        }
        bits.trailing_zeros() as usize
    }

    #[inline(always)]
    fn ends_in(&self, block: &Block) -> Ends {
        let bytes = self.isa.load(block);
        let quotes = self.isa.within(bytes, b'"', 1);
        let backslashes = self.isa.within(bytes, b'\\', 1);
        let controls = self.isa.within(bytes, 0, 0x20);
        let digits = !self.isa.within(bytes, b'0', 10);
        Ends { plain: quotes | backslashes | controls, digits }
    }

    /// Takes a byte that must come next.
    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() != byte {
            return Err(Fault::NotJson);
        }
        self.at += 1;
        Ok(())
    }

    /// Skips white space within the line, and returns the next byte.
    #[inline(always)]
    pub fn skip_spaces(&mut self) -> Result<u8, Fault> {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\r' => self.at += 1,
                byte => return Ok(byte),
            }
            self.check_interrupt()?;
        }
    }

    /// Skips a number or a constant.
    #[inline(always)]
    pub fn skip_atom(&mut self) -> Result<(), Fault> {
        let constant: &[u8] = match self.peek() {
            b'0'..=b'9' => return self.skip_number(),
            b't' => b"true",
            b'f' => b"false",
            b'n' => b"null",
            b'N' => b"NaN",
            b'I' => b"Infinity",
            b'-' if self.data.get(self.at + 1) == Some(&b'I') => b"-Infinity",
            _ => return self.skip_number(),
        };
        if !self.rest().starts_with(constant) {
            return Err(Fault::NotJson);
        }
        self.at += constant.len();
        Ok(())
    }

    #[inline(always)]
    fn skip_number(&mut self) -> Result<(), Fault> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.skip_digits()?;
        }
        // `json.loads` ends the number before a point or an exponent without digits, and then
        // refuses the rest, because neither may follow a value. So the result is the same.
        if self.peek() == b'.' {
            self.at += 1;
            self.skip_digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    /// Skips one digit or more.
    #[inline(always)]
    fn skip_digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        loop {
            let length = self.before_end(|ends| ends.digits, |byte| byte.is_ascii_digit());
            self.at += length;
            if length < 64 {
                return if self.at == start { Err(Fault::NotJson) } else { Ok(()) };
            }
            self.check_interrupt()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, Work};

    /// Skips the digits at an offset, after other digits whose end is found in the same block.
    struct SkipDigits<'a>(&'a [u8], usize);

    impl Work for SkipDigits<'_> {
        type Result = Option<usize>;

        fn run<I: Instructions>(self, isa: I) -> Option<usize> {
            let mut interrupt = Interrupt::never();
            let mut reader = Reader::new(isa, self.0, &mut interrupt);
            reader.skip_digits().ok()?;
            reader.at = self.1;
            reader.skip_digits().ok().map(|()| reader.at - self.1)
        }
    }

    #[test]
    fn digits_end_before_any_other_byte() {
        for offset in [2, 60, 63, 64, 65, 130] {
            for length in [0, 1, 8, 63, 64, 65, 128, 200] {
                for other in [b'/', b':', b'a', b',', 0, 0xB0, 0xFF] {
                    let data =
                        [&b"1,"[..], &vec![b'x'; offset], &vec![b'5'; length], &[other, b'7']];
                    let data = data.concat();
                    let expected = (length > 0).then_some(length);
                    for isa in Isa::all() {
                        assert_eq!(isa.run(SkipDigits(&data, offset + 2)), expected);
                        let at_end = SkipDigits(&data[..offset + 2 + length], offset + 2);
                        assert_eq!(isa.run(at_end), expected);
                    }
                }
            }
        }
    }
}
