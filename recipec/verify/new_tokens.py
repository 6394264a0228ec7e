"""New tokens: each is one token of the prepared rows, and its rows of the vocabulary's matrices move in training.

Beside adapters no other row does: none is saved, and a merged model has those of its base.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recipec.catalog.architecture import HEAD
from recipec.verify.bundle import BundleStage
from recipec.verify.report import VerifyReport

EXTENDED, NUMBERS = "extended-model", "new_tokens.json"  # the folder that vocabulary.py writes, and a file in it
# How files call the vocabulary's matrices -> how implementations do: GPT-NeoX's head has its first name in files.
MATRICES = {name: name for name in ("embed_tokens", "embed_in", HEAD)} | {"embed_out": HEAD}
_ROWS = re.compile(r"([a-z_]+)\.(?:token_adapter\.trainable_tokens_delta|weight)$")
_WEIGHTS = "*.safetensors"

Tensors = Mapping[str, Any]  # name of a matrix -> its weight


def new_tokens_of(bundle: Path) -> tuple[str, ...]:
    """The tokens that a bundle adds to the vocabulary."""
    file = bundle / "new_tokens.txt"
    return tuple(file.read_text(encoding="utf-8").removesuffix("\n").split("\n")) if file.is_file() else ()


def check_new_tokens(
    stage: BundleStage, bundle: Path, folder: Path, seen: Mapping[str, Any], report: VerifyReport
) -> None:
    """Look for the new tokens in the rows of a stage that begins with the extended model, and in what it saved."""
    if not (stage.decisions.get("new_tokens") and stage.method.learns_tokens):
        return
    numbers = json.loads((bundle / EXTENDED / NUMBERS).read_text(encoding="utf-8"))
    lines = (bundle / "data" / stage.name / "train.jsonl").read_text(encoding="utf-8").splitlines()
    written = occurrences([json.loads(line) for line in lines], numbers)
    read = Counter(token for row in seen["rows"]["train"] for tokens, _ in row for token in tokens)
    said = f"{sum(written.values())} places of {len(written)} tokens"
    cut = stage.decisions.get("overflow") == "truncate"
    report.add(
        f"{stage.name}: each new token is one token of the rows", token_problems(written, read, numbers, cut), said
    )
    problems = _moved_problems(stage, bundle / EXTENDED, folder, {token: numbers[token] for token in written})
    alone = "" if stage.adapts.trains_all else ", and those of no other token"
    report.add(f"{stage.name}: the rows of new tokens move{alone}", problems, ", ".join(map(repr, written)))


def occurrences(rows: Sequence[Any], numbers: Mapping[str, int]) -> dict[str, int]:
    """How often each of the tokens stands in the texts of rows; of two at one place the longer."""
    longest = sorted(numbers, key=len, reverse=True)
    found = re.compile("|".join(map(re.escape, longest)))
    return dict(Counter(hit for row in rows for text in _texts(row) for hit in found.findall(text)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)


def token_problems(
    written: Mapping[str, int], read: Mapping[int, int], numbers: Mapping[str, int], cut: bool
) -> list[str]:
    """Tokens that the rows' texts have more often than the rows that the model is given; a template may write more."""
    if not written:
        return ["no row has one of the new tokens"]
    return [
        f"{token!r} is written {count} times, and the model reads its number {read.get(numbers[token], 0)} times"
        for token, count in written.items()
        if read.get(numbers[token], 0) < count and not (cut and read.get(numbers[token]))
    ]


def _moved_problems(stage: BundleStage, start: Path, folder: Path, numbers: Mapping[str, int]) -> list[str]:
    """Of a full model, whose result is rounded, the newest checkpoint is compared where it holds the weights."""
    order = {number: place for place, number in enumerate(json.loads((start / NUMBERS).read_text()).values())}
    before = matrices(start)
    if stage.adapts.trains_all:
        newest = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))[-1:]
        after = next(filter(None, map(matrices, newest)), None) or matrices(folder)
        return row_problems(before, after, {token: (number, number) for token, number in numbers.items()})
    after = matrices(folder)
    problems = row_problems(before, after, {token: (number, order[number]) for token, number in numbers.items()})
    problems += [f"{name} is saved as a whole" for name, saved in after.items() if len(saved) != len(order)]
    return problems + other_row_problems(before, matrices(folder / "merged"), [*order])


def matrices(folder: Path) -> Tensors:
    """The vocabulary's matrices in a folder, or the rows of new tokens that an adapter has of them."""
    from safetensors import safe_open

    found = {}
    for path in sorted(folder.glob(_WEIGHTS)):
        with safe_open(path, "pt") as file:
            named = {name: hit[1] for name in file.keys() if (hit := _ROWS.search(name))}  # noqa: SIM118
            found |= {MATRICES[name]: file.get_tensor(key) for key, name in named.items() if name in MATRICES}
    return found


def row_problems(before: Tensors, after: Tensors, places: Mapping[str, tuple[int, int]]) -> list[str]:
    """Tokens whose row is the same before and after; `places` are their rows then and now."""
    problems = [f"no rows of {name} are saved" for name in before if name not in after]
    both = [(name, before[name], after[name]) for name in before if name in after]
    return problems + [
        f"the row of {token!r} in {name} has not moved"
        for name, old, new in both
        for token, (was, now) in places.items()
        if bool((old[was].float() == new[now].float()).all())
    ]


def other_row_problems(before: Tensors, merged: Tensors, new: Sequence[int]) -> list[str]:
    """Matrices of a merged model in which a row has moved that is of no new token."""
    from torch import ones

    problems = []
    for name, rows in merged.items():
        kept = ones(len(rows), dtype=bool)
        kept[[number for number in new if number < len(rows)]] = False
        if not bool((rows[kept] == before[name][: len(rows)][kept]).all()):
            problems.append(f"rows of {name} have moved that are of no new token")
    return problems
