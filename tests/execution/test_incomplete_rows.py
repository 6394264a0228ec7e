"""Rows that lack a label or an answer: refused with the key, or left out and counted where the recipe says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from test_prepare_data import answered, emitted, pairs, prepared, write

from recipec.axes import ROW_FORMATS
from recipec.axes.row_formats import FLAG_TEXTS
from recipec.cli.plan import plan_text
from recipec.dataset import BadContent, DataShape, Incomplete, RowReading, converted
from recipec.dataset.contents import lacking

KEY = '`incomplete = "skip"` under [data]'
RATED = [answered(f"Why {n}?", f"Because of {n}.", "👍" if n % 2 else "👎") for n in range(40)]
# What stands where a rating would -> what prepare_data.py counts it as.
UNRATED: dict[Any, str] = {None: "no `label`", "unrated": 'the label "unrated"', " ": 'the label ""'}


def kto(**data: Any) -> Tables:
    recipe = with_key(BASES["kto"], "data.preferences", "rated.jsonl")
    for key, value in data.items():
        recipe = with_key(recipe, f"data.{key}", value)
    return recipe


def unrated(count: int) -> list[dict[str, Any]]:
    """So many rows without a rating, of every kind, and one without the column."""
    labels = [list(UNRATED)[n % len(UNRATED)] for n in range(count)]
    rows = [answered(f"What is {n}?", f"It is {n}.", label) for n, label in enumerate(labels)]
    return [*rows, {"prompt": "Who?", "completion": "Nobody."}]


def test_rows_without_a_rating_are_refused_with_the_key_that_leaves_them_out(tmp_path: Path) -> None:
    write(tmp_path / "rated.jsonl", RATED + unrated(6))
    (found,) = [one for one in compiled(tmp_path, kto()).diagnostics if one.code == "E0304"]
    assert found.title.startswith("7 of 47") and KEY in found.help[0]


@pytest.mark.parametrize(
    ("row", "helped"),
    [
        (answered("Why?", "So.", "unrated"), True),
        (answered("Why?", None, "👍"), True),
        (answered(5, "So.", "👍"), False),
        (answered("Why?", 7, "👍"), False),
        (answered("Why?", "So.", 3), False),
        (answered("Why?", "So.", "yes"), False),
        (answered("Why?", "So.", "-1"), False),
    ],
)
def test_the_key_is_named_for_what_it_leaves_out_alone(tmp_path: Path, row: Tables, helped: bool) -> None:
    write(tmp_path / "rated.jsonl", [*RATED, row])
    found = (one for one in compiled(tmp_path, kto()).diagnostics if one.code == "E0304")
    assert [any(KEY in line for line in one.help) for one in found] == [helped]
    left = [one for one in compiled(tmp_path, kto(incomplete="skip")).diagnostics if one.code == "E0304"]
    assert not left if helped else not any(KEY in line for one in left for line in one.help)


def test_where_rows_have_other_faults_the_key_names_those_that_it_leaves_out(tmp_path: Path) -> None:
    write(tmp_path / "rated.jsonl", [*RATED, answered(5, "So.", "👍"), *unrated(2)])
    (found,) = (one for one in compiled(tmp_path, kto()).diagnostics if one.code == "E0304")
    assert "holds a number" in found.labels[0].message
    assert found.help[0] == f'to leave rows with no `label` or the label "unrated" out, counted: {KEY}'


@pytest.mark.executes
@pytest.mark.parametrize(
    ("label", "keys", "helped"),
    [
        (None, {}, True),
        ("unrated", {}, True),
        (3, {}, False),
        ("2.5", {}, False),
        ("-1", {}, False),
        ("yes", {"incomplete": "skip"}, False),  # where the recipe has the key already
    ],
)
def test_prepare_data_names_the_key_for_what_it_leaves_out_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: Any, keys: Tables, helped: bool
) -> None:
    write(tmp_path / "rated.jsonl", RATED)
    with pytest.raises(ValueError, match="label is neither") as refused:
        emitted(tmp_path, kto(**keys), monkeypatch).from_unpaired_preference(answered("Why?", "So.", label))
    assert ("see data.incomplete" in str(refused.value)) is helped


def test_unrated_rows_are_told_and_not_planned_with(tmp_path: Path) -> None:
    write(tmp_path / "rated.jsonl", RATED + unrated(9))
    recipe = kto(incomplete="skip")
    del recipe["data"]["examples"], recipe["data"]["tokens_per_example"]
    (stage,) = json.loads(good(tmp_path, recipe).plan_json)["stages"]
    decided = {decision["id"]: decision for decision in stage["decisions"]}
    assert decided["examples"]["value"] == 40
    assert decided["true_share"]["value"] == 0.5
    because = decided["incomplete"]["because"]
    assert "10 of 50 sampled rows" in because
    for lack, count in {"no `label`": 4, 'the label "unrated"': 3, 'the label ""': 3}.items():
        assert f"{lack} in {count}" in because


@pytest.mark.executes
def test_unrated_rows_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "rated.jsonl", RATED + unrated(9))
    emitted(tmp_path, kto(incomplete="skip"), monkeypatch).main()
    report = json.loads((tmp_path / "data/kto/report.json").read_text())["train"]
    assert report["read"] == 50
    assert report["incomplete"] == 10
    assert report["lacks"] == {"no `label`": 4, 'the label "unrated"': 3, 'the label ""': 3}
    rows = [row for part in ("train", "eval", "test") for row in prepared(tmp_path, f"kto/{part}")]
    assert len(rows) == 40 and all(row["prompt"][0]["content"].startswith("Why") for row in rows)
    said = capsys.readouterr().out
    assert "10 of 50 rows are incomplete and left out: no `label` in 4" in said


@pytest.mark.executes
@pytest.mark.parametrize("label", [3, "3", "2.5", 0.5, "-1", " +2", -1])
def test_a_number_of_a_scale_is_refused_though_rows_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: Any
) -> None:
    """Of ratings from 1 to 5, 1 would be taken for the good label."""
    write(tmp_path / "rated.jsonl", RATED)
    module = emitted(tmp_path, kto(incomplete="skip"), monkeypatch)
    row = answered("Why?", "So.", label)
    assert not module.lacking(json.dumps(row).encode(), module.NEEDED["unpaired-preference"])
    with pytest.raises(ValueError, match="label is neither"):
        module.from_unpaired_preference(row)
    shape = DataShape("unpaired-preference", {name: name for name in row}, "strings", "", flags="👍 or 👎")
    with pytest.raises(BadContent) as refused:
        converted(row, shape, RowReading(skips_incomplete=True))
    assert not isinstance(refused.value, Incomplete)


def test_thumbs_of_1_and_minus_1_in_csv_are_not_left_out_as_unrated(tmp_path: Path) -> None:
    """Only the zeros, which say nothing, would be learned as bad answers."""
    lines = [f"Why {n}?,Because of {n}.,{(1, -1, 0)[n % 3]}" for n in range(60)]
    (tmp_path / "rated.csv").write_text("\n".join(["prompt,completion,feedback", *lines, ""]))
    recipe = with_key(kto(columns={"label": "feedback"}), "data.preferences", "rated.csv")
    for skips in (recipe, with_key(recipe, "data.incomplete", "skip")):
        (found,) = [one for one in compiled(tmp_path, skips).diagnostics if one.code == "E0304"]
        assert found.title.startswith("20 of 60") and not any(KEY in line for line in found.help)


@pytest.mark.executes
def test_what_a_label_lacks_is_the_same_when_a_recipe_is_compiled_and_when_its_rows_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word of another pair says something, though not what the others say: its row is refused, not left out."""
    write(tmp_path / "rated.jsonl", RATED)
    module = emitted(tmp_path, kto(incomplete="skip"), monkeypatch)
    format = ROW_FORMATS["unpaired-preference"]
    said = [text for pair in FLAG_TEXTS.values() for text in pair]
    for label in (*said, " Good ", "Yes", "unrated", "n/a", "", "t", "3", "2.5", "-1", " +2", "-", 3, -1, True, None):
        row = answered("Why?", "So.", label)
        lost = lacking(row, format, {role.name: role.name for role in format.required})
        assert module.lacking(json.dumps(row).encode(), module.NEEDED[format.name]) == lost, label
        assert not (lost and str(label).strip().lower() in said)


@pytest.mark.executes
def test_pairs_without_an_answer_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*pairs(40), *(pair | {"rejected": None} for pair in pairs(3))]
    write(tmp_path / "some.jsonl", rows)
    recipe = with_key(with_key(BASES["dpo-full"], "data.incomplete", "skip"), "data.preferences", "some.jsonl")
    emitted(tmp_path, recipe, monkeypatch).main()
    report = json.loads((tmp_path / "data/dpo/report.json").read_text())["train"]
    assert (report["read"], report["lacks"]) == (43, {"no `rejected`": 3})


def talk(pair: Tables) -> Tables:
    """The pair with its texts as lists of messages."""
    return {
        name: [{"role": "user" if name == "prompt" else "assistant", "content": text}] for name, text in pair.items()
    }


@pytest.mark.executes
@pytest.mark.parametrize("written", [dict, talk])
def test_pairs_without_a_prompt_that_others_have_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Any
) -> None:
    rows = [written(pair) for pair in pairs(40)]
    missing = {name: value for name, value in rows[0].items() if name != "prompt"}
    write(tmp_path / "some.jsonl", [missing, *rows, rows[0] | {"prompt": None}])
    recipe = with_key(BASES["dpo-full"], "data.preferences", "some.jsonl")
    (found,) = [one for one in compiled(tmp_path, recipe).diagnostics if one.code[:3] == "E03"]
    assert found.code == "E0304" and KEY in found.help[0] and not any("columns" in line for line in found.help)
    emitted(tmp_path, with_key(recipe, "data.incomplete", "skip"), monkeypatch).main()
    report = json.loads((tmp_path / "data/dpo/report.json").read_text())["train"]
    assert (report["read"], report["lacks"]) == (42, {"no `prompt`": 2})


@pytest.mark.executes
def test_empty_prompts_in_csv_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{'' if n % 4 == 0 else f'Why {n}?'},Because {n}.,Not {n}." for n in range(60)]
    (tmp_path / "some.csv").write_text("\n".join(["prompt,chosen,rejected", *lines, ""]))
    recipe = with_key(with_key(BASES["dpo-full"], "data.incomplete", "skip"), "data.preferences", "some.csv")
    emitted(tmp_path, recipe, monkeypatch).main()
    report = json.loads((tmp_path / "data/dpo/report.json").read_text())["train"]
    assert (report["read"], report["lacks"]) == (60, {"no `prompt`": 15})


@pytest.mark.executes
def test_answers_that_begin_with_their_prompt_lack_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [{"role": "user", "content": "Who?"}]
    whole = {name: [*asked, {"role": "assistant", "content": name}] for name in ("chosen", "rejected")}
    rows = [*pairs(40), whole | {"prompt": None}]
    write(tmp_path / "some.jsonl", rows)
    recipe = with_key(with_key(BASES["dpo-full"], "data.incomplete", "skip"), "data.preferences", "some.jsonl")
    module = emitted(tmp_path, recipe, monkeypatch)
    columns = {name: name for name in rows[0]}
    for row in (*rows, rows[0] | {"prompt": None}, whole | {"prompt": None, "chosen": "So."}):
        lost = lacking(row, ROW_FORMATS["preference"], columns)
        assert module.lacking(json.dumps(row).encode(), module.NEEDED["preference"]) == lost
        assert bool(lost) == (row["prompt"] is None and row != rows[40])


CONVERSATION = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
CALL = {"role": "assistant", "content": None, "tool_calls": [{"name": "sum", "arguments": {}}]}
# Messages -> what prepare_data.py counts a row with them as.
MUTE: list[tuple[Any, str]] = [
    (CONVERSATION, ""),
    ([*CONVERSATION, {"role": "user", "content": None}, CONVERSATION[1]], "a message without `content`"),
    ([*CONVERSATION, {"role": "assistant"}], "a message without `content`"),
    ([{"from": "human", "value": None}, {"from": "gpt", "value": "So."}], "a message without `value`"),
    ([*CONVERSATION, CALL], ""),
    ([*CONVERSATION, {"role": "assistant", "content": None, "function_call": {"name": "sum"}}], ""),
    ([*CONVERSATION, "So."], ""),
    ("So.", ""),
]


@pytest.mark.executes
@pytest.mark.parametrize(("messages", "lost"), MUTE)
def test_a_message_that_says_nothing_is_found_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: Any, lost: str
) -> None:
    module = emitted(tmp_path, with_key(BASES["lora-single"], "data.incomplete", "skip"), monkeypatch)
    row = {"messages": messages}
    assert lacking(row, ROW_FORMATS["chat"], {"messages": "messages"}) == lost
    assert module.lacking(json.dumps(row).encode(), module.NEEDED["chat"]) == lost


@pytest.mark.executes
def test_conversations_with_a_message_that_says_nothing_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [[{**turn, "content": f"{turn['content']} {n}"} for turn in CONVERSATION] for n in range(40)]
    rows = [{"messages": turns} for turns in (*said, MUTE[1][0], MUTE[2][0])]
    write(tmp_path / "some.jsonl", rows)
    recipe = with_key(BASES["lora-single"], "data.train", "some.jsonl")
    (found,) = [one for one in compiled(tmp_path, recipe).diagnostics if one.code == "E0304"]
    assert found.title.startswith("2 of 42") and KEY in " ".join(found.help)
    emitted(tmp_path, with_key(recipe, "data.incomplete", "skip"), monkeypatch).main()
    report = json.loads(next((tmp_path / "data").rglob("report.json")).read_text())["train"]
    assert (report["read"], report["lacks"]) == (42, {"a message without `content`": 2})


@pytest.mark.parametrize("base", ["lora-single", "kto", "text"])
def test_what_rows_need_is_what_the_compiler_takes_them_to_need(tmp_path: Path, base: str) -> None:
    script = texts(good(tmp_path, with_key(BASES[base], "data.incomplete", "skip")))["prepare_data.py"]
    format = next(name for name in ROW_FORMATS if f'NEEDED = {{"{name}": ' in script)
    for role in ROW_FORMATS[format].required:
        assert f'"{role.name}"' in script.partition("NEEDED = ")[2].partition("\n")[0]
    assert ("def unsaid(" in script) == (base == "kto")
    without = texts(good(tmp_path, BASES[base]))["prepare_data.py"]
    assert "incomplete" not in without.replace("see data.incomplete", "").replace(KEY, "")
    assert KEY not in script  # the recipe has the key already


def test_the_plan_and_the_readme_say_which_label_is_good_and_what_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "rated.jsonl", RATED + unrated(9))
    found = good(tmp_path, kto(incomplete="skip"))
    good_one = "`label`: 👍 is a good answer, 👎 a bad one"
    lines = plan_text(json.loads(found.plan_json)).splitlines()
    assert f"  labels   {good_one}" in lines
    (skips,) = [line for line in lines if line.startswith("  skips ")]
    assert "10 of 50 sampled rows: no `label` in 4" in skips
    readme = texts(found)["README.md"]
    assert "labels in the column label: 👍 is a good answer, 👎 a bad one; incomplete rows are left out" in readme
    assert "no label in 4" in readme
    write(tmp_path / "rated.jsonl", RATED)
    assert not [line for line in plan_text(json.loads(good(tmp_path, kto()).plan_json)).splitlines() if "skips" in line]


@pytest.mark.executes
@pytest.mark.parametrize(
    ("rated", "said"),
    [
        (2, r"rows left for train: 2, needed: 3; dropped: incomplete rows \(31\)"),
        (0, r"All 31 rows from rated.jsonl, line 1 on are incomplete: it has no `label`"),
    ],
)
def test_too_few_complete_rows_stop_preparation_with_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rated: int, said: str
) -> None:
    write(tmp_path / "rated.jsonl", RATED)
    module = emitted(tmp_path, kto(incomplete="skip"), monkeypatch)
    write(tmp_path / "rated.jsonl", unrated(30) + RATED[:rated])
    with pytest.raises(SystemExit, match=said):
        module.main()


def test_rows_without_what_answers_are_judged_by_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"prompt": f"Add {n} and 1.", "sum": n + 1 if n % 10 else None} for n in range(60)]
    recipe = with_key(BASES["grpo"], "data", {"prompts": "own.jsonl"})
    write(tmp_path / "own.jsonl", rows)
    assert "E0310" in [found.code for found in compiled(tmp_path, recipe).diagnostics]
    emitted(tmp_path, with_key(recipe, "data.incomplete", "skip"), monkeypatch).main()
    report = json.loads(next((tmp_path / "data").rglob("report.json")).read_text())["train"]
    assert (report["read"], report["lacks"]) == (60, {"no `sum`": 6})


@pytest.mark.executes
def test_empty_cells_of_csv_are_missing_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Why {n}?,{'' if n % 4 == 0 else f'Because {n}.'}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["prompt,completion", *lines, ""]))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "rows.csv"), "data.incomplete", "skip")
    refused = compiled(tmp_path, with_key(recipe, "data.incomplete", "refuse"), only_plan=True).diagnostics
    assert any(KEY in line for one in refused if one.code == "W0542" for line in one.help)
    found = compiled(tmp_path, recipe, only_plan=True)
    assert "W0542" not in [one.code for one in found.diagnostics]
    assert "15 of 60 sampled rows: no `completion` in 15" in found.plan.stages[0].decisions["incomplete"].because
    emitted(tmp_path, recipe, monkeypatch).main()
    report = json.loads((tmp_path / "data/sft/report.json").read_text())["train"]
    assert (report["read"], report["incomplete"], report["lacks"]) == (60, 15, {"no `completion`": 15})
