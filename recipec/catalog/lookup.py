"""Finding an entry among the catalog's files without parsing them all."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_QUOTED_NAME = re.compile(r'^name = "([^"]+)"', re.MULTILINE)
_UNRELATED = 1.9  # of 3: spelling counts up to 2, shared words up to 1
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?b?")


def entries_with(folder: Path, key: str) -> Iterator[dict[str, Any]]:
    """The parsed files of `folder` whose text has `key` as the end of a quoted string, whatever the case.

    A file is called after the name in it, so the files that `key` speaks of come first.
    """
    ending = f'{key.lower()}"'
    for path in sorted(folder.glob("*.toml"), key=lambda path: (path.stem not in key.lower(), path.name)):
        text = path.read_text(encoding="utf-8")
        if ending in text.lower():
            yield tomllib.loads(text)


def names_in(folder: Path) -> tuple[str, ...]:
    """Every `name = "…"` in the files of `folder`, sorted."""
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.toml"))
    return tuple(sorted((name for text in texts for name in _QUOTED_NAME.findall(text)), key=str.lower))


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """Up to `n` candidates closest to `name`: by family and size words shared, then by spelling; best first."""
    from difflib import SequenceMatcher

    wanted, words = name.lower(), _words(name)

    def distance(candidate: str) -> float:
        spelling = SequenceMatcher(None, wanted, candidate.lower()).ratio()
        shared = len(words & _words(candidate)) / max(len(words | _words(candidate)), 1)
        return 3 - 2 * spelling - shared

    ranked = sorted((distance(candidate), candidate) for candidate in candidates)
    return [candidate for far, candidate in ranked[:n] if far <= _UNRELATED]


def _words(name: str) -> frozenset[str]:
    """Family and size words of a hub id: "Qwen/Qwen3-8B" has qwen, 3 and 8b."""
    return frozenset(_WORD.findall(name.lower()))
