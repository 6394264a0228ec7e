"""Rows that would lose something on their way, or that can be read in two ways: refused with file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, with_key
from emitted_modules import load
from test_carried import AMBIGUOUS, CALL, TOOL, asked, recipe, said, tokenizer_of
from test_prepare_data import Words, answered, chats, emitted, pairs, prepared, write

from recipec.verify.stand_in import template_text

pytestmark = pytest.mark.executes


def script_of(
    folder: Path,
    made: Tables,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    template: str = "",
) -> ModuleType:
    """prepare_data.py for these rows, with a tokenizer of their words and Qwen3's template, or that of a family."""
    write(folder / "chat.jsonl", rows)
    script = emitted(folder, made, monkeypatch)
    tokenizer = tokenizer_of(rows)
    if template:
        tokenizer.chat_template = template_text(template, "chat")
    elif hasattr(script, "get_training_chat_template"):
        tokenizer.chat_template = script.get_training_chat_template(tokenizer)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: tokenizer)
    return script


def answering(result: str, number: int, **fields: Any) -> dict[str, Any]:
    turn = {"role": "tool", "content": result}
    return asked(f"Is it warm, {number}?", said("", tool_calls=[CALL], **fields), turn, said("Yes."), tools=[TOOL])


def calling(*results: str, tools: tuple[str, ...] = ("weather",)) -> dict[str, Any]:
    """Two calls, and results of these ids."""
    calls = [{"id": f"c{n}", **CALL} for n in (1, 2)]
    turns = [{"role": "tool", "content": f"of {id}", "tool_call_id": id} for id in results]
    offered = [{"type": "function", "function": {"name": name}} for name in tools]
    return asked("Is it warm?", said("", tool_calls=calls), *turns, said("Yes."), tools=offered)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (calling("c2", "c1"), "result for the call 'c1'.* out of place"),
        (calling("c1", "c3"), "result for the call 'c3'.* out of place"),
        (calling("c1", "c2", "c2"), "result for the call 'c2'.* out of place"),
        (calling("c2"), "no result for the call 'c1', but for 'c2' beside it"),
        (calling("c1"), "no result for the call 'c2', but for 'c1' beside it"),
        (calling("c1", "c2", tools=("search",)), "'weather'.* which is not among the tools of the row: search"),
        (calling("c1", "c2", tools=()), "'weather'.* which is not among the tools of the row: there are none"),
    ],
    ids=["exchanged", "of no call", "twice", "first lost", "last lost", "of no tool", "of none"],
)
def test_results_and_calls_that_fit_nothing_are_refused_by_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any], told: str
) -> None:
    rows = [answering(f"{n} degrees", n) for n in range(30)]
    script = script_of(tmp_path, recipe(), [*rows, calling("c1", "c2"), calling()], monkeypatch)
    script.main()
    write(tmp_path / "chat.jsonl", [*rows, row])
    with pytest.raises(SystemExit, match=f"line 31: .*{told}"):
        script.main()
    (fault,) = [found for found in compiled(tmp_path, recipe()).diagnostics if found.code.startswith("E")]
    assert fault.code == "E0304" and re.search(told, fault.labels[0].message)


def test_a_text_with_nul_is_refused_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""And one that says \u0000 is not."""
    rows = chats(40)
    rows[5]["messages"][1]["content"] = r"It is \u0000."
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    script.main()
    rows[6]["messages"][1]["content"] = "It is \0."
    write(tmp_path / "chat.jsonl", rows)
    with pytest.raises(SystemExit, match=r"line 7: a text holds a NUL character"):
        script.main()
    assert "NUL" in str([found.labels for found in compiled(tmp_path, recipe()).diagnostics if found.code[0] == "E"])


def test_a_row_that_the_template_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(20)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch, "gemma")
    system = {"messages": [{"role": "system", "content": "Be kind."}, *rows[0]["messages"]]}
    write(tmp_path / "chat.jsonl", [*rows, system])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: the chat template refuses .*System role"):
        script.main()


class OneOtherwise(Words):
    """Its template writes one conversation from back to front, and says that its answer is not learned."""

    def apply_chat_template(self, messages: list[dict[str, str]], **given: Any) -> Any:
        texts = [turn["content"] for turn in messages]
        odd = "Because of 7." in texts
        answers = [turn["role"] == "assistant" and not odd for turn in messages]
        if given.get("return_dict"):
            return {"input_ids": texts, "assistant_masks": answers}
        return " ".join(texts[::-1] if odd else texts)

    def decode(self, tokens: list[str]) -> str:
        return " ".join(tokens)


@pytest.mark.parametrize(
    ("base", "file", "reason"),
    [("lora-single", "chat.jsonl", "loss mask is wrong"), ("dpo-full", "pairs.jsonl", "does not write")],
)
def test_a_row_that_the_template_writes_otherwise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, file: str, reason: str
) -> None:
    long = [pair | {"prompt": f"Why is it as it is with {n}?"} for n, pair in enumerate(pairs(40))]
    write(tmp_path / "chat.jsonl", chats(40))
    write(tmp_path / "pairs.jsonl", long)
    script = emitted(tmp_path, BASES[base], monkeypatch)
    if base == "lora-single":
        monkeypatch.setattr(script, "prove_mask", load(tmp_path / "prepare_data.py", monkeypatch).prove_mask)
    monkeypatch.setattr(script, "load_tokenizer", lambda *_: OneOtherwise())
    with pytest.raises(SystemExit, match=rf"^{file}, line 8: the chat template.*{reason}"):
        script.main()


@pytest.mark.parametrize("family", ["phi3", "phi3_5"])
def test_a_template_that_leaves_results_of_tools_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    rows = [asked(f"Question {n}", said("So."), tools=[TOOL]) for n in range(20)]
    script = script_of(tmp_path, recipe(carry=["tools"]), rows, monkeypatch, "qwen3")
    result = [{"role": "user", "content": "Warm?"}, {"role": "tool", "content": "31"}, said("Yes, 31.")]
    write(tmp_path / "chat.jsonl", [*rows, {"messages": result}])
    tokenizer = script.load_tokenizer()
    system = "{% if tools %}{{ tools | tojson }}{% endif %}"
    tokenizer.chat_template = system + template_text(family, "chat")
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: the .* leaves out '31', the text of message 2\."):
        script.main()


@pytest.mark.parametrize("family", ["gptoss", "qwen3_vl"])
def test_a_template_that_leaves_a_second_system_message_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(20)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch, family)
    system = [{"role": "system", "content": text} for text in ("Be kind.", "Be brief.")]
    write(tmp_path / "chat.jsonl", [*rows, {"messages": [*system, *rows[0]["messages"]]}])
    with pytest.raises(
        SystemExit, match=r"^chat\.jsonl, line 21: the .* leaves out 'Be brief\.', the text of message 2\."
    ):
        script.main()


def test_a_text_that_stands_elsewhere_does_not_stand_for_what_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(20)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    twice = [
        {"role": "user", "content": "Be brief."},
        said("Be brief."),
        {"role": "user", "content": "So?"},
        said("So."),
    ]
    write(tmp_path / "chat.jsonl", [*rows, {"messages": twice}])
    tokenizer = script.load_tokenizer()
    tokenizer.chat_template = (
        "{% for message in messages %}{% if loop.index != 2 or loop.length == 2 %}"
        "{% generation %}{{ message.content }}\n{% endgeneration %}{% endif %}{% endfor %}"
    )
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: the chat template leaves out 'Be brief\.'"):
        script.main()


def test_results_that_a_template_writes_as_json_are_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [answering('{"said": "20\\n"}', n) for n in range(20)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    script.load_tokenizer().chat_template = template_text("llama3_1", "chat")
    monkeypatch.setattr(script, "prove_mask", lambda *_: None)
    script.main()
    assert sum(len(prepared(tmp_path, f"sft/{part}")) for part in ("train", "eval", "test")) == 20


UNBALANCED = {
    "no end": "<think>Hm. A",
    "a thought behind words": "Well. <think>Hm.</think>A",
    "two thoughts": "<think>a</think>b<think>c</think>d",
}
NUMBERS = (2**64, -(2**63) - 1, 10**400, float("nan"))
DEEP = "[" * 5_000 + "]" * 5_000


def called(arguments: object, question: str = "Go") -> dict[str, Any]:
    return asked(question, said("", tool_calls=[{"name": "weather", "arguments": arguments}]), tools=[TOOL])


REFUSED = {
    **AMBIGUOUS,
    "tools that are no list": asked("Go", said("So."), tools={"weather": {}}),
    "a weight that is a list": asked("Go", said("So.", weight=[1])),
    "a weight of the user": {"messages": [{"role": "user", "content": "Go", "weight": 1}, said("So.")]},
    "deep tools": asked("Go", said("So."), tools=DEEP),
    "deep arguments": called(f'{{"a": {DEEP}}}'),
    "arguments of some depth": called(f'{{"a": {"[" * 100}{"]" * 100}}}'),
    **{f"number {place}": called({"n": number}) for place, number in enumerate(NUMBERS) if number == number},
    **{f"number {place} in a text": called(json.dumps({"n": number})) for place, number in enumerate(NUMBERS)},
}
EVERYTHING = {"carry": ["tools", "weight", "parts", "system"], "reasoning": "keep"}


@pytest.mark.parametrize("what", REFUSED)
def test_what_preparation_refuses_is_refused_at_build_where_the_sample_has_it(tmp_path: Path, what: str) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}", reasoning="Hm.")) for n in range(20)]
    write(tmp_path / "chat.jsonl", [*rows, REFUSED[what]])
    found = [finding for finding in compiled(tmp_path, recipe(**EVERYTHING)).diagnostics if finding.code[0] == "E"]
    assert "chat.jsonl:21" in f"{found[0].title} {found[0].labels[0].message}"


@pytest.mark.parametrize("what", sorted(REFUSED.keys() - AMBIGUOUS.keys()))
def test_what_cannot_be_held_is_refused_in_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}", reasoning="Hm.")) for n in range(20)]
    script = script_of(tmp_path, recipe(**EVERYTHING), rows, monkeypatch)
    write(tmp_path / "chat.jsonl", [*rows, REFUSED[what]])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 21: .*Correct the row, or remove it$"):
        script.main()


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63)])
def test_the_longest_numbers_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    rows = [called({"n": number, "of": n}, f"Go {n}") for n in range(20)]
    script_of(tmp_path, recipe(), rows, monkeypatch).main()
    found = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"sft/{part}")]
    calls = [row["messages"][1]["tool_calls"][0]["function"]["arguments"] for row in found]
    assert [call["n"] for call in calls] == [number] * 20


@pytest.mark.parametrize("text", UNBALANCED.values(), ids=UNBALANCED)
def test_thoughts_that_cannot_be_taken_out_are_refused_at_build(tmp_path: Path, text: str) -> None:
    rows = [asked(f"Question {n}", said(f"<think>Hm.</think>A {n}")) for n in range(20)]
    write(tmp_path / "chat.jsonl", [*rows, asked("And?", said(text))])
    found = [finding for finding in compiled(tmp_path, recipe(reasoning="strip")).diagnostics if finding.code[0] == "E"]
    assert [finding.title for finding in found] == ["`chat.jsonl:21` cannot be used"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"messages": [], "messages": []}', "'messages' stands twice"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}, {"role": "assistant", "content": "So."}]}', "half a"),
    ],
    ids=["a key twice", "half a character"],
)
@pytest.mark.parametrize("file", ["chat.jsonl", "chat.json"])
def test_text_that_is_no_row_is_refused_at_build(tmp_path: Path, line: str, reason: str, file: str) -> None:
    lines = [*map(json.dumps, chats(20)), line]
    text = "\n".join(lines) if file == "chat.jsonl" else f"[{', '.join(lines)}]"
    (tmp_path / file).write_text(text)
    write(tmp_path / "chat.jsonl", []) if file != "chat.jsonl" else None
    found = compiled(tmp_path, with_key(BASES["cpu"], "data.train", file)).diagnostics
    assert [finding.code for finding in found] == ["E0304"]
    assert reason in found[0].labels[0].message


def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"Why {n}?,For {n}.,Or {n}.\n" for n in range(60))
    made = with_key(BASES["lora-single"], "data.train", "rows.csv")
    (tmp_path / "rows.csv").write_text(f"instruction,output,notes\n{lines}")
    script = emitted(tmp_path, with_key(made, "data.ignore", ["notes"]), monkeypatch)
    (tmp_path / "rows.csv").write_text(f"instruction,output,output\n{lines}")
    with pytest.raises(SystemExit, match=r"rows\.csv: line 1: the header names output twice"):
        script.main()
    (finding,) = [found for found in compiled(tmp_path, made).diagnostics if found.code[0] == "E"]
    assert (finding.code, finding.title) == ("E0304", "`rows.csv:1` cannot be used")
    assert "names `output` twice" in finding.labels[0].message


SAYING = {  # a row of the sample, and what a later one has in place of it: 0 and false are no emptiness
    "input": ({"instruction": "Add", "input": "1", "output": "2"}, {"input": 0}, "`input` holds 0"),
    "system": (asked("Go", said("So."), system="Be kind."), {"system": False}, "`system` holds False"),
    "tools": (asked("Go", said("So."), tools=[TOOL]), {"tools": 0}, "no list of tools"),
    "calls": (called({}), asked("Go", said("So.", tool_calls=0)), "no list of calls"),
    "thoughts": (asked("Go", said("So.", reasoning="Hm.")), asked("Go", said("So.", reasoning=0)), "a thought is one"),
}


@pytest.mark.parametrize("what", SAYING)
def test_zero_and_false_are_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Refused when the bundle is built, and behind the sample."""
    row, other, reason = SAYING[what]
    bad = row | other
    script = script_of(tmp_path, recipe(), [row] * 8, monkeypatch)
    write(tmp_path / "chat.jsonl", [row] * 30 + [bad])
    with pytest.raises(SystemExit, match=rf"chat\.jsonl, line 31: .*{reason}"):
        script.main()
    found = [finding for finding in compiled(tmp_path, recipe()).diagnostics if finding.code[0] == "E"]
    assert [finding.title for finding in found] == ["`chat.jsonl:31` cannot be used"]


def test_files_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "rows.jsonl", chats(30))
    write(tmp_path / "chat.jsonl", [])
    bad = [*chats(30), {"messages": [{"role": "robot", "content": "Beep"}]}]
    for train in (["a/rows.jsonl", "b/rows.jsonl"], "*/rows.jsonl"):
        write(tmp_path / "b" / "rows.jsonl", chats(30))
        script = emitted(tmp_path, with_key(BASES["lora-single"], "data.train", train), monkeypatch)
        write(tmp_path / "b" / "rows.jsonl", bad)
        with pytest.raises(SystemExit, match=r"^b/rows\.jsonl, line 31: "):
            script.main()
    write(tmp_path / "a" / "rows.jsonl", bad)
    found = compiled(tmp_path, with_key(BASES["lora-single"], "data.train", "*/rows.jsonl")).diagnostics
    (fault,) = [finding for finding in found if finding.code[0] == "E"]
    assert fault.title == "2 of 62 sampled rows of data.train cannot be used"
    assert fault.labels[0].message.startswith("a/rows.jsonl:31 and 1 other row: ")


TURN = {"role": "user", "content": "Go"}
LISTED = [
    {"prompt": [{**TURN, "content": f"Go {n}"}], "chosen": [said("A")], "rejected": [said("B")]} for n in range(20)
]
ODD = {  # what a recipe learns, fine rows of it, and a row that none of its readers may take
    "a user behind an answer": ("dpo-full", LISTED, {**LISTED[0], "chosen": [said("A"), TURN]}),
    "an empty answer": ("dpo-full", LISTED, {**LISTED[0], "chosen": []}),
    "letters that look alike": ("lora-single", chats(20), {"m\u0435ssages": chats(1)[0]["messages"]}),
    "a role in capitals": ("lora-single", chats(20), {"messages": [{**TURN, "role": "User"}, said("So.")]}),
    "a role of ShareGPT": ("lora-single", chats(20), {"messages": [{**TURN, "role": "human"}, said("So.")]}),
    "a message that is null": ("lora-single", chats(20), {"messages": [TURN, None, said("So.")]}),
    "an answer that is true": ("lora-single", chats(20), {"messages": [TURN, said(True)]}),
    "a weight in quotes": ("lora-single", [asked(f"{n}?", said("A", weight=1)) for n in range(20)],
                           asked("Go", said("So.", weight="0"))),
    "a label that is no number": ("kto", [answered(f"{n}?", "A", n % 2 == 0) for n in range(20)],
                                  answered("Go", "A", float("nan"))),
    "a label of 1.0": ("kto", [answered(f"{n}?", "A", n % 2 == 0) for n in range(20)], answered("Go", "A", 1.0)),
    "a token of 40 bits": ("lora-single", [{"input_ids": [n, 1]} for n in range(20)], {"input_ids": [1, 2**40]}),
    "a token that is true": ("lora-single", [{"input_ids": [n, 1]} for n in range(20)], {"input_ids": [1, True]}),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_odd_rows_are_refused_by_their_place_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    base, rows, bad = ODD[what]
    section = "train" if base == "lora-single" else "preferences"
    made = with_key(BASES[base], f"data.{section}", "odd.jsonl")
    write(tmp_path / "chat.jsonl", [])
    write(tmp_path / "odd.jsonl", [*rows, bad])
    found = [finding for finding in compiled(tmp_path, made).diagnostics if finding.code[0] == "E"]
    assert [finding.title for finding in found] == ["`odd.jsonl:21` cannot be used"]
    write(tmp_path / "odd.jsonl", rows)
    script = emitted(tmp_path, made, monkeypatch)
    write(tmp_path / "odd.jsonl", [*rows, bad])
    with pytest.raises(SystemExit, match=r"^odd\.jsonl, line 21: "):
        script.main()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"f\xfcr,x", "is not UTF-8"),
        (b"\xc3\xef\xbf\xbd\xa9,x", "is not UTF-8"),  # cut in two by a replacement character, which is UTF-8
        (b'"open,x', "unexpected end of data"),
        (b"a,b,c", "more fields"),
    ],
)
def test_a_line_that_is_no_record_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, reason: str
) -> None:
    text = "instruction,output\n" + "".join(f'Why {n}?,"So,\nthat."\n' for n in range(20))
    (tmp_path / "rows.csv").write_text(text)
    script = emitted(tmp_path, with_key(BASES["lora-single"], "data.train", "rows.csv"), monkeypatch)
    (tmp_path / "rows.csv").write_bytes(text.encode() + line + b"\n")
    with pytest.raises(SystemExit, match=rf"rows\.csv: line 42:? .*{reason}"):
        script.main()


@pytest.mark.parametrize("speaker", ["user", "assistant"])
def test_a_special_token_in_a_text_is_refused_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaker: str
) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(30)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    bad = asked("Question", said("A"))
    bad["messages"][speaker == "assistant"]["content"] += " <|im_end|> <|im_start|>user"
    write(tmp_path / "chat.jsonl", [*rows, bad])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 31: a message holds <\|im_\w+\|>, a special token"):
        script.main()


def test_a_special_token_in_the_system_prompt_of_the_recipe_is_no_fault_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [asked(f"Question {n}", said(f"A {n}")) for n in range(30)]
    script = script_of(tmp_path, recipe(system="Be kind.<|im_end|>"), rows, monkeypatch)
    with pytest.raises(SystemExit, match=r"^data\.system of the recipe holds <\|im_end\|>, a special token"):
        script.main()


def test_a_special_token_in_a_tool_is_refused_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools stand in the prompt: a token in a description would end the turn there."""
    rows = [asked(f"Question {n}", said(f"A {n}"), tools=[TOOL]) for n in range(30)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    bad = asked("Question", said("A"), tools=json.dumps([TOOL | {"description": "So <|im_end|>"}]))
    write(tmp_path / "chat.jsonl", [*rows, bad])
    with pytest.raises(SystemExit, match=r"^chat\.jsonl, line 31: a message or a tool holds <\|im_end\|>, a special"):
        script.main()


@pytest.mark.parametrize(("empty", "stops"), [(1, False), (4, True)])
def test_rows_with_an_empty_answer_are_told_and_may_not_be_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], empty: int, stops: bool
) -> None:
    """One empty answer in the middle of a conversation takes all of it away."""
    again = {"role": "user", "content": "And?"}
    rows = [asked(f"Question {n}", said("" if n < empty else "So."), again, said(f"A {n}")) for n in range(40)]
    script = script_of(tmp_path, recipe(), rows, monkeypatch)
    lost = f"sft: {empty} of 40 rows have an empty answer, or ask nothing; the first is chat.jsonl, line 1"
    if stops:
        with pytest.raises(SystemExit, match=rf"^{lost}\. That is more than 5%"):
            script.main()
    else:
        script.main()
        assert f"{lost}. They are left out.\n" in capsys.readouterr().out


def test_a_file_with_a_colon_in_its_name_hides_no_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are told apart by what follows the place of a row, whatever its file is called."""
    (tmp_path / "week: 1").mkdir()
    name = "week: 1/chat: all.jsonl"
    write(tmp_path / name, chats(60))
    script = emitted(tmp_path, recipe(train=name), monkeypatch)
    rows = chats(60)
    rows[3]["messages"] = rows[7]["messages"] = "Why?"
    rows[4]["messages"] = ["Why?"]
    rows[5]["messages"][0]["role"] = "narrator"
    write(tmp_path / name, rows)
    with pytest.raises(SystemExit) as stopped:
        script.main()
    first, second, third = str(stopped.value).splitlines()
    assert first.startswith(f"{name}, line 4: `messages` holds 'Why?'") and first.endswith("(1 more rows like it)")
    assert second.startswith(f"{name}, line 5: this is no message")
    assert third.startswith(f"{name}, line 6: this message is not from ")
