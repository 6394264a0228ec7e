"""A row is refused when a recipe is compiled where prepare_data.py refuses it, and nowhere else.

`converted` (recipec/dataset/conversion.py) judges sampled rows, `converted_row` (templates/data/convert.py.j2) all.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from emitted_modules import load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_carried import CALL, TOOL, asked, recipe, said
from test_prepare_data import write

from recipec.axes import CARRIED, ROW_FORMATS
from recipec.dataset import (
    NOTHING,
    BadContent,
    RowReading,
    Unanswered,
    UnknownFormat,
    carried,
    converted,
    fields_of,
    recognise,
)
from recipec.dataset.rows import no_value

pytestmark = pytest.mark.executes

USER, ANSWER = {"role": "user", "content": "Why?"}, said("So.")
RESULT = {"role": "tool", "content": "20", "name": "weather", "tool_call_id": "c1"}
PARTS = [{"type": "text", "text": "Why?"}]
CHAT = {
    "messages": [
        {"role": "user", "content": PARTS},
        said("", tool_calls=[{"id": "c1", **CALL}], weight=0),
        RESULT,
        said("Yes.", reasoning="Hm.", weight=1),
    ],
    "tools": [TOOL],
    "system": "Be kind.",
}
SHARED = {
    "conversations": [
        {"from": "human", "value": "Why?"},
        {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Bern"}}'},
        {"from": "observation", "value": "20"},
        {"from": "gpt", "value": "<think>Hm.</think>Yes."},
    ],
    "tools": json.dumps([TOOL]),
}
TOKENS = {"input_ids": [5, 6, 7, 0], "labels": [-100, 6, 7, -100], "attention_mask": [1, 1, 1, 0]}
PAIR = {"prompt": [USER], "chosen": [USER, ANSWER], "rejected": [said("No.")]}
WHOLE = {side: [USER, said(side)] for side in ("chosen", "rejected")}
# A row of each way to write rows -> the format, the recipe that learns it, and what it says of [data].
WAYS: dict[str, tuple[dict[str, Any], str, str, dict[str, Any]]] = {
    "conversations": (CHAT, "chat", "lora-single", {"reasoning": "keep"}),
    "ShareGPT without thoughts": (SHARED, "chat", "lora-single", {"reasoning": "strip"}),
    "messages": (asked("Why?", said("So.")), "chat", "lora-single", {}),
    "ignored fields": (
        asked("Why?", said("So.", weight=1), RESULT),
        "chat",
        "lora-single",
        {"ignore": ["weight", "name", "tool_call_id"]},
    ),
    "instruction": ({"instruction": "Add", "input": "1", "output": "2", "system": "Be"}, "instruction", "lora-ddp", {}),
    "texts without thoughts": (
        {"instruction": "Add", "output": "<think>Hm.</think>2"},
        "instruction",
        "lora-ddp",
        {"reasoning": "strip"},
    ),
    "prompt and completion": ({"prompt": "Why?", "completion": [ANSWER]}, "prompt-completion", "lora-single", {}),
    "texts": ({"prompt": "Why?", "completion": "So."}, "prompt-completion", "lora-single", {}),
    "pairs": (PAIR, "preference", "dpo-full", {}),
    "pairs with one beginning": (WHOLE, "preference", "dpo-full", {}),
    "pairs of texts": ({"prompt": "Why?", "chosen": "So.", "rejected": "No."}, "preference", "dpo-full", {}),
    "labels": ({"prompt": [USER], "completion": [ANSWER], "label": True}, "unpaired-preference", "kto", {}),
    "prompts": ({"prompt": [USER, ANSWER, USER], "sum": 1}, "prompts", "grpo", {}),
    "tokens": (TOKENS, "token-ids", "lora-single", {}),
    "text": ({"text": "Pumps move water."}, "text", "text", {}),
}
SECTIONS = {"dpo-full": "preferences", "kto": "preferences", "grpo": "prompts"}


def made(way: str) -> Tables:
    """A recipe that learns rows of this way."""
    _, _, base, data = WAYS[way]
    tables = recipe(base, **data) if base == "lora-single" else BASES[base]
    for key, value in (data | {SECTIONS.get(base, "train"): "rows.jsonl"}).items():
        tables = with_key(tables, f"data.{key}", value)
    return tables


def sampled(way: str) -> list[dict[str, Any]]:
    """Rows of this way: of labels both."""
    row = WAYS[way][0]
    return [row, row | {"label": False}] * 4 if "label" in row else [row] * 8


def refused_at_build(way: str, row: dict[str, Any]) -> bool | None:
    """Whether the row is refused beside the sampled ones; None where all would be read otherwise with it."""
    _, format, _, data = WAYS[way]
    try:
        alone = recognise(tuple(sampled(way)), (format,), {}, [f"f:{n}" for n in range(8)])
        shape = recognise((*sampled(way), row), (format,), {}, [f"f:{n}" for n in range(9)])
    except UnknownFormat:
        return True
    carries, ignored = carried_in(way), data.get("ignore", ())
    if shape.written != alone.written or not {*carried([row], ROW_FORMATS[format], [*row], ignored)} <= {*carries}:
        return None
    handed = {"sum"} if format == "prompts" else set()
    read = {*shape.columns.values(), *ignored, *handed, *(n for name in carries for n in CARRIED[name].columns)}
    fields = {*ignored, *(n for name in carries for n in CARRIED[name].fields)}
    lost = [name for name, value in row.items() if name not in read and value not in NOTHING]
    lost += [name for column in shape.columns.values() for name in fields_of(row.get(column)) if name not in fields]
    try:
        thinks_not, anew = data.get("reasoning") == "strip", format == "prompts"
        converted(row, shape, RowReading(carries, frozenset(ignored), thinks_not, anew))
    except Unanswered:  # left out, and not refused
        return bool(lost)
    except BadContent:
        return True
    return bool(lost) or any(row.get(name) is None for name in handed)


def carried_in(way: str) -> tuple[str, ...]:
    """What the sampled rows carry."""
    row, format, _, data = WAYS[way]
    names = [role.aliases[0] for role in ROW_FORMATS[format].roles]
    found = carried([row], ROW_FORMATS[format], [*names, "conversations"], data.get("ignore", ()))
    return tuple(name for name in ROW_FORMATS[format].carries if name in found or name in data)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """prepare_data.py of each way."""
    with pytest.MonkeyPatch.context() as patch:
        found = {}
        for way in WAYS:
            folder = tmp_path_factory.mktemp("way")
            compiled(folder, BASES["lora-single"])  # writes the other files
            write(folder / "rows.jsonl", sampled(way))
            done = compiled(folder, made(way))
            assert done.files, (way, [str(finding) for finding in done.diagnostics])
            (folder / "prepare_data.py").write_text({file.path: file.text for file in done.files}["prepare_data.py"])
            found[way] = load(folder / "prepare_data.py", patch)
        yield found


PADDED = [
    ({"input_ids": [5, 6, 7, 0, 0], "attention_mask": [1, 1, 1, 0, 0]}, [5, 6, 7]),
    ({"input_ids": [0, 0, 5, 6, 0], "attention_mask": [0, 0, 1, 1, 0], "labels": [-100, -100, -100, 6, -100]}, [5, 6]),
    ({"input_ids": [5, 6], "attention_mask": None, "labels": None}, [5, 6]),
    ({"input_ids": [5, 0], "labels": [5, -100]}, [5, 0]),
]


@pytest.mark.parametrize(("row", "kept"), PADDED)
def test_tokens_are_counted_as_they_are_prepared(
    scripts: dict[str, ModuleType], row: dict[str, Any], kept: list[int]
) -> None:
    """Padding is no token of a row, at either end."""
    shape = recognise(tuple(sampled("tokens")), ("token-ids",), {}, [f"f:{n}" for n in range(8)])
    at_build = converted(row, shape, RowReading((), frozenset(), False, False))
    script = scripts["tokens"]
    emitted = script.converted_row({"row": json.dumps(row).encode(), "place": "f, line 9"}, script.STAGES[0])
    assert at_build == {name: emitted[name] for name in ("input_ids", "labels")}
    assert at_build["input_ids"] == kept


def refused_in_preparation(script: ModuleType, row: dict[str, Any]) -> bool:
    stage = script.STAGES[0]
    try:
        script.converted_row({"row": json.dumps(row).encode(), "place": "f, line 9"}, stage)
    except script.UnreadableRow as error:
        assert str(error).startswith("f, line 9: ")
        return True
    return False


VALUES = [
    None,
    "",
    [],
    {},
    0,
    1,
    True,
    False,
    1.0,
    float("inf"),
    float("nan"),
    2**64,
    -1,
    6,
    "word",
    "</think>",
    "a</think>b",
    "<think>a",
    " <think>a</think>b<think>",
    "b<think>a</think>",
    "{",
    "[]",
    "{}",
    '{"n": 1e999}',
    '{"n": 18446744073709551616}',
    '{"a": "\\ud800"}',
    '{"a": 1, "a": 2}',
    '[{"name": "f"}]',
    '{"name": "f"}',
    '[{"name": 5}]',
    "[" * 100 + "]" * 100,
    ["x"],
    [1],
    [True],
    [None],
    {"a": 1},
    [{"type": "text", "text": "a"}],
    [{"type": "text", "text": "a", "image": None}],
    [{"type": "text"}],
    [{"type": "text", "text": "a", "cache": 1}],
    [{"type": "image"}],
    USER,
    ANSWER,
    [USER],
    [ANSWER],
    [USER, ANSWER],
    RESULT,
    [RESULT],
    CALL,
    [CALL],
    {"name": "f", "arguments": 0},
    {"name": "f", "arguments": "", "extra": None},
    {"function": {"name": "f", "arguments": {"n": 1e999}}},
    {"function": {"name": "f", "extra": 1}},
    "tool",
    "user",
    "assistant",
    "system",
    "human",
    "gpt",
    "function_call",
    "observation",
    "robot",
    ["user"],
    {"from": "gpt", "value": "a"},
    {"role": "user", "content": "Why?", "name": None},
    {"role": "system", "content": "Be kind."},
    [TOOL],
    {"name": ""},
]
NAMES = [
    "role",
    "content",
    "from",
    "value",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "name",
    "weight",
    "train",
    "reasoning",
    "thinking",
    "type",
    "text",
    "function",
    "arguments",
    "id",
    "extra",
    "tools",
    "functions",
    "system",
    "system_prompt",
    "prompt",
    "label",
    "input",
    "labels",
    "attention_mask",
    "chosen",
    "messages",
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or object within, with each key or index of it."""
    keys = range(len(value)) if isinstance(value, list) else list(value) if isinstance(value, dict) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@st.composite
def changed(draw: st.DrawFn, way: str) -> dict[str, Any]:
    """A row of the way with up to three changes in it."""
    row = copy.deepcopy(WAYS[way][0])
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(row))
        holder, key = draw(st.sampled_from(found)) if found else (row, "extra")
        change = draw(st.sampled_from(["replace", "remove", "add", "twice"]))
        if change == "remove":
            holder.pop(key, None) if isinstance(holder, dict) else holder.pop(key)
        elif change == "twice" and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif change == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(NAMES))] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
    return json.loads(json.dumps(row))


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_are_refused_by_both_or_by_neither(way: str, scripts: dict[str, ModuleType], data: st.DataObject) -> None:
    row = data.draw(changed(way))
    at_build = refused_at_build(way, json.loads(json.dumps(row), parse_constant=no_value))
    if at_build is not None:
        assert at_build == refused_in_preparation(scripts[way], row), (at_build, json.dumps(row))


def answered(*ids: str | None) -> dict[str, Any]:
    """A row that calls c1 and c2, and results of which each names its call or none."""
    results = [{"role": "tool", "content": "20"} | ({"tool_call_id": id} if id else {}) for id in ids]
    calls = said("", tool_calls=[{"id": id, **CALL} for id in ("c1", "c2")])
    return {**CHAT, "messages": [USER, calls, *results, said("Yes.")]}


@pytest.mark.parametrize(
    ("ids", "refused"),
    [
        (("c1", "c2"), False),
        (("c1", None), False),
        ((None, "c2"), False),
        ((None, None), False),
        (("c1",), True),
        (("c2", "c1"), True),
        (("c2", None), True),
        ((None, "c1"), True),
    ],
)
def test_results_without_a_name_belong_to_the_calls_at_their_places(
    scripts: dict[str, ModuleType], ids: tuple[str | None, ...], refused: bool
) -> None:
    row = answered(*ids)
    assert refused_at_build("conversations", row) is refused
    assert refused_in_preparation(scripts["conversations"], row) is refused
