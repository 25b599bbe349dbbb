//! Cuts: places between two characters that no merge makes neighbours in a token.
//!
//! A merge across such a place would make a token that has both characters, and no merge makes such
//! a token. So no merge crosses the place, and merging one side never depends on the other,
//! whatever the order of ranks.
//!
//! # 64 places at a time
//!
//! The characters of ASCII are put into 16 groups by what may precede them. Two tables of bytes have
//! the groups that may follow a character, and two have its own group, so that a place is no cut if
//! they share a bit. Characters that share a group follow all that one of them may follow. Some cuts
//! are not seen then, which costs time and changes no id. Places beside other characters are looked
//! at one by one.
//!
//! # Pieces of several parts
//!
//! A cut may be left out, since a piece merges as its parts do. Blocks leave some out, so that one
//! look-up in the cache finds the tokens of two parts.

use crate::hash::GOLDEN_RATIO;
use crate::simd::{Block, Instructions, Work};

/// The groups of characters of ASCII, eight in each pair of tables.
struct Groups {
    /// The groups that may follow a byte.
    follow: [[u8; 256]; 2],
    /// The group of a byte.
    own: [[u8; 256]; 2],
}

const GROUPS: usize = 16;

/// The characters that most texts consist of weigh more in the choice of groups.
const USUAL: u128 = u128::MAX >> 5 & !(u128::MAX >> 31) | 1 << b' ';

impl Groups {
    /// Joins the two groups that hide the fewest cuts, until few are left.
    fn new(ascii: &[u128; 128]) -> Groups {
        let weight = |set: u128| 1 + set.count_ones() + 15 * (set & USUAL).count_ones();
        // The members of each group, and what may precede one of them.
        let mut groups: Vec<(u128, u128)> = (0..128)
            .map(|right| {
                let lefts = (0..128).filter(|&left| ascii[left] >> right & 1 == 1);
                (1 << right, lefts.fold(0, |set, left| set | 1 << left))
            })
            .collect();
        while groups.len() > GROUPS {
            let mut best = (u32::MAX, 0, 0);
            for (i, one) in groups.iter().enumerate() {
                for (j, other) in groups[..i].iter().enumerate() {
                    let both = one.1 | other.1;
                    let hidden = |group: &(u128, u128)| match both & !group.1 {
                        0 => 0,
                        more => weight(group.0) * weight(more),
                    };
                    best = best.min((hidden(one) + hidden(other), i, j));
                }
            }
            let (members, lefts) = groups.remove(best.1);
            groups[best.2].0 |= members;
            groups[best.2].1 |= lefts;
        }
        let mut tables = Groups { follow: [[0; 256]; 2], own: [[0; 256]; 2] };
        for (number, (members, lefts)) in groups.into_iter().enumerate() {
            let (half, bit) = (number / 8, 1 << (number % 8));
            for byte in 0..128 {
                tables.own[half][byte] |= if members >> byte & 1 == 1 { bit } else { 0 };
                tables.follow[half][byte] |= if lefts >> byte & 1 == 1 { bit } else { 0 };
            }
        }
        tables
    }
}

/// The pairs of characters that some token has in a row.
pub struct Cuts {
    /// Hashes of all pairs. A collision only hides a cut.
    pairs: Box<[u64; 1 << (HASH_BITS - 6)]>,
    groups: Box<Groups>,
}

/// The largest public vocabulary has 28,000 pairs.
const HASH_BITS: u32 = 18;

impl Cuts {
    /// Takes the pairs, each a string of two characters.
    pub fn new(pairs: &[String]) -> Cuts {
        let (mut found, mut ascii) = (Box::new([0; _]), [0; 128]);
        for pair in pairs {
            let text = pair.as_bytes();
            if let [left @ ..128, right @ ..128] = *text {
                ascii[usize::from(left)] |= 1 << right;
            }
            let left = Character::at(text, 0);
            let hash = left.hash(Character::at(text, left.length));
            found[hash / 64] |= 1 << (hash % 64);
        }
        Cuts { pairs: found, groups: Box::new(Groups::new(&ascii)) }
    }

    #[inline(always)]
    fn is_cut(&self, left: Character, right: Character) -> bool {
        let hash = left.hash(right);
        self.pairs[hash / 64] >> (hash % 64) & 1 == 0
    }

    /// Returns whether a text has a cut at `at`.
    pub fn is_safe_split(&self, text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        self.is_cut(Character::before(text, at), Character::at(text, at))
    }
}

/// A character of a text.
#[derive(Clone, Copy)]
struct Character {
    /// Its bytes.
    number: u32,
    length: usize,
}

impl Character {
    /// Returns the character that begins at `at`, which must be before the end.
    #[inline(always)]
    fn at(text: &[u8], at: usize) -> Character {
        let length = text[at].leading_ones().clamp(1, 4) as usize;
        let number = match text[at..].first_chunk() {
            Some(four) => u32::from_le_bytes(*four) & u32::MAX >> (32 - 8 * length),
            None => {
                let rest = &text[at..text.len().min(at + length)];
                rest.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
            }
        };
        Character { number, length }
    }

    /// Returns the character before `at`, which must be after the start.
    #[inline(always)]
    fn before(text: &[u8], at: usize) -> Character {
        let mut start = at - 1;
        while start > 0 && text[start] & 0xC0 == 0x80 {
            start -= 1;
        }
        Character::at(text, start)
    }

    #[inline(always)]
    fn hash(self, next: Character) -> usize {
        hash_of(self.number, next.number)
    }
}

#[inline(always)]
fn hash_of(left: u32, right: u32) -> usize {
    let both = u64::from(left) << 32 | u64::from(right);
    (both.wrapping_mul(GOLDEN_RATIO) >> (64 - HASH_BITS)) as usize
}

/// Writes where pieces end from `at` on, as long as there is room for 64 ends, and returns their
/// number: at least one. The text goes on at `at`.
pub struct FindCuts<'a, 'b> {
    pub cuts: &'a Cuts,
    pub text: &'a [u8],
    pub at: usize,
    pub ends: &'b mut [u32],
}

/// The most bytes of the character before a block, and of its last character after the block, where
/// one byte is to spare.
const AROUND: usize = 4;

impl Work for FindCuts<'_, '_> {
    type Result = usize;

    #[inline(always)]
    fn run<I: Instructions>(self, isa: I) -> usize {
        let FindCuts { cuts, text, at, ends } = self;
        let mut count = 0;
        // All places before this one are known.
        let mut place = at + 1;
        while let Some((room, _)) = ends[count..].split_first_chunk_mut::<64>() {
            let mut limit = text.len();
            if I::FINDS_WINDOWS {
                if place < AROUND {
                    limit = AROUND;
                } else if let Some(window) = text[(place - AROUND).min(limit)..].first_chunk() {
                    let found = cuts.find(isa, window);
                    isa.write_offsets(found, place as u32, room);
                    count += found.count_ones() as usize;
                    place += 64;
                    continue;
                }
            }
            while place < text.len() && text[place] & 0xC0 == 0x80 {
                place += 1;
            }
            let mut left = Character::before(text, place);
            loop {
                if count == ends.len() {
                    return count;
                }
                // The next place overwrites this one unless it is an end.
                ends[count] = place.min(text.len()) as u32;
                if place >= text.len() {
                    return count + 1;
                }
                if place >= limit {
                    break;
                }
                let right = Character::at(text, place);
                count += usize::from(cuts.is_cut(left, right));
                place += right.length;
                left = right;
            }
        }
        count
    }
}

impl Cuts {
    /// Returns the cuts of the block in the middle of a window, without some that follow a byte.
    #[inline(always)]
    fn find(&self, isa: impl Instructions, window: &[u8; AROUND + 64 + AROUND]) -> u64 {
        let block_at = |start: usize| -> &Block {
            window[start..].first_chunk().unwrap_or_else(|| unreachable!("it has more bytes"))
        };
        let (before, block) = (block_at(AROUND - 1), block_at(AROUND));
        let mut shared: Block = [0; 64];
        for (follow, own) in self.groups.follow.iter().zip(&self.groups.own) {
            let (mut left, mut right): (Block, Block) = ([0; 64], [0; 64]);
            isa.look_up(before, follow, &mut left);
            isa.look_up(block, own, &mut right);
            for ((shared, left), right) in shared.iter_mut().zip(left).zip(right) {
                *shared |= left & right;
            }
        }
        let outside = |block: &Block| isa.within(isa.load(block), 0x80, 0x80);
        let single = outside(block) | outside(before);
        let mut found = isa.within(isa.load(&shared), 0, 1) & !single;
        let mut starts = single & !isa.within(isa.load(block), 0x80, 0x40);
        while starts != 0 {
            let bit = starts.trailing_zeros();
            found |= u64::from(self.is_cut_between(window, bit as usize)) << bit;
            starts &= starts - 1;
        }
        let is = |first, count| isa.within(isa.load(block), first, count);
        join_single_bytes(found, is(b'0', 10), is(b'\n', 1))
    }

    /// Returns whether there is a cut before byte `at` of a block. It does not depend on other
    /// places, so that the processor looks at several at a time.
    #[inline(always)]
    fn is_cut_between(&self, window: &[u8; AROUND + 64 + AROUND], at: usize) -> bool {
        let [a, b, c, d, e, f, g, h] = *window[at & 63..].first_chunk().unwrap_or(&[0; 8]);
        let (left, right) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        // The bits of bytes that begin a character
        let begins = |bytes: u32| (bytes & 0xC0C0_C0C0) ^ 0x8080_8080;
        let left = left >> (24 - (begins(left).leading_zeros() & !7).min(24));
        let right_bits = ((begins(right) & !0xFF).trailing_zeros() & !7).min(32);
        let right = (u64::from(right) & !(u64::MAX << right_bits)) as u32;
        let hash = hash_of(left, right);
        self.pairs[hash / 64] >> (hash % 64) & 1 == 0
    }
}

/// Leaves out cuts between two digits, and before line feeds, that follow a piece of one byte.
///
/// So two are looked up as one. There are so few such pairs that all of them stay in the cache's
/// first level. Of cuts in a row, every other one is left out.
#[inline(always)]
fn join_single_bytes(found: u64, digits: u64, newlines: u64) -> u64 {
    const EVEN: u64 = u64::MAX / 3;
    let runs = found & found << 1 & (newlines | digits & digits << 1);
    // An addition carries through the runs that begin at an even place, and clears them.
    let even_starts = runs & !(runs << 1) & EVEN;
    let from_even = runs & !runs.wrapping_add(even_starts);
    found & !(from_even & EVEN | runs & !from_even & !EVEN)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Pieces, all_pieces};
    use super::*;
    use crate::simd::Isa;
    use crate::test_inputs::Rng;

    #[test]
    fn pieces_end_where_no_pair_is_a_neighbour() {
        let pairs = ["ab", "bc", " a", "中文", "文a"].map(str::to_string);
        let cuts = Cuts::new(&pairs);
        let text = "abca ab  中文a文b🙂é";
        let found = all_pieces(Pieces::new(Kind::Cuts(&cuts), text), text);
        assert_eq!(found, ["abc", "a", " ab", " ", " ", "中文a", "文", "b", "🙂", "é"]);
    }

    /// Asserts that pieces are cut at safe splits, at each that does not follow a single byte.
    fn assert_cut(pieces: &[&str], parts: &[&str]) {
        let mut parts = parts.iter();
        for piece in pieces {
            let part = parts.next().expect("a part for each piece");
            if piece != part {
                let next = parts.next().expect("a second part");
                assert_eq!(*piece, [*part, *next].concat());
                assert_eq!(part.len(), 1, "{piece:?}");
            }
        }
        assert_eq!(parts.next(), None);
    }

    #[test]
    fn texts_side_by_side_are_cut_alone() {
        let mut rng = Rng::new(8);
        let cuts = Cuts::new(&["ab", "ba", "é中", "a "].map(str::to_string));
        for _ in 0..if cfg!(miri) { 5 } else { 300 } {
            let texts: Vec<String> =
                (0..8).map(|_| rng.text(&["a", "b", " ", "é", "中", "1"], 90)).collect();
            let whole = texts.concat();
            let ends: Vec<u32> = texts
                .iter()
                .scan(0, |end, text| {
                    *end += text.len() as u32;
                    Some(*end)
                })
                .collect();
            let pieces = Pieces::of_texts(Kind::Cuts(&cuts), whole.as_bytes(), 0, &ends);
            let alone =
                |text| Pieces::with_isa(Kind::Cuts(&cuts), str::as_bytes(text), Isa::Scalar);
            let parts: Vec<&str> =
                texts.iter().flat_map(|text| all_pieces(alone(text), text)).collect();
            assert_cut(&all_pieces(pieces, &whole), &parts);
        }
    }

    #[test]
    fn each_cut_is_a_safe_split() {
        let mut rng = Rng::new(6);
        let characters = ["a", "b", " ", "é", "中", "🙂", "1", "\n"];
        let mut character = || characters[rng.below(characters.len())];
        let pairs: Vec<String> = (0..12).map(|_| [character(), character()].concat()).collect();
        let cuts = Cuts::new(&pairs);
        for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
            let text = rng.text(&characters, 300);
            let pieces = Pieces::new(Kind::Cuts(&cuts), &text);
            let mut parts: Vec<&str> = Vec::new();
            let mut start = 0;
            for at in (0..=text.len()).filter(|&at| at == text.len() || pieces.is_safe_split(at)) {
                parts.push(&text[start..at]);
                start = at;
            }
            parts.retain(|part| !part.is_empty());
            for isa in Isa::all() {
                let pieces = Pieces::with_isa(Kind::Cuts(&cuts), text.as_bytes(), isa);
                assert_cut(&all_pieces(pieces, &text), &parts);
            }
        }
    }

    #[test]
    fn every_other_cut_in_a_row_is_left_out() {
        for (found, kept) in [
            (0b1000_0000_0000, 0b1000_0000_0000),
            (0b1_0110, 0b1_0010),
            (0b1111_1111, 0b0101_0101),
            (0b1_1111_1110, 0b0_1010_1010),
        ] {
            assert_eq!(join_single_bytes(found, 0, u64::MAX), kept, "{found:b}");
        }
        let (digits, newlines) = (0b0110, 0b1000);
        assert_eq!(join_single_bytes(0b1111, digits, 0), 0b1011);
        assert_eq!(join_single_bytes(0b1111, 0, newlines), 0b0111);
    }
}
