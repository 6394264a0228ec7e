"""Every literal and keyword argument of the scripts, changed one at a time: each change fails or is named."""

from __future__ import annotations

import ast
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from emitted import built
from tiers import quick_where

from recipec.verify.bundle import read_bundle
from recipec.verify.static.as_built import built_problems
from recipec.verify.static.edits import edited
from recipec.verify.static.planned import argument_problems

EACH = {"configs": 1, "evaluate.py": 3}  # of the changes one in so many is tried: all of them take minutes
WORDS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])|\btrue\b|\bfalse\b|(?<=[:=] )\w[\w./-]*", re.IGNORECASE)
OTHER = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: 2 * v + 1, str: lambda v: f"{v}x"}
DOCUMENTED = ast.Module | ast.FunctionDef | ast.ClassDef
FEWEST = {"train.py": 0.75, "evaluate.py": 0.25, "configs": 0.8}  # share of the changes that fails

Change = tuple[int, int, str]  # where it begins and ends, in bytes, and what stands there then


def changes(path: Path) -> Iterator[Change]:
    """All changes of a file: a boolean turned round, a number raised, a text longer, a keyword argument None."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from sorted(changes_of_code(text))
        return
    for word in WORDS.finditer(text):
        at, old = len(text[: word.start()].encode()), word.group()
        if not text[text.rfind("\n", 0, word.start()) + 1 : word.start()].lstrip().startswith("#"):
            other = {"true": "false", "false": "true"}.get(old.lower())
            yield at, at + len(old.encode()), other or (f"{float(old) + 1:g}" if old[0].isdigit() else f"{old}x")


def changes_of_code(text: str) -> set[Change]:
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree, found = ast.parse(text), set()
    told = [getattr(n.body[0], "value", None) for n in ast.walk(tree) if isinstance(n, DOCUMENTED)]
    told += [part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)]
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.keyword) else node
        if value in told or not (isinstance(node, ast.keyword) or type(getattr(node, "value", None)) in OTHER):
            continue
        new = "None" if value is not node else repr(OTHER[type(node.value)](node.value))
        found.add(
            (starts[value.lineno - 1] + value.col_offset, starts[value.end_lineno - 1] + value.end_col_offset, new)
        )
    return found


def outcome(root: Path, name: str) -> str:
    """Whether a bundle with one change fails, passes by its name, or is taken for what was built."""
    bundle = read_bundle(root)
    if [*built_problems(bundle, name)] or any(map(list, map(argument_problems, bundle.stages))):
        return "fails"
    return "named" if edited(root, name) else "unseen"


@pytest.mark.parametrize("recipe", quick_where({"zero3", "grpo"}, ["zero3", "fsdp", "sft-dpo", "grpo"]))
def test_no_change_is_unseen_and_most_of_what_decides_fails(tmp_path: Path, recipe: str) -> None:
    root = Path(shutil.copytree(built(recipe), tmp_path / recipe))
    counted = Counter[tuple[str, str]]()
    for name in sorted(read_bundle(root).built):
        kind = name.partition("/")[0] if name.startswith(("configs/", "launch/")) else name.rpartition("/")[2]
        if kind not in ("train.py", "evaluate.py", "prepare_data.py", "configs", "launch"):
            continue
        whole = (root / name).read_bytes()
        for begin, end, new in [*changes(root / name)][:: EACH.get(kind, 11)]:
            (root / name).write_bytes(whole[:begin] + new.encode() + whole[end:])
            said = outcome(root, name)
            counted[kind, said] += 1
            assert said != "unseen", f"{name}: {whole[begin:end].decode()} -> {new}"
        (root / name).write_bytes(whole)
    shares = {kind: counted[kind, "fails"] / (counted[kind, "fails"] + counted[kind, "named"]) for kind, _ in counted}
    print(recipe, dict(counted))
    assert all(shares[kind] >= least for kind, least in FEWEST.items() if kind in shares), shares
