"""What rows carry beside their text: planted rows, prepared and rendered, against what a person would mark as learned.

The tokenizer is trained on the spot and has the chat template of Qwen3 as TRL ships it, so that templates are real.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from emitted_modules import load
from test_prepare_data import emitted, prepared, write
from transformers import PreTrainedTokenizerBase

from recipec.verify.stand_in import PlannedModel, known_model, stand_in_tokenizer, template_text

pytestmark = pytest.mark.executes

TOOL = {"name": "weather", "description": "The weather of a city", "parameters": {"type": "object", "properties": {}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern"}}}
END = "<|im_end|>\n"


def recipe(base: str = "lora-single", **data: Any) -> Tables:
    made = with_key(with_key(BASES[base], "model.name", "Qwen/Qwen3-0.6B"), "data.max_length", 1024)
    for key, value in data.items():
        made = with_key(made, f"data.{key}", value)
    return made


def tokenizer_of(rows: list[dict[str, Any]]) -> PreTrainedTokenizerBase:
    model = known_model(PlannedModel("policy", "Qwen/Qwen3-0.6B", None, None, scores=False))
    return stand_in_tokenizer(model, map(json.dumps, rows), template_text("qwen3", "chat"))


def learned(
    folder: Path, made: Tables, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, file: str = "chat.jsonl"
) -> list[list[str]]:
    """Of every prepared row, in the order of its question, the stretches that are learned."""
    write(folder / file, rows)
    script = emitted(folder, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    if hasattr(script, "get_training_chat_template"):
        tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    (folder / "rows.py").write_text(texts(good(folder, made))["rows.py"])
    encode = load(folder / "rows.py", monkeypatch).encode
    found = [row for part in ("train", "eval", "test") for row in prepared(folder, f"sft/{part}")]
    return sorted(_stretches(*encode(row, tokenizer), tokenizer) for row in found)


def _stretches(tokens: list[int], mask: list[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    found, before = [], 0
    for token, taught in zip(tokens, mask, strict=True):
        if taught and not before:
            found.append([])
        if taught:
            found[-1].append(token)
        before = taught
    return [tokenizer.decode(stretch) for stretch in found]


def asked(text: str, *answers: dict[str, Any], **columns: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, *answers], **columns}


def said(text: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def without_thought(text: str) -> str:
    """What Qwen3's template makes of an answer without a thought."""
    return f"<think>\n\n</think>\n\n{text}{END}"


@pytest.mark.parametrize("arguments", [{"city": "Bern"}, '{"city": "Bern"}'], ids=["object", "text"])
@pytest.mark.parametrize("tools", [[TOOL], json.dumps([{"type": "function", "function": TOOL}])], ids=["list", "text"])
def test_calls_are_learned_and_their_results_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: object, tools: object
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": '{"degrees": 20}'}
    rows = [
        asked(f"Is it warm, {n}?", said(None, tool_calls=[call]), result, said(f"Yes, {n}."), tools=tools)
        for n in range(20)
    ]
    rows += [asked(f"Hello {n}", said("Hello.")) for n in range(20)]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    called = without_thought(called_with({"city": "Bern"}))
    assert found == sorted(
        [[called, without_thought(f"Yes, {n}.")] for n in range(20)] + [[without_thought("Hello.")]] * 20
    )


def called_with(arguments: dict[str, Any]) -> str:
    """What Qwen3's template makes of a call, without the end of the turn."""
    return f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def test_arguments_stay_as_they_are_in_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of one type would give every call the arguments of all others, as nulls."""
    calls = [{"name": "weather", "arguments": {f"a{n}": n, "none": None, "deep": [{"b": n}]}} for n in range(20)]
    rows = [asked(f"Go {n}", said("", tool_calls=[call]), tools=[TOOL]) for n, call in enumerate(calls)]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    assert found == sorted([without_thought(called_with(call["arguments"]))] for call in calls)


def test_calls_of_sharegpt_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = json.dumps({"name": "weather", "arguments": {"city": "Bern"}})
    turns = [("human", "Is it warm, {}?"), ("function_call", call), ("observation", "20"), ("gpt", "Yes, {}.")]
    rows = [
        {
            "conversations": [{"from": who, "value": text.replace("{}", str(n))} for who, text in turns],
            "tools": json.dumps([TOOL]),
            "system": f"You are number {n}.",
        }
        for n in range(20)
    ]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    called = without_thought(called_with({"city": "Bern"}))
    assert found == sorted([called, without_thought(f"Yes, {n}.")] for n in range(20))
    assert {row["messages"][0]["content"] for row in prepared(tmp_path, "sft/test")} <= {
        f"You are number {n}." for n in range(20)
    }


def thinking(count: int = 20, field: str = "reasoning_content") -> list[dict[str, Any]]:
    def answer(text: str, thought: str) -> dict[str, Any]:
        return said(text, **{field: thought}) if field else said(f"<think>\n{thought}\n</think>\n\n{text}")

    again = {"role": "user", "content": "And then?"}
    return [
        asked(f"Question {n}", answer(f"A {n}", f"First {n}."), again, answer(f"B {n}", f"Then {n}."))
        for n in range(count)
    ]


def with_thought(text: str, thought: str) -> str:
    return f"<think>\n{thought}\n</think>\n\n{text}{END}"


@pytest.mark.parametrize("field", ["reasoning_content", "thinking", ""], ids=["usual", "another", "in the text"])
def test_thoughts_are_kept_each_with_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    found = learned(tmp_path, recipe(reasoning="keep"), thinking(field=field), monkeypatch)
    assert found == sorted(
        [with_thought(f"{letter} {n}", f"{when} {n}.")]
        for n in range(20)
        for letter, when in (("A", "First"), ("B", "Then"))
    )
    rows = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    tokenizer = tokenizer_of(rows)
    later = next(row for row in rows if len(row["prompt"]) == 3)
    shown = tokenizer.apply_chat_template(later["prompt"], tokenize=False)
    assert "First" not in shown, "the template shows a later answer no earlier thought"


@pytest.mark.parametrize("field", ["reasoning_content", ""], ids=["field", "in the text"])
def test_thoughts_are_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    found = learned(tmp_path, recipe(reasoning="strip"), thinking(field=field), monkeypatch)
    assert found == sorted([without_thought(f"A {n}"), without_thought(f"B {n}")] for n in range(20))


def test_answers_are_learned_in_the_mode_without_thinking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The empty thought stands in the prompt."""
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(20)]
    found = learned(tmp_path, recipe(reasoning="off"), rows, monkeypatch)
    assert found == sorted([f"A {n}{END}"] for n in range(20))


def test_a_template_without_that_mode_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "chat.jsonl", thinking())
    script = emitted(tmp_path, recipe(reasoning="off"), monkeypatch)
    tokenizer = tokenizer_of(thinking())
    tokenizer.chat_template = template_text("qwen2_5", "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    with pytest.raises(SystemExit, match="no mode without thinking"):
        script.main()


def test_thoughts_as_the_template_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = learned(tmp_path, recipe(reasoning="template"), thinking(), monkeypatch)
    assert found == sorted(
        [with_thought(f"A {n}", f"First {n}."), with_thought(f"B {n}", f"Then {n}.")] for n in range(20)
    )


@pytest.mark.parametrize("field", ["reasoning_content", ""], ids=["field", "in the text"])
def test_what_later_answers_see_of_thoughts_is_asked(tmp_path: Path, field: str) -> None:
    write(tmp_path / "chat.jsonl", thinking(field=field))
    (found,) = compiled(tmp_path, recipe()).diagnostics
    assert found.code == "E0309"
    assert "answer 1 of 2 in chat.jsonl:1 thinks 'First 0.'" in str(found.labels)


@pytest.mark.parametrize("part", ["eval", "test", "general"])
@pytest.mark.parametrize("said_of", [{}, {"reasoning": "keep"}], ids=["unsaid", "said"])
def test_it_is_asked_of_rows_beside_those_of_the_task(tmp_path: Path, part: str, said_of: dict[str, str]) -> None:
    """Preparation refuses them, too; rows of the task may be of one answer each, or without thoughts."""
    write(tmp_path / "chat.jsonl", [asked(f"Question {n}", said(f"<think>Hm.</think>A {n}")) for n in range(20)])
    write(tmp_path / "other.jsonl", thinking(field=""))
    found = compiled(tmp_path, with_key(recipe(**said_of), f"data.{part}", "other.jsonl")).diagnostics
    titles = [each.title for each in found if each.code == "E0309"]
    told = f"answers in data.{part} hold thoughts, and it is not said how they are learned"
    assert titles == ([] if said_of else [told])


def test_the_only_answer_of_a_row_keeps_its_thought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}", reasoning_content=f"Hm {n}.")) for n in range(20)]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    assert found == sorted([with_thought(f"A {n}", f"Hm {n}.")] for n in range(20))


BEHIND = {"role": "user", "content": "Thanks."}
LATER = {
    "several answers": (
        [said("<think>Hm.</think>A"), {"role": "user", "content": "And?"}, said("B")],
        "it is not said",
    ),
    "an earlier question": ([said("<think>Hm.</think>A"), BEHIND], "leaves out 'Hm.'"),
}


@pytest.mark.parametrize("others", [said("A {}"), said("<think>Hm {}.</think>A {}")], ids=["without", "with thoughts"])
@pytest.mark.parametrize("later", LATER)
def test_thoughts_behind_the_sample_are_refused_as_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str, others: dict[str, Any]
) -> None:
    """Rows of one answer with its thought are learned so, unsaid; whose answer is no last message, learned apart."""
    rows = [asked(f"Question {n}", said(others["content"].format(n, n))) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script, tokenizer = emitted(tmp_path, recipe(), monkeypatch), tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    monkeypatch.setattr(script, "prove_mask", lambda *_: None, raising=False)
    turns, wrong = LATER[later]
    write(tmp_path / "chat.jsonl", [*rows, asked("Why?", *turns), asked("How?", said("<think>Hm.</think>So."))])
    if later == "an earlier question" and "<think>" in others["content"]:
        script.main()
        return
    with pytest.raises(SystemExit, match=rf"^chat\.jsonl, line 21: [^\n]*{wrong}[^\n]*$"):
        script.main()
    refused = {one.code for one in compiled(tmp_path, recipe()).diagnostics if one.code[0] == "E"}
    assert refused == ({"E0309"} if later == "several answers" else set())


@pytest.mark.parametrize("values", [(0, 1), (False, True)], ids=["numbers", "truths"])
@pytest.mark.parametrize("field", ["weight", "train"])
def test_answers_without_weight_are_shown_and_not_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: tuple[int, int], field: str
) -> None:
    again = {"role": "user", "content": "Are you sure?"}
    rows = [
        asked(f"Question {n}", said("wrong", **{field: values[0]}), again, said(f"right {n}", **{field: values[1]}))
        for n in range(20)
    ]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    assert found == sorted([without_thought(f"right {n}")] for n in range(20))
    shown = prepared(tmp_path, "sft/train")[0]["prompt"]
    assert shown[1] == {"role": "assistant", "content": "wrong"}


def test_the_last_answer_alone_is_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = {"role": "user", "content": "And?"}
    rows = [asked(f"Question {n}", said("one"), again, said(f"two {n}")) for n in range(20)]
    found = learned(tmp_path, recipe(loss_on="last-answer"), rows, monkeypatch)
    assert found == sorted([without_thought(f"two {n}")] for n in range(20))


def test_rows_without_a_system_prompt_have_that_of_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}"), system="Be brief." if n % 2 else None) for n in range(20)]
    rows.append({"messages": [{"role": "system", "content": "Rhyme."}, *rows[0]["messages"]]})
    learned(tmp_path, recipe(system="Be kind."), rows, monkeypatch)
    found = [row["messages"][0] for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    assert all(message["role"] == "system" for message in found)
    assert {message["content"] for message in found} == {"Be kind.", "Be brief.", "Rhyme."}


def test_texts_in_parts_are_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [{"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}]
    rows = [{"messages": [{"role": "user", "content": f"Question {n}"}, said(parts)]} for n in range(20)]
    assert learned(tmp_path, recipe(), rows, monkeypatch) == [[without_thought("One. Two.")]] * 20


def test_what_only_later_rows_carry_is_named_or_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [asked(f"Question {n}", said(f"A {n}")) for n in range(20)]
    calling = asked("Is it warm?", said("", tool_calls=[CALL]), tools=[TOOL])
    write(tmp_path / "chat.jsonl", plain)
    script = emitted(tmp_path, recipe(), monkeypatch)
    write(tmp_path / "chat.jsonl", [*plain, calling])
    with pytest.raises(SystemExit, match=r"chat\.jsonl, line 21: nothing reads tools.*data\.carry"):
        script.main()
    write(tmp_path / "chat.jsonl", plain)
    carrying = emitted(tmp_path, recipe(carry=["tools"]), monkeypatch)
    write(tmp_path / "chat.jsonl", [*plain, calling])
    tokenizer = tokenizer_of([calling])
    tokenizer.chat_template = carrying.get_training_chat_template(tokenizer)
    monkeypatch.setattr(carrying, "load_tokenizer", lambda *_: tokenizer)
    carrying.main()
    found = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    assert [row["messages"][-1]["tool_calls"] for row in found if row["tools"]] == [[CALL]]


def test_a_template_that_leaves_tools_out_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Is it warm, {n}?", said("", tool_calls=[CALL]), tools=[TOOL]) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    with pytest.raises(SystemExit, match="the chat template leaves out 'weather'"):
        script.main()


def test_a_text_beside_a_call_that_is_left_out_is_named_by_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the same text in an earlier message, which the template writes."""
    answers = [said("I look."), {"role": "user", "content": "So?"}, said("I look.", tool_calls=[CALL])]
    rows = [asked(f"Is it warm, {n}?", *answers, tools=[TOOL]) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script, tokenizer = emitted(tmp_path, recipe(), monkeypatch), tokenizer_of(rows)
    tokenizer.chat_template = template_text("llama3_1", "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    with pytest.raises(SystemExit, match=r"leaves out 'I look\.', the text of message 4 beside a call\."):
        script.main()


@pytest.mark.parametrize(
    ("file", "write_rows"),
    [
        ("chat.json", lambda path, rows: path.write_text(json.dumps(rows))),
        ("chat.parquet", lambda path, rows: _write_parquet(path, rows)),
    ],
)
def test_calls_of_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, write_rows: Any) -> None:
    calls = [{"name": "weather", "arguments": {"city": "Bern"} if n % 2 else {"day": n}} for n in range(20)]
    rows = [asked(f"Go {n}", said("", tool_calls=[call]), tools=json.dumps([TOOL])) for n, call in enumerate(calls)]
    write_rows(tmp_path / file, rows)
    script = emitted(tmp_path, recipe(train=file), monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    found = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    made = sorted(json.dumps(row["messages"][-1]["tool_calls"][0]["function"]) for row in found)
    assert made == sorted(map(json.dumps, calls))


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    from datasets import Dataset

    Dataset.from_list(rows).to_parquet(path)


PLANTED = {
    "a column": lambda row, key: row.__setitem__(key, "x"),
    "a question": lambda row, key: row["messages"][0].__setitem__(key, "x"),
    "an answer": lambda row, key: row["messages"][1].__setitem__(key, "x"),
    "a result": lambda row, key: row["messages"][2].__setitem__(key, "x"),
    "a call": lambda row, key: row["messages"][1]["tool_calls"][0].__setitem__(key, "x"),
    "a function": lambda row, key: row["messages"][1]["tool_calls"][0]["function"].__setitem__(key, "x"),
    "a part": lambda row, key: row["messages"][0]["content"][0].__setitem__(key, "x"),
}
NAMES = ("zeal", "weights", "cache_control", "image_url", "system2", "tool", "Content", "loss_mask", "recipient", "ts")


def calling(number: int) -> dict[str, Any]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "weather", "arguments": {"city": "Bern"}}}
    question = {"role": "user", "content": [{"type": "text", "text": f"Is it warm, {number}?"}]}
    result = {"role": "tool", "tool_call_id": f"c{number}", "name": "weather", "content": "20"}
    return {"messages": [question, said("", tool_calls=[call]), result, said(f"Yes, {number}.")], "tools": [TOOL]}


@pytest.mark.parametrize("place", PLANTED)
def test_no_unknown_key_is_lost_unsaid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """At build where the sample has it, in preparation where a later row has it."""
    rows = [calling(number) for number in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    for key in NAMES:
        planted = calling(20)
        PLANTED[place](planted, key)
        write(tmp_path / "chat.jsonl", [*rows, planted])
        told = [str(finding) for finding in compiled(tmp_path, recipe()).diagnostics if finding.code != "W0522"]
        assert any(f"`{key}`" in text or "no text" in text for text in told), (key, told)
        with pytest.raises(SystemExit, match=f"line 21: .*({key}|parts that are no texts)"):
            script.main()


def either(number: int) -> dict[str, Any]:
    """A question as text, and answers as conversations that begin with it."""
    asked = {"role": "user", "content": f"Question {number}"}
    answers = {side: [asked, said(f"{side} {number}")] for side in ("chosen", "rejected")}
    return {"prompt": f"Question {number}", **answers, "score": 8.5}


@pytest.mark.parametrize("source", ["file", "hub"])
@pytest.mark.parametrize("prompt", [True, False], ids=["with its question", "without"])
def test_pairs_of_a_text_and_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, prompt: bool
) -> None:
    rows = [either(n) if prompt else {k: v for k, v in either(n).items() if k != "prompt"} for n in range(40)]
    write(tmp_path / "own.jsonl", rows)
    made = with_key(with_key(BASES["dpo-full"], "data.ignore", ["score"]), "data.preferences", "own.jsonl")
    if source == "hub":
        hub = with_key(made, "data.preferences", {"hub": "org/rows"})
        made = with_key(hub, "data.format", "preference")
    script = emitted(tmp_path, made, monkeypatch)
    if source == "hub":
        monkeypatch.setattr(script, "load_dataset", lambda *_, **__: script.Dataset.from_list(rows))
        monkeypatch.setattr(script, "hub_commit", lambda _: "of now")
    script.main()
    found = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"dpo/{part}")]
    assert len(found) == 40
    for row in found:
        number = row["prompt"][0]["content"].split()[1]
        assert [turn["content"] for turn in row["prompt"]] == [f"Question {number}"]
        assert [row[side] for side in ("chosen", "rejected")] == [
            [said(f"chosen {number}")],
            [said(f"rejected {number}")],
        ]


def test_numbers_of_calls_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [1e-12, 3.14159265358979, 46.947973912345, -0.0, 2**53 + 1, 0.1]
    calls = [{"name": "weather", "arguments": {"n": number, "of": n}} for n, number in enumerate(numbers * 4)]
    rows = [asked(f"Go {n}", said("", tool_calls=[call]), tools=[TOOL]) for n, call in enumerate(calls)]
    found = learned(tmp_path, recipe(), rows, monkeypatch)
    assert found == sorted([without_thought(called_with(call["arguments"]))] for call in calls)


def call_with(**fields: Any) -> dict[str, Any]:
    return asked(
        "Go", said("", tool_calls=[{"function": {"name": "weather", "arguments": {}}, **fields}]), tools=[TOOL]
    )


AMBIGUOUS = {
    "arguments twice": call_with(arguments={"city": "Bern"}),
    "another type": call_with(type="custom"),
    "a key twice": asked(
        "Go", said("", tool_calls=[{"name": "weather", "arguments": '{"a": 1, "a": 2}'}]), tools=[TOOL]
    ),
    "tools twice": asked("Go", said("So."), tools=[TOOL], functions=[TOOL]),
    "a tool without a name": asked("Go", said("So."), tools=[{"description": "x"}]),
    "two system prompts": {**asked("Go", said("So.")), "system": "Be brief.", "system_prompt": "Be kind."},
    "a column beside a message": {
        "messages": [{"role": "system", "content": "Rhyme."}, *asked("Go", said("So."))["messages"]],
        "system": "Be brief.",
    },
    "a thought twice": asked("Go", said("So.", reasoning="Hm.", thinking="Well.")),
    "a thought in two places": asked("Go", said("<think>Well.</think>So.", reasoning="Hm.")),
    "a thought of the user": {"messages": [{"role": "user", "content": "Go", "reasoning": "Hm."}, said("So.")]},
    "a thought that is no text": asked("Go", said("So.", reasoning=["Hm."])),
    "weights that differ": asked("Go", said("So.", weight=1, train=False)),
    "half a weight": asked("Go", said("So.", weight=0.5)),
    "a part that is no text": asked("Go", said([{"type": "thinking", "text": "Hm."}])),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    everything = recipe(carry=["tools", "weight", "parts", "system"], reasoning="keep")
    rows = [asked(f"Question {n}", said(f"A {n}", reasoning="Hm.")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, everything, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    write(tmp_path / "chat.jsonl", [*rows, AMBIGUOUS[what]])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: .*Correct the row, or remove it$"):
        script.main()


@pytest.mark.parametrize(
    "text", ["<think>Hm. A", "Well. <think>Hm.</think>A", "<think>a</think>b<think>c</think>d", "a</think>b</think>c"]
)
def test_thoughts_whose_end_is_not_clear_are_not_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    rows = [asked(f"Question {n}", said(f"<think>Hm.</think>A {n}")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(reasoning="strip"), monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    write(tmp_path / "chat.jsonl", [*rows, asked("And?", said(text))])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: "):
        script.main()


# A template -> what is said where thoughts stand in the text of rows, if anything is.
_HANDED, _STRIP = "or write thoughts into the field `reasoning_content` of their messages", "and build again"
TAGS = {
    **dict.fromkeys(("qwen3", "qwen3_5_think", "qwen3_8", "glm4moe", "nemotron_3_nano", "lfm2_2_5", "qwen2_5"), ""),
    **dict.fromkeys(("deepseek_r1_distill_training", "qwen3_instruct_2507_training", "llama3_training"), ""),
    **dict.fromkeys(("gptoss_training", "gemma4_v5", "muse_glimmer_training"), _HANDED),
    **dict.fromkeys(("gemma4", "gemma4_v4"), _STRIP),  # shows thoughts beside calls of tools alone
}


@pytest.mark.parametrize("way", ["keep", "template", "unsaid"])
@pytest.mark.parametrize("family", TAGS)
def test_tags_that_a_template_would_show_as_words_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, way: str
) -> None:
    rows = [asked(f"Question {n}", said(f"<think>\nHm {n}.\n</think>\n\nA {n}")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    if way == "unsaid":  # and no sampled answer has a thought
        write(tmp_path / "chat.jsonl", [asked(f"Question {n}", said(f"A {n}")) for n in range(20)])
    script = emitted(tmp_path, recipe(reasoning=way) if way != "unsaid" else recipe(), monkeypatch)
    write(tmp_path / "chat.jsonl", rows)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = template_text(family, "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    monkeypatch.setattr(script, "prove_mask", lambda *_: None, raising=False)  # of templates that mark no answers
    if not TAGS[family]:
        script.main()
        return
    with pytest.raises(SystemExit) as stopped:
        script.main()
    (line,) = str(stopped.value).splitlines()
    assert line.startswith("chat.jsonl, line 1: a thought ends with </think>, which the chat template does not know")
    assert line.endswith(f"{TAGS[family]} (19 more rows like it)")


@pytest.mark.parametrize("reasoning", ["keep", "template", None])
@pytest.mark.parametrize("text", ["<think>Hm. A", "\n<think>a</think>b<think>c"], ids=["the first", "a later one"])
def test_answers_that_were_cut_in_a_thought_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reasoning: str | None
) -> None:
    rows = [asked(f"Question {n}", said(f"<think>Hm.</think>A {n}")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    made = recipe(reasoning=reasoning) if reasoning else recipe()
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    write(tmp_path / "chat.jsonl", [*rows, asked("And?", said(text))])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: an answer has a thought that no </think> ends: "):
        script.main()
    (found,) = compiled(tmp_path, made).diagnostics
    assert found.code == "E0304"
    assert "an answer has a thought that no </think> ends" in found.labels[0].message
    assert found.help[0].startswith("remove rows whose answers were cut within their thoughts")


def test_what_is_said_of_the_tag_is_no_thought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"What is it, {n}?", said(f"Number {n}: <think> begins a thought.")) for n in range(20)]
    assert len(learned(tmp_path, recipe(), rows, monkeypatch)) == 20


def test_a_part_that_is_a_thought_is_told_where_it_belongs(tmp_path: Path) -> None:
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A"}]
    write(tmp_path / "chat.jsonl", [asked(f"Question {n}", said(parts)) for n in range(20)])
    (found,) = compiled(tmp_path, recipe(reasoning="keep")).diagnostics
    assert found.help == ("write the thought as a text into the field `reasoning_content` of its message",)


def test_a_thought_without_its_first_tag_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Question {n}", said(f"Hm {n}.\n</think>\n\nA {n}")) for n in range(20)]
    assert learned(tmp_path, recipe(reasoning="strip"), rows, monkeypatch) == sorted(
        [without_thought(f"A {n}")] for n in range(20)
    )


@pytest.mark.parametrize("family", ["deepseek_r1_distill", "deepseekv3"])
def test_a_template_that_drops_thoughts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    rows = [asked(f"Question {n}", said(f"<think>\nHm {n}.\n</think>\n\nA {n}")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = template_text(family, "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    with pytest.raises(SystemExit, match="the chat template leaves out 'Hm"):
        script.main()


@pytest.mark.parametrize("base", ["lora-single", "dpo-full"])
def test_an_answer_that_holds_what_others_say_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    again = [said("A"), {"role": "user", "content": "And?"}, said("B")]
    answer, section = ("completion", "train") if base == "lora-single" else ("chosen", "preferences")
    others = {} if base == "lora-single" else {"rejected": [said("C")]}
    asked = [[{"role": "user", "content": f"Question {n}"}] for n in range(20)]
    rows = [{"prompt": prompt, answer: [said("A")], **others} for prompt in asked]
    write(tmp_path / "own.jsonl", rows)
    script = emitted(tmp_path, with_key(BASES[base], f"data.{section}", "own.jsonl"), monkeypatch)
    write(tmp_path / "own.jsonl", [*rows, {**rows[0], answer: again}])  # behind what the build has seen
    with pytest.raises(SystemExit, match="holds what others say behind an answer"):
        script.main()


def test_pairs_that_differ_in_their_thoughts_alone_are_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"role": "user", "content": "Question"}
    rows = [
        {
            "prompt": [{**first, "content": f"Question {n}"}],
            "chosen": [said("A", reasoning_content=f"Good {n}")],
            "rejected": [said("A", reasoning_content=f"Bad {n}")],
        }
        for n in range(20)
    ]
    write(tmp_path / "own.jsonl", rows)
    made = with_key(with_key(BASES["dpo-full"], "data.preferences", "own.jsonl"), "model.name", "Qwen/Qwen3-0.6B")
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert sum(len(prepared(tmp_path, f"dpo/{part}")) for part in ("train", "eval", "test")) == 20


def test_weights_of_0_alone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are others than those of the build, which refuses such."""
    write(tmp_path / "chat.jsonl", [asked(f"Question {n}", said(f"A {n}", weight=1)) for n in range(20)])
    script = emitted(tmp_path, recipe(), monkeypatch)
    write(tmp_path / "chat.jsonl", [asked(f"Question {n}", said(f"A {n}", weight=0)) for n in range(20)])
    dropped = r"dropped: conversations without a learned answer \(20\)"
    with pytest.raises(SystemExit, match=f"left for train: 0, needed: 3; {dropped}"):
        script.main()


def test_the_same_question_with_another_result_is_on_one_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"role": "tool", "content": "20"}
    rows = [
        asked(
            f"Question {n % 20}", said("", tool_calls=[CALL]), {**result, "content": str(n)}, said("Yes."), tools=[TOOL]
        )
        for n in range(80)
    ]
    learned(tmp_path, recipe(), rows, monkeypatch)
    parts = [
        {row["messages"][0]["content"] for row in prepared(tmp_path, f"sft/{part}")}
        for part in ("train", "eval", "test")
    ]
    assert sum(map(len, parts)) == 20


def test_an_answer_behind_one_that_the_template_writes_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qwen3's template gives the last answer an empty thought: the trainer would then learn the one before it, too."""
    rows = [asked(f"Question {n}", said("No.", weight=0), said(f"Yes, {n}.")) for n in range(20)]
    with pytest.raises(AssertionError, match="does not write one answer behind another"):  # by the build
        learned(tmp_path, recipe(), rows, monkeypatch)


def test_an_ignored_field_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though others like it are: thoughts in one place, weights by one name."""
    rows = [
        asked(f"Why {n}?", said("No.", weight=0), {"role": "user", "content": "So?"}, said(f"Yes {n}.", train=1))
        for n in range(20)
    ]
    found = learned(tmp_path, recipe(ignore=["weight"]), rows, monkeypatch)
    assert sorted(found) == sorted(
        [[without_thought("No.")]] * 20 + [[without_thought(f"Yes {n}.")] for n in range(20)]
    )


def test_a_template_that_ends_every_text_writes_answers_behind_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phi-3's writes its end token behind a prompt, too, where none is to be generated."""
    rows = [{"instruction": f"Task {n}", "output": f"Done {n}"} for n in range(20)]
    made = with_key(recipe(), "model.name", "microsoft/Phi-3-mini-4k-instruct")
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    tokenizer.chat_template = template_text("phi3", "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert len(prepared(tmp_path, "sft/train")) == 16


def test_a_thought_that_the_template_leaves_out_is_refused_with_what_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tokenizer whose template is another one than that of the build."""
    rows = [asked(f"Question {n}", said(f"A {n}", reasoning_content=f"Hm {n}.")) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script, tokenizer = emitted(tmp_path, recipe(), monkeypatch), tokenizer_of(rows)
    tokenizer.chat_template = template_text("qwen2_5", "chat")
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    with pytest.raises(SystemExit, match=r'line 1: .*To train without thoughts, set reasoning = "strip" under'):
        script.main()


def test_an_answer_behind_another_is_refused_with_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the sample, which the build has read."""
    rows = [asked(f"Question {n}", said(f"A {n}", weight=1)) for n in range(20)]
    write(tmp_path / "chat.jsonl", rows)
    script, tokenizer = emitted(tmp_path, recipe(), monkeypatch), tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    rows[0]["messages"].append(said("B", weight=1))
    write(tmp_path / "chat.jsonl", rows)
    with pytest.raises(SystemExit, match=r"line 1: .* join answers that follow each other, or remove the row"):
        script.main()
