//! Split points of CJK runs: places that no token spans, so that both sides can be merged apart.
//!
//! In Chinese, Japanese and Korean a piece is a whole clause, which seldom repeats. But because few
//! tokens have more than two characters, nearly every place between two characters is a split
//! point. The parts between split points repeat often, so that the cache has their ids.

use crate::split::{Character, TokenNeighbours, three_bytes_each};
use crate::types::{BATCH, WORD_BYTES};

impl TokenNeighbours {
    /// Returns whether no token spans `middle`, which is after a character. Two characters of ASCII
    /// count as spanned.
    #[inline(always)]
    fn is_split_point(&self, text: &[u8], left: Character, middle: usize) -> bool {
        text[middle - 1] | text[middle] >= 0x80 && self.are_apart(left, Character::at(text, middle))
    }

    /// Writes where the parts of a CJK run end, as long as `parts` has room. Returns the end of the
    /// last part.
    #[inline(always)]
    pub fn split_run(
        &self,
        text: &[u8],
        mut at: usize,
        end: usize,
        parts: &mut [u32; BATCH + 1],
        count: &mut usize,
    ) -> usize {
        while at < end && *count < BATCH {
            let (next, is_end) = match three_bytes_each(text, at) {
                // Nearly all are such, and the next position does not wait for a length.
                Some(both) if at + 3 < end => (at + 3, self.are_bytes_apart(both)),
                _ => {
                    let left = Character::at(text, at);
                    let next = (at + left.length).min(end);
                    (next, next == end || self.is_split_point(text, left, next))
                }
            };
            // The next iteration overwrites the bound unless it is an end.
            parts[*count + 1] = next as u32;
            *count += usize::from(is_end);
            at = next;
        }
        at
    }
}

/// Returns whether a piece of more than 8 bytes begins like Chinese, Japanese or Korean text. A
/// space may come first.
#[inline(always)]
pub fn is_cjk_run(piece: &[u8]) -> bool {
    piece.len() > WORD_BYTES && matches!(piece[usize::from(piece[0] == b' ')], 0xE3..=0xED)
}

/// Splits the CJK runs of a batch of pieces.
pub struct CjkSplitter<'a> {
    neighbours: &'a TokenNeighbours,
    pub text: &'a [u8],
    /// The start of each piece, and the end of the last.
    bounds: &'a [u32],
    /// The position in the text, and the number of whole pieces before it.
    at: usize,
    pieces: usize,
    /// The number of CJK runs before the position.
    pub runs: usize,
}

impl<'a> CjkSplitter<'a> {
    pub fn new(
        neighbours: &'a TokenNeighbours,
        text: &'a [u8],
        bounds: &'a [u32],
    ) -> CjkSplitter<'a> {
        CjkSplitter { neighbours, text, bounds, at: bounds[0] as usize, pieces: 0, runs: 0 }
    }

    /// Writes the starts of the next parts, and the end of the last. Returns the number of parts,
    /// which is 0 at the end.
    #[inline(always)]
    pub fn next_bounds(&mut self, parts: &mut [u32; BATCH + 1]) -> usize {
        let CjkSplitter { neighbours, text, bounds, mut at, mut pieces, mut runs } = *self;
        let mut count = 0;
        parts[0] = at as u32;
        while pieces + 1 < bounds.len() && count < BATCH {
            let (start, end) = (bounds[pieces] as usize, bounds[pieces + 1] as usize);
            if is_cjk_run(&text[start..end]) {
                at = neighbours.split_run(text, at, end, parts, &mut count);
                runs += usize::from(at == end);
            } else {
                at = end;
                count += 1;
                parts[count] = at as u32;
            }
            pieces += usize::from(at == end);
        }
        (self.at, self.pieces, self.runs) = (at, pieces, runs);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::joints_of;
    use crate::test_inputs::Rng;

    fn neighbours_in(tokens: &[&str]) -> TokenNeighbours {
        TokenNeighbours::new(tokens.iter().flat_map(|token| joints_of(token.as_bytes())))
    }

    #[test]
    fn no_token_spans_a_split_point() {
        let tokens = ["中文".as_bytes(), "文".as_bytes(), " 日".as_bytes(), b"\xad\xe6"];
        let neighbours = TokenNeighbours::new(tokens.into_iter().flat_map(joints_of));
        let text = "中文中日 日本".as_bytes(); // the last bytes of "中" and "本" are AD and AC
        let found = [(0, 3), (3, 6), (6, 9), (9, 12), (12, 13), (13, 16)].map(|(start, middle)| {
            neighbours.is_split_point(text, Character::at(text, start), middle)
        });
        assert_eq!(found, [false, true, false, true, false, true]);
    }

    /// Returns the parts of pieces.
    fn parts(neighbours: &TokenNeighbours, pieces: &[&str]) -> Vec<String> {
        let text = format!("before{}", pieces.concat());
        let mut bounds = vec![6];
        bounds.extend(pieces.iter().scan(6, |end, piece| {
            *end += piece.len() as u32;
            Some(*end)
        }));
        let mut splitter = CjkSplitter::new(neighbours, text.as_bytes(), &bounds);
        let (mut some, mut all) = ([0; BATCH + 1], Vec::new());
        loop {
            let count = splitter.next_bounds(&mut some);
            if count == 0 {
                assert_eq!(some[0] as usize, text.len());
                return all;
            }
            let part = |bounds: &[u32]| text[bounds[0] as usize..bounds[1] as usize].to_string();
            all.extend(some[..=count].windows(2).map(part));
        }
    }

    #[test]
    fn cjk_runs_are_split_where_no_token_spans() {
        let neighbours = neighbours_in(&["中文字", "文a", " 中"]);
        let cases: [(&str, &[&str]); 6] = [
            ("日本語です", &["日", "本", "語", "で", "す"]),
            (" 中文字中文", &[" 中文字", "中文"]),
            ("日日中文日", &["日", "日", "中文", "日"]),
            ("中文中文", &["中文"; 2]),
            ("日日", &["日日"]), // a short piece
            (" internationally", &[" internationally"]),
        ];
        for (piece, expected) in cases {
            assert_eq!(parts(&neighbours, &[piece]), expected);
        }
    }

    #[test]
    fn each_piece_is_split_alone() {
        let neighbours = neighbours_in(&["中文", "文中", "文文"]);
        let mut rng = Rng::new(3);
        for _ in 0..if cfg!(miri) { 2 } else { 300 } {
            let mut pieces: Vec<String> = (0..1 + rng.below(200))
                .map(|_| rng.text(&["中", "文", "日", " ", "a", "🙂"], 40))
                .collect();
            pieces.retain(|piece| !piece.is_empty());
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let each: Vec<_> = pieces.iter().flat_map(|&x| parts(&neighbours, &[x])).collect();
            assert_eq!(parts(&neighbours, &pieces), each);
            assert_eq!(each.concat(), pieces.concat());
        }
    }
}
