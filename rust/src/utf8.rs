//! Validation of long UTF-8.

use crate::interrupt::{INTERRUPT_CHECK_BYTES as CHUNK_BYTES, Interrupt, Interrupted};

pub fn is_utf8(mut bytes: &[u8], interrupt: &mut Interrupt<'_>) -> Result<bool, Interrupted> {
    while bytes.len() > CHUNK_BYTES {
        interrupt.check()?;
        // A character that crosses the end of the chunk belongs to the next chunk.
        let is_first = |&at: &usize| bytes[at] & 0xC0 != 0x80;
        let Some(end) = (CHUNK_BYTES - 3..=CHUNK_BYTES).rev().find(is_first) else {
            return Ok(false);
        };
        if simdutf8::basic::from_utf8(&bytes[..end]).is_err() {
            return Ok(false);
        }
        bytes = &bytes[end..];
    }
    Ok(simdutf8::basic::from_utf8(bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_may_lie_across_chunks() {
        let mut interrupt = Interrupt::never();
        for before in 0..4 {
            let mut bytes = vec![b'a'; before];
            bytes.extend("\u{1f642}".repeat(CHUNK_BYTES / 2).as_bytes());
            assert_eq!(is_utf8(&bytes, &mut interrupt), Ok(true));
            for wrong in [CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, bytes.len() - 1] {
                let right = std::mem::replace(&mut bytes[wrong], 0xFF);
                assert_eq!(is_utf8(&bytes, &mut interrupt), Ok(false));
                bytes[wrong] = right;
            }
        }
        let continuation_bytes = vec![0x80; CHUNK_BYTES + 9];
        assert_eq!(is_utf8(&continuation_bytes, &mut interrupt), Ok(false));
    }
}
