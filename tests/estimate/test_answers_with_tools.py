"""Answers that call tools: what they take of memory and time beside answers of one turn."""

from __future__ import annotations

import pytest
from compiling import BASES, SHOP, compiled, with_key
from msgspec.structs import replace

from recipec.planner.plan import StagePlan
from recipec.planner.search.workload import shown_tokens
from recipec.rules.preference import FORMULAS

TURNS = with_key(with_key(BASES["tools"], "alignment.tools", None), "alignment.generation.max_new_tokens", 1024)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> StagePlan:
    done = compiled(tmp_path_factory.mktemp("tools"), TURNS, only_plan=True)
    assert done.plan, [str(finding) for finding in done.diagnostics]
    return done.plan.stages[0]


def test_descriptions_and_results_are_part_of_the_sequence(plan: StagePlan) -> None:
    value = {id: decision.value for id, decision in plan.decisions.items()}
    shown = value["schema_tokens"] + value["result_tokens"]
    assert shown_tokens(value) == plan.work.shown_tokens == shown > value["result_tokens"] > 0
    assert plan.work.seq_len_tokens == value["max_length"] + shown + value["max_new_tokens"]
    assert plan.work.rounds == value["tool_rounds"] == 4 and plan.work.result_tokens == 128
    assert SHOP.count("Args:") == 3  # of which one is a tool of the class


def test_a_later_turn_holds_the_whole_answer_before_it(plan: StagePlan) -> None:
    from recipec.estimate.memory import step_memory

    architecture = with_architecture()
    turns, one = (
        step_memory(architecture, plan.layout, work).moments["generation"]
        for work in (plan.work, replace(plan.work, rounds=0))
    )
    answers = plan.layout.micro_batch * plan.layout.accumulation * plan.work.updates
    cache = 2 * architecture.cached_features * answers * plan.work.written_tokens
    assert turns - one >= cache


def test_every_round_reads_the_answers_again_and_writes_less(plan: StagePlan) -> None:
    from recipec.catalog.gpus import gpu
    from recipec.estimate.generation import writing_seconds
    from recipec.estimate.links import link_of
    from recipec.estimate.step import step_of

    architecture, card = with_architecture(), gpu("h100")
    link = link_of(card, "nvlink", 1, 100.0)

    def seconds(**changed: int) -> float:
        work = replace(plan.work, **changed)
        return writing_seconds(
            architecture, plan.layout, work, step_of(architecture, plan.layout, work), card, link, 64
        )

    assert seconds(result_tokens=0, rounds=0) < seconds(result_tokens=0, rounds=2) < seconds(result_tokens=0, rounds=4)
    assert seconds(result_tokens=200, rounds=4) < seconds(result_tokens=0, rounds=4)


def with_architecture():
    from recipec.catalog.models import model

    return model("Qwen/Qwen3-0.6B").architecture


@pytest.mark.parametrize(
    ("most", "each", "rounds", "accepts"),
    [
        (1024, 128, 4, (1, 7)),
        (1023, 128, 3, (1, 7)),
        (512, 128, 2, (1, 3)),
        (256, 128, 1, (1, 1)),
        (64, 128, 1, (1, 1)),
        (8192, 128, 4, (1, 63)),
    ],
)
def test_results_leave_half_of_an_answer(most: int, each: int, rounds: int, accepts: tuple[int, int]) -> None:
    found = FORMULAS["rounds of results"](max_new_tokens=most, result_tokens=each)
    assert (found.value, found.accepts) == (rounds, accepts)
