"""Pretraining on little text: a warning that names the model to continue from instead."""

from __future__ import annotations

from math import log

from recipec.catalog.models import models
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.planner.plan import StagePlan
from recipec.recipe import LoadedRecipe

WANTED_TOKENS = 10**12  # rule book 001, Step 1 (Full Pre-training: 1T+ tokens)
TOKENS_PER_PARAMETER = 20  # compute-optimal: Hoffmann et al. 2022 ("Chinchilla", arXiv 2203.15556)


def warn_of_few_tokens(loaded: LoadedRecipe, stage: StagePlan, report: Report) -> None:
    """Report W0506 where random weights see fewer tokens than rule book 001 asks for."""
    tokens = stage.steps * stage.layout.global_batch * stage.decisions["max_length"].value
    if stage.stage.name != "pretrain" or tokens >= WANTED_TOKENS:
        return
    params = stage.decisions["params"].value
    labels = (
        Label(loaded.place("goal", "task"), "from random weights"),
        Label(loaded.place("data", "train"), f"{_count(tokens)} tokens, {tokens / params:.2g} per parameter"),
    )
    base = _base_model(stage.decisions["model"].value, params)
    help = (f'continue a trained model: task = "continue-pretrain" with model.name = "{base}"',)
    optimal = (
        f"Hoffmann et al. 2022 (arXiv 2203.15556): {TOKENS_PER_PARAMETER} tokens per parameter make the best use of "
        f"compute, {_count(TOKENS_PER_PARAMETER * params)} for this model"
    )
    notes = ("rule book 001: full pretraining takes 1T tokens or more, and only when no suitable base model exists",)
    title = f"pretraining on {_count(tokens)} tokens, fewer than 1T"
    report.add(Diagnostic("W0506", title, labels, help, (*notes, optimal)))


def _count(tokens: float) -> str:
    """A number of tokens as people say it: 30B, 5.2M, 4,096."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:,}"


def _base_model(name: str, params: int) -> str:
    """The base model of the catalog with this name, else the one nearest in size."""
    known = [model for model in models() if model.kind == "base"]
    return min(known, key=lambda other: (other.name != name, abs(log(other.architecture.params / params)))).name
