"""Data sets of the Hub, which recipec does not read: what the recipe says of them, and what is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, CHAT, compiled, good, with_key

from recipec.diagnostics.model import Diagnostic


def found_in(folder: Path, source: dict[str, Any], **data: Any) -> dict[str, list[str]]:
    """Code -> the helps of each finding."""
    tables = with_key(BASES["lora-single"], "data", {"train": source, **data})
    found = compiled(folder, tables).diagnostics
    return {finding.code: list(finding.help) for finding in found}


@pytest.mark.parametrize(("ignore", "told"), [({}, True), ({"ignore": []}, False), ({"ignore": ["id"]}, False)])
def test_an_empty_list_of_ignored_columns_says_that_none_is_left_out(
    tmp_path: Path, ignore: dict[str, list[str]], told: bool
) -> None:
    stated = {"format": "chat", "examples": 2_000, "tokens_per_example": 500}
    found = found_in(tmp_path, {"hub": "org/rows"}, **stated, **ignore)
    assert ("W0518" in found) is told
    assert "E0207" not in found


def test_a_source_whose_format_is_unknown_is_told_with_the_whole_line(tmp_path: Path) -> None:
    line = '{ hub = "org/rows", split = "train", take = 500, format = "chat" }'
    found = found_in(tmp_path, {"hub": "org/rows", "take": 500})
    assert line in found["E0305"][0]


HUB = {"hub": "org/rows", "split": "train", "format": "chat"}
OWN = {"path": "own.jsonl"}


def decided(folder: Path, sources: list[dict[str, Any]], rows: int = 5, **data: Any) -> dict[str, Any]:
    (folder / "own.jsonl").write_text("".join(json.dumps(_short(n)) + "\n" for n in range(rows)))
    tables = with_key(BASES["lora-single"], "data", {"train": sources, **data})
    return {id: decision.value for id, decision in good(folder, tables).plan.stages[0].decisions.items()}


def _short(number: int) -> dict[str, Any]:
    """A conversation of one short answer, like no other."""
    return {"messages": [{**message, "content": f"{number} {message['content']}"} for message in CHAT[0]["messages"]]}


@pytest.mark.parametrize("sources", [[HUB], [HUB, OWN], [OWN, HUB]])
def test_a_few_rows_say_nothing_of_the_length_of_a_data_set_of_the_hub(
    tmp_path: Path, sources: list[dict[str, Any]]
) -> None:
    found = decided(tmp_path, sources)
    assert (found["examples"], found["tokens_per_example"], found["max_length"]) == (10_000, 500, 2048)


def test_rows_of_the_hub_keep_their_length_beside_as_many_short_ones(tmp_path: Path) -> None:
    found = decided(tmp_path, [HUB, OWN], rows=10_000)
    assert 250 < found["tokens_per_example"] < 270 and found["max_length"] == 2048
    few = decided(tmp_path, [{**HUB, "take": 50}, OWN], rows=10_000)
    assert few["max_length"] == 256, "fewer than 1% of the rows"


def test_a_stated_mean_is_that_of_rows_of_the_hub_too(tmp_path: Path) -> None:
    found = decided(tmp_path, [HUB, OWN], rows=200, tokens_per_example=1_000)
    assert (found["tokens_per_example"], found["max_length"]) == (1_000, 4096)


def test_answers_of_a_few_conversations_are_not_those_of_the_hub(tmp_path: Path) -> None:
    turns = [{"role": role, "content": f"{n} {role}"} for n in range(10) for role in ("user", "assistant")]
    (tmp_path / "long.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    assert decided(tmp_path, [HUB, {"path": "long.jsonl"}])["answers_per_row"] == 1.0


def test_the_assumed_size_says_that_max_length_follows_from_it(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHAT))
    for keys, told in (({}, True), ({"max_length": 1024}, False)):
        tables = with_key(BASES["lora-single"], "data", {"train": [HUB, OWN], **keys})
        (finding,) = (found for found in compiled(tmp_path, tables).diagnostics if found.code == "W0509")
        assert ("`data.max_length`" in finding.notes[0]) is told


ODD = [{"said": str(n), "heard": "x"} for n in range(5)]


@pytest.mark.parametrize("format", [{}, {"format": "chat"}])
@pytest.mark.parametrize("base", ["lora-single", "kto", "grpo"])
@pytest.mark.parametrize("first", [True, False])
def test_a_file_of_unknown_columns_is_named_beside_a_data_set_of_the_hub(
    tmp_path: Path, base: str, first: bool, format: dict[str, str]
) -> None:
    """Wherever it stands among the sources: the rows of the one before it are not there to be looked at."""
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ODD))
    sources = [{"hub": "org/rows"} | format, {"path": "odd.jsonl"}]
    section = next(name for name in BASES[base]["data"] if name in ("train", "preferences", "prompts"))
    tables = with_key(BASES[base], "data", {section: sources if first else sources[::-1]})
    labels = [one.message for found in compiled(tmp_path, tables).diagnostics for one in found.labels]
    assert any("odd.jsonl:1 has the columns `said`, `heard`" in label for label in labels)


@pytest.mark.parametrize("train", [{"hub": "org/rows"}, "chat.jsonl", [{"hub": "org/rows"}, "chat.jsonl"]])
def test_rows_that_no_stage_reads_are_refused_wherever_they_are(tmp_path: Path, train: object) -> None:
    found = compiled(tmp_path, with_key(BASES["reward"], "data.train", train)).diagnostics
    (finding,) = (finding for finding in found if finding.code.startswith("E"))
    assert finding.code == "E0401" and "remove data.train" in finding.help[0]
    assert finding.labels[0].message == "has no stage that reads them"


@pytest.mark.parametrize(
    ("hub", "assumed"),
    [
        ({"examples": 5_000}, "tokens_per_example"),
        ({"tokens_per_example": 700}, "examples"),
        ({}, "examples tokens_per_example"),
    ],
)
def test_the_assumed_size_names_what_is_not_stated_and_is_gone_once_it_is(
    tmp_path: Path, hub: dict[str, int], assumed: str
) -> None:
    """Beside rows that are read: the mean over both is neither assumed nor to be stated."""
    (finding,) = _of_sizes(tmp_path, {**HUB, **hub})
    values = {"examples": 10_000, "tokens_per_example": 500}
    said = " and ".join(f"{id} = {values[id]:,}" for id in assumed.split())
    assert [label.message for label in finding.labels] == [f"not read at compile time, so recipec assumes {said}"]
    assert finding.help[0] == f"set {' and '.join(f'`{id}` of `org/rows`' for id in assumed.split())}"
    stated = {**HUB, **hub, **{id: values[id] for id in assumed.split()}}
    assert not _of_sizes(tmp_path, stated)
    found = good(tmp_path, with_key(BASES["lora-single"], "data", {"train": [stated, OWN]})).plan.stages[0].decisions
    assert {found[id].origin for id in ("examples", "tokens_per_example")} == {"data"}


def _of_sizes(folder: Path, *sources: dict[str, Any]) -> list[Diagnostic]:
    (folder / "own.jsonl").write_text("".join(json.dumps(_short(n)) + "\n" for n in range(150)))
    tables = with_key(BASES["lora-single"], "data", {"train": [*sources, OWN]})
    return [found for found in compiled(folder, tables).diagnostics if found.code == "W0509"]


def test_only_sources_whose_size_is_assumed_are_named(tmp_path: Path) -> None:
    other = {"hub": "org/others", "format": "chat", "examples": 2_000}
    (finding,) = _of_sizes(tmp_path, {**HUB, "tokens_per_example": 300, "take": 900}, other)
    assert len(finding.labels) == 1 and finding.help[0] == "set `tokens_per_example` of `org/others`"
