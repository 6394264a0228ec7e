"""Rows that teach nothing, or what a later stage is judged by: dropped and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from test_carried import asked, recipe, said, tokenizer_of
from test_prepare_data import chats, emitted, pairs, prepared, write

pytestmark = pytest.mark.executes


def report_of(folder: Path, stage: str) -> dict[str, Any]:
    return json.loads((folder / "data" / stage / "report.json").read_text())["train"]


def going_on(number: int, **fields: Any) -> dict[str, Any]:
    """A conversation that begins with the question of a pair, and goes on."""
    again = {"role": "user", "content": f"And what of {number}?"}
    return asked(f"Why {number}?", said(f"Because of {number}."), again, said("Nothing.", **fields))


@pytest.mark.parametrize("weight", [{}, {"weight": 1}], ids=["whole", "each answer a row"])
def test_no_beginning_of_a_conversation_answers_what_a_later_stage_is_judged_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weight: dict[str, int]
) -> None:
    write(tmp_path / "chat.jsonl", [going_on(n, **weight) | {"of": n // 5} for n in range(120)])
    write(tmp_path / "pairs.jsonl", [pair | {"of": f"pair {n}"} for n, pair in enumerate(pairs(100))])
    emitted(tmp_path, with_key(BASES["sft-dpo"], "data.split.group", "of"), monkeypatch).main()
    held_out = {row["prompt"][0]["content"] for part in ("eval", "test") for row in prepared(tmp_path, f"dpo/{part}")}
    rows = prepared(tmp_path, "sft/train")
    learned = {row["messages"][0]["content"] for row in rows if "messages" in row}
    learned |= {row["prompt"][0]["content"] for row in rows if "prompt" in row and len(row["prompt"]) == 1}
    assert len(held_out) == 20
    assert learned
    assert not held_out & learned
    assert report_of(tmp_path, "sft")["leaks"] > 0


def test_what_is_asked_behind_the_last_answer_is_no_question_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that a row does not answer may be held out."""
    rows = [asked(f"Hello {n}", said("Hello."), {"role": "user", "content": f"Why {n}?"}) for n in range(50)]
    write(tmp_path / "chat.jsonl", rows)
    write(tmp_path / "pairs.jsonl", [{**pair, "prompt": f"Hello {n} Why {n}?"} for n, pair in enumerate(pairs(100))])
    emitted(tmp_path, BASES["sft-dpo"], monkeypatch).main()
    assert report_of(tmp_path, "sft")["leaks"] == 0


def test_conversations_of_which_nothing_is_learned_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}", weight=int(n < 13))) for n in range(20)]
    write(tmp_path / "chat.jsonl", [*rows, rows[0]])
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    counted = report_of(tmp_path, "sft")
    names = ("read", "unlearned", "answers", "empty", "duplicates")
    assert tuple(counted[name] for name in names) == (21, 7, 14, 0, 1)
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 13


def long_asked(base: str, number: int, words: int) -> dict[str, Any]:
    question = f"Why {number}? " + "so " * words
    if base == "lora-single":
        return asked(question, said("Because."))
    if base == "lora-ddp":
        return {"instruction": question, "output": "Because."}
    return {"prompt": question, "chosen": "Because.", "rejected": "No."}


@pytest.mark.parametrize(
    ("base", "section", "stage"),
    [("lora-single", "train", "sft"), ("lora-ddp", "train", "sft"), ("dpo-full", "preferences", "dpo")],
)
def test_a_question_that_fills_max_length_teaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, section: str, stage: str
) -> None:
    """The trainer cuts the end off: what is then left has no answer."""
    rows = [long_asked(base, n, 70 if n < 7 else 3) for n in range(40)]
    write(tmp_path / "own.jsonl", rows)
    made = with_key(with_key(BASES[base], f"data.{section}", "own.jsonl"), "data.overflow", "truncate")
    made = with_key(with_key(made, "data.max_length", 64), "data.tokens_per_example", 32)
    script = emitted(tmp_path, made, monkeypatch)
    with pytest.raises(SystemExit, match="of the rows have no answer within 64 tokens, more than 5%"):
        script.main()
    monkeypatch.setattr(script, "MAX_DROPPED", 0.3)
    script.main()
    reports = json.loads((tmp_path / "data" / stage / "report.json").read_text())
    parts = [reports[part] for part in ("train", "eval", "test")]
    assert sum(part["unanswered"] for part in parts) == 7
    assert sum(part["rows"] for part in parts) == 33
    train = reports["train"]
    assert train["dropped_share"] == train["unanswered"] / train["counted"]


def test_too_many_rows_over_max_length_are_refused_in_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a baseline is measured; with the keys of the recipe that keep them."""
    write(tmp_path / "own.jsonl", [long_asked("lora-single", n, 70 if n < 7 else 3) for n in range(40)])
    made = with_key(with_key(BASES["lora-single"], "data.train", "own.jsonl"), "data.max_length", 64)
    script = emitted(tmp_path, with_key(made, "data.tokens_per_example", 32), monkeypatch)
    keys = r"Raise `max_length` under \[data\] .* 40,960 tokens\) and build again. Or cut longer rows with "
    keys += r"`overflow = \"truncate\"`. "
    keys += "With 73 tokens no more than 5% would be lost. To accept the loss, raise MAX_DROPPED in prepare_data.py"
    with pytest.raises(SystemExit, match=rf"sft: 1.\..% of the rows are longer than 64 tokens, more than 5%. {keys}"):
        script.main()
    assert not (tmp_path / "data" / "prepared.json").exists()


@pytest.mark.parametrize(("most", "told"), [(64, True), (4_096, False)])
def test_a_length_above_the_context_is_not_told_as_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, told: bool
) -> None:
    """Where max_length is below the context, the rows decide: those of 5,000 words are longer than 4,096 tokens."""
    long = 70 if told else 5_000
    write(tmp_path / "own.jsonl", [long_asked("lora-single", n, long if n < 7 else 3) for n in range(40)])
    made = with_key(BASES["lora-single"], "model.name", "allenai/OLMo-2-1124-7B-Instruct")
    made = with_key(with_key(made, "data.train", "own.jsonl"), "data.max_length", most)
    script = emitted(tmp_path, with_key(made, "data.tokens_per_example", 32), monkeypatch)
    with pytest.raises(SystemExit, match="of the rows are longer than") as stop:
        script.main()
    assert ("no more than 5% would be lost" in str(stop.value)) is told
    below = emitted(
        tmp_path, with_key(with_key(made, "data.max_length", 64), "data.tokens_per_example", 32), monkeypatch
    )
    with pytest.raises(SystemExit, match="of the rows are longer than 64 tokens") as stop:
        below.main()
    assert ("no more than 5% would be lost" in str(stop.value)) is told


def test_max_length_is_not_raised_above_the_context(tmp_path: Path) -> None:
    made = with_key(BASES["lora-single"], "model.name", "allenai/OLMo-2-1124-7B-Instruct")
    script = texts(good(tmp_path, with_key(made, "data.max_length", 4096)))["prepare_data.py"]
    assert "Split or remove these rows: the context of the model ends at 4,096 tokens." in script
    assert "Raise `max_length`" not in script


@pytest.mark.parametrize(("base", "said"), [("text-sft", True), ("sft-dpo", False), ("text", False)])
@pytest.mark.parametrize("stated", [None, 512])
def test_max_length_is_told_as_the_length_of_the_blocks_of_another_stage(
    tmp_path: Path, base: str, said: bool, stated: int | None
) -> None:
    """Without a max_length, stages have defaults of their own: one that is advised may be shorter than the blocks."""
    recipe = BASES[base] | {"data": {k: v for k, v in BASES[base]["data"].items() if k != "max_length"}}
    plan = good(tmp_path, with_key(recipe, "data.max_length", stated) if stated else recipe)
    (blocks,) = {stage.decisions["max_length"].value for stage in plan.plan.stages[:1]}
    line = f"It is also the length of continue-pretrain's blocks (now {blocks:,} tokens)."
    script = texts(plan)["prepare_data.py"]
    assert (line in script) is said and "longer blocks" not in script


@pytest.mark.parametrize("weight", [{}, {"weight": 1}], ids=["whole", "each answer a row"])
def test_conversations_that_nobody_answers_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weight: dict[str, int]
) -> None:
    """As real dumps of ShareGPT have them: an empty list, and a question alone."""
    rows = [asked(f"Question {n}", said(f"A {n}", **weight)) for n in range(60)]
    rows[3]["messages"], rows[9]["messages"] = [], rows[9]["messages"][:1]
    write(tmp_path / "chat.jsonl", rows)
    made = with_key(recipe(), "data.carry", ["weight"]) if weight else recipe()
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of([row for row in rows if row["messages"]])
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    counted = report_of(tmp_path, "sft")
    assert (counted["read"], counted["empty"]) == (60, 2)
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 58
    write(tmp_path / "chat.jsonl", [*rows, {"messages": []}, {"messages": rows[9]["messages"]}])
    with pytest.raises(
        SystemExit, match=r"4 of 62 rows have an empty answer.*more than 5%.*MAX_DROPPED in prepare_data"
    ):
        script.main()


def test_a_question_that_leaves_room_for_a_part_of_the_answer_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = chats(40)
    for row in rows[:7]:
        row["messages"][1]["content"] = "so " * 70
    write(tmp_path / "chat.jsonl", rows)
    made = with_key(with_key(BASES["lora-single"], "data.overflow", "truncate"), "data.max_length", 64)
    emitted(tmp_path, with_key(made, "data.tokens_per_example", 32), monkeypatch).main()
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 40


@pytest.mark.parametrize("long", [0, 1])
def test_few_rows_are_cut_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: int) -> None:
    """A part without a row over max_length loses none."""
    rows = [asked(f"Question {n}", said("Yes " * (400 if n < long else 1))) for n in range(40)]
    write(tmp_path / "chat.jsonl", rows)
    made = with_key(with_key(recipe(), "data.overflow", "truncate"), "data.max_length", 128)
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["unanswered"] == 0
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 40


@pytest.mark.parametrize(
    ("learned", "expected"),
    [({}, 2 * 7), ({"weight": 1}, 2 * 7 + 4 * 13)],  # a weight of 0 leaves two more messages behind what is learned
    ids=["whole", "each answer a row"],
)
def test_messages_behind_the_last_learned_answer_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learned: dict[str, int], expected: int
) -> None:
    """They are said of the sampled rows when the bundle is built."""
    more = [{"role": "user", "content": "Thanks"}, {"role": "user", "content": "Bye"}]
    unlearned = {"weight": 0} if learned else {}
    again = [{"role": "user", "content": "And?"}, said("No.", **unlearned), *more]
    rows = [asked(f"Question {n}", said(f"A {n}", **learned), *(more if n < 7 else again)) for n in range(20)]
    if not learned:
        rows[7:] = [asked(f"Question {n}", said(f"A {n}")) for n in range(7, 20)]
    write(tmp_path / "chat.jsonl", rows)
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    if hasattr(script, "get_training_chat_template"):
        tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["messages_behind_answers"] == expected
    (told,) = [found for found in compiled(tmp_path, recipe()).diagnostics if found.code == "W0532"]
    assert f"the first chat.jsonl:1: {expected} messages in all" in told.labels[0].message


@pytest.mark.parametrize(
    "beside", [{}, {"weight": 1}, {"instruction": "Name it.", "output": "It."}], ids=["whole", "each answer", "mixed"]
)
def test_messages_before_the_first_question_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], beside: dict[str, object]
) -> None:
    """In report.json, in the closing line and, of the sampled rows, in the plan."""
    learned = {name: value for name, value in beside.items() if name == "weight"}
    system, again = {"role": "system", "content": "Be kind."}, [{"role": "user", "content": "And?"}, said("No.")]
    rows = [asked(f"Question {n}", said(f"A {n}", **learned), *again) for n in range(20)]
    for n in range(3):
        rows[n]["messages"] = [system, said("Hi."), said("Ask me."), *rows[n]["messages"]]
    write(tmp_path / "chat.jsonl", rows)
    made = with_key(recipe(), "data.opening_answers", "skip")
    if "output" in beside:
        write(tmp_path / "more.jsonl", [beside | {"instruction": f"Name {n}."} for n in range(20)])
        made = with_key(made, "data.train", [{"path": "chat.jsonl"}, {"path": "more.jsonl"}])
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    if hasattr(script, "get_training_chat_template"):
        tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["messages_before_questions"] == 6
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "sft: messages left out before the first question of a conversation: 6."
    (stage,) = json.loads(good(tmp_path, made).plan_json)["stages"]
    (told,) = [each["because"] for each in stage["decisions"] if each["id"] == "opening_answers"]
    assert told.endswith("; 6 messages in 3 of 20 sampled rows")


EMPTY = ["", " \n", "\u200b", "\ufeff \u2800\u00ad\ufe0f"]


@pytest.mark.parametrize("tools", [False, True], ids=["text", "tools"])
@pytest.mark.parametrize("text", EMPTY, ids=ascii)
def test_a_conversation_with_an_empty_answer_is_dropped_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, tools: bool
) -> None:
    """An empty turn would be learned, too."""
    again = {"role": "user", "content": "And?"}
    rows = [asked(f"Question {n}", said(f"A {n}"), again, said("No.")) for n in range(40)]
    if tools:
        called = said("", tool_calls=[{"name": "look", "arguments": {}}])
        rows[0] = asked("Look", called, {"role": "tool", "content": "Rain"}, said("Rain."))
    empty = [asked("Last", said("A"), again, said(text)), asked("First", said(text), again, said("No."))]
    write(tmp_path / "chat.jsonl", [*rows, *empty])
    script = emitted(tmp_path, recipe(), monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["empty"] == 2
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 40


@pytest.mark.parametrize("data", [{}, {"system": "Be kind."}, {"loss_on": "last-answer"}], ids=str)
def test_empty_questions_teach_nothing_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, str]
) -> None:
    """As many are left out as are counted when the recipe is compiled; a question behind the last answer is not."""
    blank, system = {"role": "user", "content": "\u2800 "}, {"role": "system", "content": "Be brief."}
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(60)]
    empty = [
        {"messages": [blank, said("First.")]},
        {"messages": [system, blank, said("Second.")]},
        asked("Third", said("A"), blank, said("B")),
    ]
    write(tmp_path / "chat.jsonl", [*rows, asked("Behind", said("A"), blank), *empty])
    found = compiled(tmp_path, recipe(**data)).diagnostics
    assert [one.title for one in found if one.code == "W0542"] == ["3 of 64 sampled rows of data.train ask nothing"]
    script = emitted(tmp_path, recipe(**data), monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["empty"] == 3
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 61


@pytest.mark.parametrize("field", ["reasoning_content", ""], ids=["in a field", "in the text"])
def test_a_thought_alone_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    def thinking(number: int, answer: str) -> dict[str, Any]:
        thought = f"It is {number}."
        turn = said(answer, **{field: thought}) if field else said(f"<think>{thought}</think>{answer}")
        return asked(f"Question {number}", turn)

    rows = [thinking(n, f"A {n}") for n in range(40)]
    write(tmp_path / "chat.jsonl", [*rows, thinking(99, ""), thinking(98, " ")])
    script = emitted(tmp_path, recipe(reasoning="keep"), monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    script.main()
    assert report_of(tmp_path, "sft")["empty"] == 2
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 40


def test_prompts_with_several_references_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": f"Add {n} and 1.", "sum": n + 1} for n in range(60)]
    script = emitted(tmp_path, BASES["grpo"], monkeypatch)
    write(tmp_path / "prompts.jsonl", [*rows, *(row | {"sum": 0} for row in rows[:3])])
    script.main()
    assert report_of(tmp_path, "grpo")["asked_again"] == 3
    assert "NOTE: 3 rows of grpo repeat another row's prompt, with another sum" in capsys.readouterr().out


def test_a_row_without_a_value_to_judge_by_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"prompt": f"Add {n} and 1.", "sum": n + 1} for n in range(60)]
    script = emitted(tmp_path, BASES["grpo"], monkeypatch)
    write(tmp_path / "prompts.jsonl", [*rows, {"prompt": "Add.", "sum": None}])
    with pytest.raises(SystemExit, match="line 61: the row has no value for sum"):
        script.main()
    assert [found.code for found in compiled(tmp_path, BASES["grpo"]).diagnostics if found.code[0] == "E"] == ["E0310"]


@pytest.mark.parametrize("model", ["Qwen/Qwen3-0.6B", "tiiuae/Falcon3-1B-Instruct"], ids=["marked", "each a row"])
@pytest.mark.parametrize(("empty", "stops"), [(4, True), (3, False)])
def test_the_build_says_where_preparation_will_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, empty: int, stops: bool
) -> None:
    """At more than 5% of 60 rows, where all of them were read."""
    rows = [asked(f"Question {n}", said("" if n < empty else f"A {n}")) for n in range(60)]
    write(tmp_path / "chat.jsonl", rows)
    made = with_key({**recipe(), "data": {"train": "chat.jsonl"}}, "model.name", model)
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code == "W0542"]
    assert found.title.startswith("prepare_data.py will stop: 4 of 60 rows of data.train") is stops
    assert any("raise MAX_DROPPED" in line for line in found.help) is stops
    script = emitted(tmp_path, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    if not stops:
        return script.main()
    with pytest.raises(SystemExit, match=r"^sft: 4 of 60 rows have an empty answer.* That is more than 5%"):
        script.main()


def test_a_conversation_that_loses_one_of_many_answers_stops_nothing_for_certain(tmp_path: Path) -> None:
    """Where each answer becomes a row, one in twenty of the conversations' answers may be lost."""
    turns = [("user", "Why {}?"), ("assistant", "So {}.")] * 20
    rows = [{"messages": [{"role": role, "content": text.format(n)} for role, text in turns]} for n in range(40)]
    for row in rows[:20]:
        row["messages"][-1]["content"] = ""
    write(tmp_path / "chat.jsonl", rows)
    made = with_key({**recipe(), "data": {"train": "chat.jsonl"}}, "model.name", "tiiuae/Falcon3-1B-Instruct")
    (found,) = [one for one in compiled(tmp_path, made).diagnostics if one.code == "W0542"]
    assert found.title == "20 of 40 sampled rows of data.train have an empty answer"
