//! The same rules as in `scan`, for 64 bytes at a time.
//!
//! A window begins where a piece begins, so that nothing before it counts: no pattern looks back.
//! Each set of characters is a number of 64 bits, a bit a byte, and a rule is arithmetic on these.
//! `x << 1` has the bytes that follow those of `x`, `x >> 1` those that precede them; in `x + y`
//! the carry runs through a run of bits of `x` from where `y` has one. What a window can't decide
//! by itself is left to the next one, or to the rules for single characters.

use std::marker::PhantomData;

use crate::scan::{Rules, Scanner, contraction, contraction_without_case};
use crate::simd::{Block, Leads, Masks, Vectors, Work, prefetch};
use crate::unicode::{LETTER, LOWER, NUMBER, SPACE, UPPER};

/// How many bytes ahead text is asked for: what the next call will look at.
const AHEAD: usize = 3072;

/// What `Pieces::next_ends` asks for.
pub struct NextEnds<'a, 'b, S> {
    rules: Rules<'a>,
    at: usize,
    ends: &'b mut [u32],
    scanner: PhantomData<S>,
}

impl<'a, 'b, S> NextEnds<'a, 'b, S> {
    pub fn new(rules: Rules<'a>, at: usize, ends: &'b mut [u32]) -> Self {
        NextEnds { rules, at, ends, scanner: PhantomData }
    }
}

impl<S: Scanner> Work for NextEnds<'_, '_, S> {
    /// How many pieces, and where the last ends.
    type Result = (usize, usize);

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) -> (usize, usize) {
        let NextEnds { rules, mut at, ends, .. } = self;
        let text = rules.text;
        let mut count = 0;
        while at < text.len() {
            let Some((room, _)) = ends[count..].split_first_chunk_mut() else { break };
            if let Some(ahead) = text.get(at + AHEAD) {
                prefetch(ahead);
            }
            let mut window = Window::at(vectors, rules, at, S::HAS_CASES);
            let starts = S::starts(&mut window) & window.certain();
            if starts == 0 {
                at = S::end_of_piece(rules, at);
                room[0] = at as u32;
                count += 1;
                continue;
            }
            vectors.write_places(starts, at as u32, room);
            count += starts.count_ones() as usize;
            at += starts.ilog2() as usize;
        }
        (count, at)
    }
}

/// 64 bytes of a text, and of which classes they are: all bytes of a character of its class.
pub struct Window<'a> {
    text: &'a [u8],
    at: usize,
    masks: Masks,
    /// The first bytes of characters that are not ASCII.
    leads: u64,
    letters: u64,
    numbers: u64,
    /// White space, and what is behind the end of the text.
    spaces: u64,
    /// Capital letters, and small ones; letters that are neither, and marks, are both.
    upper: u64,
    lower: u64,
    marks: u64,
    /// Numbers and white space that are not ASCII.
    other_numbers: u64,
    other_spaces: u64,
    /// How many bytes there are, if the text ends before the 63rd.
    end: Option<usize>,
    /// From the first of these on, this window does not tell where pieces begin.
    hard: u64,
}

impl<'a> Window<'a> {
    #[inline(always)]
    fn at<V: Vectors>(vectors: V, rules: Rules<'a>, at: usize, has_cases: bool) -> Window<'a> {
        let rest = &rules.text[at..];
        let mut last_block: Block = [0; 64];
        let (block, end) = match rest.first_chunk() {
            Some(block) => (block, None),
            None => {
                last_block[..rest.len()].copy_from_slice(rest);
                (&last_block, Some(rest.len()))
            }
        };
        let masks = vectors.masks(block);
        let mut window = Window {
            text: rules.text,
            at,
            masks,
            leads: 0,
            letters: masks.letters,
            numbers: masks.numbers,
            spaces: masks.spaces,
            upper: masks.upper,
            lower: masks.letters & !masks.upper,
            marks: 0,
            other_numbers: 0,
            other_spaces: 0,
            end: end.filter(|&end| end < 63),
            hard: 0,
        };
        if masks.high != 0 {
            window.leads = vectors.leads(block).all;
            window.add_others(rules, vectors.leads(block), has_cases);
        }
        if let Some(end) = end {
            window.spaces |= u64::MAX << end;
        }
        window
    }

    /// Adds the characters that are not ASCII; capitals and small letters only with `has_cases`.
    #[inline(always)]
    fn add_others(&mut self, rules: Rules<'_>, leads: Leads, has_cases: bool) {
        let uncased = leads.uncased | leads.uncased << 1 | leads.uncased << 2;
        self.letters |= uncased;
        let mut left = leads.all & !leads.uncased;
        if has_cases {
            self.upper |= uncased;
            self.lower |= uncased;
        } else {
            self.letters |= leads.cased | leads.cased << 1;
            left &= !leads.cased;
        }
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            let (class, length) = rules.classes.at(rules.text, self.at + place as usize);
            let character = ((1_u64 << length) - 1) << place;
            let of = |wanted: u8| if class & wanted == 0 { 0 } else { character };
            self.letters |= of(LETTER);
            self.other_numbers |= of(NUMBER);
            self.other_spaces |= of(SPACE);
            if has_cases {
                self.upper |= of(UPPER);
                self.lower |= of(LOWER);
                self.marks |= of(UPPER) & !of(LETTER);
            }
        }
        self.numbers |= self.other_numbers;
        self.spaces |= self.other_spaces;
    }

    /// Returns the bits of the places where this window tells whether a piece begins, and not
    /// begins at its own beginning: not of the last, since what follows may count.
    #[inline(always)]
    fn certain(&self) -> u64 {
        let before_hard = (self.hard & self.hard.wrapping_neg()).wrapping_sub(1);
        before_hard & (u64::MAX >> 1) & !1
    }

    /// Returns the bit of the end of the text, where a piece ends, if it is in here.
    #[inline(always)]
    fn end(&self) -> u64 {
        self.end.map_or(0, |end| 1 << end)
    }

    /// Calls `add` for each apostrophe of some, with its place and the text behind it.
    #[inline(always)]
    fn for_each_apostrophe(&self, some: u64, mut add: impl FnMut(u32, &[u8])) {
        let mut left = some & self.masks.apostrophes;
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            add(place, &self.text[self.at + place as usize + 1..]);
        }
    }
}

/// Returns the bit of a place, or none where that is behind the window.
#[inline(always)]
fn bit(place: u32) -> u64 {
    1_u64.checked_shl(place).unwrap_or(0)
}

/// `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
#[inline(always)]
pub fn gpt2(window: &mut Window) -> u64 {
    let Window { letters, numbers, spaces, masks, .. } = *window;
    let signs = !(letters | numbers | spaces);
    let behind_blanks = masks.blanks << 1;
    let first_of_runs =
        (letters & !(letters << 1)) | (numbers & !(numbers << 1)) | (signs & !(signs << 1));
    // The last of a run of white space is not of the piece of those before it. If it is a blank,
    // it begins the piece of what follows.
    let mut starts = (first_of_runs & !behind_blanks) | spaces & !(spaces << 1 & spaces >> 1);
    window.hard = window.other_spaces;
    let may_contract = signs & !(signs << 1) & !behind_blanks & (letters >> 1);
    window.for_each_apostrophe(may_contract, |place, rest| {
        let length = contraction(rest) as u32;
        if length > 0 {
            starts = starts & !bit(place + 1) | bit(place + 1 + length);
        }
    });
    starts | window.end()
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}`
/// `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
#[inline(always)]
pub fn cl100k<const DIGITS: usize>(window: &mut Window) -> u64 {
    let Window { letters, numbers, spaces, masks, .. } = *window;
    let signs = !(letters | numbers | spaces);
    // Line ends behind signs are of their piece: a carry runs from the first through all.
    let line_ends = masks.line_ends;
    let taken = line_ends & !line_ends.wrapping_add(line_ends & signs << 1);
    let first_signs = signs & !(signs << 1) & !(masks.blanks << 1);
    let words = letters & !(letters << 1) & !behind_prefixes(window, first_signs);
    let numbers = first_numbers::<DIGITS>(window);
    let mut starts = words | numbers | first_signs | first_spaces(window, taken);
    window.for_each_apostrophe(first_signs & letters >> 1, |place, rest| {
        let length = contraction_without_case(rest) as u32;
        if length > 0 {
            starts |= bit(place + 1 + length);
        }
    });
    starts | window.end()
}

/// `[^\r\n\p{L}\p{N}]?U*l+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+l*(?i:'s|…)?|\p{N}{1,3}`
/// `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, U and l being `upper` and `lower`
#[inline(always)]
pub fn o200k(window: &mut Window) -> u64 {
    let Window { numbers, spaces, upper, lower, marks, masks, .. } = *window;
    // A mark is what words are made of, and a sign too: behind a sign it may be either.
    let letters = upper | lower;
    let all_signs = !(letters | numbers | spaces);
    window.hard |= marks & all_signs << 1;
    // So is a slash, behind line ends that are behind signs.
    let mut taken = 0;
    let taking = masks.line_ends | masks.slashes;
    let mut first_line_ends = masks.line_ends & all_signs << 1;
    while first_line_ends != 0 {
        let place = first_line_ends.trailing_zeros();
        let run = (taking >> place).trailing_ones();
        taken |= (bit(run).wrapping_sub(1)) << place;
        first_line_ends &= !taken;
    }
    let signs = all_signs & !taken;
    let first_signs = signs & !(signs << 1) & !(masks.blanks << 1);
    let words = letters & !(letters << 1) & !behind_prefixes(window, first_signs);
    // A capital begins a word behind a small letter. Behind a letter that is both it depends on
    // what follows.
    let capitals = upper & !lower;
    window.hard |= capitals & (upper & lower) << 1;
    let mut starts = words | capitals & (lower & !upper) << 1 | first_signs;
    starts |= first_numbers::<3>(window) | first_spaces(window, taken);
    let mut end_of_last = 0;
    window.for_each_apostrophe(letters << 1, |place, rest| {
        let length = contraction_without_case(rest) as u32;
        if length > 0 && (place != end_of_last) {
            end_of_last = place + 1 + length;
            let inside = bit(end_of_last).wrapping_sub(1) & (u64::MAX << place);
            starts = starts & !inside | bit(end_of_last);
        }
    });
    starts | window.end()
}

/// Returns what is behind a character that words may begin with: white space that is no line end,
/// or a sign that is the first of its piece.
#[inline(always)]
fn behind_prefixes(window: &Window, first_signs: u64) -> u64 {
    let mut prefixes = first_signs;
    let inside = window.masks.high & !window.leads;
    if inside != 0 {
        for _ in 0..3 {
            prefixes |= prefixes << 1 & inside;
        }
    }
    (prefixes | window.spaces & !window.masks.line_ends) << 1
}

/// Returns where the pieces of numbers begin: `\p{N}{1,DIGITS}`.
#[inline(always)]
fn first_numbers<const DIGITS: usize>(window: &mut Window) -> u64 {
    let numbers = window.numbers;
    window.hard |= window.other_numbers;
    if DIGITS == 1 {
        return numbers;
    }
    let mut starts = numbers & !(numbers << 1);
    let fourth_at_least = numbers & numbers << 1 & numbers << 2 & numbers << 3;
    let mut next = starts;
    while next & fourth_at_least >> DIGITS != 0 {
        next = next << DIGITS & fourth_at_least;
        starts |= next;
    }
    starts
}

/// Returns where the pieces of white space begin, and those that begin with white space:
/// `\s*[\r\n]+|\s+(?!\S)|\s+`, `taken` being line ends that are not of them.
#[inline(always)]
fn first_spaces(window: &mut Window, taken: u64) -> u64 {
    let Window { spaces, masks, .. } = *window;
    window.hard |= window.other_spaces;
    let free = spaces & !taken;
    let within_line = spaces & !masks.line_ends;
    let mut starts = free & !(free << 1) | within_line & !(spaces >> 1);
    // What is behind the last line end of a run begins a piece, if there is any.
    let mut behind_line_ends = within_line & masks.line_ends << 1;
    while behind_line_ends != 0 {
        let place = behind_line_ends.trailing_zeros();
        behind_line_ends &= behind_line_ends - 1;
        let next = place + (within_line >> place).trailing_ones();
        if next >= 64 && window.end.is_none() {
            window.hard |= bit(place);
        } else if bit(next) & masks.line_ends == 0 {
            starts |= bit(place);
        }
    }
    starts
}
