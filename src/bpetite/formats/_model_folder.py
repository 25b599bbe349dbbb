"""The files of a model folder apart from its vocabulary: settings and chat templates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpetite._pretokenizer import GPT2_PATTERN, pattern_of
from bpetite._vocabulary import Vocabulary, is_encodable
from bpetite.formats._files import SourceFile, file_in_folder, shown
from bpetite.formats._portable_regex import to_portable

_CONFIG = "tokenizer_config.json"
_MAP = "special_tokens_map.json"
_ADDED = "added_tokens.json"
_IDS = "special_tokens.json"  # the ids of special tokens, next to ranks that lack them
_TEMPLATE = "chat_template.jinja"
_TEMPLATE_FOLDER = "additional_chat_templates"  # the folder of chat templates that have names

_CONFIG_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")

_ADDITIONAL = "additional_special_tokens"
_EXTRA = "extra_special_tokens"

_A_TOKEN = (
    "a special token of the vocabulary (transformers would give another one a new id, and "
    "tokenizer.json alone may be loaded)"
)

_INPUT_NAMES = ["input_ids", "attention_mask"]
"""The default inputs of a model. transformers 4 would add token_type_ids if none were named."""

_NO_LIMIT = 1e30  # from this `model_max_length` on, transformers means that there is no limit

_JSON_SETTINGS = ("model_input_names", "model_max_length")
"""Settings that are not strings in the config, so that our text of them is JSON."""

_END = "<|endoftext|>"  # the special token that ends a text in a trained vocabulary

GPT2_CLASSES = (None, "GPT2Tokenizer", "GPT2TokenizerFast")
"""The classes whose default `eos_token` is `_END`; None if config.json decides, as for GPT-2."""

_SPACE_CLASSES = (
    *("GPT2", "Roberta", "Bart", "LED", "Longformer"),
    *("Deberta", "Blenderbot", "CodeGen"),
)
"""Classes whose names begin so pass their `add_prefix_space` on to a ByteLevel."""

_SPACED = ("space", "isolated")

_NO_TOKEN = ""  # the setting `eos_token` of a folder that has none, though `_END` is a token

_NAMED = "chat_template."  # the setting of a chat template with a name begins so


def in_folder(folder: Path, vocabulary: Vocabulary) -> Vocabulary:
    """Return a vocabulary with the settings of its folder.

    The vocabulary decides the ids of a text, but the config may add ids around the text and, for
    some classes, a space before it.

    Raises ValueError, naming the file and the field, if the files contradict each other.
    """
    config = file_in_folder(folder / _CONFIG) if (folder / _CONFIG).exists() else None
    if config is not None:
        vocabulary = _configured(config, vocabulary)
    files = [file_in_folder(folder / name) for name in (_MAP, _ADDED) if (folder / name).exists()]
    for file in files:
        _check_literals(file, file.document, vocabulary)
    return replace(vocabulary, settings=_settings(folder, config, vocabulary))


def _configured(file: SourceFile, vocabulary: Vocabulary) -> Vocabulary:
    """Return a vocabulary with what a tokenizer_config.json puts around texts."""
    config = file.document
    added: dict[str, Any] = {}
    for field, name, ids in (
        ("add_bos_token", "bos_token", vocabulary.prefix_ids),
        ("add_eos_token", "eos_token", vocabulary.suffix_ids),
    ):
        if config.get(field, False) and not ids:
            literal = _literal_of(config.get(name))
            if not isinstance(literal, str) or literal not in vocabulary.special_tokens:
                file.refuse(name, config.get(name), f"a special token, since {field} is true")
            added["prefix_ids" if name == "bos_token" else "suffix_ids"] = (
                vocabulary.special_tokens[literal],
            )
    space = config.get("add_prefix_space")
    if (
        space is not None
        and str(config.get("tokenizer_class") or "GPT2").startswith(_SPACE_CLASSES)
        and vocabulary.patterns == (GPT2_PATTERN,)
        and vocabulary.stages.steps in ((), _SPACED)
    ):
        stages = replace(vocabulary.stages, steps=_SPACED if space else ())
        normalizer = vocabulary.normalizer
        if space and normalizer:
            stages, normalizer = replace(stages, normalizers=vocabulary.normalizers), None
        vocabulary = replace(vocabulary, stages=stages, normalizer=normalizer)
    return replace(vocabulary, **added) if added else vocabulary


def tokens_in_folder(
    folder: Path, pattern: str | None, special_tokens: Mapping[str, int] | None
) -> tuple[str | None, Mapping[str, int] | None, frozenset[str]]:
    """Return the pattern and the special tokens of a folder whose vocabulary file lacks them.

    The third value has the special tokens that `skip_special_tokens` keeps. The arguments may name
    more special tokens than the folder does, because the code of some models adds others.

    Raises ValueError if the files and the arguments contradict each other.
    """
    found: dict[str, int] = {}
    kept: list[str] = []
    config = file_in_folder(folder / _CONFIG)
    if (folder / _CONFIG).exists():
        for path, id, token in _added_tokens(config):
            for flag in ("lstrip", "rstrip", "single_word"):
                config.check_value(token.get(flag, False), f"{path}.{flag}", False)
            literal = config.checked_string(token["content"], f"{path}.content")
            if found.setdefault(literal, id) != id:
                config.refuse(f"{path}.content", literal, "a token that no other id has")
            if not token.get("special", False):
                kept.append(literal)
        if (given := config.document.get("pat_str")) is not None:
            config.checked_string(given, "pat_str")
            spellings = {pattern_of(pattern or given), given}
            if len({to_portable(each, tiktoken=True) for each in spellings}) > 1:
                config.refuse("pat_str", given, "the pattern that was given, or none given")
            pattern = given
    file = file_in_folder(folder / _IDS)
    if (folder / _IDS).exists():
        file.check_ids(file.document)
        for literal, id in file.document.items():
            if found.setdefault(literal, id) != id:
                file.refuse(f"[{shown(literal)}]", id, f"{found[literal]}, its id in {_CONFIG}")
    for literal, id in found.items():
        if special_tokens is not None and special_tokens.get(literal) != id:
            raise ValueError(
                f"{folder}: the files of this folder give {literal!r} the id {id}, but the given "
                f"special_tokens do not; leave special_tokens out, or give all of them"
            )
    if special_tokens is None and found:
        special_tokens = found
    return pattern, special_tokens, frozenset(kept)


def _added_tokens(config: SourceFile) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the path, the id and the fields of each entry of `added_tokens_decoder`."""
    decoder = config.document.get("added_tokens_decoder", {})
    for key, token in config.checked_object(decoder, "added_tokens_decoder").items():
        path = f"added_tokens_decoder[{shown(key)}]"
        is_id = key.isascii() and key.isdigit() and str(int(key[:20])) == key
        if not is_id or not isinstance(token, dict) or "content" not in token:
            config.refuse(path, token, "a token with its id as the key")
        yield path, int(key), token


def _literal_of(token: object) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _check_literals(file: SourceFile, given: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Refuse a literal without an id in a map of special tokens or a list of added tokens."""
    for name, value in given.items():
        is_id = type(value) is int
        tokens = [*value.values()] if name == _EXTRA and isinstance(value, dict) else value
        for token in tokens if isinstance(tokens, list) else [name if is_id else value]:
            literal = _literal_of(token)
            id = vocabulary.special_tokens.get(literal) if isinstance(literal, str) else None
            if id is None or (is_id and id != value):
                file.refuse(name, value, _A_TOKEN)


def _settings(folder: Path, config: SourceFile | None, vocabulary: Vocabulary) -> dict[str, str]:
    settings = {} if config is None else _from_config(config, vocabulary)
    if (folder / _TEMPLATE).exists():
        settings["chat_template"] = file_in_folder(folder / _TEMPLATE).text()
    if not settings.get("chat_template", "none"):
        del settings["chat_template"]  # `settings_files` writes an empty file for no template
    for path in sorted((folder / _TEMPLATE_FOLDER).glob("*.jinja")):
        settings[f"chat_template.{path.stem}"] = file_in_folder(path).text()
    return settings


def with_settings(vocabulary: Vocabulary, changes: Mapping[str, str | None]) -> Vocabulary:
    """Return a vocabulary with other settings; None removes one.

    Raises ValueError for a name or a value that a model folder cannot hold, and for a token that
    is not special; TypeError for a value that is not a str.
    """
    settings = dict(vocabulary.settings)
    for name, value in changes.items():
        is_named = name.startswith(_NAMED) and name not in (_NAMED, f"{_NAMED}default")
        if name not in (*_CONFIG_TOKENS, "chat_template") and not is_named:
            known = ", ".join(_CONFIG_TOKENS)
            raise ValueError(
                f"the setting {name!r} is none of {known}, chat_template and chat_template.NAME"
            )
        if value is None:
            settings.pop(name, None)
            continue
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str or None, got {type(value).__name__}")
        if not value or not is_encodable(name + value):
            raise ValueError(f"{name} is empty, or not Unicode; None removes it")
        if name in _CONFIG_TOKENS and value not in vocabulary.special_tokens:
            raise ValueError(
                f"{name} is {value!r}, which is not a special token of this vocabulary; add it by "
                f"with_special_tokens"
            )
        settings[name] = value
    return replace(vocabulary, settings=settings)


def settings_files(folder: str, vocabulary: Vocabulary) -> dict[str, bytes]:
    """Return the files to write next to a tokenizer.json.

    Raises ValueError if they cannot hold the settings, or if other files would override them.
    """
    config = SourceFile(os.path.join(folder, _CONFIG), _to_config(vocabulary, vocabulary.settings))
    if _from_config(config, vocabulary) != vocabulary.settings:
        raise ValueError(f"{config.path}: this file cannot hold all of {dict(vocabulary.settings)}")
    if list(Path(folder, _TEMPLATE_FOLDER).glob("*.jinja")):
        raise ValueError(
            f"{folder}: the templates in its {_TEMPLATE_FOLDER} would apply to this vocabulary; "
            f"remove them"
        )
    files = {config.path: config.data}
    template = os.path.join(folder, _TEMPLATE)
    if os.path.exists(template):  # it overrides the template in the config
        files[template] = vocabulary.settings.get("chat_template", "").encode()
    return files


def _from_config(file: SourceFile, vocabulary: Vocabulary) -> dict[str, str]:
    """Return the settings in a tokenizer_config.json, once its other fields are checked."""
    config, refuse = file.document, file.refuse
    flags = dict(vocabulary.stages.flags)
    decoder = file.checked_object(config.get("added_tokens_decoder", {}), "added_tokens_decoder")
    for key, token in decoder.items():
        path = f"added_tokens_decoder[{shown(key)}]"
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or str(vocabulary.special_tokens.get(content)) != key:
            refuse(path, token, "an added token of tokenizer.json, with its id")
        for field in ("lstrip", "rstrip", "single_word"):
            if token.get(field, False) is not (field in flags.get(content, ())):
                refuse(f"{path}.{field}", token.get(field, False), "what tokenizer.json says")
        if token.get("special", False) == (content in vocabulary.kept_special_tokens):
            refuse(f"{path}.special", token.get("special", False), "what tokenizer.json says")
    settings = {}
    for field in _CONFIG_TOKENS:
        token = config.get(field)
        literal = _literal_of(token)
        if literal is not None:
            settings[field] = file.checked_string(literal, field, "a token")
            if literal not in vocabulary.special_tokens:
                refuse(field, token, _A_TOKEN)
    named = {
        name: token
        for name, token in config.items()
        if name.endswith(("_token", _ADDITIONAL, _EXTRA)) and name not in _CONFIG_TOKENS
        if token is not None and type(token) is not bool  # as of add_bos_token
    }
    _check_literals(file, named, vocabulary)
    if config.get("split_special_tokens"):
        refuse("split_special_tokens", True, "false: special tokens are found in text")
    names = config.get("model_input_names") or _INPUT_NAMES
    for name in file.checked_list(names, "model_input_names"):
        file.checked_string(name, "model_input_names")
    if names != _INPUT_NAMES:
        settings["model_input_names"] = json.dumps(names)
    limit = config.get("model_max_length", _NO_LIMIT)
    if limit is not None and (type(limit) not in (int, float) or limit <= 0):
        refuse("model_max_length", limit, "a number above 0")
    if limit is not None and limit < _NO_LIMIT:
        settings["model_max_length"] = json.dumps(limit)
    templates = config.get("chat_template")
    if isinstance(templates, list):
        for number, item in enumerate(templates):
            name = item.get("name") if isinstance(item, dict) else None
            key = "chat_template" if name == "default" else f"chat_template.{name}"
            if not name or not isinstance(name, str) or not is_encodable(name) or key in settings:
                refuse(f"chat_template[{number}]", item, "an object with a name of its own")
            settings[key] = item.get("template")
    elif templates is not None:
        settings["chat_template"] = templates
    settings = {key: file.checked_string(value, key) for key, value in settings.items()}
    without = {key: value for key, value in settings.items() if key != "eos_token"}
    if file.data == _to_config(vocabulary, without):
        return without
    is_default = config.get("tokenizer_class") in GPT2_CLASSES
    if _END in vocabulary.special_tokens and "eos_token" not in settings and not is_default:
        settings["eos_token"] = _NO_TOKEN
    return settings


def _to_config(vocabulary: Vocabulary, settings: Mapping[str, str]) -> bytes:
    """Return the tokenizer_config.json of a vocabulary, for transformers 4 and 5 alike."""
    config: dict[str, Any] = dict(settings)
    named = {
        key.partition(".")[2] or "default": config.pop(key)
        for key in settings
        if key.partition(".")[0] == "chat_template"
    }
    if [*named] == ["default"]:
        config["chat_template"] = named["default"]
    elif named:
        config["chat_template"] = [{"name": key, "template": named[key]} for key in named]
    config["clean_up_tokenization_spaces"] = False  # by default version 4 removes spaces
    config["model_input_names"] = _INPUT_NAMES
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    for field in settings.keys() & _JSON_SETTINGS:
        with suppress(ValueError, RecursionError):  # other text is refused as it is read back
            config[field] = json.loads(settings[field])
    if config.get("eos_token") == _NO_TOKEN:
        del config["eos_token"]
    elif "eos_token" not in config and _END in vocabulary.special_tokens:
        config["eos_token"] = _END  # last, unlike a setting: `_from_config` tells them apart
    return json.dumps(config, ensure_ascii=False, indent=1).encode("utf-8") + b"\n"
