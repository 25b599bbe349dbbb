//! A cache of the ids of pieces, which is exact because a key is the whole piece. Its bounds are in
//! `types.rs` for the longest cached piece (`MAX_CACHED_PIECE`), in `simd/words.rs` for the first
//! level, in `table.rs` for the tables and in `pieces.rs` for longer pieces. The Python engine has
//! a simpler cache with its own bounds, in `_encoder.py`.
//!
//! The first level is a small table of recent pieces of up to 8 bytes, as most pieces are, and fits
//! the processor's second-level cache. After it come tables for pieces of up to 8, 16 and 47 bytes,
//! which grow up to a bound, from where on new pieces replace others. The few longer pieces are in
//! a map.
//!
//! A lookup reads a bounded number of slots in each table, and the map hashes with random seeds. So
//! the most expensive text is a text of new pieces, which are all looked up and merged.

mod batch;
mod keys;
mod pieces;
mod table;

pub use batch::{MAX_FEW_CJK_RUNS, Misses};
pub use pieces::{Cache, MergePiece};

#[cfg(test)]
mod tests {
    use super::keys::{MAX_BYTES_47, word_key};
    use super::pieces::MAX_SPILLED_IDS;
    use super::table::{BITS_8, Table8, mixed};
    use super::*;
    use crate::simd::{ID_BITS, Instructions, Isa, Packed, Work, slot_of_word};
    use crate::test_inputs::Rng;
    use crate::types::{BATCH, MAX_CACHED_PIECE, WORD_BYTES};

    /// Derives ids from the piece, and records the pieces that it merges.
    struct Merger<F> {
        ids_of: F,
        merged: Vec<Vec<u8>>,
    }

    impl<F: Fn(&[u8]) -> Vec<u32>> Merger<F> {
        fn new(ids_of: F) -> Merger<F> {
            Merger { ids_of, merged: Vec::new() }
        }
    }

    impl<F: Fn(&[u8]) -> Vec<u32>> MergePiece for Merger<F> {
        fn merge(&mut self, piece: &[u8], ids: &mut Vec<u32>) {
            self.merged.push(piece.to_vec());
            ids.extend((self.ids_of)(piece));
        }
    }

    /// Up to six ids, which may have more than 20 bits for one piece in four.
    fn some_ids(piece: &[u8]) -> Vec<u32> {
        let start = piece.len() as u64;
        let hash =
            piece.iter().fold(start, |hash, &byte| mixed(hash ^ u64::from(byte)) ^ hash >> 7);
        let mut rng = Rng::new(hash);
        let count = rng.below(7);
        let bits = if rng.below(4) == 0 { 30 } else { ID_BITS };
        (0..count).map(|_| rng.below(1 << bits) as u32).collect()
    }

    fn all_ids(pieces: &[Vec<u8>]) -> Vec<Vec<u32>> {
        pieces.iter().map(|piece| some_ids(piece)).collect()
    }

    /// An id for each byte.
    fn ids_of_bytes(piece: &[u8]) -> Vec<u32> {
        piece.iter().map(|&byte| byte.into()).collect()
    }

    /// Returns the text of pieces, and their bounds.
    fn text_of(pieces: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>) {
        let (mut text, mut bounds) = (Vec::new(), vec![0]);
        for piece in pieces {
            text.extend_from_slice(piece);
            bounds.push(text.len() as u32);
        }
        (text, bounds)
    }

    struct Look<'a, M> {
        cache: &'a mut Cache,
        merger: &'a mut M,
        pieces: &'a [Vec<u8>],
    }

    impl<M: MergePiece> Work for Look<'_, M> {
        type Result = Vec<Vec<u32>>;

        fn run<I: Instructions>(self, isa: I) -> Vec<Vec<u32>> {
            let Look { cache, merger, pieces } = self;
            let (text, bounds) = text_of(pieces);
            let mut packed = vec![Packed::default(); pieces.len()];
            let mut misses = Misses::default();
            cache.begin_batch();
            cache.look_up_first_level(isa, &text, &bounds, &mut packed, &mut misses);
            cache.sort_longer(&text, &bounds, true, &mut misses);
            cache.look_up_tables(&text, &bounds, &mut packed, &misses, merger);
            let ids = |packed: Packed| match packed.is_spilled() {
                true => cache.spilled(packed).to_vec(),
                false => packed.inner_ids()[..packed.inner_count()].to_vec(),
            };
            packed.into_iter().map(ids).collect()
        }
    }

    /// Returns the ids of pieces that are looked up together.
    fn look(cache: &mut Cache, merger: &mut impl MergePiece, pieces: &[Vec<u8>]) -> Vec<Vec<u32>> {
        Isa::get().run(Look { cache, merger, pieces })
    }

    #[test]
    fn ids_do_not_depend_on_earlier_pieces() {
        // With few letters many pieces differ in one byte, in their length, or in bytes of zero.
        for isa in Isa::all() {
            let (mut cache, mut rng) = (Cache::default(), Rng::new(1));
            let merger = &mut Merger::new(some_ids);
            for round in 0..if cfg!(miri) { 3 } else { 300 } {
                let letters: &[u8] = [&b"a\0"[..], b"ab", b"abcdefghijkl", b"\xff\0"][round % 4];
                let max_length = [8, 9, 16, 17, 47, 48, 100][round % 7];
                let mut pieces = vec![Vec::new(); rng.below(BATCH + 1)];
                for piece in &mut pieces {
                    let length = 1 + rng.below(max_length);
                    piece.extend((0..length).map(|_| letters[rng.below(letters.len())]));
                }
                let work = Look { cache: &mut cache, merger, pieces: &pieces };
                assert_eq!(isa.run(work), all_ids(&pieces), "{}, round {round}", isa.name());
            }
        }
    }

    #[test]
    fn a_cached_piece_is_merged_once() {
        let mut cache = Cache::default();
        for length in (1..=MAX_BYTES_47 + 2).chain([MAX_CACHED_PIECE, MAX_CACHED_PIECE + 1]) {
            for last in [b'x', 0] {
                let piece = [vec![b'x'; length - 1], vec![last]].concat();
                let mut merger = Merger::new(some_ids);
                let pieces = vec![piece.clone(); 3];
                for _ in 0..2 {
                    assert_eq!(look(&mut cache, &mut merger, &pieces), all_ids(&pieces));
                }
                // Zeros fill short keys up, so a short piece that ends in one has no key.
                let is_cached = length <= MAX_CACHED_PIECE && (last != 0 || length > WORD_BYTES);
                let times = if is_cached { 1 } else { 6 };
                assert_eq!(merger.merged, vec![piece; times], "{length} bytes");
            }
        }
    }

    #[test]
    fn a_text_changed_meanwhile_leaves_no_wrong_ids() {
        let (mut cache, mut misses) = (Cache::default(), Misses::default());
        let mut pieces: Vec<_> = [9, 16, 17, MAX_BYTES_47].map(|length| vec![b'x'; length]).into();
        let (text, bounds) = text_of(&pieces);
        (0..4).for_each(|i| misses.longer.push(i));
        let (mut packed, mut merger) = ([Packed::default(); 4], Merger::new(some_ids));
        cache.sort_longer(&text, &bounds, true, &mut misses);
        let changed = vec![b'y'; text.len()];
        cache.look_up_tables(&changed, &bounds, &mut packed, &misses, &mut merger);
        let word = vec![b'x'; WORD_BYTES];
        cache.put(|cache| &mut cache.table8, &[word_key(&word, WORD_BYTES)], &mut merger);
        pieces.push(word);
        assert_eq!(look(&mut cache, &mut merger, &pieces), all_ids(&pieces));
    }

    #[test]
    fn ids_that_are_not_cached_take_no_room() {
        let mut cache = Cache::default();
        let pieces = [1, WORD_BYTES, MAX_CACHED_PIECE + 1].map(|length| vec![0; length]);
        let mut merger = Merger::new(|_: &[u8]| vec![7; 5]);
        assert_eq!(look(&mut cache, &mut merger, &pieces), vec![vec![7; 5]; 3]);
        assert!(cache.spilled_ids.is_empty());
    }

    #[test]
    fn colliding_pieces_keep_their_ids_and_cost_like_new_ones() {
        let words = |slot: fn(u64) -> usize| {
            let all = (0..2_000_000_u32).map(|number| format!("{number:07}").into_bytes());
            all.filter(move |piece| slot(word_key(piece, 7)) == 5).take(60).collect::<Vec<_>>()
        };
        let in_first_level = words(slot_of_word);
        let in_table = words(|key| (Table8::hash(&[key]) >> (64 - BITS_8.0)) as usize);
        for pieces in [in_first_level, in_table] {
            assert_eq!(pieces.len(), 60);
            let (mut cache, mut merger) = (Cache::default(), Merger::new(some_ids));
            for round in 1..=3 {
                assert_eq!(look(&mut cache, &mut merger, &pieces), all_ids(&pieces));
                assert!(merger.merged.len() <= round * pieces.len());
            }
        }
    }

    #[test]
    fn a_cache_of_too_many_ids_begins_anew() {
        let many = |piece: &[u8]| vec![piece[0].into(); MAX_SPILLED_IDS / 4];
        let (mut cache, mut merger) = (Cache::default(), Merger::new(many));
        let pieces: Vec<_> = (b'a'..b'k').map(|byte| vec![byte]).collect();
        for round in 1..=3 {
            for piece in pieces.chunks(1) {
                assert_eq!(look(&mut cache, &mut merger, piece), [many(&piece[0])]);
            }
            assert!(cache.spilled_ids.len() <= MAX_SPILLED_IDS + MAX_SPILLED_IDS / 4);
            assert_eq!(merger.merged.len(), round * pieces.len());
        }
    }

    #[test]
    fn a_batch_begins_without_the_room_of_a_long_piece() {
        let mut cache = Cache::default();
        let long = vec![vec![b'x'; 2 * MAX_SPILLED_IDS]];
        let ids = look(&mut cache, &mut Merger::new(ids_of_bytes), &long);
        assert_eq!(ids, [ids_of_bytes(&long[0])]);
        cache.begin_batch();
        assert!(cache.transient_ids.is_empty());
        assert!(cache.transient_ids.capacity() <= MAX_SPILLED_IDS);
    }
}
