//! The pieces of a batch to ids, from the cache or by merging.

use std::sync::{Arc, OnceLock};

use super::parts::TokenLengths;
use super::sink::{IdList, Sink};
use crate::cache::{Cache, MAX_FEW_CJK_RUNS, MergePiece, Misses, Packed};
use crate::interrupt::Interrupt;
use crate::merge::cjk::{CjkSplitter, TokenNeighbours};
use crate::merge::words::{WordNeighbours, WordSplitter, Words};
use crate::merge::{MergeScratch, MergeTable};
use crate::simd::{Instructions, Work};
use crate::types::{BATCH, TokenIndex};

/// The most bytes of a batch whose other pieces are looked up before its few CJK runs. The ids of
/// those pieces stay in memory until the last CJK run is done.
const MAX_FEW_CJK_RUNS_BYTES: usize = 1 << 14;

/// The memory that one thread works in. Later calls reuse it, with all pieces in its cache.
pub struct Context {
    pub(super) cache: Cache,
    pub(super) scratch: MergeScratch,
    /// The start of each piece of a batch, and the end of the last.
    pub(super) bounds: [u32; BATCH + 1],
    pub(super) packed: [Packed; BATCH],
    pub(super) misses: Misses,
    /// Room for the ids of a text, for callers without their own.
    pub ids: IdList<u32>,
}

impl Default for Context {
    fn default() -> Context {
        Context {
            cache: Cache::default(),
            scratch: MergeScratch::default(),
            bounds: [0; BATCH + 1],
            packed: [Packed::default(); BATCH],
            misses: Misses::default(),
            ids: IdList::default(),
        }
    }
}

/// The memory, the target, and the interrupts of one call. An interrupt leaves the ids incomplete.
pub struct Job<'a, 'i, S> {
    pub context: &'a mut Context,
    pub sink: &'a mut S,
    pub interrupt: &'a mut Interrupt<'i>,
}

/// Turns pieces into ids.
pub struct PieceEncoder {
    pub merges: Arc<MergeTable>,
    pub id_of: Arc<[u32]>,
    /// From this token on, each token equals its id.
    first_equal: TokenIndex,
    /// Made on first use; None if pieces must not be split.
    neighbours: OnceLock<Option<TokenNeighbours>>,
    /// Made on first use; None if pieces must not be split.
    words: OnceLock<Option<WordNeighbours>>,
    /// Made on first use.
    lengths: OnceLock<TokenLengths>,
}

impl PieceEncoder {
    pub fn new(merges: Arc<MergeTable>, id_of: Arc<[u32]>) -> PieceEncoder {
        let equal = id_of.iter().enumerate().rev().take_while(|&(token, &id)| token as u32 == id);
        let first_equal = (id_of.len() - equal.count()) as TokenIndex;
        let (neighbours, words, lengths) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        PieceEncoder { merges, id_of, first_equal, neighbours, words, lengths }
    }

    /// Returns the lengths of tokens.
    pub fn lengths(&self) -> &TokenLengths {
        self.lengths.get().unwrap_or_else(|| {
            // Made before the lock is taken: a forked process could wait for ever for a thread that
            // it does not have.
            let lengths = TokenLengths::new(&self.merges, &self.id_of);
            self.lengths.get_or_init(|| lengths)
        })
    }

    /// Returns the neighbours by which CJK runs are split, if pieces may be split.
    fn neighbours(&self) -> Option<&TokenNeighbours> {
        if self.neighbours.get().is_none() {
            let neighbours = self.merges.tokens_to_split_by().map(|tokens| {
                TokenNeighbours::new((0..tokens.len() as TokenIndex).map(|token| tokens.get(token)))
            });
            // `get_or_init` could wait for a thread that a forked process does not have.
            let _ = self.neighbours.set(neighbours);
        }
        self.neighbours.get()?.as_ref()
    }

    /// Returns the neighbours by which pieces of several words are split, if pieces may be split.
    fn word_neighbours(&self) -> Option<&WordNeighbours> {
        if self.words.get().is_none() {
            let _ = self.words.set(WordNeighbours::new(&self.merges, &self.id_of));
        }
        self.words.get()?.as_ref()
    }
}

/// Merges the pieces that the cache does not have.
struct CacheMiss<'a, 'i> {
    encoder: &'a PieceEncoder,
    scratch: &'a mut MergeScratch,
    /// Checked only for pieces that the cache does not keep, so it never has incomplete ids.
    interrupt: &'a mut Interrupt<'i>,
}

impl MergePiece for CacheMiss<'_, '_> {
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
        let PieceEncoder { merges, id_of, first_equal, .. } = self.encoder;
        let tokens = merges.merge(piece, self.scratch, self.interrupt);
        let id =
            |&token: &TokenIndex| if token < *first_equal { id_of[token as usize] } else { token };
        ids.extend(tokens.iter().map(id));
    }
}

/// Gives the ids of the first `count` pieces in the context to the sink.
pub struct EncodePieces<'a, 'j, 'i, S> {
    pub encoder: &'a PieceEncoder,
    pub text: &'a [u8],
    pub count: usize,
    /// Whether a piece may have several words.
    pub may_have_words: bool,
    pub job: &'a mut Job<'j, 'i, S>,
}

impl<S: Sink> Work for EncodePieces<'_, '_, '_, S> {
    type Result = ();

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) {
        let EncodePieces { encoder, text, count, may_have_words, job } = self;
        let (interrupt, sink) = (&mut *job.interrupt, &mut *job.sink);
        let Context { cache, scratch, bounds, packed, misses, .. } = job.context;
        let bounds = &bounds[..=count];
        let mut merger = CacheMiss { encoder, scratch, interrupt };
        if may_have_words
            && let (Some(neighbours), Some(words)) =
                (encoder.neighbours(), encoder.word_neighbours())
        {
            let splitter = WordSplitter::new(neighbours, text, bounds);
            Parts { cache, misses, merger, sink }.take_words(isa, splitter, words, packed);
            return;
        }
        cache.look_up_first_level(isa, text, bounds, &mut packed[..count], misses);
        cache.sort_longer(text, bounds, false, misses);
        let mut neighbours = None;
        if !misses.cjk_runs.all().is_empty() {
            neighbours = encoder.neighbours();
            if neighbours.is_none() {
                cache.sort_longer(text, bounds, true, misses);
            }
        }
        let Some(neighbours) = neighbours else {
            cache.look_up_tables(text, bounds, &mut packed[..count], misses, &mut merger);
            sink.take_packed(&packed[..count], bounds, cache);
            return;
        };
        let length = (bounds[count] - bounds[0]) as usize;
        if misses.cjk_runs.all().len() > MAX_FEW_CJK_RUNS || length > MAX_FEW_CJK_RUNS_BYTES {
            // All pieces are looked up again, among the parts.
            let splitter = CjkSplitter::new(neighbours, text, bounds);
            Parts { cache, misses, merger, sink }.take(isa, splitter, packed, true);
            return;
        }
        cache.look_up_tables(text, bounds, &mut packed[..count], misses, &mut merger);
        let (mut runs, run_count) = ([0; MAX_FEW_CJK_RUNS], misses.cjk_runs.all().len());
        runs[..run_count].copy_from_slice(misses.cjk_runs.all());
        let mut parts = Parts { cache, misses, merger, sink };
        let packed_parts = &mut [Packed::default(); BATCH];
        let mut taken = 0;
        for run in runs[..run_count].iter().map(|&run| usize::from(run)) {
            parts.sink.take_packed(&packed[taken..run], &bounds[taken..], parts.cache);
            let splitter = CjkSplitter::new(neighbours, text, &bounds[run..=run + 1]);
            parts.take(isa, splitter, packed_parts, false);
            taken = run + 1;
        }
        parts.sink.take_packed(&packed[taken..count], &bounds[taken..], parts.cache);
    }
}

/// Looks up the parts of CJK runs.
struct Parts<'a, 'i, S> {
    cache: &'a mut Cache,
    misses: &'a mut Misses,
    merger: CacheMiss<'a, 'i>,
    sink: &'a mut S,
}

impl<S: Sink> Parts<'_, '_, S> {
    /// Gives the ids of the parts to the sink. `begins_batch` is false if `packed` ids of earlier
    /// pieces are still needed.
    #[inline(always)]
    fn take(
        &mut self,
        isa: impl Instructions,
        mut splitter: CjkSplitter<'_>,
        packed: &mut [Packed; BATCH],
        begins_batch: bool,
    ) {
        let Parts { cache, misses, merger, sink } = self;
        let text = splitter.text;
        let mut bounds = [0; BATCH + 1];
        loop {
            let count = splitter.next_bounds(&mut bounds);
            if count == 0 {
                return;
            }
            let (bounds, packed) = (&bounds[..=count], &mut packed[..count]);
            if merger.interrupt.advance((bounds[count] - bounds[0]) as usize).is_err() {
                return;
            }
            if begins_batch {
                cache.begin_batch();
            }
            cache.look_up_first_level(isa, text, bounds, packed, misses);
            cache.sort_longer(text, bounds, true, misses);
            cache.look_up_tables(text, bounds, packed, misses, merger);
            sink.take_packed(packed, bounds, cache);
        }
    }

    /// Gives the ids of words to the sink, and of the parts with several words that may merge.
    #[inline(always)]
    fn take_words(
        &mut self,
        isa: impl Instructions,
        mut splitter: WordSplitter<'_>,
        neighbours: &WordNeighbours,
        packed: &mut [Packed; BATCH],
    ) {
        let Parts { cache, misses, merger, sink } = self;
        let text = splitter.text;
        let mut words = Words::default();
        // The first word of each part, and the number of words.
        let mut firsts = [0; BATCH + 1];
        let (mut bounds, mut packed_parts) = ([0; BATCH + 1], [Packed::default(); BATCH]);
        loop {
            let count = splitter.next_words(&mut words);
            if count == 0 {
                return;
            }
            let word_bounds = &words.bounds[..=count];
            if merger.interrupt.advance((word_bounds[count] - word_bounds[0]) as usize).is_err() {
                return;
            }
            cache.begin_batch();
            let packed = &mut packed[..count];
            cache.look_up_first_level(isa, text, word_bounds, packed, misses);
            cache.sort_longer(text, word_bounds, true, misses);
            cache.look_up_tables(text, word_bounds, packed, misses, merger);

            let (mut parts, mut last_id) = (0, 0);
            for (i, &packed) in packed.iter().enumerate() {
                let (first, last) = cache.ends(packed);
                let joins = words.is_at_break[i] & neighbours.may_join(last_id, first);
                // The next word overwrites the first of a part that it is not the first of.
                firsts[parts] = i as u16;
                parts += usize::from(!joins);
                last_id = last;
            }
            firsts[parts] = count as u16;
            let is_cut = words.is_at_break[count];
            if is_cut {
                // The last part may go on.
                parts -= 1;
            }
            misses.clear();
            for i in 0..parts {
                let (first, next) = (usize::from(firsts[i]), usize::from(firsts[i + 1]));
                bounds[i] = word_bounds[first];
                packed_parts[i] = packed[first];
                let length = word_bounds[next] - word_bounds[first];
                misses.push_if(next - first > 1, i as u16, length);
            }
            bounds[parts] = word_bounds[usize::from(firsts[parts])];
            if is_cut && parts > 0 {
                splitter.go_back(bounds[parts] as usize);
            } else if is_cut {
                // A part of too many words is merged with the rest of its piece.
                bounds[1] = splitter.skip_piece() as u32;
                misses.push_if(true, 0, bounds[1] - bounds[0]);
                parts = 1;
            }
            let (bounds, packed_parts) = (&bounds[..=parts], &mut packed_parts[..parts]);
            cache.sort_longer(text, bounds, true, misses);
            cache.look_up_tables(text, bounds, packed_parts, misses, merger);
            sink.take_packed(packed_parts, bounds, cache);
        }
    }
}
