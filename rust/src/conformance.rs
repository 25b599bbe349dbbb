//! The cases of `tests/data/conformance.json`, which the Python tests read too.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use serde_json::Value;

use crate::decode::TokenBytes;
use crate::encode::{Context, Encoder, IdList, Job};
use crate::interrupt::Interrupt;
use crate::merge::MergeTable;
use crate::simd::Isa;
use crate::split::Pieces;
use crate::split::examples::{all_pieces, gpt2};
use crate::stream::{Pending, STACK_BYTES};

const SPECIAL: &str = "<|end|>";

fn document() -> Value {
    serde_json::from_str(include_str!("../../tests/data/conformance.json")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn ids(value: &Value) -> Vec<u32> {
    list(value).iter().map(|id| number(id) as u32).collect()
}

/// Returns the encoder and the tokens of a vocabulary.
fn vocabulary(fields: &Value) -> (Encoder, TokenBytes) {
    let pairs: Vec<_> = list(&fields["merges"]).iter().map(ids).collect();
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let bytes = std::array::from_fn(|byte| byte as u32);
    let mut merges = MergeTable::with_room(bytes, 257 + pairs.len(), pairs.len() + 1).expect("few");
    for pair in &pairs {
        assert!(merges.push(pair[0], pair[1], tokens.len() as u32));
        tokens.push([0, 1].map(|side| tokens[pair[side] as usize].clone()).concat());
    }
    let literals = fields["special_tokens"].as_object().expect("an object");
    let special: Vec<_> =
        literals.iter().map(|(literal, id)| (literal.clone(), number(id) as u32)).collect();
    let id_of = (0..tokens.len() as u32).collect();
    let encoder = Encoder::new(vec![gpt2()], Arc::new(merges), Arc::new(id_of), &special);
    let literals = special.into_iter().map(|(literal, id)| (id, literal.into_bytes()));
    let all = (0..).zip(tokens).chain(literals).map(Ok::<_, ()>);
    (encoder, TokenBytes::new(1000, all).expect("no error"))
}

fn encoded(encoder: &Encoder, text: &str) -> Vec<u32> {
    let (mut sink, interrupt) = (IdList::default(), &mut Interrupt::never());
    let context = &mut Context::default();
    encoder.encode(text.as_bytes(), false, &mut Job { context, sink: &mut sink, interrupt });
    sink.into_vec()
}

#[test]
fn texts_have_their_pieces() {
    // Other patterns come from Python, as trees.
    for case in list(&document()["pieces"]).iter().filter(|case| case["pattern"] == "gpt2") {
        let expected: Vec<_> = list(&case["pieces"]).iter().map(text).collect();
        let text = text(&case["text"]);
        for isa in Isa::all() {
            let (splitter, found) = (gpt2(), |pieces: Pieces<'_>| all_pieces(pieces, text));
            assert_eq!(found(Pieces::new(&splitter, text).with_isa(isa)), expected, "{case}");
        }
    }
}

#[test]
fn texts_have_their_ids_and_offsets() {
    let document = document();
    for case in list(&document["encode"]) {
        let name = text(&case["vocabulary"]);
        let (encoder, tokens) = vocabulary(&document["vocabularies"][name]);
        let (text, expected) = (text(&case["text"]), ids(&case["ids"]));
        assert_eq!(encoded(&encoder, text), expected, "{case}");
        let joined: Vec<u8> = (expected.iter().copied())
            .flat_map(|id| tokens.token(id.into()).expect("a token").to_vec())
            .collect();
        assert_eq!(joined, text.as_bytes(), "{case}");
        let shared: Vec<AtomicU32> = expected.into_iter().map(AtomicU32::new).collect();
        let offsets = tokens.character_offsets(&shared, &mut Interrupt::never());
        assert_eq!(offsets, Some(list(&case["offsets"]).iter().map(number).collect()), "{case}");
    }
}

#[test]
fn steps_of_a_text_have_its_ids() {
    let document = document();
    for case in list(&document["encode_stream"]) {
        let name = text(&case["vocabulary"]);
        let (encoder, _) = vocabulary(&document["vocabularies"][name]);
        let whole: String = list(&case["steps"]).iter().map(text).collect();
        let steps = list(&case["ids"]).iter().flat_map(ids);
        assert_eq!(encoded(&encoder, &whole), steps.collect::<Vec<_>>(), "{case}");
    }
}

/// Returns the bytes of a token: its text, or hexadecimal digits after 0x.
fn token_bytes(token: &str, skips: bool) -> Vec<u8> {
    match token.strip_prefix("0x") {
        _ if token == SPECIAL && skips => Vec::new(),
        None => token.into(),
        Some(digits) => (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits"))
            .collect(),
    }
}

/// Only Python has stops, so cases with stops are skipped here.
#[test]
fn tokens_have_the_texts_of_their_steps() {
    for case in list(&document()["decode_stream"]).iter().filter(|case| case["stop"].is_null()) {
        let skips = case["skip_special_tokens"] == true;
        let bytes_of = |token| token_bytes(text(token), skips);
        let prompt = case["prompt"].as_array().map(|tokens| tokens.iter().flat_map(bytes_of));
        let mut pending = Pending::after(&prompt.into_iter().flatten().collect::<Vec<u8>>());
        let mut texts = Vec::new();
        for token in list(&case["tokens"]) {
            let mut room = ['\0'; STACK_BYTES];
            let (characters, after) = pending.read(&bytes_of(token), &mut room).expect("room");
            texts.push(String::from_iter(characters));
            pending = after;
        }
        texts.push(String::from_utf8_lossy(pending.bytes()).into_owned());
        assert_eq!(texts, list(&case["texts"]).iter().map(text).collect::<Vec<_>>(), "{case}");
    }
}
