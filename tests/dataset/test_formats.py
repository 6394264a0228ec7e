"""Which format rows are recognised as, and what is said when none or several fit."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from compiling import BASES, good, texts

from recipec.axes import ROW_FORMATS, Role
from recipec.dataset import (
    BadContent,
    BadRows,
    RowFault,
    RowReading,
    TwoReadings,
    UnknownFormat,
    carried,
    converted,
    flag_of,
    recognise,
    told,
)

ASK, ANSWER = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}
TURNS = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]
# What a label may be, and what it then says; texts are all that CSV files hold.
FLAGS = [(True, True), (1, True), (0, False), ("true", True), ("False", False), ("1", True), (" 0", False)]
FLAGS += [("Good", True), ("bad", False), ("up", True), ("down", False), ("👍", True), ("👎", False)]
FLAGS += [("yes", True), ("no", False), (1.0, True), (0.0, False), ("1.0", True)]
NO_FLAGS = ("fine", "-1", "", "10", 2, 0.5, None)

# A row -> its format, the columns of its roles, and what its answers are made of.
RECOGNISED: list[tuple[dict[str, Any], str, dict[str, str], str]] = [
    ({"text": "a"}, "text", {"text": "text"}, "strings"),
    ({"content": "a"}, "text", {"text": "content"}, "strings"),
    ({"messages": [ASK, ANSWER]}, "chat", {"messages": "messages"}, "messages"),
    ({"conversations": TURNS}, "chat", {"messages": "conversations"}, "from-value"),
    ({"conversation": [ASK, ANSWER], "id": 1}, "chat", {"messages": "conversation"}, "messages"),
    (
        {"instruction": "a", "output": "b"},
        "instruction",
        {"instruction": "instruction", "output": "output", "input": "input"},  # later rows may have one
        "strings",
    ),
    (
        {"instruction": "a", "context": "c", "response": "b"},
        "instruction",
        {"instruction": "instruction", "output": "response", "input": "context"},
        "strings",
    ),
    ({"question": "a", "answer": "b"}, "prompt-completion", {"prompt": "question", "completion": "answer"}, "strings"),
    (
        {"prompt": [ASK], "completion": [ANSWER]},
        "prompt-completion",
        {"prompt": "prompt", "completion": "completion"},
        "messages",
    ),
    (
        {"prompt": "a", "chosen": "b", "rejected": "c"},
        "preference",
        {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"},
        "strings",
    ),
    *(
        (
            {"prompt": "a", "completion": "b", "label": label},
            "unpaired-preference",
            {"prompt": "prompt", "completion": "completion", "label": "label"},
            "strings",
        )
        for label, _ in FLAGS
    ),
    (
        {"chosen": [ASK, ANSWER], "rejected": [ASK, ANSWER]},
        "preference",
        {"chosen": "chosen", "rejected": "rejected"},
        "messages",
    ),
]
# Rows, and what of the message names the trouble.
REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([{}], "none"),
    *(([{"prompt": "a", "completion": "b", "label": label}], "`label`") for label in NO_FLAGS),
    (
        [{"prompt": "a", "completion": "b", "label": label} for label in ("true", "False", "1")],
        'f:3: `label` holds "1", but f:1 holds "true"',
    ),
    (
        [{"prompt": "a", "completion": "b", "label": label} for label in (True, False, 1)],
        "f:3: `label` holds 1, but f:1 holds true",
    ),
    ([{"foo": 1}], "`foo`"),
    ([{"text": "a"}, {"messages": [ASK]}], "f:1 is text, but f:2 is chat"),
    ([{"text": "a"}, {"foo": "b"}], "f:2: it has no `text`, which other rows have; its columns are `foo`"),
    (
        [{"prompt": "a", "completion": "b"}, {"prompt": "a", "completion": "b", "label": True}],
        "f:1: it has no `label`",
    ),
    ([{"text": 5}], "f:1: `text`"),
    ([{"text": None}], "f:1: `text`"),
    ([{"messages": "a"}], "f:1: `messages`"),
    ([{"messages": []}], "f:1: `messages`"),
    ([{"messages": [ASK, {"role": "assistant", "content": None}]}], "a message of the assistant whose `content`"),
    (
        [{"messages": [ASK, {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}]}],
        "a call without the name",
    ),
    ([{"messages": [ASK, {"role": "assistant", "content": "So.", "tool_calls": "a"}]}], "is no list of calls"),
    (
        [{"messages": [ASK, {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "1"}]}]}],
        "arguments are no object",
    ),
    ([{"messages": [ASK, {"role": "tool", "content": None}]}], "a message of the tool whose `content` is null"),
    ([{"messages": [ASK, {"role": "assistant", "content": [{"type": "image"}]}]}], "a part that is no text: 'image'"),
    ([{"messages": [{"speaker": "a"}]}], "`messages` has a message without `role`"),
    ([{"messages": [ASK, ANSWER]}, {"messages": TURNS}], "f:1 has messages, but f:2 has from-value"),
    ([{"instruction": "a", "output": ["b"]}], "f:1: `output`"),
    # Half of a row is in another shape than the other half: the emitted converter could not read it.
    ([{"prompt": "a", "chosen": "b", "rejected": []}], "rejected"),
    ([{"prompt": "a", "chosen": TURNS, "rejected": TURNS}], "`chosen`"),
    ([{"prompt": 5, "completion": "b"}], "prompt"),
    ([{"instruction": 5, "output": "b"}], "instruction"),
    ([{"chosen": "b", "rejected": "c"}], "prompt"),
    ([{"messages": [ASK, {"role": "assistant", "content": None}]}], "content"),
    ([{"question": "a", "answer": "b"}, {"prompt": "a", "answer": "b"}], "f:2 has `prompt`"),
    (
        [{"prompt": "a", "chosen": "b", "rejected": "c"}, {"chosen": "b", "rejected": "c"}],
        "f:2: it has no `prompt`, which other rows have",
    ),
    ([{"chosen": [ASK, ANSWER], "rejected": [ANSWER, ASK]}], "same prompt"),
    ([{"chosen": [ANSWER], "rejected": [ANSWER]}], "same prompt"),
    (
        [{"conversations": [{"from": "function_call", "value": "a"}]}],
        "from function_call with a text that is no JSON",
    ),
    ([{"messages": [ASK, {"role": ["user"], "content": "So."}]}], "role"),
    ([{f"c{n}": 1 for n in range(99)}], "`c11`, …"),
    ([{"messages": [ASK, {"role": "robot", "content": "So."}]}], "role"),
]


@pytest.mark.parametrize(("row", "format", "columns", "content"), RECOGNISED)
def test_rows_are_recognised(row: dict[str, Any], format: str, columns: dict[str, str], content: str) -> None:
    shape = recognise((row, row), None, {}, ["f:1", "f:2"])
    assert (shape.format, dict(shape.columns), shape.content) == (format, columns, content)


@pytest.mark.parametrize(("rows", "message"), REFUSED)
def test_rows_that_cannot_be_read_are_refused(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises((UnknownFormat, BadContent)) as error:
        convert(rows)
    assert message in str(error.value)


def convert(rows: list[dict[str, Any]]) -> None:
    """Recognise rows, and convert each."""
    shape = recognise(tuple(rows), None, {}, [f"f:{n}" for n in range(1, len(rows) + 1)])
    carries = carried(rows, ROW_FORMATS[shape.format], list(shape.columns.values()))
    for row in rows:
        converted(row, shape, RowReading(tuple(carries)))


def test_an_input_may_be_missing_or_null() -> None:
    row = {"instruction": "a", "output": "b"}
    rows = ({**row, "input": None}, row, {**row, "input": "c"})
    assert recognise(rows, None, {}, ["f:1", "f:2", "f:3"]).columns["input"] == "input"


@pytest.mark.parametrize("format", ROW_FORMATS)
def test_every_alias_is_understood(format: str) -> None:
    roles = ROW_FORMATS[format].roles
    for role in roles:
        for name in role.aliases:
            row = {other.aliases[0]: _held(other) for other in roles if other is not role} | {name: _held(role)}
            assert recognise((row,), (format,), {}, ["f:1"]).columns[role.name] == name


def _held(role: Role) -> Any:
    return {"strings": "a", "messages": [ASK, ANSWER], "flags": True, "token-ids": [1, 1]}[role.holds[0]]


@pytest.mark.parametrize(
    ("row", "renamed", "format"),
    [
        ({"q": "a", "a": "b"}, {"prompt": "q", "completion": "a"}, "prompt-completion"),
        ({"dialog": [ASK, ANSWER]}, {"messages": "dialog"}, "chat"),
        ({"body": "a"}, {"text": "body"}, "text"),
        ({"do": "a", "at": "b", "done": "c"}, {"instruction": "do", "input": "at", "output": "done"}, "instruction"),
    ],
)  # fmt: skip
def test_columns_are_renamed(row: dict[str, Any], renamed: dict[str, str], format: str) -> None:
    shape = recognise((row,), None, renamed, ["f:1"])
    assert shape.format == format
    assert dict(shape.columns) == renamed


def test_an_asked_format_wins_over_what_the_columns_look_like() -> None:
    row = {"prompt": "a", "completion": "b", "text": "c"}
    assert recognise((row,), None, {}, ["f:1"]).format == "prompt-completion"
    assert recognise((row,), ("text",), {}, ["f:1"]).format == "text"


WRITTEN = {"words": (True, False), "digits": (1, 0), "thumbs": ("👍", "👎")}  # labels of the sampled rows


@pytest.fixture(scope="module", params=WRITTEN)
def converter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Callable]:
    """How the labels of a bundle are written, and its function that reads a row with one."""
    folder = tmp_path_factory.mktemp("labels")
    (folder / "chat.jsonl").touch()
    rows = [{"prompt": f"{n}?", "completion": "So.", "label": WRITTEN[request.param][n % 2]} for n in range(8)]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tree = ast.parse(texts(good(folder, BASES["kto"]))["prepare_data.py"])
    tree.body = [node for node in tree.body if getattr(node, "name", "") in ("from_unpaired_preference", "text_of")]
    scope: dict[str, Any] = {}
    exec(compile(tree, "prepare_data.py", "exec"), scope)
    return request.param, scope["from_unpaired_preference"]


@pytest.mark.parametrize(("label", "wanted"), FLAGS)
def test_the_emitted_code_reads_labels_that_are_written_like_the_sampled_ones(
    label: Any, wanted: bool, converter: tuple[str, Callable]
) -> None:
    written, convert_row = converter
    row, alike = (
        {"prompt": "a", "completion": "b", "label": label},
        str(label).strip().lower() in (str(one).lower() for one in WRITTEN[written]),
    )
    assert flag_of(label) is wanted
    if alike:
        assert convert_row(row)["label"] is wanted
    else:
        with pytest.raises(ValueError, match="a label is neither"):
            convert_row(row)


@pytest.mark.parametrize("label", NO_FLAGS)
def test_the_emitted_code_refuses_the_same_labels(label: Any, converter: tuple[str, Callable]) -> None:
    with pytest.raises(ValueError, match="a label is neither"):
        converter[1]({"prompt": "a", "completion": "b", "label": label})


@pytest.mark.parametrize(
    ("others", "renamed"),
    [
        ({"thumbs": True}, {}),
        ({"thumbs": 0, "day": "Monday"}, {}),
        ({"thumbs": "up"}, {}),
        ({"thumbs": True}, {"completion": "said"}),
        ({"thumbs": "👎", "day": "Monday"}, {}),
    ],
)
def test_a_column_that_may_be_the_label_is_named(others: dict[str, Any], renamed: dict[str, str]) -> None:
    row = {"prompt": "a", renamed.get("completion", "completion"): "b"} | others
    with pytest.raises(UnknownFormat) as error:
        recognise((row, row), ("preference", "unpaired-preference"), renamed, ["f:1", "f:2"])
    assert error.value.help == ('name the column that is true or false: `columns = { label = "thumbs" }`',)


@pytest.mark.parametrize(
    "rows",
    [
        [{"prompt": "Why?", "chosen": [ASK, ANSWER], "rejected": [ASK, ANSWER]}],
        [{"prompt": "a", "chosen": "b", "rejected": "c"}, {"prompt": [ASK], "chosen": [ANSWER], "rejected": [ANSWER]}],
    ],
)
def test_texts_and_messages_may_stand_side_by_side(rows: list[dict]) -> None:
    assert recognise(tuple(rows), None, {}, ["f:1", "f:2"][: len(rows)]).content == "strings or messages"


def test_all_kinds_of_faults_are_told_at_once_each_with_its_first_row() -> None:
    """Rows of one kind of fault are counted, and the shape is that of the other rows."""
    fine = {"messages": [ASK, ANSWER]}
    rows = (fine, {"messages": 1}, {"messages": None}, fine, {"messages": 2.5}, {"turns": []})
    with pytest.raises(BadRows) as error:
        recognise(rows, None, {}, [f"f:{n}" for n in range(1, 7)])
    assert [line.split(":")[1] for line in told(error.value.faults)] == ["2 and 1 other row", "3", "6"]
    assert error.value.shape.content == "messages"


def test_many_kinds_of_faults_are_counted() -> None:
    faults = [RowFault(f"f:{n}", text) for n, text in enumerate("abcdefgh")]
    assert told(faults)[-2:] == ["f:4: e", "and 3 more kinds of faults"]


TOKENS = {"messages": [ASK, ANSWER], "input_ids": [1, 2], "labels": [-100, 2]}
ALPACA = {"instruction": "a", "output": "b", "text": "c"}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"prompt": "a", "question": "b", "completion": "c"}, 'f:1: the prompt is `prompt` "a" or `question` "b"'),
        ({"prompt": "a", "query": "b", "chosen": "c", "rejected": "d"}, 'the prompt is `prompt` "a" or `query` "b"'),
        ({"instruction": "a", "output": "b", "response": 0}, 'the output is `output` "b" or `response` 0'),
        (TOKENS, "f:1 is a row of chat (`messages` ["),
    ],
)
def test_a_row_that_can_be_read_in_two_ways_is_shown_as_both(row: dict[str, Any], shown: str) -> None:
    with pytest.raises(TwoReadings) as error:
        recognise((row,), ROW_FORMATS, {}, ["f:1"], rivals=ROW_FORMATS)
    assert shown in str(error.value)
    assert len(error.value.help) == 2


@pytest.mark.parametrize(
    ("row", "renamed", "ignored", "read"),
    [
        ({"prompt": "a", "question": "b", "completion": "c"}, {"prompt": "question"}, [], "question"),
        ({"prompt": "a", "question": "b", "completion": "c"}, {}, ["prompt"], "question"),
        ({"prompt": "a", "question": None, "completion": "c"}, {}, [], "prompt"),
        (TOKENS, {}, ["messages"], "input_ids"),
        (TOKENS, {"input_ids": "input_ids"}, [], "input_ids"),
        (TOKENS, {}, ["input_ids", "labels"], "messages"),
        (ALPACA, {"text": "text"}, [], "text"),
        (ALPACA, {}, ["text"], "instruction"),
    ],
)
def test_the_recipe_says_how_a_row_is_read(
    row: dict[str, Any], renamed: dict[str, str], ignored: list[str], read: str
) -> None:
    shape = recognise((row,), ROW_FORMATS, renamed, ["f:1"], ignored, ROW_FORMATS)
    assert read in shape.columns.values()


def test_the_whole_text_beside_a_question_and_its_answer_is_no_second_reading() -> None:
    """tatsu-lab/alpaca has it: the template of Alpaca around instruction, input and output."""
    row = {"instruction": "Add 2 and 2.", "input": "", "output": "4", "text": "### Instruction: Add 2 and 2. 4"}
    assert recognise((row,), None, {}, ["f:1"], rivals=ROW_FORMATS).format == "instruction"


@pytest.mark.parametrize(
    ("row", "columns", "told"),
    [
        (
            {"user_question": "Q", "bot_reply": "A", "lang": "en"},
            {},
            'prompt = "user_question", completion = "bot_reply"',
        ),
        ({"dialogue": [{"role": "user", "content": "Q"}]}, {}, 'messages = "dialogue"'),
        ({"inhalt": "A document."}, {}, 'text = "inhalt"'),
        ({"ask": "Q", "reply": "A"}, {"completion": "rply"}, "did you mean `reply`?"),
    ],
)
def test_columns_of_other_names_are_told_with_the_line_that_names_them(row, columns, told) -> None:
    with pytest.raises(UnknownFormat) as error:
        recognise((row,), ("chat", "instruction", "prompt-completion", "text"), columns, ["a.jsonl:1"])
    assert told in " ".join(error.value.help)


def test_two_texts_whose_names_say_nothing_may_ask_either_way() -> None:
    with pytest.raises(UnknownFormat) as error:
        recognise(({"frage": "Q", "antwort": "A"},), ("chat", "instruction", "prompt-completion"), {}, ["a.jsonl:1"])
    said = [re.findall(r"answers `(\w+)` with `(\w+)`", line) for line in error.value.help]
    assert said == [[("frage", "antwort")], [("antwort", "frage")]]


def help_for(row: dict[str, Any]) -> tuple[str, ...]:
    rows = tuple({name: text.replace("1", str(n)) for name, text in row.items()} for n in range(3))
    with pytest.raises(UnknownFormat) as found:
        recognise(rows, None, {}, [f"f:{n}" for n in range(3)])
    return found.value.help


def test_a_column_that_no_recipe_can_name_leaves_the_lines_for_the_others() -> None:
    sides = {"frage": "Why 1?", "antwort": "So 1."}
    rename, *lines = help_for(sides | {"no\tte": ""})
    assert rename.startswith(r'rename "no\tte" in the rows')
    assert lines == [*help_for(sides)] and "prompt = " in lines[0]


@pytest.mark.parametrize("mark", ["\t", "\n", "\x00", "\x1b", "\x7f", "\x9f", "\u2028", "\ue000"])
def test_no_line_names_a_column_that_no_recipe_can_name(mark: str) -> None:
    (rename,) = help_for({f"fr{mark}age": "Why 1?", f"ant{mark}wort": "So 1."})
    assert rename.startswith("rename ") and "columns = " not in rename


def test_a_column_that_the_first_row_leaves_empty_is_an_answer_all_the_same() -> None:
    answers = [None, *(f"Valve {n % 2} is shut." for n in range(1, 9))]
    rows = [{"customer_question": f"Why is pump {n} off?", "agent_answer": said} for n, said in enumerate(answers)]
    with pytest.raises(UnknownFormat) as error:
        recognise(tuple(rows), tuple(ROW_FORMATS), {}, [f"f:{n}" for n in range(1, 10)])
    assert any('completion = "agent_answer"' in line for line in error.value.help)
