//! Text to ids: special literals out, the rest into pieces, and their ids out of a cache.

use std::sync::{Arc, Mutex, TryLockError};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::cache::{self, BATCH, Cache, FEW, NotInFront, Packed};
use crate::kept::Kept;
use crate::merge::{Merges, Scratch, Token};
use crate::scan::{Pattern, Pieces};
use crate::simd::{Kernel, Vectors, Work};
use crate::spans::Parts;
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

    /// Makes room for so many ids, or for the first of them.
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
pub trait Id: Copy + Default + Send + 'static {
    fn of(id: u32) -> Self;

    /// Returns the memory of long lists that is kept.
    fn kept() -> &'static Kept<Self>;
}

impl Id for u32 {
    #[inline(always)]
    fn of(id: u32) -> u32 {
        id
    }

    fn kept() -> &'static Kept<u32> {
        static KEPT: Kept<u32> = Kept::none();
        &KEPT
    }
}

impl Id for u16 {
    #[inline(always)]
    fn of(id: u32) -> u16 {
        id as u16
    }

    fn kept() -> &'static Kept<u16> {
        static KEPT: Kept<u16> = Kept::none();
        &KEPT
    }
}

impl<T: Id> Sink for Vec<T> {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], cache: &Cache) {
        const ROOM: usize = 4;
        let mut length = self.len();
        lengthen(self, length + ROOM * packed.len());
        for (i, ids) in packed.iter().enumerate() {
            if ids.is_elsewhere() {
                let more = cache.ids_elsewhere(*ids);
                lengthen(self, length + more.len() + ROOM * (packed.len() - i));
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
        // Not all at once: the text may go on otherwise than it began.
        self.reserve_exact(more.min(self.len() / 4 + QUESTION));
    }
}

/// Makes a list so long. It grows by a quarter where it must, since it is mostly long enough by what
/// it was told to expect.
#[inline(always)]
fn lengthen<T: Id>(ids: &mut Vec<T>, length: usize) {
    if length > ids.capacity() {
        ids.reserve_exact(length - ids.len() + ids.len() / 4);
    }
    ids.resize(length, T::default());
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
    /// It is asked of pieces that the cache does not keep: what is merged in part gets nowhere else.
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
        let mut merger = Merger { encoder, merging, go_on };
        cache.look_in_front(vectors, text, bounds, &mut packed[..count], missing);
        cache.sort_longer(text, bounds, false, missing);
        let mut spans = None;
        if !missing.clauses().is_empty() {
            spans = encoder.merges.spans();
            if spans.is_none() {
                cache.sort_longer(text, bounds, true, missing);
            }
        }
        let length = (bounds[count] - bounds[0]) as usize;
        if let Some(spans) = spans
            && (missing.clauses().len() > FEW || length > SHORT)
        {
            // All begins anew with the parts.
            let parts = Parts::new(spans, text, bounds);
            PartsOf { parts, cache, packed, missing, merger: &mut merger, sink, tidy: true }
                .take(vectors);
            return;
        }
        cache.look_in_tables(text, bounds, &mut packed[..count], missing, &mut merger);
        let mut taken = 0;
        if let Some(spans) = spans {
            let mut clauses = [0; FEW];
            let clauses = &mut clauses[..missing.clauses().len()];
            clauses.copy_from_slice(missing.clauses());
            let room = &mut [Packed::default(); BATCH];
            for clause in clauses.iter().map(|&clause| usize::from(clause)) {
                sink.take_packed(&packed[taken..clause], cache);
                let parts = Parts::new(spans, text, &bounds[clause..=clause + 1]);
                PartsOf {
                    parts,
                    cache,
                    packed: room,
                    missing,
                    merger: &mut merger,
                    sink,
                    tidy: false,
                }
                .take(vectors);
                taken = clause + 1;
            }
        }
        sink.take_packed(&packed[taken..count], cache);
    }
}

/// What it takes to take pieces apart, and look the parts up.
struct PartsOf<'a, 'm, S> {
    parts: Parts<'a>,
    cache: &'a mut Cache,
    packed: &'a mut [Packed; BATCH],
    missing: &'a mut NotInFront,
    merger: &'a mut Merger<'m>,
    sink: &'a mut S,
    /// Whether what the cache has of pieces before is needed no more.
    tidy: bool,
}

impl<S: Sink> PartsOf<'_, '_, S> {
    /// Gives the ids of the parts to the sink.
    #[inline(always)]
    fn take(self, vectors: impl Vectors) {
        let PartsOf { mut parts, cache, packed, missing, merger, sink, tidy } = self;
        let text = parts.text();
        let mut bounds = [0; BATCH + 1];
        let mut unasked = 0;
        loop {
            let count = parts.next_bounds(&mut bounds);
            if count == 0 {
                return;
            }
            let (bounds, packed) = (&bounds[..=count], &mut packed[..count]);
            unasked += (bounds[count] - bounds[0]) as usize;
            if unasked > QUESTION {
                unasked = 0;
                if !(merger.go_on)() {
                    return;
                }
            }
            if tidy {
                cache.tidy();
            }
            cache.look_in_front(vectors, text, bounds, packed, missing);
            cache.sort_longer(text, bounds, true, missing);
            cache.look_in_tables(text, bounds, packed, missing, merger);
            sink.take_packed(packed, cache);
        }
    }
}

/// How many bytes a batch of few clauses has at the most, if the other pieces are looked up first:
/// their ids stay where they are until the last is taken.
const SHORT: usize = 1 << 14;

/// Of how many threads at once what they have learnt is kept.
const MOST_CONTEXTS: usize = 64;

/// The most bytes and tokens of a piece for which room is kept.
const MOST_ROOM: usize = 1 << 16;

/// After how many bytes it is asked whether to go on, and how much room there should be.
const QUESTION: usize = 1 << 20;
const FIRST_QUESTION: usize = 1 << 17;

/// For tests: a vocabulary, and what is plain about its ids.
#[cfg(test)]
pub mod examples {
    use super::*;
    use crate::generated::WORDS;

    pub const PATTERNS: [Pattern; 4] =
        [Pattern::Gpt2, Pattern::Cl100k, Pattern::O200k, Pattern::Qwen2];

    pub const SPECIAL: [(&str, u32); 3] = [("<|a|>", 7000), ("<|a|><|b|>", 7001), ("'s", 7002)];

    /// Returns an encoder by merges which make tokens of all words, and of longer ones. The ids of
    /// bytes are in another order than the bytes.
    pub fn encoder(pattern: Option<Pattern>) -> Encoder {
        let bytes: [Token; 256] = std::array::from_fn(|byte| byte as Token);
        let mut merges = Merges::with_room(bytes, 4000, 3000).expect("few");
        let mut next = 256;
        let mut scratch = Scratch::default();
        let texts = WORDS.iter().map(ToString::to_string);
        for text in texts.chain(["thehen", "中文中文", "aaaa", "    "].map(|word| word.repeat(9)))
        {
            let mut tokens = Vec::new();
            merges.merge(text.as_bytes(), &mut scratch, &mut tokens, &mut || true);
            for pair in tokens.chunks_exact(2) {
                next += u32::from(merges.push(pair[0], pair[1], next));
            }
        }
        let id_of = (0..next).map(|token| if token < 256 { 255 - token } else { token }).collect();
        let special = SPECIAL.map(|(literal, id)| (literal.to_string(), id));
        Encoder::new(pattern, Arc::new(merges), id_of, &special).expect("few")
    }

    /// Returns the ids of a text as they are for who has no cache and no threads.
    pub fn ids_plainly(encoder: &Encoder, text: &str, ordinary: bool) -> Vec<u32> {
        let mut ids = Vec::new();
        encoder.for_each_stretch(text.as_bytes(), ordinary, |stretch, special| {
            let pattern = encoder.pattern.expect("there is one");
            let (mut pieces, mut start, mut ends) = (Pieces::new(pattern, stretch), 0, [0; 64]);
            let mut tokens = Vec::new();
            loop {
                let count = pieces.next_ends(&mut ends);
                for &end in &ends[..count] {
                    let piece = &stretch[start..end as usize];
                    encoder.merges.merge(piece, &mut Scratch::default(), &mut tokens, &mut || true);
                    start = end as usize;
                }
                if count == 0 {
                    break;
                }
            }
            ids.extend(tokens.iter().map(|&token| encoder.id_of[token as usize]));
            ids.extend_from_slice(special);
            true
        });
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::examples::{PATTERNS, SPECIAL, encoder, ids_plainly};
    use super::*;
    use crate::generated::{Numbers, WORDS};

    const ROUNDS: usize = if cfg!(miri) { 3 } else { 2000 };

    fn encoded(encoder: &Encoder, context: &mut Context, text: &str, ordinary: bool) -> Vec<u32> {
        let mut ids = Vec::new();
        encoder.encode(text.as_bytes(), ordinary, context, &mut ids, &mut || true);
        ids
    }

    #[test]
    fn ids_are_those_of_pieces_merged_one_by_one_whatever_the_context_has_seen() {
        let mut words = WORDS.to_vec();
        words.extend(SPECIAL.map(|(literal, _)| literal));
        words.extend(["中文中文中", "日本中文", "thehenthehen", "aaaaaaa", "<|a|"]);
        for pattern in PATTERNS {
            let encoder = encoder(Some(pattern));
            let (mut context, mut numbers) = (Context::default(), Numbers::new(1));
            for round in 0..ROUNDS {
                let text = numbers.text(&words, if round % 100 == 0 { 3000 } else { 40 });
                let ordinary = round % 2 == 0;
                let ids = encoded(&encoder, &mut context, &text, ordinary);
                assert!(ids == ids_plainly(&encoder, &text, ordinary), "{text:?}");
            }
        }
    }

    #[test]
    fn a_piece_that_was_cut_elsewhere_has_the_ids_of_its_merges() {
        let encoder = encoder(None);
        let (mut context, mut numbers) = (Context::default(), Numbers::new(2));
        for _ in 0..ROUNDS {
            let piece = numbers.text(&WORDS, 30).into_bytes();
            let (mut ids, mut tokens) = (Vec::<u32>::new(), Vec::new());
            encoder.encode_piece(&piece, &mut context, &mut ids, &mut || true);
            encoder.merges.merge(&piece, &mut Scratch::default(), &mut tokens, &mut || true);
            let expected: Vec<_> =
                tokens.iter().map(|&token| encoder.id_of[token as usize]).collect();
            assert_eq!(ids, expected);
        }
    }

    /// Returns an encoder by merges of neighbours that come up in texts: so its tokens may have many
    /// characters, or parts of some. With `order` 1 ranks rise; else parts may come behind what is
    /// made of them.
    fn encoder_of_texts(numbers: &mut Numbers, letters: &[&str], order: usize) -> Encoder {
        let bytes: [Token; 256] = std::array::from_fn(|byte| 255 - byte as Token);
        let (mut scratch, mut tokens, mut pairs) = (Scratch::default(), Vec::new(), Vec::new());
        let mut merges = Merges::with_room(bytes, 1000, 700).expect("few");
        for token in 256..256 + 60 + numbers.below(400) as Token {
            let text = numbers.text(letters, 30);
            tokens.clear();
            merges.merge(text.as_bytes(), &mut scratch, &mut tokens, &mut || true);
            if tokens.len() > 1 {
                let at = numbers.below(tokens.len() - 1);
                if merges.push(tokens[at], tokens[at + 1], token) {
                    pairs.push((tokens[at], tokens[at + 1], token));
                }
            }
        }
        if order > 1 {
            merges = Merges::with_room(bytes, 1000, 700).expect("few");
            while !pairs.is_empty() {
                let next = if order == 2 { pairs.len() - 1 } else { numbers.below(pairs.len()) };
                let (left, right, made) = pairs.swap_remove(next);
                assert!(merges.push(left, right, made));
            }
        }
        let id_of = (0..1000).map(|token| if token < 256 { 255 - token } else { token }).collect();
        Encoder::new(Some(PATTERNS[numbers.below(4)]), Arc::new(merges), id_of, &[]).expect("few")
    }

    #[test]
    fn ids_of_clauses_are_those_of_their_merges_whatever_tokens_there_are() {
        let letters =
            ["中", "文", "日", "本", "の", "한", "글", "カ", "é", "a", " ", "。", "🙂", "、"];
        let mut numbers = Numbers::new(5);
        for round in 0..ROUNDS / 10 {
            let some = &letters[..2 + numbers.below(letters.len() - 1)];
            let encoder = encoder_of_texts(&mut numbers, some, 1 + round % 3);
            let mut context = Context::default();
            for most in [3, 6, 16, 40, 400, 3000] {
                let text = numbers.text(some, most).repeat(1 + numbers.below(3));
                let ids = encoded(&encoder, &mut context, &text, true);
                assert!(ids == ids_plainly(&encoder, &text, true), "round {round}: {text:?}");
                // A whole text as one piece, of lengths where the ways of merging change.
                for length in [8, 9, 16, 17, 47, 48, 1024, 1025] {
                    let piece = &text.as_bytes()[..text.floor_char_boundary(length)];
                    let (mut ids, mut tokens) = (Vec::<u32>::new(), Vec::new());
                    encoder.encode_piece(piece, &mut context, &mut ids, &mut || true);
                    let mut scratch = Scratch::default();
                    encoder.merges.merge(piece, &mut scratch, &mut tokens, &mut || true);
                    let id = |token: &Token| encoder.id_of[*token as usize];
                    assert!(ids == tokens.iter().map(id).collect::<Vec<_>>(), "round {round}");
                }
            }
        }
    }

    #[test]
    fn few_clauses_and_many_stand_where_they_stood_between_other_pieces() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let (mut context, mut numbers) = (Context::default(), Numbers::new(6));
        let long = ["thehen".repeat(200), "then!".repeat(20), "aaaa".repeat(8000)];
        for clauses in [1, 2, FEW - 1, FEW, FEW + 1, FEW + 2, 100, 400] {
            for of_long in 0..if cfg!(miri) { 1 } else { 20 } {
                let mut words = vec![" then"; 300];
                words.extend(vec![" 中文中日本文中文"; clauses]);
                words.extend(long.iter().map(String::as_str).take(of_long % 4));
                for i in 1..words.len() {
                    words.swap(i, numbers.below(i + 1));
                }
                let text = words.join(" ");
                let ids = encoded(&encoder, &mut context, &text, true);
                assert!(ids == ids_plainly(&encoder, &text, true), "{clauses} clauses: {text:?}");
            }
        }
    }

    #[test]
    fn all_sinks_are_given_the_same_ids() {
        let encoder = encoder(Some(Pattern::Cl100k));
        let (mut context, mut numbers) = (Context::default(), Numbers::new(3));
        for _ in 0..ROUNDS / 10 {
            let text = numbers.text(&WORDS, 500);
            let ids = encoded(&encoder, &mut context, &text, false);
            let (mut short, mut count) = (vec![9_u16], Count(1));
            encoder.encode(text.as_bytes(), false, &mut context, &mut short, &mut || true);
            encoder.encode(text.as_bytes(), false, &mut context, &mut count, &mut || true);
            assert!(short[1..].iter().map(|&id| u32::from(id)).eq(ids.iter().copied()));
            assert_eq!((short[0], count.0), (9, 1 + ids.len()), "what is there already stays");
        }
    }

    #[test]
    fn of_special_literals_the_longest_counts() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let mut context = Context::default();
        let mut ids = |text| encoded(&encoder, &mut context, text, false);
        assert_eq!(ids("<|a|><|a|><|b|><|a|>"), [7000, 7001, 7000]);
        assert_eq!(ids("'s<|a|>"), [7002, 7000]);
        let a = 255 - u32::from(b'a');
        assert_eq!(ids("a'sa"), [a, 7002, a]);
        assert_eq!(ids("<|a|"), ids_plainly(&encoder, "<|a|", true));
    }

    #[test]
    fn an_empty_text_has_no_ids() {
        let mut context = Context::default();
        assert!(encoded(&encoder(Some(Pattern::Gpt2)), &mut context, "", false).is_empty());
        let mut ids = Vec::<u32>::new();
        encoder(None).encode_piece(b"", &mut context, &mut ids, &mut || true);
        assert!(ids.is_empty());
    }

    #[test]
    fn two_sides_of_a_cut_have_the_ids_of_the_whole() {
        let mut numbers = Numbers::new(4);
        for pattern in PATTERNS {
            let encoder = encoder(Some(pattern));
            let mut context = Context::default();
            for _ in 0..ROUNDS {
                let text = numbers.text(&WORDS, 40);
                let from = numbers.below(text.len() + 1);
                let cut = encoder.next_cut(text.as_bytes(), from, &mut || true);
                assert!((from..=text.len()).contains(&cut));
                let (head, tail) = text.split_at(cut);
                let mut ids = encoded(&encoder, &mut context, head, true);
                ids.extend(encoded(&encoder, &mut context, tail, true));
                assert_eq!(ids, encoded(&encoder, &mut context, &text, true), "{head:?}, {tail:?}");
            }
        }
    }

    #[test]
    fn where_it_is_told_not_to_go_on_it_ends() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let texts = [("a b", 1), ("a", 4), ("<|a|>", 3), ("日本", 1)]
            .map(|(text, times)| text.repeat(times * QUESTION));
        for text in texts {
            let mut all = Count::default();
            let mut asked = 0;
            let mut context = Context::default();
            encoder.encode(text.as_bytes(), false, &mut context, &mut all, &mut || {
                asked += 1;
                true
            });
            assert!(asked > 1);
            let mut some = Count::default();
            encoder.encode(text.as_bytes(), false, &mut context, &mut some, &mut || false);
            assert!(some.0 < all.0, "{} of {}", some.0, all.0);
        }
    }

    #[test]
    fn what_was_ended_leaves_no_wrong_ids_behind() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let mut context = Context::default();
        for length in (1..100).chain([1000, 1024, 1025, 1100, 3000]) {
            let text = "then".repeat(length)[..length].to_string();
            encoder.encode(text.as_bytes(), true, &mut context, &mut Count(0), &mut || false);
            let ids = encoded(&encoder, &mut context, &text, true);
            assert!(ids == ids_plainly(&encoder, &text, true), "{length} bytes");
        }
    }

    #[test]
    fn a_context_that_is_put_back_is_taken_again_but_not_the_room_of_long_pieces() {
        let encoder = encoder(None);
        let mut context = encoder.take_context();
        let piece = b"!a".repeat(2 * MOST_ROOM);
        encoder.encode_piece(&piece, &mut context, &mut Count::default(), &mut || true);
        context.ids = vec![1, 2, 3];
        encoder.put_context(context);
        let context = encoder.take_context();
        assert_eq!(context.ids, [1, 2, 3]);
        assert!(context.merging.tokens.capacity() <= MOST_ROOM);
        assert!(context.merging.scratch.room() <= MOST_ROOM);
        assert!(encoder.take_context().ids.is_empty(), "it is one that no other call has");
    }

    #[test]
    fn no_more_contexts_are_kept_than_are_of_use() {
        let encoder = encoder(None);
        let contexts: Vec<_> = (0..MOST_CONTEXTS + 3).map(|_| encoder.take_context()).collect();
        contexts.into_iter().for_each(|context| encoder.put_context(context));
        assert_eq!(encoder.contexts.lock().expect("nobody has it").len(), MOST_CONTEXTS);
    }

    #[test]
    fn who_never_gives_the_lock_back_is_not_waited_for() {
        let encoder = encoder(Some(Pattern::Gpt2));
        let held = encoder.contexts.lock();
        let mut context = encoder.take_context();
        assert_eq!(encoded(&encoder, &mut context, "!", false), [255 - u32::from(b'!')]);
        encoder.put_context(context);
        drop(held);
        assert_eq!(encoder.contexts.lock().expect("nobody has it").len(), 0);
    }
}
