use crate::interrupt::Interrupted;

/// Why training ended early. The object that did the work must not be used again.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    Interrupted,
    /// There are 2 GiB or more of distinct pieces, or of text without a safe split.
    TooLarge,
    /// A document is not UTF-8 from this offset on. `bytes` has up to four bytes from there.
    NotUtf8 {
        offset: u64,
        bytes: Vec<u8>,
    },
}

impl From<Interrupted> for Error {
    fn from(Interrupted: Interrupted) -> Error {
        Error::Interrupted
    }
}
