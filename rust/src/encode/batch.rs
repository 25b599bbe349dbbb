//! From the pieces of a batch to ids, by the cache or by merging.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::places::{Places, TokenLengths};
use super::sink::{IdList, Sink};
use crate::cache::{Cache, MAX_FEW_CJK_RUNS, MergePiece, Misses, Packed};
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, granted, push};
use crate::merge::cjk::CjkSplitter;
use crate::merge::words::{WordNeighbours, WordSplitter, Words, joins_words};
use crate::merge::{MergeScratch, MergeTable};
use crate::simd::{Instructions, Work};
use crate::split::{Cuts, Splitter, TokenNeighbours};
use crate::types::{BATCH, TokenIndex};

/// In a batch of at most this many bytes, the few CJK runs are looked up after all other pieces,
/// whose ids stay in memory until the last run is done.
const MAX_FEW_CJK_RUNS_BYTES: usize = 1 << 14;

/// The memory in which one thread works. Later calls reuse it, with all pieces in its cache.
pub struct Context {
    pub(super) cache: Cache,
    pub(super) scratch: MergeScratch,
    /// The start of each piece of a batch, and the end of the last.
    pub(super) bounds: [u32; BATCH + 1],
    pub(super) packed: [Packed; BATCH],
    pub(super) misses: Misses,
    /// Made on first use.
    pub(super) places: Option<Box<Places>>,
    /// A list for the ids of a text, for callers that have none of their own.
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
            places: None,
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

pub struct PieceEncoder {
    pub merges: Arc<MergeTable>,
    pub id_of: Arc<Vec<u32>>,
    /// The ids of tokens that have several, because they are the beginning of a character.
    ids_of: HashMap<TokenIndex, Vec<u32>>,
    /// The first of these tokens.
    first_several: TokenIndex,
    /// From this token on, each token equals its id.
    first_equal: TokenIndex,
    /// Made on first use; None if pieces must not be split.
    neighbours: OnceLock<Option<TokenNeighbours>>,
    /// Made on first use; None if pieces must not be split, or are split by words instead.
    cuts: OnceLock<Option<Splitter>>,
    /// Made on first use; None if pieces must not be split.
    words: OnceLock<Option<WordNeighbours>>,
    /// Made on first use.
    lengths: OnceLock<TokenLengths>,
}

impl PieceEncoder {
    pub fn new(merges: Arc<MergeTable>, id_of: Arc<Vec<u32>>) -> PieceEncoder {
        let equal = id_of.iter().enumerate().rev().take_while(|&(token, &id)| token as u32 == id);
        let first_equal = (id_of.len() - equal.count()) as TokenIndex;
        let ids_of = HashMap::new();
        let first_several = TokenIndex::MAX;
        PieceEncoder {
            merges,
            id_of,
            ids_of,
            first_several,
            first_equal,
            neighbours: OnceLock::new(),
            cuts: OnceLock::new(),
            words: OnceLock::new(),
            lengths: OnceLock::new(),
        }
    }

    /// Sets the ids of the tokens that have several.
    pub fn expand(&mut self, ids_of: impl Fn(TokenIndex) -> Option<Vec<u32>>) {
        let tokens = 0..self.id_of.len() as TokenIndex;
        self.ids_of = tokens.filter_map(|token| Some((token, ids_of(token)?))).collect();
        self.first_several = self.ids_of.keys().copied().min().unwrap_or(TokenIndex::MAX);
    }

    pub fn lengths(&self) -> &TokenLengths {
        self.lengths.get().unwrap_or_else(|| {
            // Made before the lock is taken, because a process forked meanwhile would wait for ever
            // for a thread that it does not have.
            let lengths = TokenLengths::new(&self.merges, &self.id_of);
            self.lengths.get_or_init(|| lengths)
        })
    }

    /// Returns the neighbours by which CJK runs are split, if pieces may be split.
    fn neighbours(&self) -> Option<&TokenNeighbours> {
        if self.neighbours.get().is_none() {
            // Two characters of ASCII are never parted.
            let neighbours = self
                .merges
                .tokens_to_split_by()
                .map(|tokens| TokenNeighbours::new(tokens.all().filter(|token| !token.is_ascii())));
            // In a forked process, `get_or_init` could wait for ever for a thread of the parent.
            let _ = self.neighbours.set(neighbours);
        }
        self.neighbours.get()?.as_ref()
    }

    /// Returns the cuts at which pieces of several words are split, if pieces may be split and no
    /// token seems to have several words. Any cut is right; with such tokens, words are faster.
    pub fn cuts(&self) -> Option<&Splitter> {
        if self.cuts.get().is_none() {
            let tokens = self.merges.tokens_to_split_by();
            let tokens = tokens.filter(|tokens| !tokens.all().any(joins_words));
            let cuts = tokens.map(|tokens| Splitter::Cuts(Arc::new(Cuts::new(tokens.all()))));
            let _ = self.cuts.set(cuts);
        }
        self.cuts.get()?.as_ref()
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
    /// Checked only for pieces that the cache does not keep, so that the cache never has incomplete
    /// ids.
    interrupt: &'a mut Interrupt<'i>,
}

impl MergePiece for CacheMiss<'_, '_> {
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
        let PieceEncoder { merges, id_of, ids_of, first_several, first_equal, .. } = self.encoder;
        let tokens = merges.merge(piece, self.scratch, self.interrupt);
        let id =
            |&token: &TokenIndex| if token < *first_equal { id_of[token as usize] } else { token };
        granted(ids.try_reserve(tokens.len()));
        if tokens.iter().all(|token| token < first_several) {
            ids.extend(tokens.iter().map(id));
            return;
        }
        for token in tokens {
            match ids_of.get(token) {
                Some(several) => append(ids, several),
                None => push(ids, id(token)),
            }
        }
    }
}

/// Returns the ids of a piece without using the cache.
pub fn merged_ids<S>(encoder: &PieceEncoder, piece: &[u8], job: &mut Job<'_, '_, S>) -> Vec<u32> {
    let (scratch, interrupt) = (&mut job.context.scratch, &mut *job.interrupt);
    let mut ids = Vec::new();
    CacheMiss { encoder, scratch, interrupt }.merge(piece, &mut ids);
    ids
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
            sink.take_packed(isa, &packed[..count], bounds, cache);
            return;
        };
        let length = (bounds[count] - bounds[0]) as usize;
        if misses.cjk_runs.all().len() > MAX_FEW_CJK_RUNS || length > MAX_FEW_CJK_RUNS_BYTES {
            // All pieces are looked up again together with the parts.
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
            parts.sink.take_packed(isa, &packed[taken..run], &bounds[taken..], parts.cache);
            let splitter = CjkSplitter::new(neighbours, text, &bounds[run..=run + 1]);
            parts.take(isa, splitter, packed_parts, false);
            taken = run + 1;
        }
        parts.sink.take_packed(isa, &packed[taken..count], &bounds[taken..], parts.cache);
    }
}

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
            sink.take_packed(isa, packed, bounds, cache);
        }
    }

    /// Gives the ids of words to the sink. Words that may merge are looked up again as one.
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
        let mut joined = [0; BATCH + 1];
        loop {
            let mut count = splitter.next_words(&mut words);
            if count == 0 {
                return;
            }
            let (start, end) = (words.bounds[0], words.bounds[count]);
            if merger.interrupt.advance((end - start) as usize).is_err() {
                return;
            }
            cache.begin_batch();
            let bounds = &words.bounds[..=count];
            cache.look_up_first_level(isa, text, bounds, &mut packed[..count], misses);
            cache.sort_longer(text, bounds, true, misses);
            cache.look_up_tables(text, bounds, &mut packed[..count], misses, merger);

            // The words that may merge with the word before.
            let mut joined_count = 0;
            for &i in words.breaks() {
                let i = usize::from(i);
                let (_, last_id) = cache.ends(packed[i - 1]);
                let next = packed[..count].get(i);
                let (first_id, _) = next.map_or((0, 0), |&packed| cache.ends(packed));
                joined[joined_count] = i;
                joined_count += usize::from(i == count || neighbours.may_join(last_id, first_id));
            }
            misses.clear();
            let mut joined = joined[..joined_count].iter().copied().peekable();
            while let Some(second) = joined.next() {
                let first = second - 1;
                let mut next = second + 1;
                while joined.next_if_eq(&next).is_some() {
                    next += 1;
                }
                if next <= count {
                    // The first word gets all ids, and the others become empty.
                    let end = words.bounds[next];
                    words.bounds[second..next].fill(end);
                    packed[second..next].fill(Packed::default());
                    misses.push(first as u16, end - words.bounds[first]);
                } else if first > 0 {
                    // The words may merge with words of the next batch.
                    splitter.go_back(words.bounds[first] as usize);
                    count = first;
                } else {
                    // More words than a batch has may merge, so the rest of the piece is merged
                    // whole.
                    words.bounds[1] = splitter.skip_piece() as u32;
                    count = 1;
                    misses.push(0, words.bounds[1] - words.bounds[0]);
                }
            }
            let (bounds, packed) = (&words.bounds[..=count], &mut packed[..count]);
            cache.sort_longer(text, bounds, true, misses);
            cache.look_up_tables(text, bounds, packed, misses, merger);
            sink.take_packed(isa, packed, bounds, cache);
        }
    }
}
