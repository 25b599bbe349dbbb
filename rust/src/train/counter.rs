//! Text that comes in parts, counted by several threads.
//!
//! Who calls hands in bytes. They are put together to blocks that end where a piece ends for
//! sure, and each block is counted as a whole, by whichever thread is free. Each thread has counts
//! of its own, so that none waits for another; at the end they are added up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Counts, Error, GoOn, ask};
use crate::scan::{Pattern, Pieces};

/// A block is handed on when it has so many bytes.
const BLOCK: usize = 1 << 18;

/// Blocks are shorter than this.
const MOST_BYTES: usize = 1 << 31;

/// How long it is waited for other threads before it is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);

/// Documents, or parts of them that begin and end where pieces do.
#[derive(Default)]
struct Block {
    text: String,
    /// Where the documents end.
    ends: Vec<usize>,
}

impl Block {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn count(&self, pattern: Pattern, counts: &mut Counts, go_on: GoOn<'_>) -> Result<(), Error> {
        let mut start = 0;
        for &end in &self.ends {
            counts.add_text(&self.text[start..end], pattern, go_on)?;
            start = end;
        }
        counts.add_text(&self.text[start..], pattern, go_on)
    }
}

/// Counts the pieces of documents that come in parts.
pub struct Counter {
    pattern: Pattern,
    threads: usize,
    /// The text that no thread has yet, and of it how far no cut needs to be looked for.
    block: Block,
    searched: usize,
    /// The beginning of a character of which the rest is still to come.
    partial: Vec<u8>,
    /// How many bytes of the document came before those in `partial`.
    offset: u64,
    /// What was counted by the thread that calls.
    counts: Counts,
    workers: Workers,
}

impl Counter {
    /// `threads` threads count, one at least: if it is one, that is the one that calls.
    pub fn new(pattern: Pattern, threads: usize) -> Counter {
        Counter {
            pattern,
            threads,
            block: Block::default(),
            searched: 0,
            partial: Vec::new(),
            offset: 0,
            counts: Counts::default(),
            workers: Workers::default(),
        }
    }

    /// Takes the next bytes of a document, in UTF-8; a character may go on in the bytes after.
    pub fn add(&mut self, bytes: &[u8], go_on: GoOn<'_>) -> Result<(), Error> {
        for bytes in bytes.chunks(BLOCK) {
            let bytes = self.complete_character(bytes)?;
            let (text, rest, is_bad) = match simdutf8::compat::from_utf8(bytes) {
                Ok(text) => (text, &[][..], false),
                Err(error) => {
                    let (text, rest) = bytes.split_at(error.valid_up_to());
                    let text = std::str::from_utf8(text).unwrap_or_default();
                    (text, rest, error.error_len().is_some())
                }
            };
            self.block.text.push_str(text);
            self.offset += text.len() as u64;
            if is_bad {
                return Err(self.not_utf8(rest));
            }
            self.partial.extend_from_slice(rest);
            if self.is_full(0) {
                self.hand_on(go_on)?;
            }
        }
        Ok(())
    }

    /// Completes the character that was begun with the first of these bytes; returns the others.
    fn complete_character<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        while !self.partial.is_empty()
            && let Some((&byte, rest)) = bytes.split_first()
        {
            self.partial.push(byte);
            match std::str::from_utf8(&self.partial) {
                Ok(character) => {
                    self.block.text.push_str(character);
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

    /// The document ends here: the next piece is not joined with the last.
    pub fn end_document(&mut self, go_on: GoOn<'_>) -> Result<(), Error> {
        if !self.partial.is_empty() {
            return Err(self.not_utf8(&[]));
        }
        self.offset = 0;
        self.block.ends.push(self.block.text.len());
        self.searched = self.block.text.len();
        if self.is_full(0) { self.hand_on(go_on) } else { Ok(()) }
    }

    /// Counts pieces that were cut elsewhere.
    pub fn add_piece(&mut self, piece: &[u8], count: u64) {
        self.counts.add_piece(piece, count);
    }

    /// Returns the counts of all documents, when all threads are ready.
    pub fn finish(mut self, go_on: GoOn<'_>) -> Result<Counts, Error> {
        self.block.count(self.pattern, &mut self.counts, go_on)?;
        if let Some(counts) = self.workers.finish(go_on)? {
            self.counts.absorb(counts, go_on)?;
        }
        Ok(self.counts)
    }

    /// Returns the error of bytes that do not go on with a character, or do not begin one.
    fn not_utf8(&self, bytes: &[u8]) -> Error {
        let bad = self.partial.iter().chain(bytes).copied().take(4).collect();
        Error::NotUtf8 { offset: self.offset, bytes: bad }
    }

    /// Returns whether the block is full with so many bytes more: then `add` may take its time.
    pub fn is_full(&self, more: usize) -> bool {
        self.block.text.len() + more >= BLOCK || self.block.ends.len() >= BLOCK
    }

    /// Hands the block on up to the last place where it can be cut, if there is one.
    fn hand_on(&mut self, go_on: GoOn<'_>) -> Result<(), Error> {
        let length = self.block.text.len();
        let last_end = self.block.ends.last().copied().unwrap_or(0);
        let pieces = Pieces::new(self.pattern, &self.block.text[last_end..]);
        let mut places = (self.searched.max(last_end)..length).rev();
        let cut = places.find(|at| pieces.is_safe_cut(at - last_end)).unwrap_or(last_end);
        self.searched = length - cut;
        if cut == 0 {
            return if length < MOST_BYTES { Ok(()) } else { Err(Error::TooLarge) };
        }
        let mut next = self.workers.empty_block();
        next.text.push_str(&self.block.text[cut..]);
        self.block.text.truncate(cut);
        let block = std::mem::replace(&mut self.block, next);
        let block = if self.threads == 1 {
            Some(block)
        } else {
            self.workers.hand_on(block, self.pattern, self.threads, go_on)?
        };
        if let Some(block) = block {
            block.count(self.pattern, &mut self.counts, go_on)?;
            self.workers.recycle(block);
        }
        Ok(())
    }
}

/// Threads that count blocks. They are started one after the other, when there is work for more.
#[derive(Default)]
struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something changed for the workers: there is a block, or there will be no more.
    for_workers: Condvar,
    /// Something changed for who calls: a block was taken, or a worker has ended.
    for_caller: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Block>,
    empty: Vec<Block>,
    is_last: bool,
    running: usize,
    /// Of all workers that have ended.
    counts: Option<Counts>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, as one that calls, as long as it must.
    fn wait_while(
        &self,
        must_wait: impl Fn(&State) -> bool,
        go_on: GoOn<'_>,
    ) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        while must_wait(&state) {
            let waited = self.for_caller.wait_timeout(state, PATIENCE);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() {
                drop(state);
                ask(go_on)?;
                state = self.lock();
            }
        }
        Ok(state)
    }

    /// Waits, as a worker, for a block; None if there will be no more.
    fn next_block(&self) -> Option<Block> {
        let state = self.lock();
        let must_wait = |state: &mut State| state.waiting.is_empty() && !state.is_last;
        let waited = self.for_workers.wait_while(state, must_wait);
        let block = waited.unwrap_or_else(PoisonError::into_inner).waiting.pop_front();
        self.for_caller.notify_one();
        block
    }

    /// What a worker does.
    fn work(&self, pattern: Pattern) -> Result<(), Error> {
        let go_on = &mut || !self.is_stopped.load(Ordering::Relaxed);
        let mut counts = Counts::default();
        while let Some(mut block) = self.next_block() {
            block.count(pattern, &mut counts, go_on)?;
            block.clear();
            self.lock().empty.push(block);
        }
        loop {
            let mut state = self.lock();
            let Some(others) = state.counts.take() else {
                state.counts = Some(counts);
                return Ok(());
            };
            drop(state);
            counts.absorb(others, go_on)?;
        }
    }
}

/// One of the workers that run, as long as this is there.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.for_caller.notify_one();
    }
}

impl Workers {
    /// Gives a block to the workers, which are at most so many. Returns it if there can be none.
    fn hand_on(
        &mut self,
        block: Block,
        pattern: Pattern,
        most: usize,
        go_on: GoOn<'_>,
    ) -> Result<Option<Block>, Error> {
        if self.threads.len() < most && (self.threads.is_empty() || self.are_busy()) {
            self.start_one(pattern);
        }
        if self.threads.is_empty() {
            return Ok(Some(block));
        }
        let are_enough = |state: &State| state.waiting.len() > self.threads.len();
        self.shared.wait_while(are_enough, go_on)?.waiting.push_back(block);
        self.shared.for_workers.notify_one();
        Ok(None)
    }

    fn are_busy(&self) -> bool {
        !self.shared.lock().waiting.is_empty()
    }

    /// Starts a worker, unless the system has no thread to give.
    fn start_one(&mut self, pattern: Pattern) {
        self.shared.lock().running += 1;
        let running = Running(Arc::clone(&self.shared));
        let work = move || {
            // Why it ended early knows who stopped it.
            let _ = running.0.work(pattern);
        };
        self.threads.extend(thread::Builder::new().name("bpetite".into()).spawn(work));
    }

    /// Waits until all blocks are counted; returns the counts, if there were any workers.
    fn finish(&mut self, go_on: GoOn<'_>) -> Result<Option<Counts>, Error> {
        self.shared.lock().is_last = true;
        self.shared.for_workers.notify_all();
        drop(self.shared.wait_while(|state| state.running > 0, go_on)?);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(self.shared.lock().counts.take())
    }

    fn empty_block(&self) -> Block {
        self.shared.lock().empty.pop().unwrap_or_default()
    }

    fn recycle(&self, mut block: Block) {
        block.clear();
        self.shared.lock().empty.push(block);
    }
}

impl Drop for Workers {
    /// Stops the workers, if they still run, and waits for none: each lets go of what it has.
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

    const PATTERNS: [Pattern; 4] = [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k, Pattern::Qwen2];

    fn pieces(counts: &Counts) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let result = counts.for_each(&mut || true, |piece, count| {
            all.insert(String::from_utf8_lossy(piece).into_owned(), count);
        });
        assert_eq!(result, Ok(()));
        all
    }

    fn pieces_of(pattern: Pattern, text: &str) -> BTreeMap<String, u64> {
        let mut counts = Counts::default();
        assert_eq!(counts.add_text(text, pattern, &mut || true), Ok(()));
        pieces(&counts)
    }

    fn pieces_of_parts(pattern: Pattern, threads: usize, parts: &[&[u8]]) -> BTreeMap<String, u64> {
        let mut counter = Counter::new(pattern, threads);
        for part in parts {
            assert_eq!(counter.add(part, &mut || true), Ok(()));
        }
        assert_eq!(counter.end_document(&mut || true), Ok(()));
        pieces(&counter.finish(&mut || true).expect("nobody stops it"))
    }

    type Parts = &'static [&'static [u8]];

    const TEXT: &str = "it's  a\u{2003}你好 🙂🙂\r\n\n /x//\n/ 12345 !!\n\n  a's ";

    #[test]
    fn a_text_cut_anywhere_has_the_same_pieces() {
        for pattern in PATTERNS {
            let whole = pieces_of(pattern, TEXT);
            for at in 0..TEXT.len() {
                let (head, tail) = TEXT.as_bytes().split_at(at);
                assert_eq!(pieces_of_parts(pattern, 1, &[head, tail]), whole, "at {at}");
            }
            let bytes: Vec<&[u8]> = TEXT.as_bytes().chunks(1).collect();
            assert_eq!(pieces_of_parts(pattern, 1, &bytes), whole);
        }
    }

    #[test]
    fn any_number_of_threads_counts_the_same() {
        let text = TEXT.repeat(5 * BLOCK / TEXT.len());
        let parts: Vec<&[u8]> = text.as_bytes().chunks(99_991).collect();
        for pattern in PATTERNS {
            let whole = pieces_of(pattern, &text);
            for threads in [1, 2, 5, usize::MAX] {
                assert_eq!(pieces_of_parts(pattern, threads, &parts), whole);
            }
        }
    }

    #[test]
    fn a_text_without_a_place_to_cut_is_counted_whole() {
        let text = format!("{} {}", "é".repeat(2 * BLOCK), "你".repeat(BLOCK));
        let parts: Vec<&[u8]> = text.as_bytes().chunks(1001).collect();
        for threads in [1, 3] {
            let whole = pieces_of(Pattern::Gpt2, &text);
            assert_eq!(pieces_of_parts(Pattern::Gpt2, threads, &parts), whole);
        }
    }

    #[test]
    fn no_piece_spans_two_documents() {
        let mut counter = Counter::new(Pattern::Gpt2, 2);
        for document in ["a".repeat(BLOCK), String::new(), "a".into(), "a b".into()] {
            assert_eq!(counter.add(document.as_bytes(), &mut || true), Ok(()));
            assert_eq!(counter.end_document(&mut || true), Ok(()));
        }
        let counts = counter.finish(&mut || true).expect("nobody stops it");
        let expected = [("a".repeat(BLOCK), 1), ("a".into(), 2), (" b".into(), 1)];
        assert_eq!(pieces(&counts), BTreeMap::from(expected));
    }

    #[test]
    fn what_is_not_utf8_is_told_with_its_offset_in_the_document() {
        let cases: [(Parts, u64, &[u8]); 6] = [
            (&[b"ab\xff"], 2, b"\xff"),
            (&[b"ab\xc3", b"(xyz"], 2, b"\xc3(xy"),
            (&[b"\xe4", b"\xbd", b"a"], 0, b"\xe4\xbda"),
            (&[b"ab\xed\xa0\x80abc"], 2, b"\xed\xa0\x80a"),
            (&[b"ab", b"c\xf0\x9f\x99"], 3, b"\xf0\x9f\x99"),
            (&[b"\xc3\xa9", b"\xc3", b"\xa9\x80"], 4, b"\x80"),
        ];
        for (parts, offset, bytes) in cases {
            let mut counter = Counter::new(Pattern::Gpt2, 1);
            assert_eq!(counter.add("é".as_bytes(), &mut || true), Ok(()));
            assert_eq!(counter.end_document(&mut || true), Ok(()));
            let result = parts
                .iter()
                .try_for_each(|part| counter.add(part, &mut || true))
                .and_then(|()| counter.end_document(&mut || true));
            assert_eq!(result, Err(Error::NotUtf8 { offset, bytes: bytes.to_vec() }));
        }
    }

    #[test]
    fn who_says_no_stops_all_threads() {
        let mut counter = Counter::new(Pattern::Gpt2, 3);
        let text = "word ".repeat(2 * BLOCK);
        assert_eq!(counter.add(text.as_bytes(), &mut || true), Ok(()));
        let shared = Arc::downgrade(&counter.workers.shared);
        assert_eq!(counter.finish(&mut || false).err(), Some(Error::Stopped));
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
