"""Every decision that the workload of a step is made from is named as an input of the layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, compiled, with_key

from recipec.facts import Facts
from recipec.planner import outcome, runs
from recipec.planner.search.workload import work_of
from recipec.rules.core import Ledger

SMALL = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen2.5-0.5B-Instruct")
FULL = with_key(with_key(SMALL, "train.adaptation", "full"), "hardware.gpu", "h100")
CASES = BASES | {
    "elastic": with_key(with_key(FULL, "data.general", "general.jsonl"), "train.ewc", {"strength": 3.0}),
    "fp8": with_key(FULL, "train.fp8", True),
    "dora": with_key(BASES["lora-single"], "train.lora.variant", "dora"),
}


def read_by(ledger: Ledger, facts: Facts) -> set[str]:
    """The decisions without which the workload is another, or cannot be told."""
    work, found = work_of(ledger, facts), set()
    for id, decision in list(ledger.decisions.items()):
        del ledger.decisions[id]
        try:
            changed = work_of(ledger, facts) != work
        except KeyError:
            changed = True
        ledger.decisions[id] = decision
        found |= {id} if changed else set()
    return found


@pytest.mark.parametrize("base", CASES)
def test_what_a_step_is_made_from_is_an_input_of_its_layout(tmp_path: Path, base: str, monkeypatch) -> None:
    missing: dict[str, set[str]] = {}
    record = outcome.record_layout

    def recorded(ledger: Ledger, chosen, facts: Facts, *more) -> None:
        read = read_by(ledger, facts)
        assert "max_length" in read
        record(ledger, chosen, facts, *more)
        missing[ledger.decisions["stage"].value] = read - {*outcome.timed_inputs(ledger)}

    monkeypatch.setattr(runs, "record_layout", recorded)
    assert compiled(tmp_path, CASES[base], only_plan=True).plan
    assert missing and not any(missing.values()), missing
