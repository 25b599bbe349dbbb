//! The encoder of a vocabulary: from a text to segments, pieces and ids.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, TryLockError};

use super::batch::{self, Context, EncodeFragments, EncodePieces, Fragments, Job, PieceEncoder};
use super::literals::Literals;
use super::sink::Sink;
use crate::interrupt::{Interrupt, Interrupted};
use crate::mem::growth::{boxed, filled};
use crate::merge::{MergeScratch, MergeTable};
use crate::simd::Isa;
use crate::split::{self, Pieces, Splitter};
use crate::types::{BATCH, TokenIndex};

/// Encodes texts with one vocabulary. Many threads may use it at once.
pub struct Encoder {
    /// Each splits the pieces of the splitter before as texts of their own. Without any, there are
    /// no pieces.
    splitters: Vec<Splitter>,
    pub(super) pieces: Arc<PieceEncoder>,
    pub(super) special: Option<Literals>,
    /// Contexts that no call uses. The lock is held only to take one out or to put one back.
    contexts: Arc<Mutex<Vec<Box<Context>>>>,
}

impl Encoder {
    /// `id_of` has the id of each token, `special` the literals of special tokens and their ids.
    pub fn new(
        splitters: Vec<Splitter>,
        merges: Arc<MergeTable>,
        id_of: Arc<Vec<u32>>,
        special: &[(String, u32)],
    ) -> Encoder {
        split::prepare();
        let pieces = Arc::new(PieceEncoder::new(merges, id_of));
        Encoder { splitters, pieces, special: None, contexts: Arc::default() }
            .allowing(special, &[])
    }

    /// Returns the encoder with several ids for some tokens.
    pub fn expanding(mut self, ids_of: impl Fn(TokenIndex) -> Option<Vec<u32>>) -> Encoder {
        if let Some(pieces) = Arc::get_mut(&mut self.pieces) {
            pieces.expand(ids_of);
        }
        self
    }

    /// Returns the encoder that drops some bytes of each piece before it is merged.
    pub fn dropping(mut self, bytes: &[u8]) -> Encoder {
        if let Some(pieces) = Arc::get_mut(&mut self.pieces) {
            pieces.drop_bytes(bytes);
        }
        self
    }

    /// Returns an encoder with other special tokens that shares everything else. The `plain` ones
    /// count in untrusted text too.
    pub fn allowing(&self, special: &[(String, u32)], plain: &[String]) -> Encoder {
        let plain: HashSet<&str> = plain.iter().map(String::as_str).collect();
        let is_plain = |literal: &str| plain.contains(literal);
        Encoder {
            splitters: self.splitters.clone(),
            pieces: Arc::clone(&self.pieces),
            special: (!special.is_empty()).then(|| Literals::new(special, is_plain)),
            contexts: Arc::clone(&self.contexts),
        }
    }

    pub fn has_special(&self) -> bool {
        self.special.is_some()
    }

    /// Returns the start and the end of the first special literal in a text.
    pub fn first_special(&self, text: &[u8]) -> Option<(usize, usize)> {
        let mut first = None;
        self.special.as_ref()?.for_each(text, |found| {
            first = Some((found.start, found.end));
            false
        });
        first
    }

    /// Returns a context that no other call uses.
    pub fn take_context(&self) -> Box<Context> {
        self.with_contexts(Vec::pop).flatten().unwrap_or_else(boxed)
    }

    /// Keeps a context for later calls, without the memory of long pieces.
    pub fn put_context(&self, mut context: Box<Context>) {
        context.cache.begin_batch();
        if context.scratch.room() > MAX_POOLED_PIECE_BYTES {
            context.scratch = MergeScratch::default();
        }
        self.with_contexts(|contexts| {
            if contexts.len() < MAX_POOLED_CONTEXTS {
                contexts.push(context);
            }
        });
    }

    /// Works with the unused contexts, or returns None if the lock stays taken. The lock is held
    /// only briefly, but in a forked process its owner may be gone, so this gives up after 1,000
    /// tries.
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

    /// Returns the first safe split of a text from `from` on, where both sides, encoded as ordinary
    /// text, have the ids of the whole. Returns the length if no place is one, or on an interrupt.
    pub fn next_safe_split(&self, text: &[u8], from: usize, interrupt: &mut Interrupt) -> usize {
        let all: Vec<_> = self.splitters.iter().map(|each| Pieces::new(each, text)).collect();
        // The first splitters have no match there, and the next one ends a piece.
        let is_safe = |at: usize| {
            let mut next =
                all.iter().skip_while(|each| !each.is_safe_split(at) && each.is_apart(at));
            next.next().is_some_and(|each| each.is_safe_split(at))
        };
        let mut positions = (from..text.len()).take_while(|_| interrupt.advance(1).is_ok());
        positions.find(|&at| is_safe(at)).unwrap_or(text.len())
    }

    /// Encodes a text in UTF-8. Special literals become their ids, unless `ordinary` is true.
    pub fn encode<S: Sink>(&self, text: &[u8], ordinary: bool, job: &mut Job<'_, '_, S>) {
        self.for_each_segment(text, ordinary, |segment, special| {
            let goes_on = self.encode_ordinary(segment, job).is_ok();
            job.sink.take(special);
            goes_on && job.interrupt.advance(1).is_ok()
        });
    }

    /// Calls `take` for each segment of ordinary text, with the id of the special token after it,
    /// as long as `take` returns true.
    pub fn for_each_segment<'t>(
        &self,
        text: &'t [u8],
        ordinary: bool,
        mut take: impl FnMut(&'t [u8], &[u32]) -> bool,
    ) {
        let mut start = 0;
        let mut goes_on = true;
        if let (false, Some(literals)) = (ordinary, &self.special) {
            literals.for_each(text, |found| {
                goes_on = take(&text[start..found.start], &[found.id]);
                start = found.end;
                goes_on
            });
        }
        if goes_on {
            take(&text[start..], &[]);
        }
    }

    pub fn encode_ordinary<S: Sink>(
        &self,
        text: &[u8],
        job: &mut Job<'_, '_, S>,
    ) -> Result<(), Interrupted> {
        self.encode_adjacent(text, &[text.len() as u32], job)
    }

    /// Encodes adjacent texts in `text`, which end at `ends`. A batch of pieces may cross an end,
    /// but a piece never does.
    pub fn encode_adjacent<S: Sink>(
        &self,
        text: &[u8],
        ends: &[u32],
        job: &mut Job<'_, '_, S>,
    ) -> Result<(), Interrupted> {
        self.encode_in_turn(&self.splitters, 0, text, ends, job)
    }

    /// Encodes the texts from `start` on, which end at `ends`, by splitters in turn.
    fn encode_in_turn<S: Sink>(
        &self,
        splitters: &[Splitter],
        mut start: usize,
        text: &[u8],
        ends: &[u32],
        job: &mut Job<'_, '_, S>,
    ) -> Result<(), Interrupted> {
        let (first, others) = match splitters {
            [] => return Ok(()),
            [last] => return self.encode_from(last, start, text, ends, job),
            [first, others @ ..] => (first, others),
        };
        let mut pieces = Pieces::of_texts(first, text, start, ends);
        let mut found = filled(0, MAX_ENDS);
        loop {
            let count = pieces.next_ends(&mut found);
            let Some(&end) = found[..count].last() else { return Ok(()) };
            self.encode_in_turn(others, start, text, &found[..count], job)?;
            start = end as usize;
        }
    }

    /// Encodes the texts from `start` on, which end at `ends`.
    fn encode_from<S: Sink>(
        &self,
        splitter: &Splitter,
        start: usize,
        text: &[u8],
        ends: &[u32],
        job: &mut Job<'_, '_, S>,
    ) -> Result<(), Interrupted> {
        let mut pieces = Pieces::of_texts(splitter, text, start, ends);
        let may_have_words = splitter.may_join_words();
        // Cuts have split CJK runs already.
        let whole_cjk_runs = matches!(splitter, Splitter::Cuts(_));
        let mut next_forecast = start + FIRST_FORECAST_BYTES;
        let first = job.sink.count();
        let mut at = start;
        loop {
            job.context.bounds[0] = at as u32;
            let count = pieces.next_ends(&mut job.context.bounds[1..]);
            let end = job.context.bounds[count] as usize;
            if end <= at {
                // This is the end, or another thread has changed the text, which is then not UTF-8.
                return Ok(());
            }
            let has_words = may_have_words && end - at >= count * MIN_WORDS_BYTES;
            match if has_words { self.pieces.fragments() } else { None } {
                Some(fragments) => {
                    let bounds = job.context.bounds;
                    self.encode_fragments(fragments, text, at, &bounds[1..=count], job)?;
                }
                None => self.encode_pieces(text, count, whole_cjk_runs, job),
            }
            job.interrupt.advance(end - at)?;
            at = end;
            if at > next_forecast {
                // Expect 3 % more ids per byte than so far, but at most one per byte.
                let left = text.len() - at;
                let ids_per_byte = (job.sink.count() - first) as f64 / (at - start) as f64;
                let more = ids_per_byte * left as f64 * 1.03;
                job.sink.expect((more as usize).min(left) + 4 * BATCH);
                next_forecast = at + FORECAST_BYTES;
            }
        }
    }

    /// Encodes any bytes as one piece.
    pub fn encode_piece<S: Sink>(&self, piece: &[u8], job: &mut Job<'_, '_, S>) {
        if str::from_utf8(piece).is_err() {
            // The cache cannot be used, because it has parts of pieces, found by whole characters.
            let ids = batch::merged_ids(&self.pieces, piece, job);
            job.sink.take(&ids);
        } else if piece.iter().skip(1).any(|&byte| byte == b' ') {
            self.encode_pieces_at(piece, &[0, piece.len() as u32], job);
        } else if !piece.is_empty() {
            job.context.bounds[..2].copy_from_slice(&[0, piece.len() as u32]);
            self.encode_pieces(piece, 1, false, job);
        }
    }

    /// Encodes up to `BATCH` adjacent pieces. `bounds` has the start of each piece, and the end of
    /// the last. An interrupt leaves the ids incomplete.
    pub fn encode_pieces_at<S: Sink>(&self, text: &[u8], bounds: &[u32], job: &mut Job<'_, '_, S>) {
        let [start, ends @ ..] = bounds else { return };
        let bytes = ends.last().map_or(0, |end| end - start) as usize;
        if bytes == 0 {
            return;
        }
        if bytes >= ends.len() * MIN_WORDS_BYTES
            && let Some(fragments) = self.pieces.fragments()
        {
            let _ = self.encode_fragments(fragments, text, *start as usize, ends, job);
        } else {
            job.context.bounds[..bounds.len()].copy_from_slice(bounds);
            self.encode_pieces(text, ends.len(), false, job);
        }
    }

    /// Encodes the pieces from `start` on, which end at `ends`, fragment by fragment.
    fn encode_fragments<S: Sink>(
        &self,
        fragments: &Fragments,
        text: &[u8],
        start: usize,
        ends: &[u32],
        job: &mut Job<'_, '_, S>,
    ) -> Result<(), Interrupted> {
        let mut at = start;
        loop {
            job.context.bounds[0] = at as u32;
            let mut found = Pieces::of_texts(&fragments.cuts, text, at, ends);
            let count = found.next_ends(&mut job.context.bounds[1..]);
            if count == 0 {
                return Ok(());
            }
            let encoder = &self.pieces;
            let work = EncodeFragments { encoder, fragments, text, count, piece_ends: ends, job };
            let end = Isa::get().run(work);
            job.interrupt.advance(end - at)?;
            at = end;
        }
    }

    /// Encodes the first `count` pieces, whose bounds are in the context.
    #[inline(always)]
    fn encode_pieces<S: Sink>(
        &self,
        text: &[u8],
        count: usize,
        whole_cjk_runs: bool,
        job: &mut Job<'_, '_, S>,
    ) {
        job.context.cache.begin_batch();
        Isa::get().run(EncodePieces { encoder: &self.pieces, text, count, whole_cjk_runs, job });
    }
}

/// The most ends that one call finds, so that memory does not grow with the text.
const MAX_ENDS: usize = 1 << 12;

/// If the mean length of pieces is less, too few of them have several words to look for their
/// parts.
const MIN_WORDS_BYTES: usize = 8;

/// The most contexts that are kept for later calls.
const MAX_POOLED_CONTEXTS: usize = 64;

/// The longest piece for which a context keeps memory.
const MAX_POOLED_PIECE_BYTES: usize = 1 << 16;

/// After this many bytes the sink makes room for the rest of a text; the first time is earlier.
const FORECAST_BYTES: usize = 1 << 20;
const FIRST_FORECAST_BYTES: usize = 1 << 17;

/// Encoders for tests, and their ids in the plainest way.
#[cfg(test)]
pub mod examples {
    use super::*;
    use crate::split::automaton::Node;
    use crate::split::examples::{all_pieces, automaton, gpt2};
    use crate::test_inputs::{Rng, WORDS};
    use crate::types::TokenIndex;

    pub const SPECIAL: [(&str, u32); 3] = [("<|a|>", 7000), ("<|a|><|b|>", 7001), ("'s", 7002)];

    /// Returns an encoder with GPT-2's pattern, others for which digits are split off before, and
    /// some whose pieces and tokens have several words.
    pub fn encoders() -> impl Iterator<Item = Encoder> {
        let digits = |max| {
            let digit = Box::new(Node::Set(0));
            let pattern = Node::Repeat { node: digit, min: 1, max, is_lazy: false };
            automaton(&[pattern], &[vec![(0x30, 0x39), (0x663, 0x669)]], None)
        };
        let before = [vec![], vec![digits(Some(1))], vec![digits(Some(3)), digits(None)]];
        let gpt2s = before.into_iter().map(|before| encoder([before, vec![gpt2()]].concat()));
        let special = SPECIAL.map(|(literal, id)| (literal.to_string(), id));
        let of_words = (0..4).map(move |seed| {
            encoder_of_words(&mut Rng::new(seed), &all_words(), 300).allowing(&special, &[])
        });
        gpt2s.chain(of_words)
    }

    /// Returns an encoder whose merges make tokens of all words, and of longer ones. The ids of the
    /// bytes have another order than the bytes.
    pub fn encoder(splitters: Vec<Splitter>) -> Encoder {
        let bytes = std::array::from_fn(|byte| byte as TokenIndex);
        let mut merges = MergeTable::with_room(bytes, 4000, 3000).expect("few");
        let mut next = 256;
        let longer = ["thehen", "中文中文", "aaaa", "    "].map(|word| word.repeat(9));
        for text in WORDS.iter().copied().chain(longer.iter().map(String::as_str)) {
            for pair in merged(&merges, text.as_bytes()).chunks_exact(2) {
                next += u32::from(merges.push(pair[0], pair[1], next));
            }
        }
        let id_of = Arc::new(
            (0..next).map(|token| if token < 256 { 255 - token } else { token }).collect(),
        );
        let special = SPECIAL.map(|(literal, id)| (literal.to_string(), id));
        Encoder::new(splitters, Arc::new(merges), id_of, &special)
    }

    /// Returns a splitter whose pieces have several words: `[^\n!1]+`.
    pub fn lines() -> Splitter {
        let within = vec![(0, 9), (11, 32), (34, 48), (50, 0x10_FFFF)];
        let node = Box::new(Node::Set(0));
        let pattern = Node::Repeat { node, min: 1, max: None, is_lazy: false };
        automaton(&[pattern], &[within], None)
    }

    /// Returns an encoder whose first merges come from words, and the others from rows of words.
    pub fn encoder_of_words(rng: &mut Rng, words: &[&str], max_superwords: usize) -> Encoder {
        let bytes = std::array::from_fn(|byte| 255 - byte as TokenIndex);
        let table = || MergeTable::with_room(bytes, 1000, 700).expect("few");
        let (mut merges, mut all) = (table(), Vec::new());
        for (most, max_merges) in [(1, 100), (9, max_superwords)] {
            for _ in 0..rng.below(max_merges + 1) {
                let tokens = merged(&merges, rng.text(words, most).as_bytes());
                if tokens.len() > 1 {
                    let at = rng.below(tokens.len() - 1);
                    let (left, right, made) = (tokens[at], tokens[at + 1], 256 + all.len() as u32);
                    if merges.push(left, right, made) {
                        all.push((left, right, made));
                    }
                }
            }
        }
        // A merge may use a token that a later merge makes.
        for _ in 0..[0, 0, 1, 1000][rng.below(4)] {
            let (one, other) = (rng.below(all.len().max(1)), rng.below(all.len().max(1)));
            if !all.is_empty() {
                all.swap(one, other);
            }
        }
        merges = table();
        let ties = [0, 0, 1, 20][rng.below(4)];
        for (left, right, made) in all {
            let is_tied = rng.below(100) < ties && merges.push_tied(left, right, made);
            assert!(is_tied || merges.push(left, right, made));
        }
        // Some ids equal their tokens, up to a byte or a merge of either stage.
        let first = [0, 100, 260, 300, 1000][rng.below(5)];
        let id_of = (0..1000).map(|token| match token {
            _ if token < first => token,
            ..256 => token ^ 1,
            _ => token + 9,
        });
        Encoder::new(vec![lines()], Arc::new(merges), Arc::new(id_of.collect()), &[])
    }

    /// Returns words, special literals, and more words that the encoder has as tokens.
    pub fn all_words() -> Vec<&'static str> {
        let more = ["中文中文中", "日本中文", "thehenthehen", "aaaaaaa", "<|a|"];
        WORDS.into_iter().chain(SPECIAL.map(|(literal, _)| literal)).chain(more).collect()
    }

    pub fn merged(merges: &MergeTable, piece: &[u8]) -> Vec<TokenIndex> {
        merges.merge(piece, &mut MergeScratch::default(), &mut Interrupt::never()).to_vec()
    }

    /// Returns the ids of a piece without a cache.
    pub fn plain_ids_of_piece(encoder: &Encoder, piece: &[u8]) -> Vec<u32> {
        let PieceEncoder { merges, id_of, .. } = &*encoder.pieces;
        merged(merges, piece).iter().map(|&token| id_of[token as usize]).collect()
    }

    /// Returns the ids of a text without a cache and without threads.
    pub fn plain_ids(encoder: &Encoder, text: &str, ordinary: bool) -> Vec<u32> {
        let mut ids = Vec::new();
        encoder.for_each_segment(text.as_bytes(), ordinary, |segment, special| {
            let mut pieces = vec![str::from_utf8(segment).expect("a part of a str")];
            for splitter in &encoder.splitters {
                let split = |text| all_pieces(Pieces::new(splitter, text), text);
                pieces = pieces.into_iter().flat_map(split).collect();
            }
            for piece in pieces {
                ids.extend(plain_ids_of_piece(encoder, piece.as_bytes()));
            }
            ids.extend_from_slice(special);
            true
        });
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::examples::*;
    use super::*;
    use crate::cache::MAX_FEW_CJK_RUNS;
    use crate::encode::{Count, IdList};
    use crate::interrupt::INTERRUPT_CHECK_BYTES;
    use crate::split::examples::gpt2;
    use crate::test_inputs::Rng;
    use crate::types::TokenIndex;

    const ROUNDS: usize = if cfg!(miri) { 3 } else { 2000 };

    /// An encoder and a context, which remembers the pieces of earlier texts.
    struct Fixture {
        encoder: Encoder,
        context: Context,
    }

    impl Fixture {
        fn new(encoder: Encoder) -> Fixture {
            Fixture { encoder, context: Context::default() }
        }

        fn encode(&mut self, text: &str, ordinary: bool, interrupt: &mut Interrupt) -> Vec<u32> {
            let mut ids = IdList::default();
            let job = &mut Job { context: &mut self.context, sink: &mut ids, interrupt };
            self.encoder.encode(text.as_bytes(), ordinary, job);
            ids.into_vec()
        }

        fn ids_of_piece(&mut self, piece: &[u8]) -> Vec<u32> {
            let (mut ids, interrupt) = (IdList::default(), &mut Interrupt::never());
            let job = &mut Job { context: &mut self.context, sink: &mut ids, interrupt };
            self.encoder.encode_piece(piece, job);
            ids.into_vec()
        }

        fn check(&mut self, text: &str, ordinary: bool) {
            let ids = self.encode(text, ordinary, &mut Interrupt::never());
            assert!(ids == plain_ids(&self.encoder, text, ordinary), "{text:?}");
        }
    }

    #[test]
    fn ids_do_not_depend_on_earlier_texts() {
        let words = all_words();
        for encoder in encoders() {
            let (mut fixture, mut rng) = (Fixture::new(encoder), Rng::new(1));
            for round in 0..ROUNDS {
                let text = rng.text(&words, if round % 100 == 0 { 3000 } else { 40 });
                fixture.check(&text, round % 2 == 0);
            }
        }
    }

    /// Returns an encoder whose merges come from neighbours in texts, so that tokens may have many
    /// characters, or parts of some. Ranks ascend if `order` is 1; else one half of a token may
    /// have a higher rank than the token.
    fn encoder_of_texts(rng: &mut Rng, letters: &[&str], order: usize) -> Encoder {
        let bytes = std::array::from_fn(|byte| 255 - byte as TokenIndex);
        let mut pairs = Vec::new();
        let mut merges = MergeTable::with_room(bytes, 1000, 700).expect("few");
        for token in 256..256 + 60 + rng.below(400) as TokenIndex {
            let tokens = merged(&merges, rng.text(letters, 30).as_bytes());
            if tokens.len() > 1 {
                let at = rng.below(tokens.len() - 1);
                if merges.push(tokens[at], tokens[at + 1], token) {
                    pairs.push((tokens[at], tokens[at + 1], token));
                }
            }
        }
        if order > 1 {
            merges = MergeTable::with_room(bytes, 1000, 700).expect("few");
            while !pairs.is_empty() {
                let next = if order == 2 { pairs.len() - 1 } else { rng.below(pairs.len()) };
                let (left, right, made) = pairs.swap_remove(next);
                assert!(merges.push(left, right, made));
            }
        }
        let id_of = Arc::new(
            (0..1000).map(|token| if token < 256 { 255 - token } else { token }).collect(),
        );
        Encoder::new(vec![gpt2()], Arc::new(merges), id_of, &[])
    }

    #[test]
    fn cjk_runs_have_the_ids_of_their_merges() {
        let letters =
            ["中", "文", "日", "本", "の", "한", "글", "カ", "é", "a", " ", "。", "🙂", "、"];
        let mut rng = Rng::new(5);
        for round in 0..ROUNDS / 10 {
            let some = &letters[..2 + rng.below(letters.len() - 1)];
            let mut fixture = Fixture::new(encoder_of_texts(&mut rng, some, 1 + round % 3));
            for max_letters in [3, 6, 16, 40, 400, 3000] {
                let text = rng.text(some, max_letters).repeat(1 + rng.below(3));
                fixture.check(&text, true);
                // The text as one piece, with lengths at which the algorithm changes.
                for length in [0, 8, 9, 16, 17, 47, 48, 1024, 1025] {
                    let piece = &text.as_bytes()[..text.floor_char_boundary(length)];
                    let expected = plain_ids_of_piece(&fixture.encoder, piece);
                    assert!(fixture.ids_of_piece(piece) == expected, "round {round}: {text:?}");
                }
            }
        }
    }

    #[test]
    fn words_that_may_merge_have_the_ids_of_their_piece() {
        let words = [
            " of", " the", "the", " a", "  ", " ", "\t", " thesis", " offers", " b", "!", "\n",
            " 中文", "中", "文中日本語文", " über", " \u{a0}", "1", " internationalization", "\0",
        ];
        let mut rng = Rng::new(8);
        for round in 0..ROUNDS / 10 {
            let some = &words[..1 + rng.below(words.len())];
            let max_superwords = [0, 5, 60, 300][round % 4];
            let mut fixture = Fixture::new(encoder_of_words(&mut rng, some, max_superwords));
            for most in [3, 9, 40, 400, 3000] {
                let text = rng.text(some, most);
                fixture.check(&text, true);
                let expected = plain_ids_of_piece(&fixture.encoder, text.as_bytes());
                assert!(fixture.ids_of_piece(text.as_bytes()) == expected, "{text:?}");
            }
        }
    }

    #[test]
    fn merges_of_one_rank_are_done_from_left_to_right() {
        let bytes = std::array::from_fn(|byte| byte as TokenIndex);
        let mut merges = MergeTable::with_room(bytes, 300, 9).expect("few");
        let [b, c, d, y, space] = [b'b', b'c', b'd', b'y', b' '].map(TokenIndex::from);
        assert!(merges.push(space, c, 256));
        assert!(merges.push_tied(b, space, 257)); // it comes first in `b c`
        assert!(merges.push(d, 256, 258) && merges.push(257, y, 259));
        let ids = Arc::new((0..300).collect());
        let mut fixture = Fixture::new(Encoder::new(vec![lines()], Arc::new(merges), ids, &[]));
        for text in ["aaaaaab c", "ab cd c b y b cccc", "dd cb cb ydd c"] {
            fixture.check(text, true);
        }
    }

    #[test]
    fn any_number_of_words_may_merge() {
        let bytes = std::array::from_fn(|byte| byte as TokenIndex);
        let mut merges = MergeTable::with_room(bytes, 400, 40).expect("few");
        // The words ` a` and ` b`, and ` a` twice, four times, and so on.
        let mut pairs = vec![(b' '.into(), b'a'.into()), (b' '.into(), b'b'.into()), (256, 256)];
        pairs.extend((258..270).map(|token| (token, token)));
        for (&(left, right), made) in pairs.iter().zip(256..) {
            assert!(merges.push(left, right, made));
        }
        let encoder =
            Encoder::new(vec![lines()], Arc::new(merges), Arc::new((0..300).collect()), &[]);
        let mut fixture = Fixture::new(encoder);
        for count in [1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 2 * BATCH + 1, 5 * BATCH] {
            for before in [0, 1, 2, BATCH - 1, BATCH] {
                let text = [" b".repeat(before), " a".repeat(count), " b b".into()].concat();
                fixture.check(&text, true);
                fixture.check(&format!("{text}\n{text}"), true);
            }
        }
    }

    #[test]
    fn few_and_many_cjk_runs_stay_in_order() {
        let mut fixture = Fixture::new(encoder(vec![gpt2()]));
        let mut rng = Rng::new(6);
        let long = ["thehen".repeat(200), "then!".repeat(20), "aaaa".repeat(8000)];
        for runs in (MAX_FEW_CJK_RUNS - 1..=MAX_FEW_CJK_RUNS + 2).chain([1, 2, 100, 400]) {
            for round in 0..if cfg!(miri) { 1 } else { 20 } {
                let mut words = vec![" then"; 300];
                words.extend(vec![" 中文中日本文中文"; runs]);
                words.extend(long.iter().map(String::as_str).take(round % 4));
                for i in 1..words.len() {
                    words.swap(i, rng.below(i + 1));
                }
                fixture.check(&words.join(" "), true);
            }
        }
    }

    #[test]
    fn pieces_of_any_bytes_merge_as_they_are() {
        let mut rng = Rng::new(7);
        let letters = ["a", " ", "中", "文", "é", "\u{800}"];
        for order in 0..2 {
            let mut fixture = Fixture::new(encoder_of_texts(&mut rng, &letters, order));
            let text = letters.concat().into_bytes();
            for _ in 0..ROUNDS {
                let piece: Vec<u8> =
                    (0..rng.below(40)).map(|_| text[rng.below(text.len())]).collect();
                let ids = plain_ids_of_piece(&fixture.encoder, &piece);
                assert_eq!(fixture.ids_of_piece(&piece), ids, "{piece:?}");
            }
        }
    }

    #[test]
    fn an_interrupt_leaves_no_wrong_ids_in_the_cache() {
        let mut fixture = Fixture::new(encoder(vec![gpt2()]));
        for length in (1..100).chain([1000, 1024, 1025, 1100, 3000]) {
            let text = &"then".repeat(length)[..length];
            fixture.encode(text, false, &mut Interrupt::new(&mut || true));
            fixture.check(text, true);
        }
    }

    #[test]
    fn an_interrupt_ends_a_text_after_its_next_special_token() {
        let mut fixture = Fixture::new(encoder(vec![gpt2()]));
        let mut always = || true;
        let mut interrupt = Interrupt::new(&mut always);
        assert_eq!(interrupt.advance(INTERRUPT_CHECK_BYTES - 1), Ok(()));
        let [(literal, id), ..] = SPECIAL;
        let ids = fixture.encode(&format!("a{literal}b{literal}"), false, &mut interrupt);
        assert_eq!(ids, [255 - u32::from(b'a'), id]);
    }

    #[test]
    fn a_context_is_reused_without_the_memory_of_long_pieces() {
        let encoder = encoder(Vec::new());
        let mut context = encoder.take_context();
        let piece = b"!a".repeat(2 * MAX_POOLED_PIECE_BYTES);
        let (sink, interrupt) = (&mut Count(0), &mut Interrupt::never());
        encoder.encode_piece(&piece, &mut Job { context: &mut context, sink, interrupt });
        assert!(context.scratch.room() > MAX_POOLED_PIECE_BYTES);
        context.ids.take(&[1, 2, 3]);
        encoder.put_context(context);
        let context = encoder.take_context();
        assert_eq!(context.ids.all(), [1, 2, 3]);
        assert!(context.scratch.room() <= MAX_POOLED_PIECE_BYTES);
        assert!(encoder.take_context().ids.all().is_empty(), "no other call uses it");
    }

    #[test]
    fn the_number_of_contexts_kept_is_bounded() {
        let encoder = encoder(Vec::new());
        let contexts: Vec<_> =
            (0..MAX_POOLED_CONTEXTS + 3).map(|_| encoder.take_context()).collect();
        contexts.into_iter().for_each(|context| encoder.put_context(context));
        assert_eq!(encoder.contexts.lock().expect("no thread has it").len(), MAX_POOLED_CONTEXTS);
    }

    #[test]
    fn a_lock_that_is_never_released_blocks_no_call() {
        let mut fixture = Fixture::new(encoder(vec![gpt2()]));
        let contexts = Arc::clone(&fixture.encoder.contexts);
        let lock = contexts.lock();
        fixture.context = *fixture.encoder.take_context();
        fixture.check("!", false);
        fixture.encoder.put_context(Box::default());
        drop(lock);
        assert_eq!(contexts.lock().expect("no thread has it").len(), 0);
    }
}
