//! Learns one list of merges for several languages, each merge for the language that needs it most.

use super::error::Error;
use super::learner::Learner;
use crate::interrupt::Interrupt;
use crate::types::TokenIndex;

/// The text of a language, and the text by which its compression is judged.
pub struct Language {
    pub text: Learner,
    pub development: Learner,
}

/// Learns each merge for the language whose development text has the most tokens.
pub struct Balance {
    languages: Vec<Language>,
}

impl Balance {
    /// All learners must come from `Learner::of_several`.
    pub fn new(languages: Vec<Language>) -> Balance {
        Balance { languages }
    }

    /// Learns the next merge, as `Learner::next_merge` does: the best pair of the language whose
    /// development text has the most tokens. Ties go to the first language, and a language without
    /// a pair gives its turn to the next.
    pub fn next_merge(
        &mut self,
        mut takes: impl FnMut(TokenIndex, TokenIndex) -> Result<bool, Error>,
        interrupt: &mut Interrupt<'_>,
    ) -> Result<Option<(TokenIndex, TokenIndex)>, Error> {
        let mut turns: Vec<_> = (0..self.languages.len()).collect();
        turns.sort_by_key(|&turn| std::cmp::Reverse(self.languages[turn].development.tokens()));
        for turn in turns {
            let best = self.languages[turn].text.best_pair(&mut takes, interrupt)?;
            if let Some(pair) = best {
                for language in &mut self.languages {
                    language.text.merge(pair, interrupt)?;
                    language.development.merge(pair, interrupt)?;
                }
                return Ok(Some(pair.parts()));
            }
        }
        Ok(None)
    }
}
