"""How many bytes a token has: as the tokenizer in the model's folder cuts the sampled rows, else on average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from recipec.dataset import Converted, tokens_in
from recipec.facts.model import is_path
from recipec.facts.sources import SampledSource
from recipec.recipe import LoadedRecipe

# Vocabularies merge bytes: English, a byte a letter, has 3.94 letters a token with a vocabulary of 128k (Llama 3, arXiv
# 2407.21783, section 3.2), and a letter of Chinese, Japanese or Korean has three bytes. prepare_data.py counts exactly.
BYTES_PER_TOKEN = 4.0
_MOST_BYTES = 2**18  # of the sampled texts that are cut into tokens: 0.1 s; our decision
_LEAST_BYTES = 2**10  # from which on a mean is one; our decision


class TokenSize(Struct, frozen=True):
    """The mean size of a token of these rows."""

    bytes: float = BYTES_PER_TOKEN
    measured: int = 0  # bytes that the model's tokenizer has cut; 0 where it is not at hand

    @property
    def told(self) -> str:
        """In the words of a reason."""
        if not self.measured:
            return f"{self.bytes:g} bytes a token"
        return f"{self.bytes:g} bytes a token, as the model's tokenizer.json cuts {self.measured:,} bytes"


def token_size(loaded: LoadedRecipe, sources: Sequence[SampledSource]) -> TokenSize:
    """The size of the tokens that the rows will have: measured where the model's folder has a tokenizer.json.

    The package tokenizers, which the pinned versions bring, must be installed for that.
    """
    texts = list(_bounded(list(_texts(sources))))
    size = sum(map(len, texts))
    name = loaded.recipe.model.name
    if size < _LEAST_BYTES or not is_path(name):
        return TokenSize()
    tokens = tokens_in([text.decode("utf-8", "ignore") for text in texts], loaded.folder / name / "tokenizer.json")
    return TokenSize(round(size / tokens, 1), size) if tokens else TokenSize()


def _texts(sources: Sequence[SampledSource]) -> Iterator[bytes]:
    """What is said in the sampled rows."""
    for source in sources:
        for made in source.made:
            yield from (text.encode("utf-8", "surrogatepass") for text in _said(made))


def _said(made: Converted) -> Iterator[str]:
    for value in made.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (turn["content"] for turn in value if isinstance(turn, dict) and "content" in turn)


def _bounded(texts: Sequence[bytes]) -> Iterator[bytes]:
    """The beginning of every text, so long that all of them have no more than _MOST_BYTES, or the first of so many."""
    most = max(_LEAST_BYTES, _MOST_BYTES // max(1, len(texts)))
    yield from (text[:most] for text in texts[: _MOST_BYTES // _LEAST_BYTES])
