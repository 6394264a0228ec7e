"""The bill of a stage: every part of its run, with the time that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipec.axes import METHODS
from recipec.axes.generators import GENERATORS, TRANSFORMERS
from recipec.estimate import whole_run
from recipec.estimate.loading import read_bytes
from recipec.estimate.whole_run import Rows, RunPart
from recipec.facts import Facts
from recipec.planner.advice.evaluations import looks
from recipec.planner.advice.needs import fetches_model
from recipec.planner.plan import Needs
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate
from recipec.planner.search.workload import work_of
from recipec.rules.core import Ledger
from recipec.rules.evaluation import looked_at, looked_at_general, prepared_rows, read_rows, rows_apart, training_tokens
from recipec.rules.failures import expected_failures
from recipec.rules.intervals import generated, saves_in, steps_taught, times_in
from recipec.rules.loader import node_cores, tokenizing_processes
from recipec.units import counted

WORTH_TELLING = 0.001  # of the training: what failures repeat is told from there on; our decision


def bill(
    facts: Facts,
    ledger: Ledger,
    chosen: Candidate,
    bounds: Bounds,
    needs: Needs,
    asked_tokens: int | None,
    of_hub: bool,
) -> Iterator[RunPart]:
    """Yield the parts in the order they run; the ledger is settled, `asked_tokens` are of an answer of evaluate.py.

    `of_hub`: whether rows come from the Hub.
    """
    assert chosen.time is not None
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    steps, rows, rates = value["total_steps"], _rows(value), whole_run.rates_of(facts.gpu.measured)
    weights, merged = needs.read_bytes, 0 if value["stage"] == value["stages"][-1] else needs.merged_bytes
    step_seconds, taught = steps * chosen.time.seconds_per_step, steps_taught(value)
    look = looks(facts, ledger, chosen, bounds, needs, rows, asked_tokens)
    first = fetches_model(facts, value)
    yield whole_run.preparation(rows, node_cores(value), rates, starts=first, of_hub=of_hub)
    yield from _models(facts, needs, rates, first)
    read = weights
    if packed := needs.storage.packed_bytes:
        base = read_bytes(facts.model.architecture, work_of(ledger, facts))
        yield whole_run.packed(base, packed, rates)
        read += packed - base
    made = first and METHODS[value["stage"]].random_weights
    yield whole_run.loading(read, needs.storage.tried_bytes, rates, made)
    yield whole_run.tokenization(rows, tokenizing_processes(value), rates, METHODS[value["stage"]].cached_bytes)
    if chosen.reference_seconds:
        yield whole_run.reference(steps * chosen.reference_seconds)
    if "ewc_rows" in value:
        rows_measured = min(value["ewc_rows"], value.get("general_rows") or value["ewc_rows"])
        yield whole_run.fisher(rows_measured, chosen.time.seconds_per_step / value["global_batch_size"])
    written = chosen.time.terms.get("generation", 0.0)
    if written:
        answers = generated(value)
        unknown = ["reward functions"] * bool(facts.rewards.functions or facts.acting.judges)
        unknown += ["tools"] * ("tools" in value)
        longest, writer = value["max_new_tokens"], _writer(chosen, value)
        yield whole_run.generation(steps * written, answers, taught, longest, unknown, writer)
    yield whole_run.training(steps, step_seconds - steps * written, chosen.time.seconds_per_step - written)
    yield whole_run.evaluations(1 + times_in(value["eval_every"], steps, taught), rows, look.in_training.seconds)
    saves = saves_in(value["eval_every"], value["save_every"], steps, taught)
    if saves:
        yield whole_run.checkpoints(saves, needs.storage.checkpoint_bytes, rates)
    gpus = chosen.layout.mesh.world_size
    expected, again = expected_failures(step_seconds, gpus), needs.storage.checkpoint_bytes if saves else weights
    repeated = whole_run.failures(expected, step_seconds / max(1, saves), gpus, again, rates)
    if repeated.seconds >= WORTH_TELLING * step_seconds:
        yield repeated
    yield whole_run.result(needs.storage.export_bytes - merged, needs.storage.reloaded_bytes, merged, rates)
    waiting = _copied_seconds(needs, bounds) * look.by_script.passes
    yield whole_run.scoring(3 if merged else 2, rows, look.by_script.seconds + waiting, weights, rates)


def _writer(chosen: Candidate, value: Mapping[str, Any]) -> str:
    """What writes answers with a copy of the weights, and where; "" where the very weights do."""
    row = GENERATORS[value["generator"]] if "generator" in value else TRANSFORMERS
    if not row.own_copy:
        return ""
    served_by = value.get("server_gpus", 0)
    shared = f"{counted(served_by, 'GPU')} of its own" + ", which share each product" * (served_by > 1)
    split = value.get("engine_tensor_parallel", 1)
    reads = f"groups of {split} of which share the weights" if split > 1 else "each of which reads all weights"
    place = shared if served_by else f"{value['generator_share']:.0%} of each GPU, {reads}"
    return f"{row.title} writes them on {place}, as estimated and never measured"


def _models(facts: Facts, needs: Needs, rates: whole_run.Rates, first: bool) -> Iterator[RunPart]:
    """What it takes until the models that only this stage brings are on the disk as training reads them."""
    model = facts.model
    whole_bytes = 2 * model.architecture.params
    if downloaded := needs.storage.hub_cache_bytes:
        yield whole_run.download(downloaded, rates)
    if model.stored and first:
        yield whole_run.text_part(2 * model.params_on_disk, whole_bytes, rates)
    if facts.new_tokens and first:
        yield whole_run.extended(whole_bytes, rates)


def _rows(value: Mapping[str, Any]) -> Rows:
    evaluated, tested = looked_at(value, "eval"), looked_at(value, "test") + looked_at_general(value)
    return Rows(prepared_rows(value), training_tokens(value), evaluated, tested, read_rows(value), rows_apart(value))


def _copied_seconds(needs: Needs, bounds: Bounds) -> float:
    """Until the weights that evaluate.py holds in host memory have been on a GPU; 0 where none wait there."""
    held = needs.evaluation.trained
    return held.bytes / (bounds.link.copied_gb_s * 1e9) if held.offloaded else 0.0
