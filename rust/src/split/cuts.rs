//! Cuts: places between two characters that no merge makes neighbours in a token.
//!
//! A merge across such a place would make a token that has both characters, and no merge makes such
//! a token. So no merge crosses the place, and merging one side never depends on the other,
//! whatever the order of ranks.
//!
//! Merges of bytes may make a token that has only a part of either character, such as a space and
//! the first byte of a letter. There, the two bytes count: no place between such bytes is a cut.
//!
//! # 64 places at a time
//!
//! Characters are put into groups by what may precede them: one table has the groups that may
//! follow the last byte of a character, and another the group of a first byte. A place is a cut if
//! the two share no bit. Characters that share a group follow all that one of them may follow.
//! Between two characters of ASCII, some cuts are not seen then, which costs time and changes no
//! id. Elsewhere, many characters have the same bytes, and a place that may be no cut is looked at
//! alone.
//!
//! # Pieces of several parts
//!
//! A cut may be left out, since a piece merges as its parts do. Blocks leave some out, so that one
//! look-up in the cache finds the tokens of several parts. The ends of texts side by side are never
//! left out.

use std::ops::RangeInclusive;

use crate::hash::GOLDEN_RATIO;
use crate::mem::growth::filled;
use crate::simd::{Block, Instructions, Work};
use crate::tokens::Joint;

/// A set of bytes.
#[derive(Clone, Copy, Default, PartialEq)]
struct Bytes([u128; 2]);

/// The characters that most texts consist of weigh more in the choice of groups.
const USUAL: u128 = u128::MAX >> 5 & !(u128::MAX >> 31) | 1 << b' ';

impl Bytes {
    fn of(byte: u8) -> Bytes {
        let bit = 1 << (byte % 128);
        Bytes(if byte < 128 { [bit, 0] } else { [0, bit] })
    }

    fn with(self, other: Bytes) -> Bytes {
        Bytes([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    fn without(self, other: Bytes) -> Bytes {
        Bytes([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    fn weight(self) -> u32 {
        let Bytes([ascii, others]) = self;
        ascii.count_ones() + 15 * (ascii & USUAL).count_ones() + others.count_ones()
    }
}

/// Groups of the first bytes of characters, each a bit.
#[derive(Clone, Copy)]
struct Groups {
    /// The groups that may follow the last byte of a character.
    follow: [u8; 256],
    /// The group of a first byte.
    own: [u8; 256],
}

const GROUPS: usize = 8;

impl Groups {
    /// Joins the two groups that hide the fewest cuts, until few are left. `before` has the last
    /// bytes of what may precede a first byte.
    fn new(firsts: RangeInclusive<u8>, before: &[Bytes; 256], tables: usize) -> Vec<Groups> {
        // The members of each group, and the characters that may precede one of them.
        let mut groups: Vec<(Bytes, Bytes)> = Vec::new();
        for first in firsts {
            let lasts = before[usize::from(first)];
            if lasts == Bytes::default() {
                continue;
            }
            match groups.iter_mut().find(|group| group.1 == lasts) {
                Some(group) => group.0 = group.0.with(Bytes::of(first)),
                None => groups.push((Bytes::of(first), lasts)),
            }
        }
        type Group = (Bytes, Bytes);
        let hidden = |one: &Group, other: &Group| {
            let both = one.1.with(other.1);
            [one, other].map(|of| of.0.weight() * both.without(of.1).weight()).iter().sum::<u32>()
        };
        // What is hidden if a group is joined with each group before it.
        let row = |groups: &[Group], i: usize| -> Vec<u32> {
            groups[..i].iter().map(|other| hidden(&groups[i], other)).collect()
        };
        let mut rows: Vec<Vec<u32>> = (0..groups.len()).map(|i| row(&groups, i)).collect();
        while groups.len() > tables * GROUPS {
            let all = (0..).zip(&rows).flat_map(|(i, row)| {
                let least = (0..).zip(row).map(|(j, &hidden)| (hidden, j)).min();
                least.map(|(hidden, j)| (hidden, i, j))
            });
            let Some((_, i, j)) = all.min() else { break };
            let (members, lasts) = groups.remove(i);
            groups[j] = (groups[j].0.with(members), groups[j].1.with(lasts));
            rows.remove(i);
            for row in &mut rows[i..] {
                row.remove(i);
            }
            rows[j] = row(&groups, j);
            for k in j + 1..groups.len() {
                rows[k][j] = hidden(&groups[k], &groups[j]);
            }
        }
        let mut tables = filled(Groups { follow: [0; 256], own: [0; 256] }, tables);
        for (number, (members, lasts)) in groups.into_iter().enumerate() {
            let (tables, bit) = (&mut tables[number / GROUPS], 1 << (number % GROUPS));
            for byte in 0..=255 {
                let bit_if = |set: Bytes| if set.without(Bytes::of(byte)) == set { 0 } else { bit };
                tables.own[usize::from(byte)] |= bit_if(members);
                tables.follow[usize::from(byte)] |= bit_if(lasts);
            }
        }
        tables
    }

    /// Returns the places of a block where a byte is of no group that may follow the byte before.
    #[inline(always)]
    fn apart(&self, isa: impl Instructions, before: &Block, block: &Block) -> u64 {
        let (mut left, mut right): (Block, Block) = ([0; 64], [0; 64]);
        isa.look_up(before, &self.follow, &mut left);
        isa.look_up(block, &self.own, &mut right);
        left.iter_mut().zip(right).for_each(|(left, right)| *left &= right);
        isa.within(isa.load(&left), 0, 1)
    }
}

/// Hashes of two whole characters in a row of a token, and neighbouring bytes of two characters,
/// one of which a token has only in part.
///
/// Two pairs of characters may have the same hash. Such a collision only hides a cut.
pub struct TokenNeighbours {
    characters: Box<[u64; 1 << (HASH_BITS - 6)]>,
    bytes: Box<[u64; 1 << 10]>,
}

/// The largest public vocabulary has 28,000 pairs.
const HASH_BITS: u32 = 18;

impl TokenNeighbours {
    /// Takes the joints of all tokens of several bytes: between them, these are all neighbours.
    pub fn new<'a>(joints: impl Iterator<Item = Joint<'a>>) -> TokenNeighbours {
        let mut neighbours =
            TokenNeighbours { characters: Box::new([0; _]), bytes: Box::new([0; _]) };
        for (token, middle) in joints {
            if is_start(token[middle]) {
                neighbours.add(token, middle);
            } else {
                // A character has more bytes now, so it may have become whole.
                joints_of(token).for_each(|(token, middle)| neighbours.add(token, middle));
            }
        }
        neighbours
    }

    /// Adds the two characters around `middle`, where a character starts.
    #[inline(always)]
    fn add(&mut self, token: &[u8], middle: usize) {
        let (left, right) = (Character::ending(token, middle), Character::at(token, middle));
        let start = middle.wrapping_sub(left.length);
        let is_whole = token.get(start).is_some_and(|&first| is_start(first))
            && middle + right.length <= token.len();
        let (table, bit) = if is_whole {
            (&mut self.characters[..], hash_of(left.before(right)))
        } else {
            let pair = usize::from(token[middle - 1]) << 8 | usize::from(token[middle]);
            (&mut self.bytes[..], pair)
        };
        table[bit / 64] |= 1 << (bit % 64);
    }

    /// Returns whether no token has the ends of two characters in a row.
    #[inline(always)]
    pub fn are_apart(&self, left: Character, right: Character) -> bool {
        self.are_bytes_apart(left.before(right))
    }

    /// Takes two characters around the middle of eight bytes, and zeros.
    #[inline(always)]
    pub fn are_bytes_apart(&self, both: u64) -> bool {
        let pair = usize::from((both >> 24) as u8) << 8 | usize::from((both >> 32) as u8);
        let hash = hash_of(both);
        (self.bytes[pair / 64] >> (pair % 64) | self.characters[hash / 64] >> (hash % 64)) & 1 == 0
    }
}

/// Where no token has two characters in a row.
pub struct Cuts {
    neighbours: TokenNeighbours,
    ascii: Vec<Groups>,
    others: Vec<Groups>,
}

impl Cuts {
    /// Takes the joints of all tokens of several bytes, and how many tables find the cuts between
    /// characters of ASCII. Two hide few of them, but take longer.
    pub fn new<'a>(joints: impl Iterator<Item = Joint<'a>>, tables: usize) -> Cuts {
        let mut before = [[false; 256]; 256];
        let neighbours = TokenNeighbours::new(joints.inspect(|&(token, middle)| {
            let (last, first) = (token[middle - 1], token[middle]);
            before[usize::from(first)][usize::from(last)] |= is_start(first);
        }));
        let before = before.map(|before| {
            let lasts = (0..=255).filter(|&last| before[usize::from(last)]);
            lasts.fold(Bytes::default(), |lasts, last| lasts.with(Bytes::of(last)))
        });
        let ascii = Groups::new(0..=0x7F, &before, tables);
        let others = Groups::new(0x80..=0xFF, &before, 1);
        Cuts { neighbours, ascii, others }
    }

    /// Returns whether a text has a cut at `at`.
    pub fn is_safe_split(&self, text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() || text[at] & 0xC0 == 0x80 {
            return false;
        }
        self.neighbours.are_apart(Character::ending(text, at), Character::at(text, at))
    }
}

/// Yields a token with each place where a character starts, as if they were all joints.
pub fn joints_of(token: &[u8]) -> impl Iterator<Item = Joint<'_>> {
    (1..token.len()).filter(|&at| is_start(token[at])).map(move |at| (token, at))
}

/// Returns whether a byte of UTF-8 starts a character.
fn is_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// A character of a text.
#[derive(Clone, Copy)]
pub struct Character {
    /// Its bytes.
    number: u32,
    pub length: usize,
}

/// Returns the two characters from `at` on around the middle of eight bytes, and zeros. None unless
/// both have three bytes, and the text has eight.
#[inline(always)]
pub fn three_bytes_each(text: &[u8], at: usize) -> Option<u64> {
    let both = u64::from_le_bytes(*text[at..].first_chunk()?);
    (both & 0xF000_00F0 == 0xE000_00E0).then_some(both << 8 & 0x00FF_FFFF_FFFF_FF00)
}

impl Character {
    /// Returns the character that begins at `at`, which must be before the end.
    #[inline(always)]
    pub fn at(text: &[u8], at: usize) -> Character {
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
    fn ending(text: &[u8], at: usize) -> Character {
        let mut start = at - 1;
        while start > 0 && text[start] & 0xC0 == 0x80 {
            start -= 1;
        }
        Character::at(text, start)
    }

    /// Returns the bytes of two characters around the middle of eight.
    #[inline(always)]
    fn before(self, next: Character) -> u64 {
        u64::from(next.number) << 32 | u64::from(self.number) << (32 - 8 * self.length)
    }
}

/// Takes two characters around the middle of eight bytes, and zeros.
#[inline(always)]
fn hash_of(pair: u64) -> usize {
    (pair.wrapping_mul(GOLDEN_RATIO) >> (64 - HASH_BITS)) as usize
}

/// Writes where pieces end from `at` on, as long as there is room for 64 ends, and returns their
/// number, which is at least one. The text may be several adjacent texts: `text_ends` has the ends
/// after `at`.
pub struct FindCuts<'a, 'b> {
    pub cuts: &'a Cuts,
    pub text: &'a [u8],
    pub text_ends: &'a [u32],
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
        let FindCuts { cuts, text, text_ends, at, ends } = self;
        let mut text_ends = text_ends.iter().map(|&end| end as usize).peekable();
        let mut count = 0;
        // All places before this one are known.
        let mut place = at + 1;
        while let Some((room, _)) = ends[count..].split_first_chunk_mut::<64>() {
            let mut limit = text.len();
            if I::FINDS_WINDOWS {
                if place < AROUND {
                    limit = AROUND;
                } else if let Some(window) = text[(place - AROUND).min(limit)..].first_chunk() {
                    let mut found = cuts.find(isa, window);
                    while let Some(end) = text_ends.next_if(|&end| end < place + 64) {
                        found |= 1 << (end - place);
                    }
                    isa.write_offsets(found, place as u32, room);
                    count += found.count_ones() as usize;
                    place += 64;
                    continue;
                }
            }
            while place < text.len() && text[place] & 0xC0 == 0x80 {
                place += 1;
            }
            let mut left = Character::ending(text, place);
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
                let mut is_end = cuts.neighbours.are_apart(left, right);
                while text_ends.next_if(|&end| end <= place).is_some() {
                    is_end = true;
                }
                count += usize::from(is_end);
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
        let bytes = isa.load(block);
        let apart = |tables: &[Groups]| {
            let each = tables.iter().map(|groups| groups.apart(isa, before, block));
            each.fold(u64::MAX, |all, apart| all & apart)
        };
        let mut found = apart(&self.ascii);
        let outside = isa.within(bytes, 0x80, 0x80) | isa.within(isa.load(before), 0x80, 0x80);
        if outside != 0 {
            let starts = !isa.within(bytes, 0x80, 0x40);
            found &= starts & apart(&self.others);
            let mut unknown = starts & outside & !found;
            while unknown != 0 {
                let bit = unknown.trailing_zeros();
                found |= u64::from(self.is_cut_between(window, bit as usize)) << bit;
                unknown &= unknown - 1;
            }
        }
        join(found, isa.within(bytes, b'0', 10), isa.within(bytes, b'\n', 1))
    }

    /// Returns whether there is a cut before byte `at` of a block. It does not depend on other
    /// places, so that the processor looks at several at a time.
    #[inline(always)]
    fn is_cut_between(&self, window: &[u8; AROUND + 64 + AROUND], at: usize) -> bool {
        let eight = u64::from_le_bytes(*window[at & 63..].first_chunk().unwrap_or(&[0; 8]));
        // Zero where a byte goes on with a character
        let begins = eight & 0xC0C0_C0C0_C0C0_C0C0 ^ 0x8080_8080_8080_8080;
        let start = (begins as u32 | 1).ilog2() & !7;
        let end = 40 + ((begins >> 40 | 1 << 24).trailing_zeros() & !7);
        self.neighbours.are_bytes_apart(eight << (64 - end) >> (64 - end) >> start << start)
    }
}

/// Leaves out cuts: two of three between digits, and before a line feed after a piece of one byte.
///
/// So two or three are looked up as one. There are so few such pieces that all of them stay in the
/// cache's first level, and their ids are few enough to be there.
#[inline(always)]
fn join(found: u64, digits: u64, newlines: u64) -> u64 {
    let after_digits = digits & digits << 1;
    let from_fourth = after_digits & after_digits << 2;
    let mut thirds = digits & !after_digits;
    let mut next = thirds;
    while next & from_fourth >> 3 != 0 {
        next = next << 3 & from_fourth;
        thirds |= next;
    }
    let found = found & (!after_digits | thirds);
    let after_single = found & found << 1 & newlines;
    found & !(after_single & !(after_single << 1))
}

#[cfg(test)]
mod tests {
    use super::super::{Pieces, Splitter, examples::all_pieces};
    use super::*;
    use crate::simd::Isa;
    use crate::test_inputs::Rng;

    fn cuts(tokens: &[&str]) -> Splitter {
        let joints = tokens.iter().flat_map(|token| joints_of(token.as_bytes()));
        Splitter::Cuts(Cuts::new(joints, 1 + tokens.len() % 2).into())
    }

    #[test]
    fn pieces_end_where_no_pair_is_a_neighbour() {
        let cuts = cuts(&["ab", "bc", " a", "中文", "文a"]);
        let text = "abca ab  中文a文b🙂é";
        let found = all_pieces(Pieces::new(&cuts, text), text);
        assert_eq!(found, ["abc", "a", " ab", " ", " ", "中文a", "文", "b", "🙂", "é"]);
    }

    /// Asserts that pieces are parts between safe splits, or several of them: after a single byte,
    /// or after a digit.
    fn assert_cut(pieces: &[&str], parts: &[&str]) {
        let mut parts = parts.iter();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let part = parts.next().expect("a part for each piece");
                rest = rest.strip_prefix(part).expect("parts that the piece begins with");
                assert!(rest.is_empty() || part.len() == 1 || part.ends_with('1'), "{piece:?}");
            }
        }
        assert_eq!(parts.next(), None);
    }

    #[test]
    fn adjacent_texts_are_cut_as_if_alone() {
        let mut rng = Rng::new(8);
        let cuts = cuts(&["ab", "ba", "é中", "a "]);
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
            let pieces = Pieces::of_texts(&cuts, whole.as_bytes(), 0, &ends);
            let alone = |text| Pieces::new(&cuts, text).with_isa(Isa::Scalar);
            let parts: Vec<&str> =
                texts.iter().flat_map(|text| all_pieces(alone(text), text)).collect();
            assert_cut(&all_pieces(pieces, &whole), &parts);
        }
    }

    #[test]
    fn each_cut_is_a_safe_split() {
        let mut rng = Rng::new(6);
        // More first bytes than groups, and different characters with the same first or last byte.
        let characters = [
            "a", "b", " ", "1", "\n", "é", "è", "ĩ", "ж", "ש", "ع", "ก", "中", "丨", "한", "ﬁ",
            "🙂",
        ];
        for round in 0..if cfg!(miri) { 5 } else { 1000 } {
            let mut character = || characters[rng.below(characters.len())];
            let pairs: Vec<String> =
                (0..round % 80).map(|_| [character(), character()].concat()).collect();
            let cuts = cuts(&pairs.iter().map(String::as_str).collect::<Vec<_>>());
            let text = rng.text(&characters, 300);
            let pieces = Pieces::new(&cuts, &text);
            let mut parts: Vec<&str> = Vec::new();
            let mut start = 0;
            for at in (0..=text.len()).filter(|&at| at == text.len() || pieces.is_safe_split(at)) {
                parts.push(&text[start..at]);
                start = at;
            }
            parts.retain(|part| !part.is_empty());
            for isa in Isa::all() {
                let pieces = Pieces::new(&cuts, &text).with_isa(isa);
                assert_cut(&all_pieces(pieces, &text), &parts);
            }
        }
    }

    #[test]
    fn joined_cuts_are_left_out() {
        let (digits, newlines) = (0b1111_1110, !0b1111_1110);
        assert_eq!(join(u64::MAX, digits, 0), !0b0110_1100);
        assert_eq!(join(0b1011_1110, digits, 0), 0b1001_0010);
        for (found, kept) in [
            (0b1000_0000_0000, 0b1000_0000_0000),
            (0b1_0110, 0b1_0010),
            (0b1111_1111, 0b1111_1101),
            (0b1_1111_1110, 0b1_1111_1010),
        ] {
            assert_eq!(join(found, 0, u64::MAX), kept, "{found:b}");
        }
        assert_eq!(join(0b1_1000_0011, digits, newlines), 0b1_1000_0011 & !0b1_0000_0000);
    }
}
