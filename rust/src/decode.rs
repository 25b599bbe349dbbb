//! Ids to bytes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use crate::interrupt::Interrupt;
use crate::mem::Output;
use crate::mem::growth::{collected, copied, granted, lengthen, push, with_room};

/// The bytes of a slot. A longer token is in `long`.
const SLOT_BYTES: usize = 16;

/// The mask of a size for the number of bytes, if they are in the slot.
const LENGTH_BITS: u8 = 0x1F;
/// The flag of a size for a token with bytes outside ASCII.
const NOT_ASCII: u8 = 0x80;
/// The size of a token that is too long for its slot. The slot has its index in `long` instead.
const NOT_IN_SLOT: u8 = 0x1E;
/// The size of an id without a token, or without a slot.
const NO_TOKEN: u8 = 0x1F | NOT_ASCII;

/// Marks an id whose characters must be counted from its bytes: a token with this many, or an
/// unknown id.
const MANY: u64 = 0xFF;

/// For fewer ids, the characters are counted without `characters_by_id`.
const MIN_IDS_FOR_TABLE: usize = 256;

/// The number of ids between two checks for interrupts.
const INTERRUPT_CHECK_IDS: usize = 1 << 18;

/// The bytes of each id.
///
/// A copy shares the bytes, and has sizes of its own: one byte for each id.
#[derive(Clone, Default)]
pub struct TokenBytes {
    /// By id, the token's length and whether it is all ASCII.
    sizes: Vec<u8>,
    /// By id, the token's bytes, padded with zeros.
    slots: Arc<Vec<[u8; SLOT_BYTES]>>,
    /// The tokens that are too long for their slots.
    long: Arc<Vec<Box<[u8]>>>,
    /// The tokens whose ids are too high for a slot.
    far: HashMap<u32, Arc<[u8]>>,
    /// How many characters begin in the token of each id, made on first use. Each count has only a
    /// byte, so that the list stays in the processor's cache.
    characters_by_id: OnceLock<Vec<u8>>,
}

/// The size of the bytes of ids, and whether they are ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    pub bytes: usize,
    /// NOT_ASCII if a token has bytes outside ASCII, or has no slot that would tell.
    flags: u8,
}

impl Extent {
    /// Returns true only if all bytes are ASCII.
    pub fn is_ascii(self) -> bool {
        self.flags == 0
    }
}

impl TokenBytes {
    /// Returns the table of about `count` tokens.
    pub fn new<E>(
        count: usize,
        tokens: impl Iterator<Item = Result<(u32, impl AsRef<[u8]>), E>>,
    ) -> Result<TokenBytes, E> {
        let mut sizes = with_room(count);
        let mut slots = with_room(count);
        let mut long = Vec::new();
        let mut far = HashMap::new();
        for token in tokens {
            let (id, bytes) = token?;
            let (index, bytes) = (id as usize, bytes.as_ref());
            if index >= 2 * count + 1024 {
                granted(far.try_reserve(1));
                far.insert(id, bytes.into());
                continue;
            }
            if index >= slots.len() {
                lengthen(&mut sizes, index + 1, NO_TOKEN);
                lengthen(&mut slots, index + 1, [0; SLOT_BYTES]);
            }
            let slot: &mut [u8; SLOT_BYTES] = &mut slots[index];
            if bytes.len() <= SLOT_BYTES {
                slot[..bytes.len()].copy_from_slice(bytes);
                sizes[index] = bytes.len() as u8;
            } else {
                slot[..8].copy_from_slice(&(long.len() as u64).to_le_bytes());
                sizes[index] = NOT_IN_SLOT;
                push(&mut long, bytes.into());
            }
            sizes[index] |= if bytes.is_ascii() { 0 } else { NOT_ASCII };
        }
        Ok(TokenBytes {
            sizes,
            slots: Arc::new(slots),
            long: Arc::new(long),
            far,
            characters_by_id: OnceLock::new(),
        })
    }

    /// Returns a copy in which these ids have no bytes.
    pub fn without(&self, ids: &[u32]) -> TokenBytes {
        let mut table = TokenBytes {
            sizes: copied(&self.sizes),
            slots: self.slots.clone(),
            long: self.long.clone(),
            far: self.far.clone(),
            characters_by_id: OnceLock::new(),
        };
        for id in ids {
            if let Some(size) = table.sizes.get_mut(*id as usize) {
                *size = 0;
            } else if let Some(token) = table.far.get_mut(id) {
                *token = Arc::default();
            }
        }
        table
    }

    /// Returns the extent of ids; None if an id is unknown, if the bytes are too many, or after an
    /// interrupt.
    pub fn extent(&self, ids: &[impl Integer], interrupt: &mut Interrupt<'_>) -> Option<Extent> {
        let mut extent = Extent::default();
        for ids in ids.chunks(INTERRUPT_CHECK_IDS) {
            interrupt.check().ok()?;
            for id in ids {
                let id = id.value();
                let size = self.size(id);
                let mut length = usize::from(size & LENGTH_BITS);
                if length > SLOT_BYTES {
                    length = self.without_slot(id)?.len();
                }
                extent.bytes = extent.bytes.checked_add(length)?;
                extent.flags |= size & NOT_ASCII;
            }
        }
        Some(extent)
    }

    /// Appends the bytes of the ids to `output` and returns their extent.
    ///
    /// Returns None if an id is unknown, if `output` is too small, or after an interrupt.
    pub fn join(
        &self,
        ids: &[impl Integer],
        output: &mut Output<'_>,
        interrupt: &mut Interrupt<'_>,
    ) -> Option<Extent> {
        let (start, mut flags) = (output.filled(), 0);
        for mut ids in ids.chunks(INTERRUPT_CHECK_IDS) {
            interrupt.check().ok()?;
            loop {
                ids = self.join_slots(ids, output, &mut flags);
                let Some((id, rest)) = ids.split_first() else { break };
                let id = id.value();
                output.push(self.token(id)?).then_some(())?;
                flags |= self.size(id) & NOT_ASCII;
                ids = rest;
            }
        }
        Some(Extent { bytes: output.filled() - start, flags })
    }

    /// Joins the first ids, while their bytes are in slots and there is room for a whole slot;
    /// returns the other ids.
    fn join_slots<'a, I: Integer>(
        &self,
        ids: &'a [I],
        output: &mut Output<'_>,
        flags: &mut u8,
    ) -> &'a [I] {
        let slots = &self.slots[..self.sizes.len()];
        let mut sizes = 0;
        let done = output.push_slots(ids.iter().map_while(|id| {
            let index = index(id.value());
            let (&size, slot) = (self.sizes.get(index)?, slots.get(index)?);
            let length = usize::from(size & LENGTH_BITS);
            (length <= SLOT_BYTES).then(|| {
                sizes |= size;
                (slot, length)
            })
        }));
        *flags |= sizes & NOT_ASCII;
        &ids[done..]
    }

    /// Returns the offset of the first byte of each id, in the bytes of all ids.
    ///
    /// Returns None if an id is unknown, or after an interrupt.
    pub fn byte_offsets(
        &self,
        ids: &[impl Integer],
        interrupt: &mut Interrupt<'_>,
    ) -> Option<Vec<u64>> {
        let mut end = 0;
        self.offsets(ids, interrupt, |token| {
            let start = end;
            end += token.len() as u64;
            start
        })
    }

    /// Returns for each id the index of the character that contains its first byte. The bytes of
    /// all must be UTF-8.
    ///
    /// Returns None as `byte_offsets` does.
    pub fn character_offsets(
        &self,
        ids: &[impl Integer],
        interrupt: &mut Interrupt<'_>,
    ) -> Option<Vec<u64>> {
        let mut before: u64 = 0;
        self.offsets(ids, interrupt, |token| {
            let begins_inside = token.first().is_some_and(|&byte| continues(byte));
            let offset = before.saturating_sub(begins_inside.into());
            before += count_characters(token);
            offset
        })
    }

    /// Returns the number of characters that begin in the bytes of ids; None as `extent` does.
    pub fn characters(&self, ids: &[impl Integer], interrupt: &mut Interrupt<'_>) -> Option<u64> {
        let counts = if ids.len() < MIN_IDS_FOR_TABLE { &[] } else { self.characters_by_id() };
        let mut characters = 0;
        for ids in ids.chunks(INTERRUPT_CHECK_IDS) {
            interrupt.check().ok()?;
            for id in ids {
                let id = id.value();
                let count = counts.get(index(id)).map_or(MANY, |&count| count.into());
                characters += if count < MANY { count } else { count_characters(self.token(id)?) };
            }
        }
        Some(characters)
    }

    fn characters_by_id(&self) -> &[u8] {
        if self.characters_by_id.get().is_none() {
            let count = |token| count_characters(token).min(MANY);
            let ids = 0..self.sizes.len();
            let counts = ids.map(|id| self.token(id as u64).map_or(MANY, count) as u8);
            // In a forked process, `get_or_init` could wait for ever for a thread of the parent.
            let _ = self.characters_by_id.set(collected(counts));
        }
        self.characters_by_id.get().map_or(&[], |counts| counts)
    }

    fn offsets(
        &self,
        ids: &[impl Integer],
        interrupt: &mut Interrupt<'_>,
        mut offset: impl FnMut(&[u8]) -> u64,
    ) -> Option<Vec<u64>> {
        let mut offsets = with_room(ids.len());
        for ids in ids.chunks(INTERRUPT_CHECK_IDS) {
            interrupt.check().ok()?;
            for id in ids {
                offsets.push(offset(self.token(id.value())?));
            }
        }
        Some(offsets)
    }

    fn size(&self, id: u64) -> u8 {
        self.sizes.get(index(id)).copied().unwrap_or(NO_TOKEN)
    }

    /// Returns the bytes of an id; None if it is unknown.
    pub fn token(&self, id: u64) -> Option<&[u8]> {
        let length = usize::from(self.size(id) & LENGTH_BITS);
        if length > SLOT_BYTES {
            return self.without_slot(id);
        }
        self.slots.get(index(id))?.get(..length)
    }

    /// Returns the bytes of an id that are not in its slot.
    #[cold]
    fn without_slot(&self, id: u64) -> Option<&[u8]> {
        if self.size(id) & LENGTH_BITS != NOT_IN_SLOT {
            return self.far.get(&u32::try_from(id).ok()?).map(|token| &**token);
        }
        let index = u64::from_le_bytes(*self.slots.get(index(id))?.first_chunk()?);
        self.long.get(index as usize).map(|token| &**token)
    }
}

/// An integer that other threads may write to; from 0 to 2**32 - 1, it is an id.
pub trait Integer {
    /// Returns the integer. A negative one becomes larger than all ids.
    fn value(&self) -> u64;
}

macro_rules! integers {
    ($($atomic:ident)*) => {
        $(impl Integer for std::sync::atomic::$atomic {
            fn value(&self) -> u64 {
                self.load(Relaxed) as u64
            }
        })*
    };
}

integers!(AtomicI8 AtomicU8 AtomicI16 AtomicU16 AtomicI32 AtomicU32 AtomicI64 AtomicU64);

/// Returns the number of characters that begin in bytes of UTF-8.
fn count_characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| !continues(byte)).count() as u64
}

fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the index of an id in a table, which is out of range if the id is too high.
fn index(id: u64) -> usize {
    id.try_into().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn table(tokens: &[(u32, Vec<u8>)]) -> TokenBytes {
        let all = tokens.iter().map(|(id, bytes)| Ok::<_, ()>((*id, bytes)));
        TokenBytes::new(tokens.len(), all).unwrap()
    }

    fn atomic(ids: &[u32]) -> Vec<AtomicU32> {
        ids.iter().map(|&id| id.into()).collect()
    }

    /// Returns the bytes of ids, and whether they are surely ASCII.
    fn joined(table: &TokenBytes, ids: &[u32]) -> Option<(Vec<u8>, bool)> {
        let (ids, never) = (&atomic(ids)[..], &mut Interrupt::never());
        let extent = table.extent(ids, never)?;
        let mut memory = vec![MaybeUninit::uninit(); extent.bytes];
        let mut output = Output::new(&mut memory);
        assert_eq!(table.join(ids, &mut output, never), Some(extent));
        assert_eq!(output.filled(), extent.bytes);
        Some((output.bytes().to_vec(), extent.is_ascii()))
    }

    fn join(table: &TokenBytes, ids: &[u32], room: usize) -> Option<Extent> {
        let mut memory = vec![MaybeUninit::uninit(); room];
        table.join(&atomic(ids), &mut Output::new(&mut memory), &mut Interrupt::never())
    }

    fn tokens() -> Vec<(u32, Vec<u8>)> {
        let lengths = [0, 1, 2, 15, 16, 17, 31, 32, if cfg!(miri) { 400 } else { 40_000 }];
        let near = lengths.iter().map(|&length| (length as u32 % 977, vec![b'x'; length]));
        near.chain([(u32::MAX, b"far".to_vec()), (60_000, vec![b'y'; 50])]).collect()
    }

    #[test]
    fn tokens_of_all_lengths_and_ids_are_joined() {
        let tokens = tokens();
        let table = table(&tokens);
        for count in (0..20).chain([if cfg!(miri) { 30 } else { 300 }]) {
            for first in 0..tokens.len() {
                let some: Vec<_> = tokens.iter().cycle().skip(first).take(count).collect();
                let ids: Vec<u32> = some.iter().map(|(id, _)| *id).collect();
                let wanted: Vec<u8> = some.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
                assert!(joined(&table, &ids).unwrap().0 == wanted);
            }
        }
    }

    #[test]
    fn unknown_ids_are_found() {
        let table = table(&tokens());
        for unknown in [3, 14, 976, 59_999, 60_001, u32::MAX - 1] {
            assert_eq!(table.extent(&atomic(&[0, unknown, 1]), &mut Interrupt::never()), None);
            assert_eq!(join(&table, &[0, unknown, 1], 100), None);
        }
    }

    #[test]
    fn offsets_locate_the_first_byte_of_each_id() {
        let text = "aé 🙂 🙂🙂🙂🙂🙂🙂 é";
        let splits = [0, 1, 2, 3, 4, 5, 9, 16, text.len() - 1];
        let ends = splits[1..].iter().copied().chain([text.len()]);
        let pieces = splits.iter().zip(ends).map(|(&start, end)| &text.as_bytes()[start..end]);
        let tokens: Vec<_> = (0..).zip(pieces.map(<[u8]>::to_vec)).collect();
        let (table, ids) = (table(&tokens), atomic(&[0, 1, 2, 3, 4, 5, 6, 7, 8]));
        let never = &mut Interrupt::never();
        assert_eq!(table.byte_offsets(&ids, never).unwrap(), splits.map(|split| split as u64));
        let index_of = |split| (1..=split).filter(|&end| text.is_char_boundary(end)).count() as u64;
        assert_eq!(table.character_offsets(&ids, never).unwrap(), splits.map(index_of));
        assert_eq!(table.character_offsets(&atomic(&[0, 9]), never), None);
    }

    #[test]
    fn characters_are_counted_where_they_begin() {
        let ends = "aé🙂".as_bytes();
        let others = (0..ends.len()).map(|at| ends[at..].to_vec());
        let tokens: Vec<_> = tokens().into_iter().chain((1000..).zip(others)).collect();
        let whole = table(&tokens);
        let count = |table: &TokenBytes, ids: &[u32]| {
            table.characters(&atomic(ids), &mut Interrupt::never())
        };
        for (id, bytes) in &tokens {
            let begun = bytes.iter().filter(|&&byte| !(0x80..0xC0).contains(&byte)).count() as u64;
            for repeats in [1, MIN_IDS_FOR_TABLE] {
                let ids = [*id, 1000, *id].repeat(repeats);
                assert_eq!(count(&whole, &ids), Some((2 * begun + 3) * repeats as u64));
                let ids = [*id].repeat(repeats);
                assert_eq!(count(&whole.without(&[*id]), &ids), Some(0));
            }
        }
        for repeats in [1, MIN_IDS_FOR_TABLE] {
            assert_eq!(count(&whole, &[1, 999].repeat(repeats)), None);
            assert_eq!(count(&whole, &[u32::MAX - 1].repeat(repeats)), None);
        }
    }

    #[test]
    fn tokens_without_room_are_not_written() {
        let table = table(&tokens());
        for (ids, too_few) in [([1, 1], 1), ([1, 16], 16), ([17, 1], 17), ([1, 17], 17)] {
            assert_eq!(join(&table, &ids, too_few), None);
        }
    }
}
