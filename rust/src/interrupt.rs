//! Interrupt checks in long work.

/// The caller has interrupted the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// How much work, in bytes of text or the like, `advance` lets pass between two checks.
pub const INTERRUPT_CHECK_BYTES: usize = 1 << 18;

/// Long work calls `check` or `advance` every few milliseconds.
pub struct Interrupt<'a> {
    is_interrupted: Option<&'a mut dyn FnMut() -> bool>,
    unchecked_bytes: usize,
}

impl<'a> Interrupt<'a> {
    /// `is_interrupted` returns whether to stop. Once it has returned true, it must go on doing so.
    pub fn new(is_interrupted: &'a mut dyn FnMut() -> bool) -> Interrupt<'a> {
        Interrupt { is_interrupted: Some(is_interrupted), unchecked_bytes: 0 }
    }

    /// Returns an interrupt that never comes.
    pub fn never() -> Interrupt<'static> {
        Interrupt { is_interrupted: None, unchecked_bytes: 0 }
    }

    /// Returns an error if the caller has interrupted the work.
    pub fn check(&mut self) -> Result<(), Interrupted> {
        self.unchecked_bytes = 0;
        let is_interrupted = self.is_interrupted.as_mut().is_some_and(|callback| callback());
        if is_interrupted { Err(Interrupted) } else { Ok(()) }
    }

    /// Counts work, and checks once for each `INTERRUPT_CHECK_BYTES`.
    #[inline(always)]
    pub fn advance(&mut self, bytes: usize) -> Result<(), Interrupted> {
        self.unchecked_bytes += bytes;
        if self.unchecked_bytes < INTERRUPT_CHECK_BYTES { Ok(()) } else { self.check() }
    }
}
