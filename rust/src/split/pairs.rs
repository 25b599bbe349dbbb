//! Where texts may be split, by the two characters around each place.

use std::collections::HashSet;

pub enum Pairs {
    /// Kinds of characters: between two of some kinds, every text may be split.
    Kinds { low: Vec<u8>, firsts: Vec<(u32, u8)>, after: Vec<u128> },
    /// Pairs between which no text may be split. U+2581 counts as a space.
    Glued { low: Vec<u128>, all: HashSet<(u32, u32)> },
}

/// The number of characters whose kinds are in a table.
const LOW_COUNT: u32 = 0x800;

impl Pairs {
    /// `firsts` has the first code point of each range, in order, and its kind; `after` has the
    /// kinds after a split for each kind before it.
    pub fn of_kinds(firsts: Vec<(u32, u8)>, after: &[Vec<u8>]) -> Pairs {
        let low = (0..LOW_COUNT).map(|code| kind_of(&firsts, code)).collect();
        let bits = |kinds: &Vec<u8>| kinds.iter().fold(0, |bits, &kind| bits | 1 << kind);
        Pairs::Kinds { low, firsts, after: after.iter().map(bits).collect() }
    }

    /// Each pair is two characters in a row of a token that merges make.
    pub fn of_glued(pairs: impl Iterator<Item = (u32, u32)>) -> Pairs {
        let (mut low, all) = (vec![0; 0x80], pairs.collect::<HashSet<_>>());
        for &(before, after) in all.iter().filter(|&&(before, after)| before.max(after) < 0x80) {
            low[before as usize] |= 1 << after;
        }
        Pairs::Glued { low, all }
    }

    /// Returns the first place where a text may be split.
    pub fn first<C: Copy + Into<u32>>(&self, text: &[C]) -> Option<usize> {
        Some(text.windows(2).position(|pair| self.split(pair[0].into(), pair[1].into()))? + 1)
    }

    /// Returns the last place where a text may be split.
    pub fn last<C: Copy + Into<u32>>(&self, text: &[C]) -> Option<usize> {
        Some(text.windows(2).rposition(|pair| self.split(pair[0].into(), pair[1].into()))? + 1)
    }

    /// Returns whether every text may be split between two characters.
    #[inline(always)]
    fn split(&self, before: u32, after: u32) -> bool {
        match self {
            Pairs::Kinds { low, firsts, after: kinds } => {
                let kind = |code: u32| match low.get(code as usize) {
                    Some(&kind) => kind,
                    None => kind_of(firsts, code),
                };
                kinds[usize::from(kind(before))] >> kind(after) & 1 != 0
            }
            Pairs::Glued { low, all } => {
                let of = |code| if code == SPACE_MARK { SPACE } else { code };
                let (before, after) = (of(before), of(after));
                match low.get(before as usize) {
                    Some(row) if after < 0x80 => row >> after & 1 == 0,
                    _ => !all.contains(&(before, after)),
                }
            }
        }
    }
}

const SPACE: u32 = 0x20;
const SPACE_MARK: u32 = 0x2581;

/// Returns the kind of a code point.
fn kind_of(firsts: &[(u32, u8)], code: u32) -> u8 {
    firsts[firsts.partition_point(|&(first, _)| first <= code) - 1].1
}
