"""The training step of a stage as the estimates see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, METHODS
from recipec.axes.adaptations import MATRICES
from recipec.axes.loops import LOOPS
from recipec.axes.models import TEACHER
from recipec.catalog.architecture import Architecture
from recipec.catalog.model_types import MODEL_TYPES
from recipec.estimate.many_rows import RowOrder
from recipec.estimate.workload import Workload, adapter_shape
from recipec.facts import Facts
from recipec.planner.search.sequences import settled_method, training_sequences
from recipec.rules import evaluation
from recipec.rules.core import Ledger


def _judges(value: Mapping[str, Any], facts: Facts) -> tuple[Architecture, ...]:
    """The reward models that are kept beside the policy: those of the recipe, or one that is trained from its model."""
    trained = [facts.model.architecture] * ("judge" in value)
    return (*trained, *(judge.model.architecture for judge in facts.rewards.models))


_BESIDE_ROWS = ("max_new_tokens", "virtual_tokens")  # tokens of a sequence that its row does not have


def shown_tokens(value: Mapping[str, Any]) -> int:
    """Tokens of a prompt beside its row: descriptions of tools, and what the reset of an environment says."""
    return value.get("schema_tokens", 0) + (value["result_tokens"] if "environment" in value else 0)


def _reads_published(value: Mapping[str, Any], facts: Facts) -> bool:
    """Whether the stage goes on from no other, and the model that it starts with is not made by a script."""
    before = value["stages"][: value["stages"].index(value["stage"])]
    starts = [name for name in before if name != value.get("judge")]
    return not starts and not facts.new_tokens and not facts.model.stored


def _loads_itself(value: Mapping[str, Any], facts: Facts) -> bool:
    """Whether train.py may load the model, and no trainer: one that learns from its rows, by weights or low-rank
    adapters that do not start from the weights, in the Trainer's loop. FSDP hands out parameters, and no buffers; a
    model whose code recipec does not know may have some."""
    method, row = METHODS[value["stage"]], ADAPTATIONS[value["adaptation"]]
    learns = method.writes and not (method.generates or method.has_teacher or method.random_weights)
    trains = row.trains_all or (row.trains == MATRICES and not LORA_VARIANTS[value["lora_variant"]].own_code)
    plain = not {"ewc_strength", "init_from", "loop"} & value.keys() and not value.get("fp8", False)
    type, own = MODEL_TYPES[facts.model.architecture.model_type], facts.loaded.recipe.model
    known = not (own.like or own.trust_remote_code or type.causal_class or type.stored_buffers)
    return learns and trains and plain and known


def order_of(ledger: Ledger) -> RowOrder:
    """The order that each rank draws: of prompts where the answers are written in training."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    generates = METHODS[value["stage"]].generates
    drawn = evaluation.training_rows(value) if generates else training_sequences(value)
    return RowOrder(round(drawn), value["sampling"], "loop" in value and LOOPS[value["loop"]].own)


def work_of(ledger: Ledger, facts: Facts) -> Workload:
    """One training step as the estimates see it."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    method = settled_method(ledger.decisions)
    return Workload(
        objective=value["stage"],
        own=tuple((own.name, value[own.name]) for own in method.own if own.changes),
        seq_len_tokens=value["max_length"] + shown_tokens(value) + sum(value.get(part, 0) for part in _BESIDE_ROWS),
        lora=adapter_shape(facts.model.architecture, value),
        teacher=facts.others[TEACHER].model.architecture if method.has_teacher else None,
        judges=_judges(value, facts) if method.earns else (),
        head=LOOPS[value["loop"]].head if "loop" in value else "",
        written_tokens=value.get("max_new_tokens", 0),
        shown_tokens=shown_tokens(value),
        rounds=value.get("tool_rounds", 0),
        result_tokens=value.get("result_tokens", 0),
        updates=value.get("updates", 1),
        answer_passes=value.get("answer_passes", 1),
        elastic="ewc_strength" in value,
        capacity_factor=value.get("capacity_factor", 0.0),
        published=_reads_published(value, facts) and not method.random_weights,
        loads_itself=_loads_itself(value, facts),
        fp8=value.get("fp8", False),
        padded=not value["packing"],
        compiled=value["compile"],
        decays=value["weight_decay"] > 0,
        sync_each_batch=True,
        on_cpu=facts.gpu.kind == "cpu",
    )
