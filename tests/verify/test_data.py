"""The data a bundle reads is told from its own code, and the sample fits what that code expects."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
from compiling import BASES, CHAT, good, texts, with_key
from emitted import built
from msgspec.structs import replace

from recipec.axes import ROW_FORMATS, Role
from recipec.axes.row_formats import PROMPT_COMPLETION
from recipec.bundle.build import write_bundle
from recipec.dataset import recognise
from recipec.verify.bundle import read_bundle
from recipec.verify.data import local_path, place_data, read_rows, write_rows
from recipec.verify.outside import bring_inside
from recipec.verify.rows import Example, NoSample, SourceData, SplitColumn, bundle_data, sample_rows
from recipec.verify.sandbox import copy_bundle
from recipec.verify.static.text import trace_problems

EXPECTED = {
    "sft-lora": ("instruction", {"instruction": "instruction", "input": "input", "output": "output"}, "strings"),
    "qlora": ("chat", {"messages": "messages"}, "messages"),
    "full-ddp": ("prompt-completion", {"prompt": "question", "completion": "answer"}, "strings"),
    "dpo": ("preference", {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}, "strings"),
    "pretrain": ("text", {"text": "text"}, "strings"),
}
SHAPES = [
    SourceData("s", {}, "text", {"text": "body"}, "strings", 256),
    SourceData("s", {}, "instruction", {"instruction": "task", "input": "input", "output": "output"}, "strings", 256),
    SourceData("s", {}, "instruction", {"instruction": "task", "output": "output"}, "strings", 256),
    SourceData("s", {}, "chat", {"messages": "conversations"}, "from-value", 256),
    SourceData("s", {}, "chat", {"messages": "messages"}, "messages", 256),
    SourceData("s", {}, "prompt-completion", {"prompt": "question", "completion": "answer"}, "strings", 256),
    SourceData("s", {}, "prompt-completion", {"prompt": "prompt", "completion": "completion"}, "messages", 256),
    SourceData("s", {}, "preference", {"prompt": "p", "chosen": "chosen", "rejected": "rejected"}, "strings", 256),
    SourceData("s", {}, "preference", {"prompt": "p", "chosen": "chosen", "rejected": "rejected"}, "messages", 256),
    SourceData("s", {}, "preference", {"chosen": "chosen", "rejected": "rejected"}, "messages", 256),
]


@pytest.mark.parametrize("recipe", EXPECTED)
def test_the_shape_of_the_data_is_read_from_the_emitted_code(recipe: str) -> None:
    source = only_source(built(recipe) / "prepare_data.py")
    assert (source.format, source.columns, source.content) == EXPECTED[recipe]


# What a user may make of a converter: format, the text of the function, and the columns that it then reads.
EDITED = {
    "another column": ("chat", 'return {"messages": row["talk"]}', {"messages": "talk"}),
    "without answers before the first question": ("chat", 'return asked_first(row["talk"])', {"messages": "talk"}),
    "the answer first": (
        "prompt-completion",
        'return {"completion": row["a"].strip(), "prompt": row["q"]}',
        {"prompt": "q", "completion": "a"},
    ),
    "roles that were exchanged": (
        "preference",
        'return {"prompt": row["prompt"], "chosen": row["rejected"], "rejected": row["chosen"]}',
        {"prompt": "prompt", "chosen": "rejected", "rejected": "chosen"},
    ),
    "a name for the result": (
        "prompt-completion",
        'made = {"prompt": row["prompt"], "completion": row["answer"]}\n    return made',
        {"prompt": "prompt", "completion": "answer"},
    ),
    "the input first": (
        "instruction",
        'asked = row["input"]\n    asked += row["task"]\n    return {"prompt": asked, "completion": row["output"]}',
        {"instruction": "task", "input": "input", "output": "output"},
    ),
    "no prompt of its own": (
        "preference",
        'good, bad = row["good"], row["bad"]\n    return {"prompt": good[:1], "chosen": good[1:], "rejected": bad[1:]}',
        {"chosen": "good", "rejected": "bad"},
    ),
}
BROKEN = {
    "a column that the format does not have": (
        'return {"messages": row["messages"] + row["system"]}',
        "reads system, which chat",
    ),
    "nothing that is learned": ('return {"messages": []}', "no column for the messages of chat rows"),
    "no dictionary": ("return dict(messages=row)", "does not return a dictionary"),
}


def prepare_data(folder: Path, format: str, body: str) -> Path:
    """A prepare_data.py with one stage, whose converter does this."""
    script = folder / "prepare_data.py"
    stage = f'Stage(name="s", format="{format}", train=[{{"path": "a.jsonl"}}], max_length=256)'
    script.write_text(
        f"STAGES = [{stage}]\n\n\ndef convert(row):\n    {body}\n\n\nCONVERTERS = {{'{format}': convert}}\n"
    )
    return script


def only_source(script: Path) -> SourceData:
    ((source,),) = (stage.sources for stage in bundle_data(script).stages)
    return source


@pytest.mark.parametrize("edit", EDITED)
def test_an_edited_converter_is_understood(tmp_path: Path, edit: str) -> None:
    format, body, columns = EDITED[edit]
    assert only_source(prepare_data(tmp_path, format, body)).columns == columns


@pytest.mark.parametrize("edit", BROKEN)
def test_a_converter_that_is_not_understood_is_named(tmp_path: Path, edit: str) -> None:
    body, words = BROKEN[edit]
    with pytest.raises(ValueError, match=words):
        bundle_data(prepare_data(tmp_path, "chat", body))


def flagged(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    """A format whose rows have one answer and say in the column `flag` whether it is a good one."""
    role = Role(name=flag, aliases=(flag,), required=True, holds=("flags",), becomes=flag)
    format = replace(PROMPT_COMPLETION, name="flagged", roles=(*PROMPT_COMPLETION.roles, role))
    monkeypatch.setitem(ROW_FORMATS, "flagged", format)


def test_a_new_format_of_known_roles_needs_its_row_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flagged(monkeypatch, "label")
    body = 'return {"prompt": row["q"], "completion": row["a"], "label": bool(row["liked"])}'
    source = only_source(prepare_data(tmp_path, "flagged", body))
    assert source.columns == {"prompt": "q", "completion": "a", "label": "liked"}
    rows = sample_rows(source, 30, None)
    assert {row["liked"] for row in rows} == {True, False}
    assert len({(row["q"], row["a"]) for row in rows}) == 30
    good, bad = ({row["a"].split()[0] for row in rows if row["liked"] is liked} for liked in (True, False))
    assert not good & bad, "what is liked can be learned"


def test_a_role_that_nothing_is_known_to_write_for_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    flagged(monkeypatch, "stars")
    data = SourceData("s", {}, "flagged", {"prompt": "q", "completion": "a", "stars": "stars"}, "strings", 256)
    with pytest.raises(NoSample, match="the stars of flagged rows"):
        sample_rows(data, 1, None)


def test_every_role_of_every_format_can_be_written() -> None:
    roles = {role.name for format in ROW_FORMATS.values() for role in format.roles}
    assert not [role for role in roles if not callable(getattr(Example, role, None))]


def test_every_stage_is_read() -> None:
    stages = bundle_data(built("sft-dpo") / "prepare_data.py").stages
    assert [(stage.stage, [source.given for source in stage.sources]) for stage in stages] == [
        ("sft", [{"path": "data/chat.jsonl"}]),
        ("dpo", [{"path": "data/pairs.jsonl"}]),
    ]


def test_every_source_of_a_mix_is_read_as_its_own_format(tmp_path: Path) -> None:
    """Rows of one question and one answer that become messages are told by the columns that they are read from."""
    write_rows(tmp_path / "chat.jsonl", [{"dialog": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "!"}]}])
    write_rows(tmp_path / "alpaca.json", [{"task": "?", "reply": "!"}])
    write_rows(tmp_path / "pairs.csv", [{"prompt": "?", "completion": "!"}])
    chats = {"path": "chat.jsonl", "columns": {"messages": "dialog"}}
    tasks = {"path": "alpaca.json", "columns": {"instruction": "task", "output": "reply"}}
    recipe = BASES["lora-single"] | {"data": {"train": [chats, tasks, "pairs.csv"]}}
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path, recipe))["prepare_data.py"])
    (stage,) = bundle_data(tmp_path / "prepare_data.py").stages
    assert [(source.format, dict(source.columns), source.content) for source in stage.sources] == [
        ("chat", {"messages": "dialog"}, "from-value"),
        ("instruction", {"instruction": "task", "input": "input", "output": "reply"}, "strings"),
        ("prompt-completion", {"prompt": "prompt", "completion": "completion"}, "strings"),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.format}-{shape.content}")
def test_the_compiler_recognises_the_sample_as_the_format_it_stands_for(shape: SourceData) -> None:
    rows = tuple(sample_rows(shape, 30, None))
    renamed = dict(shape.columns)
    found = recognise(rows, None, renamed, [str(index) for index in range(30)])
    format = ROW_FORMATS[shape.format]
    optional = {role.name: role.aliases[0] for role in format.roles if format.may_lack(role.name)}
    assert (found.format, found.columns, found.content) == (shape.format, optional | shape.columns, shape.content)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.format}-{shape.content}")
def test_questions_differ_and_repeat_with_the_seed(shape: SourceData) -> None:
    rows = sample_rows(shape, 30, None, seed=3)
    assert len({json.dumps(row) for row in rows}) == 30
    assert rows == sample_rows(shape, 30, None, seed=3)
    assert rows != sample_rows(shape, 30, None, seed=4)


@pytest.mark.parametrize(("classes", "fewest", "most"), [(True, 2, 4), (False, 10, 28)])
def test_a_split_column_can_be_split(classes: bool, fewest: int, most: int) -> None:
    values = [row["when"] for row in sample_rows(SHAPES[0], 160, SplitColumn("when", classes))]
    assert fewest <= len(set(values)) <= most


@pytest.mark.parametrize(
    "pattern", ["data/train.jsonl", "./a/*.csv", "data/part-[0-9]?.json", "**/manual.txt", "a/**/b/*.jsonl"]
)
def test_a_sample_is_put_where_the_pattern_finds_it(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / local_path(pattern)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert path in list(tmp_path.glob(pattern))


@pytest.mark.parametrize("outside", ["{folder}/beside/*.jsonl", "../beside/chat.jsonl"])
def test_data_outside_of_the_recipes_folder_are_stood_in_for_inside(
    tmp_path: Path, outside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    theirs = tmp_path / "beside/chat.jsonl"
    theirs.write_text("".join(json.dumps(row) + "\n" for row in CHAT))
    path = outside.format(folder=tmp_path)
    recipe = with_key(BASES["lora-single"], "data.train", [path, {"path": "chat.jsonl"}])
    (home := tmp_path / "home").mkdir()
    done, before = good(home, recipe), theirs.read_bytes()
    write_bundle(home / "out", done.files, done.plan_json, done.lock)
    bundle = read_bundle(home / "out")
    monkeypatch.setenv("HOME", str(tmp_path))

    copy = copy_bundle(bundle, tmp_path / "here")
    moved = bring_inside(copy.root / "prepare_data.py")
    root = tmp_path / "here/data"
    place_data(bundle, root, tmp_path / "here/hub", 40)

    (stage,) = bundle_data(copy.root / "prepare_data.py").stages
    assert [*moved] == [path]
    assert [source.given["path"] for source in stage.sources] == [moved[path], "chat.jsonl"]
    for source in stage.sources:
        (file,) = root.glob(source.given["path"])
        assert len(read_rows([file], 99)) == 40
    assert trace_problems(bundle) == []
    assert (theirs.read_bytes(), path in (home / "out/prepare_data.py").read_text()) == (before, True)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_rows_are_read_back_as_written(tmp_path: Path, name: str) -> None:
    rows = [{"question": f'say "{index}",\nplease', "answer": str(index)} for index in range(5)]
    write_rows(tmp_path / name, rows)
    assert read_rows([tmp_path / name], 3) == rows[:3]


def test_text_files_are_documents(tmp_path: Path) -> None:
    write_rows(tmp_path / "manual.txt", [{"text": "one"}, {"text": "two"}])
    files = sorted(tmp_path.glob("*.txt"))
    assert [row["text"].strip() for row in read_rows(files, 9)] == ["one", "two"]
    assert all(fnmatch(file.name, "*.txt") for file in files)


def test_an_array_of_rows_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "one"}, {"text": "two"}]')
    assert read_rows([tmp_path / "a.json"], 9) == [{"text": "one"}, {"text": "two"}]


@pytest.mark.parametrize(("rows", "fewest", "own"), [(160, 40, True), (40, 40, True), (49, 49, False)])
def test_own_rows_are_used_where_they_are_as_many_as_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, fewest: int, own: bool
) -> None:
    """A level that counts rows needs as many as it counts."""
    done = good(tmp_path, BASES["lora-single"])
    write_bundle(tmp_path / "out", done.files, done.plan_json, done.lock)
    file = tmp_path / BASES["lora-single"]["data"]["train"]
    theirs = [
        {**row, "messages": [{**turn, "content": f"{turn['content']} {n}"} for turn in row["messages"]]}
        for n, row in enumerate(CHAT[:1] * 48)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in theirs))
    monkeypatch.setenv("DATA_ROOT", str(tmp_path))
    placed = place_data(read_bundle(tmp_path / "out"), tmp_path / "root", tmp_path / "hub", rows, fewest)
    found = read_rows([tmp_path / "root" / file.name], 999)
    assert (found == theirs[:rows]) is own
    assert ("to be used" in placed.description) is not own
