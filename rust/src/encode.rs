//! Text to ids: special literals out, the rest into pieces, and their ids out of a cache.

use std::sync::Mutex;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::cache::{self, BATCH, Cache, NotInFront, Packed};
use crate::merge::{Merges, Scratch, Token};
use crate::scan::{Pattern, Pieces};
use crate::simd::{Kernel, Vectors, Work};
use crate::spans::Spans;

/// What encodes texts by one vocabulary; many threads may, at the same time.
pub struct Encoder {
    pattern: Option<Pattern>,
    merges: Merges,
    id_of: Vec<u32>,
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
        }
    }
}

/// What is done with ids.
pub trait Sink {
    /// Takes the ids of pieces, in order, of which some may be in the cache.
    fn take_packed(&mut self, packed: &[Packed], cache: &Cache);

    fn take(&mut self, ids: &[u32]);
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
}

impl Sink for Vec<u32> {
    #[inline(always)]
    fn take_packed(&mut self, packed: &[Packed], cache: &Cache) {
        let mut length = self.len();
        self.resize(length + 4 * packed.len(), 0);
        for (i, ids) in packed.iter().enumerate() {
            if ids.is_elsewhere() {
                let more = cache.ids_elsewhere(*ids);
                self.resize(length + more.len() + 4 * (packed.len() - i), 0);
                self[length..length + more.len()].copy_from_slice(more);
                length += more.len();
            } else {
                // All are written, however many there are: that is faster than to choose.
                if let Some(room) = self[length..].first_chunk_mut() {
                    *room = ids.inner_ids();
                }
                length += ids.inner_count();
            }
        }
        self.truncate(length);
    }

    fn take(&mut self, ids: &[u32]) {
        self.extend_from_slice(ids);
    }
}

impl Encoder {
    /// `id_of` has the id of each token; `special` the literals and their ids.
    pub fn new(
        pattern: Option<Pattern>,
        merges: Merges,
        id_of: Vec<u32>,
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
        let contexts = Mutex::default();
        Ok(Encoder { pattern, merges, id_of, special, contexts })
    }

    pub fn take_context(&self) -> Box<Context> {
        let mut contexts = self.contexts.lock().unwrap_or_else(|error| error.into_inner());
        contexts.pop().unwrap_or_default()
    }

    pub fn put_context(&self, context: Box<Context>) {
        let mut contexts = self.contexts.lock().unwrap_or_else(|error| error.into_inner());
        contexts.push(context);
    }

    pub fn spans(&self) -> Option<&Spans> {
        self.merges.spans()
    }

    pub fn has_scanner(&self) -> bool {
        self.pattern.is_some()
    }

    /// Gives the ids of a text to `sink`, special literals being their ids.
    ///
    /// `go_on` is asked now and then; where it says no, that is the end.
    pub fn encode(
        &self,
        text: &str,
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let Some((automaton, special_ids)) = &self.special else {
            return self.encode_ordinary(text, context, sink, go_on);
        };
        let mut start = 0;
        for found in automaton.find_iter(text) {
            self.encode_ordinary(&text[start..found.start()], context, sink, go_on);
            sink.take(&special_ids[found.pattern().as_usize()..][..1]);
            start = found.end();
        }
        self.encode_ordinary(&text[start..], context, sink, go_on);
    }

    /// Gives the ids of a text to `sink`, special literals being ordinary text.
    pub fn encode_ordinary(
        &self,
        text: &str,
        context: &mut Context,
        sink: &mut impl Sink,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let Some(pattern) = self.pattern else { return };
        let mut pieces = Pieces::new(pattern, text);
        let mut next_question = QUESTION;
        let mut at = 0;
        while at < text.len() {
            context.bounds[0] = at as u32;
            let count = pieces.next_ends(&mut context.bounds[1..]);
            at = context.bounds[count] as usize;
            self.encode_pieces(text.as_bytes(), count, context, sink);
            if at > next_question {
                next_question += QUESTION;
                if !go_on() {
                    return;
                }
            }
        }
    }

    /// Gives the ids of one piece to `sink`.
    pub fn encode_piece(&self, piece: &[u8], context: &mut Context, sink: &mut impl Sink) {
        if !piece.is_empty() {
            context.bounds[..2].copy_from_slice(&[0, piece.len() as u32]);
            self.encode_pieces(piece, 1, context, sink);
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
    ) {
        context.cache.tidy();
        Kernel::get().run(EncodePieces { encoder: self, text, count, context, sink });
    }
}

/// What merges the pieces that are not in the cache.
struct Merger<'a> {
    encoder: &'a Encoder,
    merging: &'a mut Merging,
}

impl cache::Merge for Merger<'_> {
    fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
        let Merging { scratch, tokens } = self.merging;
        tokens.clear();
        self.encoder.merges.merge(piece, scratch, tokens);
        ids.extend(tokens.iter().map(|&token| self.encoder.id_of[token as usize]));
    }

    fn spans(&self) -> Option<&Spans> {
        self.encoder.merges.spans()
    }
}

struct EncodePieces<'a, S> {
    encoder: &'a Encoder,
    text: &'a [u8],
    count: usize,
    context: &'a mut Context,
    sink: &'a mut S,
}

impl<S: Sink> Work for EncodePieces<'_, S> {
    type Result = ();

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let EncodePieces { encoder, text, count, context, sink } = self;
        let Context { cache, merging, bounds, packed, missing } = context;
        let bounds = &bounds[..=count];
        let packed = &mut packed[..count];
        cache.look_in_front(vectors, text, bounds, packed, missing);
        cache.look_in_tables(text, bounds, packed, missing, &mut Merger { encoder, merging });
        sink.take_packed(packed, cache);
    }
}

/// After how many bytes it is asked whether to go on.
const QUESTION: usize = 1 << 22;
