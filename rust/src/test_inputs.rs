//! Inputs for tests, which look random but are the same in each run.

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number, from 0 to `limit` - 1.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    /// Returns up to `most` words, joined. Some texts have all kinds of words, others only one.
    pub fn text(&mut self, words: &[&str], most: usize) -> String {
        let kinds = 1 + self.below(words.len());
        let first = self.below(words.len());
        let count = self.below(most + 1);
        (0..count).map(|_| words[(first + self.below(kinds)) % words.len()]).collect()
    }
}

/// Words of each kind that patterns distinguish.
pub const WORDS: [&str; 55] = [
    "a", "B", "word", "Word", "WORD", "camelCase", "'s", "'S", "'ll", "'Re", "'", "\u{17f}",
    "'\u{17f}", "1", "23", "4567", "\u{bd}", "\u{663}", " ", "  ", "     ", "\t", "\n", "\r\n",
    "\n\n", " \n", "\n ", "\n    ", "\u{a0}", "\u{3000}", "\u{85}", "!", "?!", "...", "//", "/",
    "\n/", ";\n", "_", "\u{0}", "\u{301}", "e\u{301}", "\u{5d0}", "\u{4e2d}", "\u{4e2d}\u{6587}",
    "\u{4e2d}A", "\u{1c5}", "\u{2b0}", "\u{1f600}", "\u{e9}", "\u{c9}", "\u{43f}\u{440}",
    "\u{41f}", "\u{e000}", "\u{200d}",
];
