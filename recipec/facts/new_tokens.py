"""The tokens that a recipe adds to the vocabulary: in the recipe, or a line each in a file; and the model with them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from recipec.catalog.local import tokens_of
from recipec.catalog.models import Model
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.facts.own_files import own_text
from recipec.recipe import LoadedRecipe
from recipec.recipe.extends import is_path
from recipec.recipe.fields import MOST_NEW_TOKENS
from recipec.rules.core import Decision

ROWS_MULTIPLE = 64  # that a grown embedding has rows of: products on tensor cores are slower on odd sizes
_KEY = ("model", "new_tokens")
_MOST_BYTES = 8 * 2**20
_MOST_CHARACTERS = 256  # of a token; our decision: longer ones are lines of text that were meant for another file
_NAMED = 5  # tokens of a kind that a finding names
_SPACES = "Ġ▁"  # how byte-level and SentencePiece vocabularies write a space
_LEAVE_OUT = "leave tokens out that the model has already: its rows may hold them as they are"
_FIX = "write each token once, as its text stands in the rows"


def look_up_tokens(loaded: LoadedRecipe, report: Report) -> tuple[str, ...]:
    """The new tokens; none with a diagnostic where they cannot be used (E0001 to E0003, E0312)."""
    given = loaded.recipe.model.new_tokens
    if given is None:
        return ()
    tokens = _lines(loaded, given, report) if isinstance(given, str) else given
    if tokens is None:
        return ()
    known = [*_known(loaded, tokens)]
    faults = [*_faults(tokens), *known] if tokens else ["no tokens"]
    labels = tuple(Label(loaded.place(*_KEY), fault) for fault in faults)
    if faults:
        report.add(
            Diagnostic(
                "E0312",
                "these tokens cannot be added to the vocabulary",
                labels,
                (_LEAVE_OUT,) * bool(known) + (_FIX,) * (faults != known),
            )
        )
    return () if faults else tuple(tokens)


def _lines(loaded: LoadedRecipe, name: str, report: Report) -> list[str] | None:
    """The lines of the file; None with a diagnostic where it cannot be read."""
    instead = "name a text file with one token per line, or write tokens themselves as a list: `new_tokens = [...]`"
    text = own_text(loaded, _KEY, name, _MOST_BYTES, "file of tokens", instead, report)
    return None if text is None else text.removesuffix("\n").split("\n") if text else []


def _faults(tokens: Sequence[str]) -> Iterator[str]:
    """What is wrong with tokens whatever the tokenizer is."""
    if len(tokens) > MOST_NEW_TOKENS:
        yield f"{len(tokens):,} tokens are more than {MOST_NEW_TOKENS:,}"
    said = [token for token in tokens if token.strip()]
    blank = [f"entry {place}" for place, token in enumerate(tokens, start=1) if not token.strip()]
    several = [token for token, times in Counter(said).items() if times > 1]
    for what, found in (
        ("empty or only whitespace", blank),
        ("listed more than once", map(repr, several)),
        ("with whitespace at the end, or more than a space at the start", map(repr, filter(_spaced, said))),
        (f"longer than {_MOST_CHARACTERS} characters", (repr(one[:20]) for one in said if len(one) > _MOST_CHARACTERS)),
        ("with a control or private-use character", map(repr, filter(_hidden, said))),
    ):
        yield from _fault(what, list(found))


def _fault(what: str, found: Sequence[str]) -> Iterator[str]:
    """The first of the tokens with a fault by name."""
    if found:
        more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
        yield f"{what}: {', '.join(found[:_NAMED])}{more}"


def _spaced(token: str) -> bool:
    return token.removeprefix(" ") != token.strip()


def _hidden(token: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs", "Zl", "Zp") for character in token)


def _known(loaded: LoadedRecipe, tokens: Sequence[str]) -> Iterator[str]:
    """Tokens that the tokenizer in the model's folder has; of other models prepare_data.py looks."""
    name = loaded.recipe.model.name
    known = tokens_of(loaded.folder / name) if is_path(name) else set()
    found = [token for token in tokens if any(token.replace(" ", space) in known for space in (" ", *_SPACES))]
    yield from _fault(f"a token of {name} already", [*map(repr, found)])


def with_tokens(model: Model, tokens: Sequence[str]) -> Model:
    """The model whose embedding has a row for each new token, as if none of its own were free."""
    if not tokens:
        return model
    rows = model.architecture.vocab_size + len(tokens)
    grown = -(-rows // ROWS_MULTIPLE) * ROWS_MULTIPLE
    return replace(model, architecture=replace(model.architecture, vocab_size=grown))


def with_token_facts(loaded: LoadedRecipe, facts: Iterable[Decision], tokens: Sequence[str]) -> Iterator[Decision]:
    """The facts about the model, and how many tokens its vocabulary gets, which its size depends on."""
    for fact in facts:
        yield replace(fact, inputs=(*fact.inputs, "new_tokens")) if tokens and fact.id == "params" else fact
    if tokens:
        where = loaded.where(*_KEY)
        lacking = "" if is_path(loaded.recipe.model.name) else ", assumed to be missing from the tokenizer"
        because = f"tokens that {where} adds to the vocabulary{lacking}"
        key = {"key": ".".join(_KEY), "where": where}
        yield Decision("new_tokens", len(tokens), because, inputs=("model",), origin="recipe", **key)
