"""General rows among the training rows: share, order, what is kept apart; in the plan, the scripts and training."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, compiled, good, texts, with_key
from emitted_modules import load

from recipec.rules.evaluation import own_rows, training_rows, training_tokens

pytestmark = pytest.mark.executes


def recipe(**data: Any) -> dict:
    found = with_key(BASES["lora-single"], "data.general", "general.jsonl")
    for key, value in data.items():
        found = with_key(found, f"data.{key}", value)
    return found


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """prepare_data.py of a recipe that replays, as a module."""
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path / "recipe", recipe()))["prepare_data.py"])
    return load(tmp_path / "prepare_data.py", monkeypatch)


def rows(first: int, lengths: list[int]) -> Any:
    from datasets import Dataset

    numbers = range(first, first + len(lengths))
    marks = {name: [b"%d" % number for number in numbers] for name in ("itself", "question")}
    places = [f"line {number}" for number in numbers]
    return Dataset.from_dict({"number": [*numbers], "length": lengths, "place": places, **marks})


def mixed(script: Any, own: Any, general: Any, share: float) -> tuple[Any, dict]:
    report: dict = {}
    return script.with_replayed(own, general, SimpleNamespace(name="sft", replay=share), report), report


@pytest.mark.parametrize("share", [0.1, 0.2, 0.3])
def test_general_rows_have_their_share_of_tokens_and_come_once(script: Any, share: float) -> None:
    own, general = rows(0, [30, 50, 10] * 100), rows(1_000, [7, 40, 90] * 200)
    found, report = mixed(script, own, general, share)
    replayed = [number for number in found["number"] if number >= 1_000]
    tokens = sum(length for number, length in zip(found["number"], found["length"], strict=True) if number >= 1_000)
    assert tokens / sum(found["length"]) == pytest.approx(share, abs=0.005)
    assert len({*replayed}) == len(replayed) == report["replay"]["rows"]
    assert [number for number in found["number"] if number < 1_000] == own["number"][:]  # in their order, and all
    assert report["tokens"] == sum(found["length"]) and report["rows"] == len(found)
    assert report["replay"]["share_of_tokens"] == pytest.approx(tokens / sum(found["length"]))


def test_general_rows_stand_all_over_the_training_rows(script: Any) -> None:
    found, _ = mixed(script, rows(0, [20] * 400), rows(1_000, [20] * 400), 0.2)
    quarters = [sum(number >= 1_000 for number in found["number"][start : start + 125]) for start in range(0, 500, 125)]
    assert all(10 < count < 45 for count in quarters)


def test_tokens_that_training_cuts_off_are_in_no_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = recipe(overflow="truncate", max_length=64)
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path / "recipe", given))["prepare_data.py"])
    script, report = load(tmp_path / "prepare_data.py", monkeypatch), {}
    stage = SimpleNamespace(name="sft", replay=0.2, max_length=64)
    script.with_replayed(rows(0, [20] * 400), rows(1_000, [600] * 400), stage, report)
    assert report["replay"] == {
        "rows": 31,
        "tokens": 31 * 64,
        "share_of_rows": 31 / 431,
        "share_of_tokens": 1984 / 9984,
    }
    assert report["tokens"] == 400 * 20 + 31 * 64


def test_a_shortage_is_refused_with_the_share_that_the_rows_suffice_for(script: Any) -> None:
    own, general = rows(0, [20] * 100), rows(1_000, [20] * 10)
    with pytest.raises(SystemExit, match=r"needs 500 tokens of general rows, and 200 are there.*`replay = 0.09`"):
        mixed(script, own, general, 0.2)
    assert mixed(script, own, general, 0.09)[1]["replay"]["rows"] == 10


def test_a_share_that_rows_cannot_come_near_is_refused(script: Any) -> None:
    with pytest.raises(SystemExit, match=r"come out as 50.0% of the training tokens, and 20.0% is stated"):
        mixed(script, rows(0, [20] * 5), rows(1_000, [100] * 5), 0.2)


def test_rows_that_tell_what_was_forgotten_are_not_replayed_and_ask_otherwise(script: Any) -> None:
    general = rows(0, [10] * 200).map(lambda row: {"question": b"%d" % (row["number"] // 2)})
    report: dict = {}
    replayed, held_out = script.held_apart(script.without_own(general, rows(190, [10] * 10), report))
    assert {*replayed["question"]}.isdisjoint(held_out["question"])
    assert len(held_out) == 20 and len(replayed) == 170  # neither has the ten rows that the task has, too
    assert report == {"own": 10}
    assert not {*range(190, 200)} & {*replayed["number"], *held_out["number"]}


@pytest.mark.parametrize("base", ["lora-single", "lora-ddp"])  # conversations, and single answers
def test_no_general_row_asks_what_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    given = with_key(BASES[base], "data.general", "general.jsonl")
    (tmp_path / "prepare_data.py").write_text(texts(good(tmp_path / "recipe", given))["prepare_data.py"])
    script = load(tmp_path / "prepare_data.py", monkeypatch)
    general = asked(1_000, 40)
    held_out = script.HeldOut().add(general.select([7])) if hasattr(script, "HeldOut") else {general["question"][7]}
    report: dict = {"train": {}, "general": {}}
    monkeypatch.setattr(script, "convert", lambda *given: general)
    parts = script.replayable(script.STAGES[0], tmp_path, None, held_out, asked(0, 40), report)
    assert report["general"]["leaks"] == 1
    assert {number for part in parts for number in part["number"]} == {*general["number"]} - {1_007}


def asked(first: int, count: int) -> Any:
    """Rows with the marks that conversations have as well."""
    found = rows(first, [20] * count)
    return found.add_column("beginnings", [[question] for question in found["question"]])


def test_the_plan_counts_general_rows_and_their_length(tmp_path: Path) -> None:
    """Rows of the task: 10% for evaluation and 10% for the test are left out of 1,000, and replay leaves them so."""
    sources = {"path": "general.jsonl", "tokens_per_example": 50}
    given = recipe(examples=1_000, tokens_per_example=100, replay=0.2, general=sources)
    plan = compiled(tmp_path, given, only_plan=True).plan
    assert plan
    value = {id: decision.value for id, decision in plan.stages[0].decisions.items()}
    own = own_rows(value)
    assert value["replay_rows"] == round(own * 100 / 50 / 4)
    assert training_rows(value) == own + value["replay_rows"]
    assert training_tokens(value) == round((100 * own + 50 * value["replay_rows"]) / training_rows(value))
    alone = compiled(tmp_path / "alone", recipe(examples=1_000, tokens_per_example=100, general=None), only_plan=True)
    assert alone.plan and alone.plan.stages[0].steps < plan.stages[0].steps


def test_all_general_rows_are_read_though_a_share_is_learned(tmp_path: Path) -> None:
    given = recipe(examples=1_000, general={"path": "general.jsonl", "examples": 80_000})
    plan = good(tmp_path, given).plan
    assert plan
    reading = next(part for part in plan.stages[0].parts if part.name == "data preparation")
    assert "reads 81,000 rows" in reading.because


def test_the_readme_names_what_was_forgotten_as_the_results_do(tmp_path: Path) -> None:
    told = texts(good(tmp_path, recipe()))["README.md"]
    assert "(general_eval_loss)" in told
    assert "\\`" not in told


def test_the_readme_says_where_the_last_answers_of_general_conversations_alone_are_learned(tmp_path: Path) -> None:
    beside = with_key(BASES["lora-ddp"], "data.general", "general.jsonl")
    alone = "general.jsonl (the last answer of each conversation) are replayed"
    assert alone in texts(good(tmp_path / "pairs", beside))["README.md"]
    assert alone not in texts(good(tmp_path / "chats", recipe()))["README.md"]


def test_elastic_weights_alone_learn_no_general_row(tmp_path: Path) -> None:
    held = with_key(with_key(recipe(), "train.adaptation", "full"), "train.ewc", {"strength": 2.0})
    held = with_key(held, "model.name", "Qwen/Qwen2.5-0.5B-Instruct")
    assert "with_replayed" not in texts(good(tmp_path / "held", held))["prepare_data.py"]
    both = texts(good(tmp_path / "both", with_key(held, "data.replay", 0.1)))
    assert "with_replayed" in both["prepare_data.py"] and "elastic_weights.py" in both


def test_training_stops_where_the_prepared_rows_have_another_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = texts(good(tmp_path / "recipe", recipe(replay=0.25)))
    for name in ("preflight.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    preflight = load(tmp_path / "preflight.py", monkeypatch)
    names = {"trained_text": "", "trained_tokens": 1, "ends_with_stop": True}
    for name, value in names.items():
        monkeypatch.setattr(preflight, name, lambda *args, value=value: value, raising=False)
    trainer = SimpleNamespace(
        train_dataset=rows(0, [1] * 5), processing_class=None, is_world_process_zero=lambda: False
    )

    def checked(replay: dict) -> dict:
        (tmp_path / "report.json").write_text(json.dumps({"train": {"dropped_share": 0.0, **replay}}))
        return preflight.check_rows(trainer, tmp_path / "report.json")

    assert checked({"replay": {"share_of_tokens": 0.255}})
    for stale in ({}, {"replay": {"share_of_tokens": 0.2}}):
        with pytest.raises(SystemExit, match=r"and 25.0% are planned. Run prepare_data.py"):
            checked(stale)
