"""How long a run takes, as README.md says it: its speed, its parts, its cost, and what no GPU need wait for."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from recipec.backends.job import Job, StageJob
from recipec.backends.launchers import start_of
from recipec.backends.launchers.launcher import typed_evaluation
from recipec.backends.reading import asks_commits, sources_of
from recipec.planner.advice.prepared_ahead import (
    after_training,
    before_training,
    spared_seconds,
    tokenizing_seconds,
    waiting_gpus,
)
from recipec.planner.document import stage_document
from recipec.render.traced import Traced
from recipec.rules import reservations
from recipec.rules.words import device, run_of
from recipec.units import counted, duration


def timing(stage: StageJob) -> dict[str, Any]:
    """What README.md says of a stage's time; all of it predicted."""
    plan = stage.plan
    run = run_of(plan.stage.label, plan.stage.name, plan.decisions["stages"].value)
    cost = "" if plan.cost_usd is None else f"about ${plan.cost_usd:,.2f}: {plan.cost_because}"
    return {
        "speed": stage.because(_speed(stage), "prediction", "world_size"),
        "time": stage.because(f"about {duration(plan.told_seconds)} for {run}", "prediction"),
        "time_reservations": stage.because(_time_reservations(stage_document(plan)), "prediction", *_assumed(stage)),
        "cost": stage.because(cost, "prediction"),
        "parts": [_row(stage, part.name, part.told_seconds, part.because) for part in plan.parts],
    }


def _time_reservations(plan: dict[str, Any]) -> list[str]:
    """What `recipec plan` says beside the time and the cost."""
    assumed = [f"assumes {line}" for line in reservations.assumed(plan)]
    labels = ("rates ", "")  # as `recipec plan` has them
    rates = [f"{label}{line}" for label, line in zip(labels, reservations.rates(plan), strict=False)]
    return [reservations.of_step(plan["time"]), reservations.not_counted(plan), *assumed, *rates]


def _assumed(stage: StageJob) -> list[str]:
    """The decisions that say what is assumed of a machine and of rows."""
    ids = (*reservations.OF_MACHINE, *reservations.OF_LENGTHS)
    return [id for id in ids if id in stage.plan.decisions]


def _row(stage: StageJob, name: str, seconds: float, because: str) -> Any:
    """One part of the run, as `recipec plan` has it."""
    texts = (name, duration(seconds), because)
    return SimpleNamespace(
        **{key: stage.because(text, "prediction") for key, text in zip(("name", "time", "because"), texts, strict=True)}
    )


def _speed(stage: StageJob) -> str:
    """Tokens per second of one device, as preflight.py measures them: those of the rows, not their padding."""
    each = float(f"{stage.plan.time.tokens_per_second_per_gpu:.2g}")
    per = f" per {device(stage.on_cpu)}" if stage.value("world_size") > 1 else ""
    shown = f"{each:,.{0 if each >= 10 else 1}f}"
    return f"about {shown} tokens per second{per}, without padding, evaluations and saves"


def prepared_ahead(job: Job) -> Traced:
    """How the GPUs are spared the preparation of the data; empty where it takes little of their time."""
    return job.because(" ".join(_rows_ahead(job)), "prediction", "gpus", "data_format")


def tokenized_ahead(job: Job) -> Traced:
    """How other nodes are spared the tokenization; empty where it takes little of their time."""
    return job.because(" ".join(_tokens_ahead(job)), "prediction", "gpus", "nodes")


def scored_apart(job: Job) -> Traced:
    """How other nodes are spared what evaluate.py does; empty where it takes little of their time."""
    return job.because(" ".join((*_scored_ahead(job), *_scored_behind(job))), "prediction", "gpus", "nodes")


def _scored_ahead(job: Job) -> Iterator[str]:
    found = before_training(job.plan, job.loaded)
    if not found.others:
        return
    parts = f"The download and the first scoring take about {duration(found.seconds)} (predicted)"
    yield f"{parts}, in which {counted(found.others, 'GPU')} of other nodes wait."
    scores = typed_evaluation(job.stages[0], "before")
    yield (
        f"To do both before you rent these, run `python prepare_data.py` and `{scores}` on one node, in this folder "
        "and with the `HF_HOME` that all nodes share. The launch on all nodes finds the model and its scores and "
        "passes over both."
    )


def _scored_behind(job: Job) -> Iterator[str]:
    found, last = after_training(job.plan, job.loaded), job.stages[-1]
    if not found.others:
        return
    yield (
        f"The last scoring takes about {duration(found.seconds)} (predicted) on the first node alone. On the other "
        "nodes the script ends with the training: give them back then."
    )
    yield (
        "Slurm keeps all nodes of a job until it ends: cancel the job once "
        f"`outputs/{last.name}/finished.json` is there, and run `{typed_evaluation(last, 'after')}` on one node."
    )


def _rows_ahead(job: Job) -> Iterator[str]:
    seconds = spared_seconds(job.plan, job.loaded)
    if not seconds:
        return
    data = "data" if any(source.hub for source in sources_of(job)) else "data files"
    yield f"Data preparation takes about {duration(seconds)} (predicted), in which {waiting_gpus(job.stages[0].plan)}."
    yield (
        "To prepare before you rent them, run `python prepare_data.py` in this folder on a machine without a GPU, "
        f"with the same packages and {data}. The launch finds the rows up to date and does not prepare them again."
    )
    if asks_commits(job):
        yield (
            "It does where the data set of the Hub has a new commit, and stops where it cannot ask the Hub: to pin "
            "the data set, set its `revision` in the recipe to the 40 digits of a commit."
        )


def _tokens_ahead(job: Job) -> Iterator[str]:
    """The launch with --max-steps on one node: what it trains is passed over, and its tokens are in HF_HOME."""
    seconds, per_node = tokenizing_seconds(job.plan, job.loaded), job.facts.machines.gpus_per_node
    if not seconds:
        return
    grouped = [stage.plan.layout.mesh.shard for stage in job.stages if stage.strategy.groups]
    shards = f"SHARDS={min(*grouped, per_node)} " if grouped else ""
    start = start_of(job)
    command = f"OTHER_RANKS=1 NNODES=1 {shards}{start.command} {start.script} --max-steps 1"
    gpus = waiting_gpus(job.stages[0].plan)
    yield f"Tokenization by train.py takes about {duration(seconds)} (predicted), in which {gpus}."
    yield (
        f"To tokenize before you rent all nodes, run `{command}` on one of them. The launch on all nodes finds the "
        "tokens in the `HF_HOME` that they share, also where that run stops behind them because the model needs the "
        "memory of more nodes."
    )
    for repeats, trainer in dict.fromkeys((stage.method.repeats, stage.method.trainer) for stage in job.stages):
        if repeats:
            yield f"Each rank still {repeats}: {trainer} makes this step anew in every process."
