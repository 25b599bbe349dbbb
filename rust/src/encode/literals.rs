//! Finds special literals in a text: the leftmost, and of several that begin there the longest.
//!
//! The time is linear in the text for every set of literals, and apart from one sort, the time to
//! prepare a set is linear in its bytes. A search from left to right would have neither bound: with
//! the literals `a` and `aaac`, it reads three bytes ahead for each `a` of `aaaaaa`, in vain.
//!
//! So the automaton of Aho and Corasick for the reversed literals reads a block of text from right
//! to left, because the longest reversed literal that ends at a position is the longest literal
//! that begins there. With the literals `ab`, `abc` and `c`:
//!
//! ```text
//! text                    x a b c a b      (read from the right)
//! longest literal here      abc c ab
//! chosen, from the left     abc   ab       (`c` lies in a chosen literal)
//! ```
//!
//! Most text has no literal, so `Beginnings` finds the next position where one may begin, and there
//! the next block begins.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::packed;
use memchr::memmem;

use crate::mem::growth::push;

pub struct Literals {
    beginnings: Beginnings,
    /// Whether some literal ends in each pair of bytes. Most text is skipped by these.
    is_ending: Vec<bool>,
    trie: Trie,
    lengths_and_ids: Vec<(u32, u32)>,
    /// For each literal, the longest plain one that it begins with, itself included, or NONE.
    plain: Vec<u32>,
    max_length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub start: usize,
    pub end: usize,
    pub id: u32,
}

impl Literals {
    /// The literals must have at least one byte each, and all differ. `is_plain` tells which of them
    /// count in untrusted text too.
    pub fn new(literals: &[(String, u32)], is_plain: impl Fn(&str) -> bool) -> Literals {
        let mut strings: Vec<(u64, Vec<u8>, u32)> = literals
            .iter()
            .zip(0..)
            .map(|((literal, _), index)| {
                let string: Vec<u8> = literal.bytes().rev().collect();
                (first_bytes(&string), string, index)
            })
            .collect();
        strings.sort_unstable();
        // Copies made in this order are neighbours in memory too, so the trie reads it in sequence.
        let reversed: Vec<_> =
            strings.into_iter().map(|(_, string, index)| (string.clone(), index)).collect();
        let mut is_ending = vec![false; 1 << 16];
        for (string, _) in &reversed {
            let before = string.get(1).map_or(0..=255, |&before| before..=before);
            before.for_each(|before| is_ending[ending(before, string[0])] = true);
        }
        let trie = Trie::new(&reversed);
        let mut plain: Vec<u32> = vec![NONE; literals.len()];
        // A literal comes after the shorter ones that it begins with.
        let mut by_length: Vec<_> = (0..literals.len()).collect();
        by_length.sort_unstable_by_key(|&index| literals[index].0.len());
        for index in by_length {
            let shorter = trie.shorter[index] as usize;
            plain[index] = if is_plain(&literals[index].0) {
                index as u32
            } else {
                plain.get(shorter).copied().unwrap_or(NONE)
            };
        }
        Literals {
            beginnings: Beginnings::new(literals),
            is_ending,
            trie,
            plain,
            lengths_and_ids: literals.iter().map(|(text, id)| (text.len() as u32, *id)).collect(),
            max_length: literals.iter().map(|(literal, _)| literal.len()).max().unwrap_or(0),
        }
    }

    /// Returns whether a literal counts in untrusted text.
    pub fn has_plain(&self) -> bool {
        self.plain.iter().any(|&index| index != NONE)
    }

    /// Calls `take` for each literal in a text, from left to right, as long as it returns true.
    pub fn for_each(&self, text: &[u8], take: impl FnMut(Found) -> bool) {
        self.for_each_of(text, |found, _| Some(found), take);
    }

    /// Calls `take` for each literal that counts in a text of which some ascending ranges are
    /// trusted: the plain ones, and the others that lie in one range.
    pub fn for_each_trusted(
        &self,
        text: &[u8],
        trusted: &[Range<usize>],
        take: impl FnMut(Found) -> bool,
    ) {
        let counting = |found: Found, mut literal: u32| {
            let range =
                trusted[..trusted.partition_point(|range| range.start <= found.start)].last();
            let limit = range.map_or(0, |range| range.end.saturating_sub(found.start));
            if limit == 0 {
                literal = *self.plain.get(literal as usize)?;
            }
            while let Some(&(length, id)) = self.lengths_and_ids.get(literal as usize) {
                if length as usize <= limit || self.plain[literal as usize] == literal {
                    return Some(Found { end: found.start + length as usize, id, ..found });
                }
                literal = self.trie.shorter[literal as usize];
            }
            None
        };
        self.for_each_of(text, counting, take);
    }

    /// Calls `take` for each literal, or the shorter one in its place that `counting` returns.
    fn for_each_of(
        &self,
        text: &[u8],
        counting: impl Fn(Found, u32) -> Option<Found>,
        mut take: impl FnMut(Found) -> bool,
    ) {
        let mut longest = Vec::new();
        let mut start = 0;
        while let Some(block) = self.beginnings.next(text, start) {
            let end = (block + self.max_length.max(MIN_BLOCK_BYTES)).min(text.len());
            self.find_longest(text, block..end, &counting, &mut longest);
            start = block;
            while let Some(found) = longest.pop() {
                if found.start >= start {
                    start = found.end;
                    if !take(found) {
                        return;
                    }
                }
            }
            start = start.max(end);
        }
    }

    /// Finds the longest literal at each position in a range, the last position first. A literal
    /// may end after the range.
    fn find_longest(
        &self,
        text: &[u8],
        range: Range<usize>,
        counting: impl Fn(Found, u32) -> Option<Found>,
        longest: &mut Vec<Found>,
    ) {
        let mut at = (range.end + self.max_length).min(text.len());
        let mut node = ROOT;
        while at > range.start {
            at -= 1;
            if node == ROOT && at > 0 && !self.is_ending[ending(text[at - 1], text[at])] {
                continue;
            }
            node = self.trie.step(node, text[at]);
            let literal = self.trie.literal[node as usize];
            if let Some(&(length, id)) = self.lengths_and_ids.get(literal as usize)
                && at < range.end
                && let Some(found) =
                    counting(Found { start: at, end: at + length as usize, id }, literal)
            {
                push(longest, found);
            }
        }
    }
}

/// Returns the index of two bytes that a literal may end in.
fn ending(before: u8, last: u8) -> usize {
    u16::from_be_bytes([last, before]).into()
}

/// Returns the first eight bytes, which order most strings.
fn first_bytes(string: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = string.len().min(8);
    first[..length].copy_from_slice(&string[..length]);
    u64::from_be_bytes(first)
}

/// The shortest block. A block is also at least as long as the longest literal, so that reading on
/// after its end at most doubles the work.
const MIN_BLOCK_BYTES: usize = 64;

/// `packed` searches only for few strings.
const MAX_BEGINNINGS: usize = 64;
const MAX_BEGINNING_BYTES: usize = 8;

enum Beginnings {
    /// All literals begin with these bytes, such as `<|`, which is the fastest search. It is boxed,
    /// because it has vectors of 32 bytes, and Python aligns its objects only to 16.
    Common(Box<memmem::Finder<'static>>),
    /// Few literals begin differently.
    Few(packed::Searcher),
    Anywhere,
}

impl Beginnings {
    fn new(literals: &[(String, u32)]) -> Beginnings {
        let mut texts = literals.iter().map(|(literal, _)| literal.as_bytes());
        let first = texts.next().unwrap_or_default();
        let common = texts.fold(first.len(), |length, text| {
            first[..length].iter().zip(text).take_while(|(x, y)| x == y).count()
        });
        if common > 1 {
            let finder = memmem::Finder::new(&first[..common]).into_owned();
            return Beginnings::Common(Box::new(finder));
        }
        let few = (1..=MAX_BEGINNING_BYTES).rev().find_map(|length| {
            let mut beginnings = BTreeSet::new();
            for (literal, _) in literals {
                beginnings.insert(&literal.as_bytes()[..length.min(literal.len())]);
                if beginnings.len() > MAX_BEGINNINGS {
                    return None;
                }
            }
            packed::Searcher::new(beginnings)
        });
        few.map_or(Beginnings::Anywhere, Beginnings::Few)
    }

    /// Returns the first position from `start` on where a literal may begin.
    fn next(&self, text: &[u8], start: usize) -> Option<usize> {
        match self {
            Beginnings::Common(bytes) => Some(start + bytes.find(&text[start..])?),
            Beginnings::Few(bytes) => {
                Some(bytes.find_in(text, (start..text.len()).into())?.start())
            }
            Beginnings::Anywhere => (start < text.len()).then_some(start),
        }
    }
}

/// A node of the trie: a string with which some reversed literal begins.
type Node = u32;

const ROOT: Node = 0;

/// No literal ends at a node.
const NONE: u32 = u32::MAX;

/// The automaton of Aho and Corasick. Nodes are numbered by their depth, and the children of a
/// node have adjacent numbers, in the order of their bytes.
struct Trie {
    /// The last byte of each node's string.
    bytes: Vec<u8>,
    /// The first child of each node. Its last child comes before the next node's first.
    first_child: Vec<Node>,
    /// The longest proper suffix of each node's string that is a node too.
    suffix: Vec<Node>,
    /// The index of the longest literal that each node's string ends with, or NONE.
    literal: Vec<u32>,
    /// For each literal, the longest of the others that it begins with, or NONE.
    shorter: Vec<u32>,
}

impl Trie {
    /// `strings` are sorted, each with the index of its literal.
    fn new(strings: &[(Vec<u8>, u32)]) -> Trie {
        let mut trie = Trie {
            bytes: vec![0],
            first_child: vec![],
            suffix: vec![ROOT],
            literal: vec![NONE],
            shorter: vec![NONE; strings.len()],
        };
        // The strings that begin with each node of one depth are a range of all strings.
        let mut level = vec![(0, strings.len())];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next_level = Vec::new();
            for &(mut first, end) in &level {
                let node = trie.first_child.len();
                trie.first_child.push(trie.bytes.len() as Node);
                if first < end && strings[first].0.len() == depth {
                    trie.literal[node] = strings[first].1;
                    first += 1;
                }
                while first < end {
                    let byte = strings[first].0[depth];
                    let begins = |(string, _): &(Vec<u8>, u32)| string[depth] == byte;
                    let count = strings[first..end].iter().take_while(|x| begins(x)).count();
                    trie.bytes.push(byte);
                    trie.literal.push(NONE);
                    next_level.push((first, first + count));
                    first += count;
                }
            }
            level = next_level;
            depth += 1;
        }
        trie.first_child.push(trie.bytes.len() as Node);
        trie.link();
        trie
    }

    /// Finds each node's suffix. This is a shorter string, so its own suffix is known by then.
    fn link(&mut self) {
        self.suffix.resize(self.bytes.len(), ROOT);
        for node in 0..self.bytes.len() as Node {
            for child in self.children(node) {
                if node != ROOT {
                    let suffix = self.suffix[node as usize];
                    self.suffix[child] = self.step(suffix, self.bytes[child]);
                }
                let shorter = self.literal[self.suffix[child] as usize];
                match self.literal[child] {
                    NONE => self.literal[child] = shorter,
                    own => self.shorter[own as usize] = shorter,
                }
            }
        }
    }

    fn children(&self, node: Node) -> Range<usize> {
        self.first_child[node as usize] as usize..self.first_child[node as usize + 1] as usize
    }

    /// Appends a byte to a node's string; returns the longest suffix of the result that is a node.
    fn step(&self, mut node: Node, byte: u8) -> Node {
        loop {
            let children = self.children(node);
            if let Ok(index) = self.bytes[children.clone()].binary_search(&byte) {
                return (children.start + index) as Node;
            }
            if node == ROOT {
                return ROOT;
            }
            node = self.suffix[node as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_inputs::Rng;

    fn all(literals: &Literals, text: &[u8]) -> Vec<Found> {
        let mut all = Vec::new();
        literals.for_each(text, |found| {
            all.push(found);
            true
        });
        all
    }

    /// Tries every literal at every position, and at once whether it counts there.
    fn all_plainly(
        literals: &[(String, u32)],
        text: &[u8],
        counts: impl Fn(&str, Range<usize>) -> bool,
    ) -> Vec<Found> {
        let (mut all, mut start) = (Vec::new(), 0);
        while start < text.len() {
            let here = literals.iter().filter(|(x, _)| {
                text[start..].starts_with(x.as_bytes()) && counts(x, start..start + x.len())
            });
            let longest = here.max_by_key(|(literal, _)| literal.len());
            let end = start + longest.map_or(1, |(literal, _)| literal.len());
            all.extend(longest.map(|&(_, id)| Found { start, end, id }));
            start = end;
        }
        all
    }

    /// Compares both searches, and returns the number of literals found.
    fn check(literals: &[(String, u32)], text: &str) -> usize {
        let found = all(&Literals::new(literals, |_| false), text.as_bytes());
        let plainly = all_plainly(literals, text.as_bytes(), |_, _| true);
        assert!(found == plainly, "{literals:?} in {text:?}");
        found.len()
    }

    fn with_ids(literals: impl IntoIterator<Item = String>) -> Vec<(String, u32)> {
        let mut literals: Vec<_> = literals.into_iter().filter(|text| !text.is_empty()).collect();
        literals.sort();
        literals.dedup();
        literals.into_iter().zip(300..).collect()
    }

    #[test]
    fn found_literals_match_a_trial_of_all() {
        let mut rng = Rng::new(1);
        let alphabets: [&[&str]; 5] = [
            &["a"],
            &["a", "b"],
            &["<|", "|>", "a", "b"],
            &["<", ">", "[", "]", "é", "中", "x", " "],
            &["aab", "ab", "b", "ba"],
        ];
        for round in 0..if cfg!(miri) { 20 } else { 5000 } {
            let words = alphabets[round % alphabets.len()];
            let count = rng.below(8);
            let literals = with_ids((0..count).map(|_| rng.text(words, 1 + round % 6)));
            check(&literals, &rng.text(words, 60));
        }
    }

    #[test]
    fn only_plain_literals_are_found_outside_trusted_ranges() {
        let mut rng = Rng::new(2);
        let alphabets: [&[&str]; 3] = [&["a", "b"], &["<", "a", " "], &["é", "中", "  "]];
        for round in 0..if cfg!(miri) { 20 } else { 5000 } {
            let words = alphabets[round % alphabets.len()];
            let count = rng.below(8);
            let literals = with_ids((0..count).map(|_| rng.text(words, 1 + round % 6)));
            let plain = |text: &str| text.len() % 2 == round % 2;
            let mut text = String::new();
            let mut trusted = Vec::new();
            for _ in 0..rng.below(6) {
                let start = text.len();
                text += &rng.text(words, 20);
                if rng.below(2) == 0 && start < text.len() {
                    trusted.push(start..text.len());
                }
            }
            let mut found = Vec::new();
            Literals::new(&literals, plain).for_each_trusted(text.as_bytes(), &trusted, |each| {
                found.push(each);
                true
            });
            let counts = |literal: &str, at: Range<usize>| {
                let is_inside =
                    |range: &Range<usize>| range.start <= at.start && at.end <= range.end;
                plain(literal) || trusted.iter().any(is_inside)
            };
            let plainly = all_plainly(&literals, text.as_bytes(), counts);
            assert!(found == plainly, "{literals:?} in {text:?}, trusted {trusted:?}");
        }
    }

    #[test]
    fn literals_are_found_across_the_ends_of_blocks() {
        let literals = with_ids(["<|a|>", "<|a|><|b|>", "x", "<|a"].map(String::from));
        for length in 0..2 * MIN_BLOCK_BYTES {
            let text = "x".repeat(length) + "<|a|><|b|><|ax<|a|>." + &".".repeat(100);
            assert_eq!(check(&literals, &text), length + 4);
        }
        let long = with_ids(["ab".repeat(1000), "b".to_string()]);
        assert_eq!(check(&long, &("ab".repeat(3000) + "b")), 4);
    }

    #[test]
    fn many_literals_are_found() {
        let text = (0..1000).map(|n| format!(" {n:03}| <|reserved_{n}|>")).collect::<String>();
        let many = with_ids((0..1000).map(|number| format!("{number:03}|")));
        let few = with_ids((0..1000).map(|number| format!("<|reserved_{number}|>")));
        assert!([many, few].iter().all(|literals| check(literals, &text) >= 1000));
    }

    #[test]
    fn a_caller_ends_the_search() {
        let search = Literals::new(&with_ids(["a".to_string()]), |_| false);
        let mut count = 0;
        search.for_each(b"aaaa", |_| {
            count += 1;
            count < 2
        });
        assert_eq!(count, 2);
    }

    /// A search that reads ahead for each byte would need 10^10 steps, or 10^9 to prepare.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn time_is_linear_in_literals_and_text() {
        let long = with_ids(["a".to_string(), "a".repeat(100_000) + "c"]);
        let text = "a".repeat(1 << 20);
        assert_eq!(all(&Literals::new(&long, |_| false), text.as_bytes()).len(), text.len());
        let nested = with_ids((2..2000).map(|length| "a".repeat(length)));
        let text = ("a".repeat(1000) + "b").repeat(1000);
        assert_eq!(all(&Literals::new(&nested, |_| false), text.as_bytes()).len(), 1000);
    }
}
