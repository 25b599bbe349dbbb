//! Text to ids: special literals out, the rest into pieces, and their ids out of a cache.

use std::sync::{Arc, Mutex, TryLockError};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::cache::{self, BATCH, Cache, NotInFront, Packed};
use crate::merge::{Merges, Scratch, Token};
use crate::scan::{Pattern, Pieces};
use crate::simd::{Kernel, Vectors, Work};
use crate::spans::Spans;
use crate::unicode::Classes;

/// What encodes texts by one vocabulary; many threads may, at the same time.
pub struct Encoder {
    pattern: Option<Pattern>,
    merges: Arc<Merges>,
    id_of: Arc<[u32]>,
    /// From this token on, each is its own id.
    first_equal: Token,
    special: Option<(AhoCorasick, Vec<u32>)>,
    /// Contexts that no call has in use. The lock is held to take one out, and to put it back.
    contexts: Mutex<Vec<Box<Context>>>,
}

/// What one thread works with: what it has learnt is kept for the next call.
pub struct Context {
    cache: Cache,
    merging: Merging,
    /// Where the pieces of a batch begin, and the last ends.
    bounds: [u32; BATCH + 1],
    packed: [Packed; BATCH],
    missing: NotInFront,
    /// Room for the ids of a text, for who has no other.
    pub ids: Vec<u32>,
}

#[derive(Default)]
struct Merging {
    scratch: Scratch,
    tokens: Vec<Token>,
}

impl Default for Context {
    fn default() -> Context {
        Context {
            cache: Cache::default(),
            merging: Merging::default(),
            bounds: [0; BATCH + 1],
            packed: [Packed::default(); BATCH],
            missing: NotInFront::default(),
            ids: Vec::new(),
        }
    }
}

/// What is done with ids.
pub trait Sink {
    /// Takes the ids of pieces, in order, of which some may be in the cache.
    fn take_packed(&mut self, packed: &[Packed], cache: &Cache);

    fn take(&mut self, ids: &[u32]);

    /// Returns how many ids it has taken.
    fn count(&self) -> usize;

    /// Makes room for so many ids.
    fn expect(&mut self, _more: usize) {}
}

/// How many ids there are.
#[derive(Default)]
pub struct Count(pub usize);

impl Sink for Count {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], _cache: &Cache) {
        self.0 += packed.iter().map(|packed| packed.count()).sum::<usize>();
    }

    fn take(&mut self, ids: &[u32]) {
        self.0 += ids.len();
    }

    fn count(&self) -> usize {
        self.0
    }
}

/// An integer that ids are kept as, and fit.
pub trait Id: Copy + Default + Send {
    fn of(id: u32) -> Self;
}

impl Id for u32 {
    #[inline(always)]
    fn of(id: u32) -> u32 {
        id
    }
}

impl Id for u16 {
    #[inline(always)]
    fn of(id: u32) -> u16 {
        id as u16
    }
}

impl<T: Id> Sink for Vec<T> {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], cache: &Cache) {
        const ROOM: usize = 4;
        let mut length = self.len();
        self.resize(length + ROOM * packed.len(), T::default());
        for (i, ids) in packed.iter().enumerate() {
            if ids.is_elsewhere() {
                let more = cache.ids_elsewhere(*ids);
                self.resize(length + more.len() + ROOM * (packed.len() - i), T::default());
                for (room, &id) in self[length..].iter_mut().zip(more) {
                    *room = T::of(id);
                }
                length += more.len();
            } else {
                // All are written, however many there are: that is faster than to choose.
                if let Some(room) = self[length..].first_chunk_mut::<ROOM>() {
                    *room = ids.inner_ids().map(T::of);
                }
                length += ids.inner_count();
            }
        }
        self.truncate(length);
    }

    fn take(&mut self, ids: &[u32]) {
        self.extend(ids.iter().map(|&id| T::of(id)));
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn expect(&mut self, more: usize) {
        self.reserve_exact(more);
    }
}

impl Encoder {
    /// `id_of` has the id of each token; `special` the literals and their ids.
    pub fn new(
        pattern: Option<Pattern>,
        merges: Arc<Merges>,
        id_of: Arc<[u32]>,
        special: &[(String, u32)],
    ) -> Result<Encoder, aho_corasick::BuildError> {
        let special = if special.is_empty() {
            None
        } else {
            let automaton = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(special.iter().map(|(literal, _)| literal))?;
            Some((automaton, special.iter().map(|&(_, id)| id).collect()))
        };
        let equal = id_of.iter().enumerate().rev().take_while(|&(token, &id)| token as u32 == id);
        let first_equal = (id_of.len() - equal.count()) as Token;
        // Made now, so that no call has to wait for another that makes them.
        let _ = (Kernel::get(), Classes::get());
        let contexts = Mutex::default();
        Ok(Encoder { pattern, merges, id_of, first_equal, special, contexts })
    }

    /// Returns a context that no other call has.
    pub fn take_context(&self) -> Box<Context> {
        self.with_contexts(Vec::pop).flatten().unwrap_or_default()
    }

    /// Keeps a context for later calls, but not the room that long pieces took.
    pub fn put_context(&self, mut context: Box<Context>) {
        context.cache.tidy();
        let Merging { scratch, tokens } = &context.merging;
        if tokens.capacity().max(scratch.room()) > MOST_ROOM {
            context.merging = Merging::default();
        }
        self.with_contexts(|contexts| {
            if contexts.len() < MOST_CONTEXTS {
                contexts.push(context);
            }
        });
    }

    /// Does something with the contexts that no call has in use, if that can be now. It is never
    /// waited for long: who has the lock is done in no time, or else is a thread that a process
    /// had when it was forked, and is not there any more.
    fn with_contexts<R>(&self, work: impl FnOnce(&mut Vec<Box<Context>>) -> R) -> Option<R> {
        for _ in 0..1000 {
            match self.contexts.try_lock() {
                Ok(mut contexts) => return Some(work(&mut contexts)),
                Err(TryLockError::Poisoned(error)) => return Some(work(&mut error.into_inner())),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// Returns the first place from `from` on where a text may be cut in two, each to be encoded
    /// by itself as ordinary text; its length, if there is none, or `go_on`, which is asked now and
    /// then, says no.
    pub fn next_cut(&self, text: &[u8], from: usize, go_on: &mut dyn FnMut() -> bool) -> usize {
        let Some(pattern) = self.pattern else { return text.len() };
        let pieces = Pieces::new(pattern, text);
        let mut places = from..text.len();
        while !places.is_empty() && go_on() {
            let mut next = places.by_ref().take(QUESTION);
            if let Some(cut) = next.find(|&at| pieces.is_safe_cut(at)) {
                return cut;
            }
        }
        text.len()
    }

    /// Gives the ids of a text, which is UTF-8, to `sink`; special literals are their ids, unless
    /// all is ordinary.
    ///
    /// `go_on` is asked now and then; where it says no, that is the end, and it says no from then
    /// on.
    pub fn encode(
        &self,
        text: &[u8],
        ordinary: bool,
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let mut unasked = 0;
        self.for_each_stretch(text, ordinary, |stretch, special| {
            let goes_on = self.encode_ordinary(stretch, context, sink, go_on);
            sink.take(special);
            unasked += stretch.len() + 1;
            if unasked < QUESTION {
                return goes_on;
            }
            unasked = 0;
            goes_on && go_on()
        });
    }

    /// Calls `take` for each stretch of ordinary text, with the id of the special token behind it,
    /// as long as it returns true.
    pub fn for_each_stretch<'t>(
        &self,
        text: &'t [u8],
        ordinary: bool,
        mut take: impl FnMut(&'t [u8], &[u32]) -> bool,
    ) {
        let mut start = 0;
        if let (false, Some((automaton, special_ids))) = (ordinary, &self.special) {
            for found in automaton.find_iter(text) {
                let id = &special_ids[found.pattern().as_usize()..][..1];
                if !take(&text[start..found.start()], id) {
                    return;
                }
                start = found.end();
            }
        }
        take(&text[start..], &[]);
    }

    /// Gives the ids of a text to `sink`, special literals being ordinary text; returns whether
    /// `go_on` never said no, and so all ids are there.
    pub fn encode_ordinary(
        &self,
        text: &[u8],
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some(pattern) = self.pattern else { return true };
        let mut pieces = Pieces::new(pattern, text);
        let mut next_question = FIRST_QUESTION;
        let first = sink.count();
        let mut at = 0;
        while at < text.len() {
            context.bounds[0] = at as u32;
            let count = pieces.next_ends(&mut context.bounds[1..]);
            let end = context.bounds[count] as usize;
            if end <= at {
                break; // of what is not UTF-8 any more there may be pieces of nothing
            }
            at = end;
            self.encode_pieces(text, count, context, sink, go_on);
            if at > next_question {
                // As many for each byte as so far, and a few more; there are no more than bytes.
                let left = text.len() - at;
                let more = (sink.count() - first) as f64 / at as f64 * left as f64 * 1.03;
                sink.expect((more as usize).min(left) + 4 * BATCH);
                next_question = at + QUESTION;
                if !go_on() {
                    return false;
                }
            }
        }
        true
    }

    /// Gives the ids of one piece to `sink`. `go_on` is asked as by `encode`.
    pub fn encode_piece(
        &self,
        piece: &[u8],
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        if !piece.is_empty() {
            context.bounds[..2].copy_from_slice(&[0, piece.len() as u32]);
            self.encode_pieces(piece, 1, context, sink, go_on);
        }
    }

    /// Gives the ids of the pieces whose bounds are in the context to `sink`.
    #[inline(always)]
    fn encode_pieces(
        &self,
        text: &[u8],
        count: usize,
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        context.cache.tidy();
        Kernel::get().run(EncodePieces { encoder: self, text, count, context, sink, go_on });
    }
}

/// What merges the pieces that are not in the cache.
struct Merger<'a> {
    encoder: &'a Encoder,
    merging: &'a mut Merging,
    /// It is asked of long pieces alone, which the cache does not keep: what is merged in part gets
    /// nowhere else.
    go_on: &'a mut dyn FnMut() -> bool,
}

impl cache::Merge for Merger<'_> {
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
        let Merging { scratch, tokens } = self.merging;
        tokens.clear();
        self.encoder.merges.merge(piece, scratch, tokens, self.go_on);
        // Above the bytes, ids mostly are the numbers of their tokens.
        let Encoder { id_of, first_equal, .. } = self.encoder;
        let id = |token: Token| if token < *first_equal { id_of[token as usize] } else { token };
        ids.extend(tokens.iter().map(|&token| id(token)));
    }

    fn spans(&self) -> Option<&Spans> {
        self.encoder.merges.spans()
    }

    fn goes_on(&mut self) -> bool {
        (self.go_on)()
    }
}

struct EncodePieces<'a, S> {
    encoder: &'a Encoder,
    text: &'a [u8],
    count: usize,
    context: &'a mut Context,
    sink: &'a mut S,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl<S: Sink> Work for EncodePieces<'_, S> {
    type Result = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let EncodePieces { encoder, text, count, context, sink, go_on } = self;
        let Context { cache, merging, bounds, packed, missing, .. } = context;
        let bounds = &bounds[..=count];
        let packed = &mut packed[..count];
        cache.look_in_front(vectors, text, bounds, packed, missing);
        let mut merger = Merger { encoder, merging, go_on };
        cache.look_in_tables(text, bounds, packed, missing, &mut merger);
        sink.take_packed(packed, cache);
    }
}

/// Of how many threads at once what they have learnt is kept.
const MOST_CONTEXTS: usize = 64;

/// The most bytes and tokens of a piece for which room is kept.
const MOST_ROOM: usize = 1 << 16;

/// After how many bytes it is asked whether to go on, and how much room there should be.
const QUESTION: usize = 1 << 20;
const FIRST_QUESTION: usize = 1 << 17;
