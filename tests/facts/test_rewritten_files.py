"""Commands that rewrite one file of a glob: who follows what is printed, to the letter, has a recipe that is fine."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

ROWS = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "user": f"u{n % 5}"} for n in range(40)]
WITHOUT = {"prompt": "Whose?", "completion": "Nobody's.", "user": None}
RUN, NAMED = re.compile(r"`((?:python3|mv) [^`]*)`"), re.compile(r"`(train = \[.*\])` under")


def put(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(exist_ok=True)
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".csv":
        with file.open("w", newline="") as out:
            table = csv.DictWriter(out, rows[0])
            table.writeheader()
            table.writerows(rows)
    elif file.suffix == ".json":
        file.write_text(json.dumps(rows))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), file)


def followed(folder: Path, train: Any, split: dict[str, str] | None) -> Any:
    """The value of data.train once the first way that is offered was taken; what was there is still there."""
    recipe = with_key(with_key(BASES["lora-single"], "data.train", train), "data.split", split)
    before = {file.read_bytes() for file in (folder / "rows").iterdir()}
    errors = [one for one in compiled(folder, recipe, only_plan=True).diagnostics if one.code[0] == "E"]
    (found,) = errors
    command, *_, then = (line for line in found.help if RUN.search(line) and "of its own" not in line)
    for line in (command, then):
        subprocess.run(["bash", "-c", RUN.findall(line)[0]], cwd=folder, check=True)
    assert before <= {file.read_bytes() for file in (folder / "rows").iterdir()}
    named = NAMED.search(then)
    return tomllib.loads(named[1])["train"] if named else train


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("name", ["*", "*.{}"])
@pytest.mark.parametrize("files", [1, 3])
def test_who_follows_the_words_has_a_recipe_that_is_fine(tmp_path: Path, kind: str, name: str, files: int) -> None:
    for n in range(files):
        own = [row | {"prompt": f"{n}: {row['prompt']}"} for row in ROWS]
        put(tmp_path / "rows" / f"part {n}.{kind}", [*own, WITHOUT] if n < 2 else own)
    train: Any = f"rows/{name.format(kind)}"
    for _ in range(min(files, 2)):
        train = followed(tmp_path, train, {"group": "user"})
    recipe = with_key(with_key(BASES["lora-single"], "data.train", train), "data.split", {"group": "user"})
    told = compiled(tmp_path, recipe, only_plan=True)
    assert not [one for one in told.diagnostics if one.code[0] == "E" or one.code == "W0553"]
    assert told.facts and told.facts.data["train"].rows == files * len(ROWS)


HUB = {"hub": "owner/rows", "split": "train", "format": "chat", "weight": 2}
OWN = {"columns": {"messages": "my talk"}, "weight": 0.5, "format": "chat"}


@pytest.mark.parametrize("name", ["*", "*.csv"])
@pytest.mark.parametrize("files", [1, 2])
def test_sources_keep_their_keys_where_a_file_changes_its_kind(tmp_path: Path, name: str, files: int) -> None:
    for n in range(files):
        turns = [
            [{"role": "user", "content": f"Why {n} {i}?"}, {"role": "assistant", "content": "So."}] for i in range(9)
        ]
        put(tmp_path / "rows" / f"part {n}.csv", [{"my talk": json.dumps(talk)} for talk in turns])
    train: Any = [{"path": f"rows/{name}", **OWN}, HUB]
    for _ in range(files):
        train = followed(tmp_path, train, None)
    assert train[-1] == HUB
    assert [source for source in train if source == {"path": source.get("path"), **OWN}] == train[:-1]
    assert {f"rows/part {n}.new.jsonl" for n in range(files)} <= {source.get("path") for source in train}


def test_rows_that_a_source_takes_are_divided_between_the_files(tmp_path: Path) -> None:
    for n in range(2):
        talk = [{"role": "user", "content": f"Why {n}?"}, {"role": "assistant", "content": "So."}]
        put(tmp_path / "rows" / f"{n}.csv", [{"messages": json.dumps(talk)}] * 9)
    recipe = with_key(BASES["lora-single"], "data.train", [{"path": "rows/*.csv", "take": 12}])
    (found,) = (one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code[0] == "E")
    assert found.help[-1].endswith("; divide `take` between both of its entries")


def test_a_second_copy_leaves_the_first(tmp_path: Path) -> None:
    put(tmp_path / "rows" / "0.csv", [*ROWS, WITHOUT])
    (tmp_path / "rows" / "0.csv.old").write_text("the first")
    followed(tmp_path, "rows/*.csv", {"group": "user"})
    assert (tmp_path / "rows" / "0.csv.old").read_text() == "the first"
    assert (tmp_path / "rows" / "0.csv.old1").exists()


@pytest.mark.parametrize("column", ["Category > Sub", "a > 'b", "it > rows/0.new.jsonl"])
@pytest.mark.parametrize("train", ["rows/0.jsonl", "rows/*.jsonl"])
def test_columns_with_the_sign_before_a_file_name_no_file(tmp_path: Path, column: str, train: str) -> None:
    put(tmp_path / "rows" / "0.jsonl", [row | {column: row["prompt"]} for row in ROWS])
    told = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", train), only_plan=True)
    (unread,) = (one for one in told.diagnostics if one.code == "W0516")
    assert not any("old" in line for line in unread.help)
