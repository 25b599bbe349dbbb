//! From ids to token indices.

use crate::mem::growth::filled;
use crate::types::TokenIndex;

pub const NO_TOKEN: TokenIndex = TokenIndex::MAX;

/// The token index of each id.
pub struct IdIndex {
    /// The ids, in ascending order.
    pub id_of: Vec<u32>,
    /// The token of each id; empty if the ids are too sparse for a table.
    token_of: Vec<TokenIndex>,
}

impl IdIndex {
    pub fn new(mut ids: Vec<u32>) -> IdIndex {
        let size = ids.iter().max().map_or(0, |&id| id as usize + 1);
        if size > 4 * ids.len() {
            ids.sort_unstable();
            ids.dedup();
            return IdIndex { id_of: ids, token_of: Vec::new() };
        }
        let mut token_of = filled(NO_TOKEN, size);
        ids.iter().for_each(|&id| token_of[id as usize] = 0);
        ids.clear();
        for (id, token) in (0..).zip(&mut token_of) {
            if *token != NO_TOKEN {
                *token = ids.len() as TokenIndex;
                ids.push(id);
            }
        }
        IdIndex { id_of: ids, token_of }
    }

    pub fn token_of(&self, id: u32) -> Option<TokenIndex> {
        if self.token_of.is_empty() {
            return self.id_of.binary_search(&id).ok().map(|token| token as TokenIndex);
        }
        self.token_of.get(id as usize).copied().filter(|&token| token != NO_TOKEN)
    }

    pub fn tokens_of<const N: usize>(&self, ids: &[u32; N]) -> Option<[TokenIndex; N]> {
        let mut tokens = [NO_TOKEN; N];
        for (token, &id) in tokens.iter_mut().zip(ids) {
            *token = self.token_of(id)?;
        }
        Some(tokens)
    }
}
