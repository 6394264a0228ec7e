"""A local folder as the model: its config.json, and what its tokenizer files tell."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from recipec.catalog.config_values import OddValue, UnsupportedConfig
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.models import Model
from recipec.catalog.templates import template_with
from recipec.catalog.text_parts import Stored, holds_more, text_config
from recipec.files import read_lines, read_regular

_SETTINGS = "tokenizer_config.json"
_MOST_BYTES = 16 * 2**20  # tokenizer_config.json names every added token
_MOST_OF_TOKENIZER = 256 * 2**20  # tokenizer.json: 250,000 tokens and their merges take 33 MB


def local_model(folder: Path) -> Model:
    """The model saved in `folder`; raises UnsupportedConfig with the reason. The caller names it (`name` is empty)."""
    config = read_config(folder / "config.json")
    architecture = architecture_from_config(text_config(config))
    tokenizer = _optional(folder / _SETTINGS)
    template = _template(folder, tokenizer)
    return Model(
        name="",
        kind="base" if template is None else "chat",
        architecture=architecture,
        family=architecture.model_type,
        template_family=template_with(template) if template else None,
        template_sha256=sha256(template.encode()).hexdigest() if template else "",
        stop_tokens=_stop_tokens(folder, tokenizer),
        params_billion=architecture.params / 1e9,
        source="config.json",
        stored=_stored(folder, config["model_type"], architecture.params) if holds_more(config) else None,
    )


def _stored(folder: Path, model_type: str, params: int) -> Stored:
    """What a checkpoint holds beside its language model, by the size of its files in 16 bits where they are there."""
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors") if path.is_file())
    return Stored(model_type, max(size / 2, params) / 1e9)


_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZER = ("tokenizer.json", "vocab.*", "*.model", "*.tiktoken", "tekken.json")


def missing_files(folder: Path, *, weights: bool) -> tuple[str, ...]:
    """What a model folder lacks to be loaded, in words; `weights` are not needed to train random ones."""
    files = [path for path in folder.iterdir() if path.is_file()]
    needed = {"weights (*.safetensors)": _WEIGHTS} if weights else {}
    needed |= {"tokenizer (tokenizer.json)": _TOKENIZER}
    return tuple(what for what, names in needed.items() if not any(file.match(n) for file in files for n in names))


def has_token(folder: Path, token: str) -> bool | None:
    """Whether the tokenizer saved in `folder` has a token of its own for this text; None where no file shows it."""
    try:
        if token in _added_tokens(folder):
            return True
        tokenizer = read_config(folder / "tokenizer.json", _MOST_OF_TOKENIZER)
    except UnsupportedConfig:
        return None
    if token in map(_content, _listed(tokenizer.get("added_tokens"))):
        return True
    return None if token in _vocabulary(tokenizer) else False  # words are not always what text is cut into


def tokens_of(folder: Path) -> set[str]:
    """The tokens of the tokenizer saved in `folder`, as it writes them; none where its files do not show them."""
    try:
        tokenizer = read_config(folder / "tokenizer.json", _MOST_OF_TOKENIZER)
        return _added_tokens(folder) | {*map(_content, _listed(tokenizer.get("added_tokens")))} | _vocabulary(tokenizer)
    except UnsupportedConfig:
        return set()


def special_tokens_of(folder: Path) -> set[str]:
    """The special tokens of the tokenizer saved in `folder`; none where its tokenizer.json cannot be read."""
    try:
        tokenizer = read_config(folder / "tokenizer.json", _MOST_OF_TOKENIZER)
    except UnsupportedConfig:
        return set()
    added = [token for token in _listed(tokenizer.get("added_tokens")) if isinstance(token, dict)]
    return {_content(token) for token in added if token.get("special")} - {""}


def _vocabulary(tokenizer: dict[str, Any]) -> set[str]:
    """The words of the model in tokenizer.json: a table, or a list with a score for each."""
    model = tokenizer.get("model")
    words = model.get("vocab") if isinstance(model, dict) else ()
    if isinstance(words, dict):
        return set(words)
    return {str(pair[0]) for pair in _listed(words) if isinstance(pair, list) and pair}


def _added_tokens(folder: Path) -> set[str]:
    """The tokens that the small files beside tokenizer.json add to it."""
    config = _optional(folder / _SETTINGS)
    named = [value for name, value in config.items() if name.endswith("_token")]
    more = [*_listed(config.get("additional_special_tokens")), *_listed(config.get("extra_special_tokens"))]
    decoder = _listed(config.get("added_tokens_decoder"))
    return {*map(_content, [*decoder, *named, *more]), *_optional(folder / "added_tokens.json")}


def _listed(values: Any) -> list[Any]:
    """What may be a list or a table of values; nothing where it is neither."""
    return list(values.values()) if isinstance(values, dict) else values if isinstance(values, list) else []


def read_config(path: Path, most: int = _MOST_BYTES) -> dict[str, Any]:
    """The JSON object in `path`; raises UnsupportedConfig when it is missing, unreadable or not an object."""
    try:
        config = json.loads(read_regular(path, most).decode("utf-8"))
    except OSError as error:
        raise UnsupportedConfig(f"{path.name} cannot be read: {error.strerror or 'no such file'}") from error
    except ValueError as error:
        raise OddValue(f"{path.name} is not valid JSON: {error}", path.name) from error
    except RecursionError as error:
        raise OddValue(f"{path.name} nests too deeply", path.name) from error
    if not isinstance(config, dict):
        raise OddValue(f"{path.name} holds no JSON object", path.name)
    return config


def _optional(path: Path) -> dict[str, Any]:
    """Like `read_config` for a file that need not be there."""
    return read_config(path) if path.is_file() else {}


def _template(folder: Path, tokenizer: dict[str, Any]) -> str | None:
    """The text of the chat template, "" for several of them; None where there is none."""
    file, listed = folder / "chat_template.jinja", tokenizer.get("chat_template")
    if file.is_file():
        try:
            return read_lines(file, _MOST_BYTES)
        except (OSError, ValueError) as error:
            raise UnsupportedConfig(f"{file.name} cannot be read: {error}") from error
    return (_readable(listed) if isinstance(listed, str) else "") if listed else None


def template_in(folder: Path) -> str | None:
    """The text of the one chat template in a folder; None where there is none that can be read."""
    try:
        return _template(folder, _optional(folder / _SETTINGS)) or None
    except UnsupportedConfig:
        return None


def _stop_tokens(folder: Path, tokenizer: dict[str, Any]) -> tuple[str, ...]:
    """The tokens that generation stops at; else the tokenizer's own end token; else none."""
    ids = _optional(folder / "generation_config.json").get("eos_token_id")
    known = tokenizer.get("added_tokens_decoder") or {}
    if not isinstance(known, dict):
        raise OddValue("`added_tokens_decoder` in tokenizer_config.json is no table", _SETTINGS)
    listed = ids if isinstance(ids, list) else [ids]
    stops = tuple(_readable(_content(known[str(id)])) for id in listed if str(id) in known)
    return stops or tuple(filter(None, [_readable(_content(tokenizer.get("eos_token")))]))


def _content(token: Any) -> str:
    """A token is saved as text or as a table with its content."""
    return str((token.get("content") if isinstance(token, dict) else token) or "")


def _readable(text: str) -> str:
    """A text that can be written as UTF-8: JSON may hold half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise OddValue(f"{_SETTINGS} has half of a character in a text: {error.reason}", _SETTINGS) from error
    return text
