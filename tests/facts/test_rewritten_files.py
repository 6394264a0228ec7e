"""Commands that rewrite one file of a glob: who follows what is printed, to the letter, has a recipe that is fine."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

ROWS = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "user": f"u{n % 5}"} for n in range(40)]
WITHOUT = {"prompt": "Whose?", "completion": "Nobody's.", "user": None}
RUN, NAMED = re.compile(r"`((?:python3|mv) [^`]*)`"), re.compile(r"`train = (\[.*\])` under")


def put(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(exist_ok=True)
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".csv":
        with file.open("w", newline="") as out:
            table = csv.DictWriter(out, rows[0])
            table.writeheader()
            table.writerows(rows)
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), file)


def followed(folder: Path, train: Any) -> Any:
    """The value of data.train once the first way that is offered was taken."""
    recipe = with_key(with_key(BASES["lora-single"], "data.train", train), "data.split", {"group": "user"})
    errors = [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code[0] == "E"]
    (found,) = errors
    command, *_, then = (line for line in found.help if RUN.search(line) and "of its own" not in line)
    for line in (command, then):
        subprocess.run(["bash", "-c", RUN.findall(line)[0]], cwd=folder, check=True)
    named = NAMED.search(then)
    return json.loads(named[1]) if named else train


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", ["*", "*.{}"])
@pytest.mark.parametrize("files", [1, 3])
def test_who_follows_the_words_has_a_recipe_that_is_fine(tmp_path: Path, kind: str, name: str, files: int) -> None:
    for n in range(files):
        own = [row | {"prompt": f"{n}: {row['prompt']}"} for row in ROWS]
        put(tmp_path / "rows" / f"part {n}.{kind}", [*own, WITHOUT] if n < 2 else own)
    train: Any = f"rows/{name.format(kind)}"
    for _ in range(min(files, 2)):
        train = followed(tmp_path, train)
    recipe = with_key(with_key(BASES["lora-single"], "data.train", train), "data.split", {"group": "user"})
    told = compiled(tmp_path, recipe, only_plan=True)
    assert not [one for one in told.diagnostics if one.code[0] == "E" or one.code == "W0553"]
    assert told.facts and told.facts.data["train"].rows == files * len(ROWS)
