//! Text to ids: special literals out, the rest into pieces, and their ids out of a cache.

use std::sync::Mutex;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::cache::{self, Cache, Key};
use crate::merge::{Merges, Scratch};
use crate::scan::{Pattern, Pieces};

/// What encodes texts by one vocabulary; many threads may, at the same time.
pub struct Encoder {
    pattern: Option<Pattern>,
    merges: Merges,
    id_of: Vec<u32>,
    special: Option<(AhoCorasick, Vec<u32>)>,
    /// Contexts that no call has in use. The lock is held to take one out, and to put it back.
    contexts: Mutex<Vec<Context>>,
}

/// What one thread works with: what it has learnt is kept for the next call.
#[derive(Default)]
pub struct Context {
    cache: Cache,
    scratch: Scratch,
    tokens: Vec<u32>,
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

    pub fn take_context(&self) -> Context {
        let mut contexts = self.contexts.lock().unwrap_or_else(|error| error.into_inner());
        contexts.pop().unwrap_or_default()
    }

    pub fn put_context(&self, context: Context) {
        let mut contexts = self.contexts.lock().unwrap_or_else(|error| error.into_inner());
        contexts.push(context);
    }

    pub fn has_scanner(&self) -> bool {
        self.pattern.is_some()
    }

    /// Puts the ids of a text behind those in `ids`, special literals being their ids.
    ///
    /// `go_on` is asked now and then; where it says no, that is the end.
    pub fn encode(
        &self,
        text: &str,
        context: &mut Context,
        ids: &mut Vec<u32>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let Some((automaton, special_ids)) = &self.special else {
            return self.encode_ordinary(text, context, ids, go_on);
        };
        let mut start = 0;
        for found in automaton.find_iter(text) {
            self.encode_ordinary(&text[start..found.start()], context, ids, go_on);
            ids.push(special_ids[found.pattern().as_usize()]);
            start = found.end();
        }
        self.encode_ordinary(&text[start..], context, ids, go_on);
    }

    /// Puts the ids of a text behind those in `ids`, special literals being ordinary text.
    ///
    /// Some pieces are cut before the ids of the first are looked up, so that what the look-ups
    /// need is on its way by then.
    pub fn encode_ordinary(
        &self,
        text: &str,
        context: &mut Context,
        ids: &mut Vec<u32>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        let pattern = self.pattern.expect("a pattern that has a scanner");
        let mut pieces = Pieces::new(pattern, text);
        let bytes = text.as_bytes();
        let mut ends = [0; BATCH];
        let mut batch = [Piece { key: 0, end: 0 }; BATCH];
        let (mut first, mut next_question) = (0, QUESTION);
        while first < bytes.len() {
            if first > next_question {
                next_question += QUESTION;
                if !go_on() {
                    return;
                }
            }
            let count = pieces.next_ends(&mut ends);
            let mut start = first;
            for (piece, &end) in batch.iter_mut().zip(&ends[..count]) {
                let end = end as usize;
                let length = end - start;
                let key = if length <= cache::SHORT {
                    let key = cache::key(bytes, start, end);
                    context.cache.prefetch_short(key);
                    key
                } else if length <= cache::LONGEST {
                    let hash = cache::hash_long(&bytes[start..end]);
                    context.cache.prefetch_long(hash);
                    hash.into()
                } else {
                    0
                };
                *piece = Piece { key, end };
                start = end;
            }
            first = self.encode_batch(bytes, first, &batch[..count], context, ids);
        }
    }

    /// Puts the ids of one piece behind those in `ids`.
    pub fn encode_piece(&self, piece: &[u8], context: &mut Context, ids: &mut Vec<u32>) {
        let key = match piece.len() {
            0 => return,
            length @ 1..=cache::SHORT => cache::key(piece, 0, length),
            ..=cache::LONGEST => cache::hash_long(piece).into(),
            _ => 0,
        };
        self.encode_batch(piece, 0, &[Piece { key, end: piece.len() }], context, ids);
    }

    /// Puts the ids of the pieces of a batch, which begins at `start`, behind those in `ids`;
    /// returns where it ends.
    #[inline(always)]
    fn encode_batch(
        &self,
        text: &[u8],
        mut start: usize,
        batch: &[Piece],
        context: &mut Context,
        ids: &mut Vec<u32>,
    ) -> usize {
        let mut length = ids.len();
        ids.resize(length + ROOM, 0);
        for &Piece { key, end } in batch {
            if length + cache::LONGEST > ids.len() {
                ids.resize(length + ROOM, 0);
            }
            let piece = &text[start..end];
            let known = match piece.len() {
                ..=cache::SHORT => context.cache.write_short(key, ids, length),
                ..=cache::LONGEST => context.cache.write_long(key as u64, piece, ids, length),
                _ => None,
            };
            length += match known {
                Some(count) => count,
                None => {
                    ids.truncate(length);
                    self.merge(piece, key, context, ids);
                    let count = ids.len() - length;
                    ids.resize(ids.len() + ROOM, 0);
                    count
                }
            };
            start = end;
        }
        ids.truncate(length);
        start
    }

    /// Puts the ids of a piece behind those in `ids`, and remembers them.
    #[cold]
    #[inline(never)]
    fn merge(&self, piece: &[u8], key: Key, context: &mut Context, ids: &mut Vec<u32>) {
        let Context { cache, scratch, tokens } = context;
        let first = ids.len();
        tokens.clear();
        self.merges.merge(piece, scratch, tokens);
        ids.extend(tokens.iter().map(|&token| self.id_of[token as usize]));
        match piece.len() {
            ..=cache::SHORT => cache.put_short(key, &ids[first..]),
            ..=cache::LONGEST => cache.put_long(key as u64, piece, &ids[first..]),
            _ => (),
        }
    }
}

/// A piece that was cut, and is to be looked up.
#[derive(Clone, Copy)]
struct Piece {
    /// The key of a short piece, the hash of a long one.
    key: Key,
    end: usize,
}

/// How many pieces are cut before the first is looked up.
const BATCH: usize = 128;

/// After how many bytes it is asked whether to go on.
const QUESTION: usize = 1 << 22;

/// How many ids there is room for, whenever more is made: that of some pieces at least.
const ROOM: usize = 1024;
