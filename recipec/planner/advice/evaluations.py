"""How long a look at held-out rows takes: one during training, and one by evaluate.py."""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes.answering import ENGINE
from recipec.axes.models import TEACHER
from recipec.estimate import whole_run
from recipec.estimate.evaluation import Evaluation, answering
from recipec.estimate.generation import writing_seconds
from recipec.estimate.links import Link
from recipec.estimate.step import step_of
from recipec.estimate.whole_run import Rows
from recipec.estimate.workload import Workload
from recipec.facts import Facts
from recipec.layout import Layout
from recipec.planner.plan import Needs
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.evaluating import batch_seconds
from recipec.planner.search.sequences import training_sequences
from recipec.planner.search.workload import work_of
from recipec.rules.core import Ledger
from recipec.rules.evaluation import training_rows


class Look(Struct, frozen=True):
    """One look at the rows that it reads at most, by a model that is loaded."""

    seconds: float
    passes: float  # over the weights


class Looks(Struct, frozen=True):
    """What an evaluation during training and one of evaluate.py take."""

    in_training: Look
    by_script: Look


def looks(
    facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds, needs: Needs, rows: Rows, asked_tokens: int | None
) -> Looks:
    """Rows are scored as fast as in the forward passes of training; answers are written as in its generations.

    `asked_tokens` are those of an answer that the recipe wants of evaluate.py; None: as many as in training.
    """
    written, held = bounds.typical.written_tokens, needs.evaluation
    during = in_training(facts, ledger, chosen, bounds, rows.evaluated)
    if not written:
        return Looks(during, _scored_by_script(facts, ledger, chosen, held, rows))
    by_script = _Writer(
        chosen.layout.alone,
        _plain(bounds.typical, asked_tokens or written),
        held.answers_at_once,
        scoring_gpus(held),
    )
    return Looks(during, _written(facts, bounds.link, by_script, rows.tested))


def in_training(facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds, rows: int) -> Look:
    """One evaluation of so many rows during training."""
    if not bounds.typical.written_tokens:
        return Look(_scored_in_training(facts, ledger, chosen, bounds, rows), 1.0)
    layout, at_once = chosen.layout, ledger.decisions["eval_batch_size"].value
    return _written(facts, bounds.link, _Writer(layout, bounds.typical, at_once, layout.mesh.data_parallel), rows)


def scoring_gpus(held: Evaluation) -> int:
    """GPUs that look at rows at the same time: each that holds the whole model, or one after the other."""
    return held.gpus if held.trained.whole else 1


def _scored_in_training(facts: Facts, ledger: Ledger, chosen: Candidate, bounds: Bounds, rows: int) -> float:
    """Forward passes of one rank as fast as in training; of several each has equally many full batches, one at least,
    for which rows are repeated (accelerate 1.15 data_loader.py, even_batches).
    """
    assert chosen.time is not None
    ranks, size = chosen.layout.mesh.data_parallel, ledger.decisions["eval_batch_size"].value
    if ranks == 1:
        seconds = _computing(chosen) + chosen.time.terms["communication"]  # inside layers, where ranks share them
        return rows * _step_share(facts, ledger, chosen) * seconds
    batches = ceil(rows * _sequences_per_row(ledger) / (ranks * size))
    return batches * _forward_share(facts, ledger, chosen) * batch_seconds(facts, chosen, bounds, size)


def _sequences_per_row(ledger: Ledger) -> float:
    """Below 1 where rows are packed."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    return training_sequences(value) / training_rows(value)


def _forward_share(facts: Facts, ledger: Ledger, chosen: Candidate) -> float:
    assert chosen.time is not None
    return whole_run.forward_share(facts.model.architecture, chosen.layout, work_of(ledger, facts), chosen.time.terms)


def _step_share(facts: Facts, ledger: Ledger, chosen: Candidate) -> float:
    """What the forward pass of a row takes of a step: the ranks of the training score rows as fast as they learn."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    share = _forward_share(facts, ledger, chosen)
    return share * value["total_steps"] / (training_rows(value) * value["passes"])


def _scored_by_script(facts: Facts, ledger: Ledger, chosen: Candidate, held: Evaluation, rows: Rows) -> Look:
    """evaluate.py repeats what a step computes; its ranks do not talk, no optimizer runs, nothing is copied."""
    alone = _step_share(facts, ledger, chosen) * _computing(chosen) * chosen.layout.mesh.world_size / scoring_gpus(held)
    rows_at_once = max(1, held.tokens_at_once // ceil(rows.tokens_each))  # a longer row is a batch of its own
    return Look(rows.tested * alone, ceil(rows.tested / rows_at_once))


def _computing(chosen: Candidate) -> float:
    """Seconds of a step in which models run."""
    assert chosen.time is not None
    return chosen.time.terms["compute"] + chosen.time.terms.get(TEACHER, 0.0)


class _Writer(Struct, frozen=True):
    """Who writes one answer to each row."""

    layout: Layout
    work: Workload
    at_once: int  # answers of a GPU
    gpus: int


def _plain(work: Workload, tokens: int) -> Workload:
    """Rows with answers of so many tokens, by transformers and weights in the type that is computed in."""
    own = tuple((name, value) for name, value in work.own if name != ENGINE.name)  # evaluate.py has no other engine
    weights = {"full_weights": "bf16", "autocast": False}
    return replace(answering(work, tokens), own=own, **weights)


def _written(facts: Facts, link: Link, writer: _Writer, rows: int) -> Look:
    """Every rank writes its share of the answers, so many at once, and waits for the longest."""
    shape, share = facts.model.architecture, ceil(rows / writer.gpus)
    times, at_once = ceil(share / writer.at_once), min(share, writer.at_once)
    step = step_of(shape, writer.layout, writer.work)
    each = writing_seconds(shape, writer.layout, writer.work, step, facts.gpu, link, at_once)
    return Look(times * each, times * writer.work.written_tokens)
