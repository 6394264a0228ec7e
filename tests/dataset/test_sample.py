"""ReadAs a bounded sample: every kind of file, in every encoding and shape that people have."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, CHAT, good, texts, with_key

from recipec.dataset import ReadAs, Row, Unreadable, by_kind, files_of, found_files, globs_in, read_sample
from recipec.dataset.sample import SAMPLE_BYTES, SAMPLE_ROWS, WHOLE_BYTES, WHOLE_ROWS

ROW = '{"text": "a"}'
# File -> bytes -> lines of the rows that are read, and how many rows there are.
READ: dict[str, tuple[str, bytes, tuple[int, ...], int | None]] = {
    "jsonl": ("a.jsonl", f"{ROW}\n{ROW}\n".encode(), (1, 2), 2),
    "no last newline": ("a.jsonl", f"{ROW}\n{ROW}".encode(), (1, 2), 2),
    "CRLF": ("a.jsonl", f"{ROW}\r\n{ROW}\r\n".encode(), (1, 2), 2),
    "byte order mark": ("a.jsonl", b"\xef\xbb\xbf" + f"{ROW}\n{ROW}\n".encode(), (1, 2), 2),
    "blank lines": ("a.jsonl", f"\n{ROW}\n\n{ROW}\n".encode(), (2, 4), 2),
    "line separator in a string": ("a.jsonl", '{"text": "a\u2028b\x85c\x0bd"}\n'.replace("\x0b", "").encode(), (1,), 1),
    "json": ("a.json", f"[{ROW}, {ROW}]".encode(), (1, 2), 2),
    "json with a byte order mark": ("a.json", b"\xef\xbb\xbf" + f"\n [\n{ROW}]".encode(), (1,), 1),
    "lines in a file named json": ("a.json", f"\n{ROW}\n{ROW}\n".encode(), (2, 3), 2),
    "marks of files put together": ("a.jsonl", b"\xef\xbb\xbf" + f"{ROW}\n\ufeff{ROW}\n".encode(), (1, 2), 2),
    "marks of empty files before others": ("a.jsonl", f"\ufeff\ufeff{ROW}\n\ufeff\ufeff{ROW}\n".encode(), (1, 2), 2),
    "csv": ("a.csv", b"prompt,completion\na,b\nc,d\n", (2, 3), 2),
    "csv over two lines": ("a.csv", b'prompt,completion\n"a\nb",c\n\nd,e\n', (2, 5), 2),
    "csv long field": ("a.csv", b"prompt,completion\n" + b"x" * 200_000 + b",b\n", (2,), 1),
    "csv of an old Mac": ("a.csv", b"prompt,completion\ra,b\r", (2,), 1),
    "csv with a byte order mark": ("a.csv", b"\xef\xbb\xbfprompt,completion\na,b\n", (2,), 1),
    "txt": ("a.txt", b"some text\nmore\n", (1,), 1),
}  # fmt: skip
# File -> bytes -> where it is unreadable, and a word of the reason.
UNREADABLE: dict[str, tuple[str, bytes, str, str]] = {
    "empty": ("a.jsonl", b"", "a.jsonl", "no rows"),
    "blank": ("a.jsonl", b"\n \n", "a.jsonl", "no rows"),
    "empty text": ("a.txt", b" \n", "a.txt", "no rows"),
    "empty list": ("a.json", b"[]", "a.json", "no rows"),
    "only a header": ("a.csv", b"prompt,completion\n", "a.csv", "no rows"),
    "Latin-1": ("a.jsonl", f"{ROW}\n".encode() + b'{"text": "\xe9"}\n', "a.jsonl:2", "0xe9"),
    "not JSON": ("a.jsonl", f"{ROW}\nnope\n".encode(), "a.jsonl:2", "not one JSON object"),
    "not an object": ("a.jsonl", b"1\n", "a.jsonl:1", "not an object"),
    "a list in a file of lines": ("a.jsonl", f"\n[\n{ROW}]\n".encode(), "a.jsonl:2", "must be named .json"),
    "UTF-16": ("a.jsonl", f"{ROW}\n{ROW}\n".encode("utf-16"), "a.jsonl:1", "save the file as UTF-8"),
    "json in UTF-16": ("a.json", f"[{ROW}]".encode("utf-16"), "a.json:1", "save the file as UTF-8"),
    "one line in UTF-16": ("a.jsonl", ROW.encode("utf-16"), "a.jsonl:1", "save the file as UTF-8"),
    "csv in UTF-16": ("a.csv", "a,b\nc,d\n".encode("utf-16"), "a.csv:1", "save the file as UTF-8"),
    "one object over several lines": ("a.json", b'{\n"text": "a"}\n', "a.json:1", "not one JSON object"),
    "list of strings": ("a.json", b'[{}, "a"]', "a.json, row 2", 'list of objects: element 2 is "a"'),
    "other ending": ("a.xlsx", b"PK", "a.xlsx", ".xlsx"),
    "nested too deeply": (
        "a.jsonl",
        b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "a.jsonl:1",
        "not one JSON object",
    ),
    "one huge line": ("a.jsonl", b'{"text": "' + b"x" * SAMPLE_BYTES + b'"}\n', "a.jsonl", "line"),
    "semicolons": ("a.csv", b"prompt;completion\na;b, c\n", "a.csv:1", "with semicolons where commas"),
    "tabs": ("a.csv", b"prompt\tcompletion\na\tb\n", "a.csv:1", "with tabs where commas"),
    "more fields than the header": ("a.csv", b"prompt,completion\na,b\na,b,c\n", "a.csv:3", "more fields"),
    "huge row of json": ("a.json", b'[{"text": "' + b"x" * SAMPLE_BYTES + b'"}]', "a.json", "first row is longer"),
    "huge json of strings": ("a.json", b'["a",' + b"x" * SAMPLE_BYTES, "a.json, row 1", "list of objects"),
    "not parquet": ("a.parquet", b"PAR1", "a.parquet", "not Parquet"),
}
# No rows are counted at the end, no row is too long for the whole file, and neither ending stands in READERS.
COMPILED_ALONE = ("empty", "blank", "empty text", "empty list", "only a header", "other ending", "not parquet")
COMPILED_ALONE += ("one huge line", "huge row of json", "huge json of strings")

SAME_WORDS = ("a list in a file of lines", "csv in UTF-16")


@pytest.mark.parametrize("case", READ)
def test_rows_are_read(tmp_path: Path, case: str) -> None:
    name, content, lines, total = READ[case]
    (tmp_path / name).write_bytes(content)
    sample = read_sample([tmp_path / name], name)
    assert sample is not None
    assert [int(re.split("[ :]", place)[-1]) for place in sample.places] == [*lines]
    assert sample.total_rows == total


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_says_where_and_why(tmp_path: Path, case: str) -> None:
    name, content, where, reason = UNREADABLE[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreadable) as error:
        read_sample([tmp_path / name], name)
    assert error.value.where == where
    assert reason in error.value.reason


READING = (
    "UnreadableRow",
    "rows_in",
    "json_lines",
    "json_rows",
    "csv_records",
    "check_text",
    "text_file",
    "once",
    "no_value",
    "parsed",
    "whole",
    "unread",
)
Read = Callable[[Path], list[tuple[str, Row]]]


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """How the script of a bundle whose files may have any ending reads one: each row after its place."""
    recipe = with_key(BASES["lora-single"], "data.train", "chat*")
    tree = ast.parse(texts(good(tmp_path_factory.mktemp("any"), recipe))["prepare_data.py"])
    tree.body = [
        node for node in tree.body if getattr(node, "name", "") in READING or "READERS = " in ast.unparse(node)
    ]
    scope: dict[str, Any] = {"Path": Path, "Iterator": Iterator, "json": json, "re": re, "csv": csv}
    scope |= {"parquet_rows": None, "COLUMNS": ["text", "prompt", "completion"], "NOTHING": ()}
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    return lambda file: [(row["place"], scope["parsed"](row["row"])) for row in scope["rows_in"](file, file.name)]


@pytest.mark.parametrize("case", READ)
def test_the_emitted_code_reads_the_same_rows(tmp_path: Path, case: str, emitted: Read) -> None:
    name, content, lines, _ = READ[case]
    (tmp_path / name).write_bytes(content)
    sample, found = read_sample([tmp_path / name], name), emitted(tmp_path / name)
    assert sample is not None and [row for _, row in found] == [*sample.rows]
    assert name == "a.txt" or [int(place.split()[-1]) for place, _ in found] == [*lines]


@pytest.mark.parametrize("case", [case for case in UNREADABLE if case not in COMPILED_ALONE])
def test_the_emitted_code_refuses_the_same_files(tmp_path: Path, case: str, emitted: Read) -> None:
    name, content, _, reason = UNREADABLE[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, RecursionError)) as error:
        emitted(tmp_path / name)
    assert case not in SAME_WORDS or reason in str(error.value)


def test_parquet_says_how_many_rows_it_has(tmp_path: Path) -> None:
    from datasets import Dataset

    rows = [{"messages": [{"role": "user", "content": f"Why {n}?"}]} for n in range(1_000)]
    Dataset.from_list(rows).to_parquet(tmp_path / "a.parquet")
    sample = read_sample([tmp_path / "a.parquet"], "a.parquet")
    assert sample is not None and sample.total_rows == 1_000
    assert sample.rows == tuple(rows) and sample.whole


def test_parquet_is_not_looked_at_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipec.dataset.sample.find_spec", lambda _: None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert read_sample([tmp_path / "a.parquet"], "a.parquet") is None


@pytest.mark.parametrize("broken", ['{"text" "a"}', '{"text": a}', "{'text': 1}"])
def test_a_large_list_with_a_broken_row_is_refused(tmp_path: Path, broken: str) -> None:
    rows = [json.dumps({"text": "word " * 40})] * 50_000
    rows[3] = broken
    (tmp_path / "a.json").write_text(f"[{', '.join(rows)}]")
    with pytest.raises(Unreadable, match="it is not JSON"):
        read_sample([tmp_path / "a.json"], "a.json")


@pytest.mark.parametrize("end", ['{"text": "cut', '{"text": 1.', '{"text": tr', '{"te', "{", '{"text": "\\u12', ""])
def test_a_row_may_be_cut_anywhere(tmp_path: Path, end: str) -> None:
    row = json.dumps({"text": "x" * 87})
    start = f"[{', '.join([row] * (SAMPLE_BYTES // 102))}, "
    filler = " " * (SAMPLE_BYTES - len(start) - len(end))
    (tmp_path / "a.json").write_text(f"{start}{filler}{end}" + "a" * 1_000)
    sample = read_sample([tmp_path / "a.json"], "a.json")
    assert sample is not None and len(sample.rows) == SAMPLE_ROWS


def test_rows_of_any_size_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"text": "x" * 2_200_000}] * 40))
    sample = read_sample([tmp_path / "a.json"], "a.json")
    assert sample is not None and sample.total_rows == 40
    assert not sample.whole


@pytest.mark.parametrize("indent", [None, 2])
def test_the_beginning_of_a_large_list_is_sampled(tmp_path: Path, indent: int | None) -> None:
    rows = [{"instruction": f"Say {n}.", "output": "word " * 40} for n in range(50_000)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=indent))
    sample = read_sample([tmp_path / "a.json"], "a.json")
    assert sample is not None and sample.total_rows is not None
    assert sample.rows == tuple(rows[:SAMPLE_ROWS])
    assert abs(sample.total_rows / len(rows) - 1) < 0.01


def test_a_large_file_is_sampled_and_its_rows_are_estimated(tmp_path: Path) -> None:
    rows = 3 * SAMPLE_BYTES // 200
    (tmp_path / "a.jsonl").write_text((json.dumps({"text": "x" * 187}) + "\n") * rows)
    sample = read_sample([tmp_path / "a.jsonl"], "a.jsonl")
    assert sample is not None and sample.total_rows is not None
    assert len(sample.rows) == SAMPLE_ROWS
    assert abs(sample.total_rows - rows) <= 0.01 * rows


def test_a_cut_record_is_left_out(tmp_path: Path) -> None:
    record = '"' + "x\n" * (SAMPLE_BYTES // 8) + '",b\n'
    (tmp_path / "a.csv").write_text("prompt,completion\n" + record * 6)
    sample = read_sample([tmp_path / "a.csv"], "a.csv")
    assert sample is not None
    assert {row["completion"] for row in sample.rows} == {"b"}


def test_a_long_text_without_lines_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é" * SAMPLE_BYTES)
    sample = read_sample([tmp_path / "a.txt"], "a.txt")
    assert sample is not None and sample.total_bytes == sample.bytes_each == 2 * SAMPLE_BYTES


def test_texts_are_counted(tmp_path: Path) -> None:
    """Each file is a row, of whatever length; those that hold nothing are none."""
    for number in range(100):
        (tmp_path / f"{number}.txt").write_text("word " * number)
    files = sorted(tmp_path.iterdir(), key=lambda file: int(file.stem))
    sample = read_sample(files, "*.txt")
    assert sample is not None and (sample.total_rows, sample.counted) == (99, True)
    assert sample.bytes_each == sum(5 * number for number in range(100)) / 99


def test_rows_of_all_files_count(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for file in files:
        file.write_text(f"[{ROW}, {ROW}]")
    sample = read_sample(files, "*.json")
    assert sample is not None and sample.total_rows == 4


def test_the_beginning_of_every_file_is_looked_into(tmp_path: Path) -> None:
    """Also of one whose first row is longer than its share; an empty one has nothing to say."""
    texts = {"a": f"{ROW}\n" * 300, "b": "", "c": json.dumps({"late": "x" * (SAMPLE_BYTES // 2)})}
    for name, text in texts.items():
        (tmp_path / f"{name}.jsonl").write_text(text)
    sample = read_sample(sorted(tmp_path.iterdir()), "*.jsonl", tmp_path)
    assert sample is not None and {name for row in sample.rows for name in row} == {"text", "late"}
    assert (sample.places[0], sample.places[-1]) == ("a.jsonl:1", "c.jsonl:1")
    assert (sample.total_rows, sample.counted, sample.whole) == (301, True, False)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv"])
def test_small_files_are_read_to_their_end(tmp_path: Path, ending: str) -> None:
    """A bad row 250 of 300 is found when the recipe is checked; larger files are sampled."""
    for rows, length in ((300, 40), (300, WHOLE_BYTES // 200)):
        texts = [{"text": "x" * length, "n": str(n)} for n in range(rows)]
        lines = {".jsonl": "".join(json.dumps(row) + "\n" for row in texts), ".json": json.dumps(texts)}
        lines[".csv"] = "text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in texts)
        (tmp_path / f"a{ending}").write_text(lines[ending])
        sample = read_sample([tmp_path / f"a{ending}"], f"a{ending}")
        small = rows * length < WHOLE_BYTES
        assert sample is not None and len(sample.rows) == (rows if small else SAMPLE_ROWS)
        assert sample.whole is small


def test_very_short_rows_are_sampled_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n' * 3_000)
    sample = read_sample([tmp_path / "a.jsonl"], "a.jsonl")
    assert sample is not None and len(sample.rows) == WHOLE_ROWS and not sample.whole


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_of_many_files_the_last_is_looked_into_and_all_count(tmp_path: Path, ending: str) -> None:
    from datasets import Dataset

    for number in range(50):
        row = {"late": "x"} if number == 49 else {"text": "x"}
        rows = Dataset.from_list([row] * 40)
        write = rows.to_parquet if ending == ".parquet" else rows.to_json
        write(tmp_path / f"{number:02}{ending}")
    sample = read_sample(sorted(tmp_path.iterdir()), f"*{ending}", tmp_path)
    assert sample is not None and len(sample.rows) == 20 * 40, "of 20 files"
    assert {name for row in sample.rows for name in row} == {"text", "late"}
    assert (sample.total_rows, sample.counted) == (2_000, ending == ".parquet")


@pytest.mark.parametrize(
    ("kind", "empty", "filled"), [("jsonl", "", f"{ROW}\n"), ("jsonl", "\n\n", f"{ROW}\n"), ("json", "[]", f"[{ROW}]")]
)
def test_rows_are_taken_of_the_first_file_that_holds_some(tmp_path: Path, kind: str, empty: str, filled: str) -> None:
    for name, text in (("a", empty), ("b", empty), ("c", filled), ("d", "no row")):
        (tmp_path / f"{name}.{kind}").write_text(text)
    sample = read_sample(sorted(tmp_path.iterdir()), f"*.{kind}", tmp_path, ReadAs(first_alone=True))
    assert sample and [place[:1] for place in sample.places] == ["c"]


def test_where_the_first_rows_are_taken_no_other_file_is_looked_into(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for file in files:
        file.write_text(f"{ROW}\n")
    sample = read_sample(files, "*.jsonl", tmp_path, ReadAs(first_alone=True))
    assert sample is not None and sample.places == ("a.jsonl:1",) and sample.total_rows == 2


def test_the_files_of_a_source_are_of_one_kind(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_text(ROW)
    with pytest.raises(Unreadable) as error:
        read_sample([tmp_path / "a.jsonl", tmp_path / "b.csv"], "*")
    assert ".csv, .jsonl" in error.value.reason


NOWHERE = ("none.jsonl", "*.csv", "d", "/", ".", "a**", "x" * 300, "\\", "[", "~/a.jsonl")
PATTERNS: list[tuple[str, list[str]]] = [
    ("a.jsonl", ["a.jsonl"]),
    ("*.jsonl", ["a.jsonl", "b[1].jsonl", "c*.jsonl", "cd.jsonl"]),
    ("b[1].jsonl", ["b[1].jsonl"]),
    ("c*.jsonl", ["c*.jsonl"]),
    ("**/c.jsonl", ["d/c.jsonl"]),
    ("../here [x]/a.jsonl", ["a.jsonl"]),
    *((pattern, []) for pattern in NOWHERE),
]


@pytest.mark.parametrize(("pattern", "found"), PATTERNS)
def test_patterns_name_files_in_any_folder(here: Path, pattern: str, found: list[str]) -> None:
    assert _below(here, files_of(pattern, here)) == found


FINDING = ("named_files", "is_in_bundle", "dots_in", "apart", "is_written")  # of the emitted functions


@pytest.mark.parametrize(("pattern", "found"), [case for case in PATTERNS if case[1]])
def test_the_emitted_code_finds_the_same_files(here: Path, pattern: str, found: list[str]) -> None:
    tree = ast.parse(texts(good(here.parent, BASES["lora-single"]))["prepare_data.py"])
    tree.body = [node for node in tree.body if getattr(node, "name", "") in FINDING]
    scope = {"Path": Path, "BUNDLE": here.parent, "STAGES": []}
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    assert _below(here, scope["named_files"](pattern, here)) == found
    assert _below(here, scope["named_files"](str(here / "a.jsonl"), here.parent)) == ["a.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "found", "left_out"),
    [
        ("**/t.jsonl", ["t.jsonl"], ["deep/out/data/sft/t.jsonl", "out/data/sft/t.jsonl"]),
        ("*/data/*/t.jsonl", [], ["out/data/sft/t.jsonl"]),
        ("out/**/t.jsonl", ["out/data/sft/t.jsonl"], []),
        ("out/data/sft/t.jsonl", ["out/data/sft/t.jsonl"], []),
    ],
)
def test_a_glob_does_not_reach_into_bundles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str, found: list[str], left_out: list[str]
) -> None:
    """Else prepare_data.py would read the rows that it has written as new ones."""
    for name in ("t.jsonl", "out/data/sft/t.jsonl", "deep/out/data/sft/t.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(ROW)
    for bundle in ("out", "deep/out"):
        (tmp_path / bundle / ".recipec").mkdir()
    (tmp_path / ".recipec").mkdir()  # the data root may lie in a bundle
    assert _below(tmp_path, files_of(pattern, tmp_path)) == found
    assert _below(tmp_path, found_files(pattern, tmp_path).of_bundles) == left_out
    emitted = _named_files(tmp_path / "build")
    assert _below(tmp_path, emitted(pattern, tmp_path)) == _below(tmp_path, emitted(pattern, tmp_path)) == found
    assert capsys.readouterr().out.count("are left out") == bool(left_out)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.md", ["a.md", "d/b.md"]),
        ("*/*.md", ["d/b.md"]),
        ("*.md", ["a.md"]),
        (".md/*.md", [".md/a.md"]),
        (".md/**/*.md", [".md/a.md"]),
        ("**/.notes/*.md", ["d/.notes/b.md"]),
        (".*/*.md", [".md/a.md"]),
        ("**/.*.md", [".a.md"]),
        ("../.root/*.md", ["a.md"]),
        (".md/.deep/a.md", [".md/.deep/a.md"]),
    ],
)
def test_a_glob_matches_no_hidden_names_that_it_does_not_write(tmp_path: Path, pattern: str, found: list[str]) -> None:
    """As in a shell; the data may lie below a hidden folder all the same."""
    root = tmp_path / ".root"
    for name in ("a.md", ".a.md", "d/b.md", ".md/a.md", ".md/.deep/a.md", "d/.notes/b.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("Press the button.")
    emitted = _named_files(tmp_path / "build")
    for path in (pattern, f"{root}/{pattern}"):
        assert _below(root, files_of(path, root)) == _below(root, emitted(path, root)) == found


def test_hidden_names_are_neither_proposed_nor_missed(tmp_path: Path) -> None:
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes" / "a.json").write_text("[]")
    (tmp_path / ".notes" / "gone.md").symlink_to("nowhere.md")
    (tmp_path / "b.md").write_text("Press the button.")
    assert globs_in(".", tmp_path) == ["./*.md"] and globs_in(".notes", tmp_path) == [".notes/*.json"]
    assert found_files("**/*.md", tmp_path).gone == [] and found_files(".notes/*.md", tmp_path).gone != []
    (tmp_path / "data[1].md").write_text("Text.")
    (tmp_path / "data1.md").symlink_to("nowhere.md")
    assert found_files("data[1].md", tmp_path).gone == [], "a file of that very name is no glob"
    assert _below(tmp_path, _named_files(tmp_path / "build")("**/b.md", tmp_path)) == ["b.md"]


def _named_files(folder: Path) -> Callable[[str, Path], list[Path]]:
    """named_files of a bundle that reads a glob over folders."""
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHAT))
    recipe = with_key(BASES["lora-single"], "data.train", "**/train.jsonl")
    tree = ast.parse(texts(good(folder, recipe))["prepare_data.py"])
    tree.body = [node for node in tree.body if getattr(node, "name", "") in FINDING]
    scope: dict[str, Any] = {"Path": Path, "cache": cache, "takewhile": takewhile, "BUNDLE": folder, "STAGES": []}
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    return scope["named_files"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with files whose names look like globs, and itself named like one."""
    folder = tmp_path / "here [x]"
    for name in ("a.jsonl", "b[1].jsonl", "c*.jsonl", "cd.jsonl", "d/c.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(ROW)
    return folder


def _below(folder: Path, found: list[Path]) -> list[str]:
    return [path.resolve().relative_to(folder).as_posix() for path in found]


def test_a_folder_is_answered_with_globs_of_all_its_data(tmp_path: Path) -> None:
    (tmp_path / "manuals" / "old").mkdir(parents=True)
    (tmp_path / "manuals" / "pump.md").write_text("Press the button.")
    assert globs_in("manuals", tmp_path) == globs_in("manuals/", tmp_path) == ["manuals/*.md"]
    (tmp_path / "manuals" / "old" / "valve.txt").write_text("Turn the valve.")
    assert globs_in("manuals", tmp_path) == globs_in("manuals/**", tmp_path) == ["manuals/**/*.md", "manuals/**/*.txt"]
    assert {file.name for glob in globs_in("manuals", tmp_path) for file in files_of(glob, tmp_path)} == {
        "pump.md",
        "valve.txt",
    }
    assert globs_in(f"{tmp_path}/manuals/old", Path("/nowhere")) == [f"{tmp_path}/manuals/old/*.txt"]


def test_text_files_of_two_endings_have_one_glob_where_it_matches_nothing_else(tmp_path: Path) -> None:
    for name in ("pump.md", "valve.txt"):
        (tmp_path / name).write_text("Turn it.")
    globs = ["./*.md", "./*.txt"]
    assert (by_kind(globs, tmp_path), by_kind(globs[:1], tmp_path)) == (["./*"], globs[:1])
    assert {file.name for file in files_of("./*", tmp_path)} == {"pump.md", "valve.txt"}
    (tmp_path / "scheme.png").write_bytes(b"")
    assert by_kind([*globs, "./*.csv"], tmp_path) == ["./*.csv", globs]


@pytest.mark.parametrize("name", ["nothing", "n" * 300, "manuals.md", "a\0b"])
def test_what_is_no_folder_is_not_called_one(tmp_path: Path, name: str) -> None:
    (tmp_path / "manuals.md").write_text("Press the button.")
    assert globs_in(name, tmp_path) is None
