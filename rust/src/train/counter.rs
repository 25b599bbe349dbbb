//! Counts the pieces of text that arrives in parts, by several threads.
//!
//! The caller hands in bytes, which are joined to blocks that end at a safe split. A free thread
//! counts each block into counts of its own, so that counting needs no lock. At the end the counts
//! are added up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::counts::Counts;
use super::error::Error;
use crate::interrupt::Interrupt;
use crate::mem::growth::{THREAD_BYTES, granted, has_room, push};
use crate::split::{self, Pieces, Splitter};

/// A block of at least this many bytes, or documents, is handed to a worker.
const BLOCK_BYTES: usize = 1 << 18;

/// A block must be shorter than this.
const MAX_BLOCK_BYTES: usize = 1 << 31;

/// How long the caller waits for other threads before it checks for an interrupt.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Documents, or parts of documents between safe splits.
#[derive(Default)]
struct Block {
    text: String,
    /// The offsets of the ends of documents.
    ends: Vec<usize>,
}

impl Block {
    fn push(&mut self, text: &str) {
        granted(self.text.try_reserve(text.len()));
        self.text.push_str(text);
    }

    fn count(
        &self,
        splitter: &Splitter,
        counts: &mut Counts,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<(), Error> {
        let mut start = 0;
        for &end in &self.ends {
            counts.add_text(&self.text[start..end], splitter, interrupt)?;
            start = end;
        }
        counts.add_text(&self.text[start..], splitter, interrupt)
    }
}

/// Counts the pieces of documents that come in parts.
pub struct Counter {
    splitter: Splitter,
    threads: usize,
    /// The text that is not handed on yet.
    block: Block,
    /// The offset in `block` up to which it is known to have no safe split.
    searched: usize,
    /// The first bytes of an unfinished character.
    partial: Vec<u8>,
    /// The offset of `partial` in the document.
    offset: u64,
    /// The counts of the calling thread.
    counts: Counts,
    workers: Workers,
}

impl Counter {
    /// Counts by `threads` threads, at least one. A single thread is the calling thread.
    pub fn new(splitter: Splitter, threads: usize) -> Counter {
        split::prepare();
        Counter {
            splitter,
            threads,
            block: Block::default(),
            searched: 0,
            partial: Vec::new(),
            offset: 0,
            counts: Counts::default(),
            workers: Workers::default(),
        }
    }

    /// Takes the next bytes of a document, in UTF-8. They may end inside a character.
    pub fn add(&mut self, bytes: &[u8], interrupt: &mut Interrupt<'_>) -> Result<(), Error> {
        for bytes in bytes.chunks(BLOCK_BYTES) {
            let bytes = self.complete_character(bytes)?;
            let (text, rest, is_bad) = match simdutf8::compat::from_utf8(bytes) {
                Ok(text) => (text, &[][..], false),
                Err(error) => {
                    let (text, rest) = bytes.split_at(error.valid_up_to());
                    let text = std::str::from_utf8(text).unwrap_or_default();
                    (text, rest, error.error_len().is_some())
                }
            };
            self.block.push(text);
            self.offset += text.len() as u64;
            if is_bad {
                return Err(self.not_utf8(rest));
            }
            self.partial.extend_from_slice(rest);
            if self.is_full(0) {
                self.hand_on(interrupt)?;
            }
        }
        Ok(())
    }

    /// Completes the unfinished character with the first bytes; returns the others.
    fn complete_character<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        while !self.partial.is_empty()
            && let Some((&byte, rest)) = bytes.split_first()
        {
            self.partial.push(byte);
            match std::str::from_utf8(&self.partial) {
                Ok(character) => {
                    self.block.push(character);
                    self.offset += character.len() as u64;
                    self.partial.clear();
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(self.not_utf8(rest)),
            }
            bytes = rest;
        }
        Ok(bytes)
    }

    /// Ends the document, so that no piece crosses its end.
    pub fn end_document(&mut self, interrupt: &mut Interrupt<'_>) -> Result<(), Error> {
        if !self.partial.is_empty() {
            return Err(self.not_utf8(&[]));
        }
        self.offset = 0;
        push(&mut self.block.ends, self.block.text.len());
        self.searched = self.block.text.len();
        if self.is_full(0) { self.hand_on(interrupt) } else { Ok(()) }
    }

    /// Returns the counts of all documents, after all threads have ended.
    pub fn finish(mut self, interrupt: &mut Interrupt<'_>) -> Result<Counts, Error> {
        self.block.count(&self.splitter, &mut self.counts, interrupt)?;
        interrupt.check()?; // the workers may end before the next check
        if let Some(others) = self.workers.finish(interrupt)? {
            self.counts.absorb(others, interrupt)?;
        }
        Ok(self.counts)
    }

    /// Returns the error for `partial` and the bytes after it.
    fn not_utf8(&self, bytes: &[u8]) -> Error {
        let bad = self.partial.iter().chain(bytes).copied().take(4).collect();
        Error::NotUtf8 { offset: self.offset, bytes: bad }
    }

    /// Returns whether `more` bytes fill the block. If so, `add` may take long.
    pub fn is_full(&self, more: usize) -> bool {
        self.block.text.len() + more >= BLOCK_BYTES || self.block.ends.len() >= BLOCK_BYTES
    }

    /// Hands on the block up to its last safe split, if it has one.
    fn hand_on(&mut self, interrupt: &mut Interrupt<'_>) -> Result<(), Error> {
        let length = self.block.text.len();
        let last_end = self.block.ends.last().copied().unwrap_or(0);
        let pieces = Pieces::new(&self.splitter, &self.block.text[last_end..]);
        let mut offsets = (self.searched.max(last_end)..length).rev();
        let end = offsets.find(|at| pieces.is_safe_split(at - last_end)).unwrap_or(last_end);
        self.searched = length - end;
        if end == 0 {
            return if length < MAX_BLOCK_BYTES { Ok(()) } else { Err(Error::TooLarge) };
        }
        let mut next = self.workers.shared.lock().empty.pop().unwrap_or_default();
        next.push(&self.block.text[end..]);
        self.block.text.truncate(end);
        let block = std::mem::replace(&mut self.block, next);
        let block = if self.threads == 1 {
            Some(block)
        } else {
            self.workers.hand_on(block, &self.splitter, self.threads, interrupt)?
        };
        if let Some(block) = block {
            block.count(&self.splitter, &mut self.counts, interrupt)?;
            self.workers.shared.recycle(block);
        }
        Ok(())
    }
}

/// Threads that count blocks. Another one starts if a block is still waiting when the next comes.
#[derive(Default)]
struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the workers: a block is waiting, or no more blocks will come.
    for_workers: Condvar,
    /// Wakes the caller: a block was taken, or a worker has ended.
    for_caller: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Block>,
    empty: Vec<Block>,
    is_last: bool,
    running: usize,
    /// The counts of all workers that have ended.
    counts: Option<Counts>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recycle(&self, mut block: Block) {
        block.text.clear();
        block.ends.clear();
        self.lock().empty.push(block);
    }

    /// Waits, as the caller, while `must_wait` returns true.
    fn wait_while(
        &self,
        must_wait: impl Fn(&State) -> bool,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        while must_wait(&state) {
            let waited = self.for_caller.wait_timeout(state, INTERRUPT_CHECK_INTERVAL);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                drop(state);
                interrupt.check()?;
                state = self.lock();
            }
        }
        Ok(state)
    }

    /// Waits, as a worker, for a block; returns None after the last one.
    fn next_block(&self) -> Option<Block> {
        let state = self.lock();
        let must_wait = |state: &mut State| state.waiting.is_empty() && !state.is_last;
        let waited = self.for_workers.wait_while(state, must_wait);
        let block = waited.unwrap_or_else(PoisonError::into_inner).waiting.pop_front();
        self.for_caller.notify_one();
        block
    }

    fn work(&self, splitter: &Splitter) -> Result<(), Error> {
        let mut is_stopped = || self.is_stopped.load(Ordering::Relaxed);
        let interrupt = &mut Interrupt::new(&mut is_stopped);
        let mut counts = Counts::default();
        while let Some(block) = self.next_block() {
            block.count(splitter, &mut counts, interrupt)?;
            self.recycle(block);
        }
        loop {
            let mut state = self.lock();
            let Some(others) = state.counts.take() else {
                state.counts = Some(counts);
                return Ok(());
            };
            drop(state);
            counts.absorb(others, interrupt)?;
        }
    }
}

/// Keeps a worker in the number of running workers until it is dropped.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.is_stopped.store(true, Ordering::Relaxed);
        }
        self.0.lock().running -= 1;
        self.0.for_caller.notify_one();
    }
}

impl Workers {
    /// Gives a block to at most `max_threads` workers. Returns it if no thread could be started.
    fn hand_on(
        &mut self,
        block: Block,
        splitter: &Splitter,
        max_threads: usize,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Option<Block>, Error> {
        let are_busy = || !self.shared.lock().waiting.is_empty();
        if self.threads.len() < max_threads && (self.threads.is_empty() || are_busy()) {
            self.start_one(splitter);
        }
        if self.threads.is_empty() {
            return Ok(Some(block));
        }
        let is_stopped = || self.shared.is_stopped.load(Ordering::Relaxed);
        let are_enough = |state: &State| !is_stopped() && state.waiting.len() > self.threads.len();
        self.shared.wait_while(are_enough, interrupt)?.waiting.push_back(block);
        if is_stopped() {
            self.finish(interrupt)?; // unwinds with the panic of the worker
        }
        self.shared.for_workers.notify_one();
        Ok(None)
    }

    /// Starts a worker, unless the system refuses.
    fn start_one(&mut self, splitter: &Splitter) {
        if !has_room(THREAD_BYTES) {
            return;
        }
        self.shared.lock().running += 1;
        let running = Running(Arc::clone(&self.shared));
        // The error may be dropped, because the caller stopped the worker and knows the cause.
        let splitter = splitter.clone();
        let work = move || _ = running.0.work(&splitter);
        self.threads.extend(thread::Builder::new().name("bpetite".into()).spawn(work));
    }

    /// Waits until all blocks are counted; returns the counts, if there were any workers.
    fn finish(&mut self, interrupt: &mut Interrupt<'_>) -> Result<Option<Counts>, Error> {
        self.shared.lock().is_last = true;
        self.shared.for_workers.notify_all();
        drop(self.shared.wait_while(|state| state.running > 0, interrupt)?);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(self.shared.lock().counts.take())
    }
}

impl Drop for Workers {
    /// Stops the running workers without waiting for them, since each frees its own memory.
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        self.shared.lock().is_last = true;
        self.shared.for_workers.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::split::examples::gpt2;
    use crate::train::record::CountedPieces;

    fn pieces(counts: &Counts) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let result = counts.for_each(&mut Interrupt::never(), |piece, count| {
            all.insert(String::from_utf8_lossy(piece).into_owned(), count);
        });
        assert_eq!(result, Ok(()));
        all
    }

    fn pieces_of(text: &str) -> BTreeMap<String, u64> {
        let mut counts = Counts::default();
        assert_eq!(counts.add_text(text, &gpt2(), &mut Interrupt::never()), Ok(()));
        pieces(&counts)
    }

    fn pieces_of_parts(parts: &[&[u8]]) -> BTreeMap<String, u64> {
        let mut counter = Counter::new(gpt2(), 1);
        for part in parts {
            assert_eq!(counter.add(part, &mut Interrupt::never()), Ok(()));
        }
        assert_eq!(counter.end_document(&mut Interrupt::never()), Ok(()));
        pieces(&counter.finish(&mut Interrupt::never()).expect("no interrupt"))
    }

    const TEXT: &str = "it's  a\u{2003}你好 🙂🙂\r\n\n /x//\n/ 12345 !!\n\n  a's ";

    #[test]
    fn cuts_inside_a_document_leave_its_pieces() {
        let whole = pieces_of(TEXT);
        for at in 0..TEXT.len() {
            let (head, tail) = TEXT.as_bytes().split_at(at);
            assert_eq!(pieces_of_parts(&[head, tail]), whole, "at {at}");
        }
        let bytes: Vec<&[u8]> = TEXT.as_bytes().chunks(1).collect();
        assert_eq!(pieces_of_parts(&bytes), whole);
    }

    #[test]
    fn an_interrupt_stops_all_threads() {
        let mut counter = Counter::new(gpt2(), 3);
        let text = "word ".repeat(2 * BLOCK_BYTES);
        assert_eq!(counter.add(text.as_bytes(), &mut Interrupt::never()), Ok(()));
        let shared = Arc::downgrade(&counter.workers.shared);
        let result = counter.finish(&mut Interrupt::new(&mut || true));
        assert_eq!(result.err(), Some(Error::Interrupted));
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
