//! From the pieces of a batch to ids, by the cache or by merging.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::places::{Places, TokenLengths};
use super::sink::{IdList, Sink};
use crate::cache::{Cache, MAX_FEW_CJK_RUNS, MergePiece, Misses};
use crate::interrupt::Interrupt;
use crate::mem::growth::{append, copied, granted, push};
use crate::merge::cjk::CjkSplitter;
use crate::merge::joins::{Joins, joins_words};
use crate::merge::{MergeScratch, MergeTable, NO_RANK, Ranks, Row};
use crate::simd::{Instructions, Packed, Work};
use crate::split::{Cuts, Splitter, TokenNeighbours};
use crate::tokens::Joint;
use crate::types::{BATCH, TokenIndex};

/// In a batch of at most this many bytes, the few CJK runs are looked up after all other pieces,
/// whose ids stay in memory until the last run is done.
const MAX_FEW_CJK_RUNS_BYTES: usize = 1 << 14;

/// From this many bytes of CJK runs on, they are split, because fewer are merged whole in less time
/// than it takes to find where runs may be split. Tests have few.
const MIN_SPLIT_CJK_BYTES: usize = if cfg!(test) { 1 << 5 } else { 1 << 17 };

/// The memory in which one thread works. Later calls reuse it, with all pieces in its cache.
pub struct Context {
    pub(super) cache: Cache,
    pub(super) scratch: MergeScratch,
    /// The start of each piece of a batch, and the end of the last.
    pub(super) bounds: [u32; BATCH + 1],
    pub(super) packed: [Packed; BATCH],
    pub(super) misses: Misses,
    /// Whether the batch before had many CJK runs, so that the next is split before it is looked
    /// up.
    pub(super) had_many_runs: bool,
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
            had_many_runs: false,
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
    /// For each byte, whether a piece loses it before it is merged; None if it loses none.
    dropped: Option<Box<[bool; 256]>>,
    /// From this token on, each token equals its id.
    first_equal: TokenIndex,
    /// The bytes of CJK runs so far.
    cjk_bytes: AtomicUsize,
    /// Made after many bytes of CJK runs; None if pieces must not be split.
    neighbours: OnceLock<Option<TokenNeighbours>>,
    /// Made on first use; None if pieces must not be split.
    fragments: OnceLock<Option<Fragments>>,
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
            dropped: None,
            first_equal,
            cjk_bytes: AtomicUsize::new(0),
            neighbours: OnceLock::new(),
            fragments: OnceLock::new(),
            lengths: OnceLock::new(),
        }
    }

    /// Sets the ids of the tokens that have several.
    pub fn expand(&mut self, ids_of: impl Fn(TokenIndex) -> Option<Vec<u32>>) {
        let tokens = 0..self.id_of.len() as TokenIndex;
        self.ids_of = tokens.filter_map(|token| Some((token, ids_of(token)?))).collect();
        self.first_several = self.ids_of.keys().copied().min().unwrap_or(TokenIndex::MAX);
    }

    /// Sets the bytes that a piece loses before it is merged.
    pub fn drop_bytes(&mut self, bytes: &[u8]) {
        let is_dropped = |byte: usize| bytes.contains(&(byte as u8));
        self.dropped = (!bytes.is_empty()).then(|| Box::new(std::array::from_fn(is_dropped)));
    }

    pub fn lengths(&self) -> &TokenLengths {
        self.lengths.get().unwrap_or_else(|| {
            // Made before the lock is taken, because a process forked meanwhile would wait for ever
            // for a thread that it does not have.
            let lengths = TokenLengths::new(&self.merges, &self.id_of);
            self.lengths.get_or_init(|| lengths)
        })
    }

    /// Returns the neighbours by which CJK runs are split. None if pieces must not be split, or if
    /// there were few runs before `bytes` more.
    fn neighbours(&self, bytes: usize) -> Option<&TokenNeighbours> {
        if self.neighbours.get().is_none() {
            let bytes = self.cjk_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if bytes < MIN_SPLIT_CJK_BYTES {
                return None;
            }
            let neighbours = self.merges.tokens_to_split_by().map(|tokens| {
                let joints = tokens.joints().map(|(_, joint)| joint);
                // Two characters of ASCII are never parted.
                let is_ascii = |&(token, at): &Joint<'_>| token[at - 1..=at].is_ascii();
                TokenNeighbours::new(joints.filter(|joint| !is_ascii(joint)))
            });
            // In a forked process, `get_or_init` could wait for ever for a thread of the parent.
            let _ = self.neighbours.set(neighbours);
        }
        self.neighbours.get()?.as_ref()
    }

    /// Returns how pieces of several words are cut, if pieces may be split.
    pub fn fragments(&self) -> Option<&Fragments> {
        if self.fragments.get().is_none() {
            // What is around a dropped byte may be merged.
            let tokens = self.dropped.is_none().then(|| self.merges.tokens_to_split_by()).flatten();
            let fragments = tokens.map(|tokens| {
                // Without tokens of several words, cuts alone are faster.
                let may_join = self.ids_of.is_empty()
                    && tokens.joints().any(|(_, (token, _))| joins_words(token));
                let new = || Joins::new(&self.merges, &tokens, &self.id_of);
                let (cuts, joins) = match may_join.then(new).flatten() {
                    Some((cuts, joins)) => (cuts, Some(joins)),
                    None => (Cuts::new(tokens.joints().map(|(_, joint)| joint), 2), None),
                };
                Fragments { cuts: Splitter::Cuts(Arc::new(cuts)), joins }
            });
            let _ = self.fragments.set(fragments);
        }
        self.fragments.get()?.as_ref()
    }

    /// Returns the tokens of a piece, which are in `scratch`.
    fn merge<'s>(
        &self,
        piece: &[u8],
        scratch: &'s mut MergeScratch,
        interrupt: &mut Interrupt<'_>,
    ) -> &'s [TokenIndex] {
        let Some(dropped) = &self.dropped else {
            return self.merges.merge(piece, scratch, interrupt);
        };
        let mut kept = copied(piece);
        kept.retain(|&byte| !dropped[usize::from(byte)]);
        self.merges.merge(&kept, scratch, interrupt)
    }

    /// Returns whether a text has a byte that is dropped.
    fn drops_from(&self, text: &[u8]) -> bool {
        let dropped = self.dropped.as_ref();
        dropped.is_some_and(|dropped| text.iter().any(|&byte| dropped[usize::from(byte)]))
    }

    fn append_ids(&self, tokens: &[TokenIndex], ids: &mut Vec<u32>) {
        let PieceEncoder { id_of, ids_of, first_several, first_equal, .. } = self;
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

/// How pieces of several words are cut, and which of their fragments are joined again.
pub struct Fragments {
    pub cuts: Splitter,
    joins: Option<Joins>,
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
        let tokens = self.encoder.merge(piece, self.scratch, self.interrupt);
        self.encoder.append_ids(tokens, ids);
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
    /// Whether CJK runs are looked up whole.
    pub whole_cjk_runs: bool,
    pub job: &'a mut Job<'j, 'i, S>,
}

impl<S: Sink> Work for EncodePieces<'_, '_, '_, S> {
    type Result = ();

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) {
        let EncodePieces { encoder, text, count, whole_cjk_runs, job } = self;
        let (interrupt, sink) = (&mut *job.interrupt, &mut *job.sink);
        let Context { cache, scratch, bounds, packed, misses, had_many_runs, .. } = job.context;
        let bounds = &bounds[..=count];
        let batch = &text[bounds[0] as usize..bounds[count] as usize];
        let mut merger = CacheMiss { encoder, scratch, interrupt };
        // What is around a dropped byte may be merged.
        let neighbours_of =
            |bytes| encoder.neighbours(bytes).filter(|_| !encoder.drops_from(batch));
        let neighbours = 'many: {
            if *had_many_runs
                && !whole_cjk_runs
                && let Some(neighbours) = neighbours_of(0)
            {
                break 'many neighbours;
            }
            cache.look_up_first_level(isa, text, bounds, &mut packed[..count], misses);
            cache.sort_longer(text, bounds, whole_cjk_runs, misses);
            let mut neighbours = None;
            let run_count = misses.cjk_runs.all().len();
            if run_count > 0 {
                let runs = misses.cjk_runs.all().iter().map(|&run| usize::from(run));
                let bytes = match run_count > MAX_FEW_CJK_RUNS {
                    true => batch.len(), // not all runs are in the list
                    false => runs.map(|run| (bounds[run + 1] - bounds[run]) as usize).sum(),
                };
                neighbours = neighbours_of(bytes);
                if neighbours.is_none() {
                    cache.sort_longer(text, bounds, true, misses);
                }
            }
            let Some(neighbours) = neighbours else {
                cache.look_up_tables(text, bounds, &mut packed[..count], misses, &mut merger);
                sink.take_packed(isa, &packed[..count], bounds, cache);
                return;
            };
            if run_count > MAX_FEW_CJK_RUNS || batch.len() > MAX_FEW_CJK_RUNS_BYTES {
                break 'many neighbours;
            }
            cache.look_up_tables(text, bounds, &mut packed[..count], misses, &mut merger);
            let mut runs = [0; MAX_FEW_CJK_RUNS];
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
            return;
        };
        // All pieces are looked up, for the first time or again, together with the parts.
        let splitter = CjkSplitter::new(neighbours, text, bounds);
        let runs = Parts { cache, misses, merger, sink }.take(isa, splitter, packed, true);
        *had_many_runs = runs > MAX_FEW_CJK_RUNS;
    }
}

struct Parts<'a, 'i, S> {
    cache: &'a mut Cache,
    misses: &'a mut Misses,
    merger: CacheMiss<'a, 'i>,
    sink: &'a mut S,
}

impl<S: Sink> Parts<'_, '_, S> {
    /// Gives the ids of the parts to the sink, and returns the number of CJK runs. `begins_batch`
    /// is false if `packed` ids of earlier pieces are still needed.
    #[inline(always)]
    fn take(
        &mut self,
        isa: impl Instructions,
        mut splitter: CjkSplitter<'_>,
        packed: &mut [Packed; BATCH],
        begins_batch: bool,
    ) -> usize {
        let Parts { cache, misses, merger, sink } = self;
        let text = splitter.text;
        let mut bounds = [0; BATCH + 1];
        loop {
            let count = splitter.next_bounds(&mut bounds);
            if count == 0 {
                return splitter.runs;
            }
            let (bounds, packed) = (&bounds[..=count], &mut packed[..count]);
            if merger.interrupt.advance((bounds[count] - bounds[0]) as usize).is_err() {
                return splitter.runs;
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
}

/// Gives the ids of the first `count` fragments in the context to the sink, and returns where these
/// end. The last ones are left if they may be joined with later fragments.
pub struct EncodeFragments<'a, 'j, 'i, S> {
    pub encoder: &'a PieceEncoder,
    pub fragments: &'a Fragments,
    pub text: &'a [u8],
    pub count: usize,
    /// The ends of pieces, in ascending order. No token crosses them.
    pub piece_ends: &'a [u32],
    pub job: &'a mut Job<'j, 'i, S>,
}

impl<S: Sink> Work for EncodeFragments<'_, '_, '_, S> {
    type Result = usize;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> usize {
        let EncodeFragments { encoder, fragments, text, mut count, piece_ends, job } = self;
        let (interrupt, sink) = (&mut *job.interrupt, &mut *job.sink);
        let Context { cache, scratch, bounds, packed, misses, .. } = job.context;
        let mut merger = CacheMiss { encoder, scratch, interrupt };
        cache.begin_batch();
        let (starts, ids) = (&bounds[..=count], &mut packed[..count]);
        cache.look_up_first_level(isa, text, starts, ids, misses);
        cache.sort_longer(text, starts, true, misses);
        cache.look_up_tables(text, starts, ids, misses, &mut merger);
        let Some(joins) = &fragments.joins else {
            sink.take_packed(isa, ids, starts, cache);
            return starts[count] as usize;
        };

        // The fragments that may be joined with the one before, and the base tokens there
        let (mut joined, mut pairs, mut joined_count) = ([0; BATCH + 1], [(0, 0); BATCH + 1], 0);
        let start = bounds[0];
        let mut piece_ends = piece_ends.iter().copied().skip_while(|&end| end <= start);
        let mut piece_end = piece_ends.next();
        let (_, mut last_id) = cache.ends(packed[0]);
        for (i, &fragment) in (1..).zip(&packed[1..count]) {
            let (first_id, next_last_id) = cache.ends(fragment);
            let mut is_piece_end = false;
            while piece_end.is_some_and(|end| end <= bounds[i]) {
                (piece_end, is_piece_end) = (piece_ends.next(), true);
            }
            if !is_piece_end {
                let pair = joins.base_tokens(last_id, first_id);
                (joined[joined_count], pairs[joined_count]) = (i, pair);
                joined_count += usize::from(joins.may_join(pair));
            }
            last_id = next_last_id;
        }
        let (mut ranks, candidates) = ([NO_RANK; BATCH + 1], joined_count);
        joined_count = 0;
        for at in 0..candidates {
            let (i, pair) = (joined[at], pairs[at]);
            let rank = joins.rank(pair);
            (joined[joined_count], pairs[joined_count]) = (i, pair);
            ranks[joined_count] = rank.unwrap_or(NO_RANK);
            joined_count += usize::from(rank.is_some());
        }
        if piece_end.is_some_and(|end| end > bounds[count]) {
            // The last fragment may be joined with the next batch.
            joined[joined_count] = count;
            joined_count += 1;
        }
        let merges = &*encoder.merges;
        misses.clear();
        let (mut row, mut ids) = (Row::default(), Vec::new());
        let (mut at, joined) = (0, &joined[..joined_count]);
        while let Some(&second) = joined.get(at) {
            let first = second - 1;
            let (mut next, run_start) = (second + 1, at);
            at += 1;
            while joined.get(at) == Some(&next) {
                (next, at) = (next + 1, at + 1);
            }
            if next <= count {
                let run = &packed[first..next];
                let is_base = |ids: &Packed| ids.only_id().is_some_and(|id| joins.is_base(id));
                let is_base = run.iter().all(is_base);
                if let &[rank] = &ranks[run_start..at]
                    && is_base
                {
                    // These are most: two base tokens, with or without a merge.
                    if rank != NO_RANK {
                        let (left, right) = pairs[run_start];
                        let token = merges.made_by(rank, left, right);
                        packed[first] = cache.keep(&[encoder.id_of[token as usize]]);
                        (packed[second], bounds[second]) = (Packed::default(), bounds[next]);
                    }
                    continue;
                }
                row.clear();
                let mut add = |id| joins.add_to(&mut row, id);
                let is_row = run.iter().all(|&ids| cache.all_ids(ids, &mut add));
                // The first fragment gets all ids, and the others become empty.
                let end = bounds[next];
                bounds[second..next].fill(end);
                if is_row {
                    row.set_ranks(merges);
                    row.merge(merges);
                    ids.clear();
                    encoder.append_ids(row.tokens(), &mut ids);
                    packed[first] = cache.keep(&ids);
                } else {
                    misses.push(first as u16, end - bounds[first]);
                }
                packed[second..next].fill(Packed::default());
            } else if first > 0 {
                // They may be joined with fragments of the next batch.
                count = first;
            } else {
                // More fragments than a batch has may be joined, so the rest of the piece is
                // merged whole.
                bounds[1] = piece_end.unwrap_or(bounds[count]);
                count = 1;
                misses.push(0, bounds[1] - bounds[0]);
            }
        }
        let (bounds, ids) = (&bounds[..=count], &mut packed[..count]);
        cache.sort_longer(text, bounds, true, misses);
        cache.look_up_tables(text, bounds, ids, misses, &mut merger);
        sink.take_packed(isa, ids, bounds, cache);
        bounds[count] as usize
    }
}
