//! Ids to bytes.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// How many bytes a slot holds; a token that has more of them lies elsewhere.
const SLOT: usize = 16;

/// In a size: the number of bytes, if they are in the slot.
const LENGTH: u8 = 0x1F;
/// In a size: some byte is not ASCII.
const WIDE: u8 = 0x80;
/// The size of a token that is too long for its slot, which has its place in `long` instead.
const LONG: u8 = 0x1E;
/// The size where no token is, or one that has no slot.
const NO_TOKEN: u8 = 0x1F | WIDE;

/// After how many ids it is asked whether to go on.
const QUESTION: usize = 1 << 18;

/// The bytes of each id.
///
/// A copy shares the bytes: only the sizes, a byte an id, are its own.
#[derive(Clone, Default)]
pub struct TokenBytes {
    /// By id, the token's length and whether it is all ASCII.
    sizes: Vec<u8>,
    /// By id, the token's bytes, and any others behind them.
    slots: Arc<Vec<[u8; SLOT]>>,
    /// The tokens that have no room in a slot.
    long: Arc<Vec<Box<[u8]>>>,
    /// The places in `long` of the ids that lie too far from the others to have a slot.
    far: HashMap<u32, usize>,
}

/// What ids are as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// How many bytes they are.
    pub bytes: usize,
    /// WIDE, if one of them has a byte that is not ASCII or has no slot to tell.
    flags: u8,
}

impl Extent {
    /// Whether all bytes are ASCII, for certain.
    pub fn is_ascii(self) -> bool {
        self.flags == 0
    }
}

impl TokenBytes {
    /// Returns the table of tokens, of which there are about `count`.
    pub fn new<E>(
        count: usize,
        tokens: impl Iterator<Item = Result<(u32, impl AsRef<[u8]>), E>>,
    ) -> Result<TokenBytes, E> {
        let mut sizes = Vec::with_capacity(count);
        let mut slots = Vec::with_capacity(count);
        let mut long = Vec::new();
        let mut far = HashMap::new();
        for token in tokens {
            let (id, bytes) = token?;
            let (index, bytes) = (id as usize, bytes.as_ref());
            if index >= 2 * count + 1024 {
                far.insert(id, long.len());
                long.push(bytes.into());
                continue;
            }
            if index >= slots.len() {
                sizes.resize(index + 1, NO_TOKEN);
                slots.resize(index + 1, [0; SLOT]);
            }
            let slot: &mut [u8; SLOT] = &mut slots[index];
            if bytes.len() <= SLOT {
                slot[..bytes.len()].copy_from_slice(bytes);
                sizes[index] = bytes.len() as u8;
            } else {
                slot[..8].copy_from_slice(&(long.len() as u64).to_le_bytes());
                sizes[index] = LONG;
                long.push(bytes.into());
            }
            sizes[index] |= if bytes.is_ascii() { 0 } else { WIDE };
        }
        Ok(TokenBytes { sizes, slots: Arc::new(slots), long: Arc::new(long), far })
    }

    /// Returns the table in which these ids have no bytes.
    pub fn without(&self, ids: &[u32]) -> TokenBytes {
        let mut table = self.clone();
        for id in ids {
            if let Some(size) = table.sizes.get_mut(*id as usize) {
                *size = 0;
            } else if table.far.contains_key(id) {
                let long = Arc::make_mut(&mut table.long);
                table.far.insert(*id, long.len());
                long.push(Box::default());
            }
        }
        table
    }

    /// Returns what the ids are as bytes; None if one of them is unknown, or they are too many.
    ///
    /// `go_on` is asked now and then; where it says no, there is None too.
    pub fn extent(&self, ids: &[impl Integer], go_on: &mut dyn FnMut() -> bool) -> Option<Extent> {
        let mut extent = Extent::default();
        for ids in ids.chunks(QUESTION) {
            if !go_on() {
                return None;
            }
            for id in ids {
                let id = id.value();
                let size = self.size(id);
                let mut length = usize::from(size & LENGTH);
                if length > SLOT {
                    length = self.without_slot(id)?.len();
                }
                extent.bytes = extent.bytes.checked_add(length)?;
                extent.flags |= size & WIDE;
            }
        }
        Some(extent)
    }

    /// Puts the bytes of the ids at the beginning of `out` and returns what they are; None if an id
    /// is unknown, or `out` has no room for them all. `go_on` is asked as by `extent`.
    pub fn join(
        &self,
        ids: &[impl Integer],
        out: &mut [MaybeUninit<u8>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Extent> {
        let mut extent = Extent::default();
        for mut ids in ids.chunks(QUESTION) {
            if !go_on() {
                return None;
            }
            loop {
                ids = self.join_slots(ids, out, &mut extent);
                let Some((id, rest)) = ids.split_first() else { break };
                let id = id.value();
                let token = self.token(id)?;
                copy(token, out[extent.bytes..].get_mut(..token.len())?);
                extent.bytes += token.len();
                extent.flags |= self.size(id) & WIDE;
                ids = rest;
            }
        }
        Some(extent)
    }

    /// Joins the first ids behind what is there, as long as their bytes are in slots and there is
    /// room for whole slots; returns the other ids.
    fn join_slots<'a, I: Integer>(
        &self,
        ids: &'a [I],
        out: &mut [MaybeUninit<u8>],
        extent: &mut Extent,
    ) -> &'a [I] {
        let slots = &self.slots[..self.sizes.len()];
        let Extent { mut bytes, mut flags } = *extent;
        let mut done = 0;
        for id in ids {
            let id = id.value();
            let size = self.size(id);
            let length = usize::from(size & LENGTH);
            let room = out.get_mut(bytes..).and_then(|out| out.first_chunk_mut::<SLOT>());
            let (Some(slot), Some(room), true) = (slots.get(index(id)), room, length <= SLOT)
            else {
                break;
            };
            // The whole slot is copied, whatever is in it: that is faster than to choose.
            copy(slot, room);
            bytes += length;
            flags |= size & WIDE;
            done += 1;
        }
        *extent = Extent { bytes, flags };
        &ids[done..]
    }

    fn size(&self, id: u64) -> u8 {
        self.sizes.get(index(id)).copied().unwrap_or(NO_TOKEN)
    }

    /// Returns the bytes of an id; None if it is unknown.
    pub fn token(&self, id: u64) -> Option<&[u8]> {
        let length = usize::from(self.size(id) & LENGTH);
        if length > SLOT {
            return self.without_slot(id);
        }
        self.slots.get(index(id))?.get(..length)
    }

    /// Returns the bytes of an id that are not in its slot.
    #[cold]
    fn without_slot(&self, id: u64) -> Option<&[u8]> {
        let place = if self.size(id) & LENGTH == LONG {
            u64::from_le_bytes(*self.slots.get(index(id))?.first_chunk()?) as usize
        } else {
            *self.far.get(&u32::try_from(id).ok()?)?
        };
        self.long.get(place).map(|token| &**token)
    }
}

/// An integer that is an id, if it is from 0 to 2**32 - 1.
pub trait Integer {
    /// Returns the integer; a negative one as what is above all ids.
    fn value(&self) -> u64;
}

impl Integer for u32 {
    fn value(&self) -> u64 {
        (*self).into()
    }
}

/// Returns where an id is in a table: beyond its end, if no id is so high.
fn index(id: u64) -> usize {
    id.try_into().unwrap_or(usize::MAX)
}

/// Copies bytes to a place of the same length.
pub fn copy(bytes: &[u8], place: &mut [MaybeUninit<u8>]) {
    for (place, &byte) in place.iter_mut().zip(bytes) {
        place.write(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(tokens: &[(u32, Vec<u8>)]) -> TokenBytes {
        let all = tokens.iter().map(|(id, bytes)| Ok::<_, ()>((*id, bytes)));
        TokenBytes::new(tokens.len(), all).unwrap()
    }

    /// Returns the bytes of ids, and whether they are surely ASCII.
    #[allow(unsafe_code)]
    fn joined(table: &TokenBytes, ids: &[u32]) -> Option<(Vec<u8>, bool)> {
        let extent = table.extent(ids, &mut || true)?;
        let mut out = vec![MaybeUninit::uninit(); extent.bytes];
        assert_eq!(table.join(ids, &mut out, &mut || true), Some(extent));
        // SAFETY: as many bytes were written as there is room for.
        let bytes = out.iter().map(|byte| unsafe { byte.assume_init() }).collect();
        Some((bytes, extent.is_ascii()))
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
            assert_eq!(table.extent(&[0, unknown, 1], &mut || true), None);
            assert_eq!(
                table.join(&[0, unknown, 1], &mut [MaybeUninit::uninit(); 100], &mut || true),
                None
            );
        }
    }

    #[test]
    fn what_has_no_room_is_not_written() {
        let table = table(&tokens());
        for (ids, too_few) in [([1, 1], 1), ([1, 16], 16), ([17, 1], 17), ([1, 17], 17)] {
            let mut out = vec![MaybeUninit::uninit(); too_few];
            assert_eq!(table.join(&ids, &mut out, &mut || true), None);
        }
    }

    #[test]
    fn bytes_that_are_not_ascii_are_told() {
        let wide = "é".repeat(20);
        let tokens = [&b"a"[..], "é".as_bytes(), &[b'a'; 20], wide.as_bytes()];
        let tokens = tokens.iter().map(|token| token.to_vec());
        let table = table(&(0..).zip(tokens).collect::<Vec<_>>());
        let is_ascii = |ids: &[u32]| joined(&table, ids).unwrap().1;
        assert_eq!([0, 1, 2, 3].map(|id| is_ascii(&[0, id, 0])), [true, false, true, false]);
    }

    #[test]
    fn a_copy_without_some_ids_leaves_the_others() {
        let table = table(&tokens());
        let without = table.without(&[1, 17, u32::MAX]);
        let ids = [1, 2, 17, u32::MAX, 15];
        assert_eq!(joined(&without, &ids).unwrap().0, [b'x'; 17]);
        assert_eq!(joined(&table, &ids).unwrap().0.len(), 38);
    }
}
