//! *Settled* characters: normal form C leaves each as it is, and joins none with a character
//! before.
//!
//! Most texts have few others, so Python normalizes only the parts around these.

use super::unicode::decode;
use crate::interrupt::{Interrupt, Interrupted};
use crate::mem::growth::push;
use crate::simd::{Block, Instructions, Isa, Work};

/// Ranges of settled characters; ASCII is settled too. They have combining class 0, are in normal
/// form, and are never the second of two characters that normal form C makes one.
const RANGES: [(u32, u32); 21] = [
    (0x80, 0x2FF),      // Latin
    (0x388, 0x482),     // Greek and Cyrillic
    (0x48A, 0x590),     // Cyrillic and Armenian
    (0x5D0, 0x5EA),     // Hebrew letters
    (0x620, 0x64A),     // Arabic letters
    (0x660, 0x66F),     // Arabic digits
    (0x671, 0x6D5),     // more Arabic letters
    (0x1E00, 0x1EFF),   // Latin, as in Vietnamese
    (0x2002, 0x20CF),   // punctuation
    (0x2100, 0x2125),   // symbols
    (0x212C, 0x2328),   // arrows and mathematics
    (0x232B, 0x2ADB),   // boxes, shapes and mathematics
    (0x2E00, 0x3029),   // radicals and Chinese punctuation
    (0x3030, 0x3098),   // Hiragana
    (0x309B, 0x9FFF),   // Katakana and Chinese
    (0xAC00, 0xD7A3),   // Korean syllables
    (0xE000, 0xF8FF),   // private use
    (0xFE00, 0xFE1F),   // variation selectors
    (0xFE30, 0xFFFD),   // full and half width
    (0x1D300, 0x1D7FF), // mathematical letters
    (0x1F000, 0x2F7FF), // emoji and Chinese
];

const COUNT: usize = 0x30000;

/// A bit for each code point.
static BITS: [u64; COUNT / 64] = {
    let mut bits = [0; COUNT / 64];
    let mut i = 0;
    while i < RANGES.len() {
        let (mut code, last) = RANGES[i];
        while code <= last {
            bits[code as usize / 64] |= 1 << (code % 64);
            code += 1;
        }
        i += 1;
    }
    bits
};

/// 1 for the first bytes of which some characters are not settled, else 0.
static UNSETTLED: [u8; 256] = {
    let mut unsettled = [0; 256];
    let mut byte = 0xC0;
    while byte < 256 {
        let (first, count) = match byte {
            0xC2..=0xDF => ((byte & 0x1F) << 6, 1 << 6),
            0xE1..0xF0 => ((byte & 0x0F) << 12, 1 << 12),
            _ => (0, 0),
        };
        let mut code = first;
        while code < first + count && BITS[code / 64] >> (code % 64) & 1 == 1 {
            code += 1;
        }
        unsettled[byte] = (count == 0 || code < first + count) as u8;
        byte += 1;
    }
    unsettled
};

/// Returns the start of the first block with a character that may not be settled, or of the last
/// block, which may be shorter. Stops after `MAX_SKIPPED` bytes.
struct SkipSettled<'a> {
    text: &'a [u8],
    at: usize,
}

const MAX_SKIPPED: usize = 1 << 16;

impl Work for SkipSettled<'_> {
    type Result = usize;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> usize {
        let SkipSettled { text, mut at } = self;
        let last = at + MAX_SKIPPED;
        let mut unsettled: Block = [0; 64];
        while let Some(block) = text[at..].first_chunk()
            && at < last
        {
            isa.look_up(block, &UNSETTLED, &mut unsettled);
            if unsettled != [0; 64] {
                break;
            }
            at += block.len();
        }
        at
    }
}

/// Parts with fewer bytes between them are one, since a part costs as much as many characters.
const MIN_GAP: usize = 512;

/// Returns the bounds of the parts of UTF-8 that have unsettled characters. Normal form C joins no
/// part with the text around it.
pub fn unsettled(
    text: &[u8],
    interrupt: &mut Interrupt<'_>,
) -> Result<Vec<(usize, usize)>, Interrupted> {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    // The start of a part that has not ended.
    let (mut open, mut at) = (None, 0);
    while at < text.len() {
        let start = at;
        if open.is_none() {
            at = Isa::get().run(SkipSettled { text, at });
        }
        let end = text.len().min(at + 64);
        interrupt.advance(end - start)?;
        while at < end {
            let (code, length) = match text[at] {
                // ASCII, or the rest of a character of the block before
                ..0xC0 => (RANGES[0].0, 1),
                _ => decode(text, at),
            };
            let bits = BITS.get(code as usize / 64).copied().unwrap_or(0);
            match (open, bits >> (code % 64) & 1) {
                // The character before may join with this one.
                (None, 0) => open = Some(start_of_last(&text[..at])),
                (Some(start), 1) => {
                    close(&mut parts, start, at);
                    open = None;
                }
                _ => {}
            }
            at += length;
        }
    }
    if let Some(start) = open {
        close(&mut parts, start, text.len());
    }
    Ok(parts)
}

/// Returns where the last character of UTF-8 begins.
fn start_of_last(text: &[u8]) -> usize {
    text.iter().rposition(|byte| byte & 0xC0 != 0x80).unwrap_or(0)
}

fn close(parts: &mut Vec<(usize, usize)>, start: usize, end: usize) {
    match parts.last_mut() {
        Some(last) if start < last.1 + MIN_GAP => last.1 = end,
        _ => push(parts, (start, end)),
    }
}
