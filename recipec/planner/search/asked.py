"""Decisions that a stage has, or takes otherwise, only where the recipe asks for something."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.axes.loops import LOOPS, TRAINER
from recipec.catalog.architecture import Architecture
from recipec.recipe.schema_data import GENERAL
from recipec.rules import dispatch, forgetting, kernels, precision
from recipec.rules.core import Decision, Ledger
from recipec.rules.evaluation import own_rows
from recipec.rules.intervals import divided
from recipec.units import percent

# Of the task, without replay.
OWN_ROWS = "examples", "source_rows", "tokens_per_example", "eval_fraction", "test_fraction"
_ELASTIC = forgetting.ewc_strength, forgetting.ewc_rows
_DISPATCH = dispatch.capacity_factor, dispatch.eval_capacity_factor, dispatch.min_capacity, dispatch.balance_loss
_USUAL = (precision.fp8, False), (kernels.training_loop, TRAINER.name)


def dispatch_tokens(ledger: Ledger, shape: Architecture) -> None:
    """The room of experts: where the loop trains them in layers of DeepSpeed-MoE, or the recipe asks for it."""
    value = ledger.decisions
    loop = LOOPS[value["loop"].value] if "loop" in value else None
    trains = loop is not None and value["moe"].value and value["stage"].value in loop.dispatches
    if trains or any(rule.key in ledger.wishes for rule in _DISPATCH):
        for rule in _DISPATCH:
            ledger.decide(rule)
        because = "attention, the router and the experts of a token; those of other tokens rest"
        ledger.record(
            Decision("active_params", shape.active_params, because, inputs=("model", "moe"), origin="planner")
        )


def hold_weights(ledger: Ledger) -> None:
    """Elastic weight consolidation: how strongly, and which rows tell what matters."""
    if any(rule.key in ledger.wishes for rule in _ELASTIC):
        for rule in _ELASTIC:
            ledger.decide(rule)


def replay_rows(ledger: Ledger) -> None:
    """General rows among the training rows: their share, how many these are, and how long the rows are then."""
    given = ledger.decisions
    asked, held = forgetting.replay.key in ledger.wishes, "ewc_strength" in given
    learns = METHODS[given["stage"].value].learns_tokens
    if not learns or not _has_general(given) or (held and not asked):
        return
    ledger.decide(forgetting.replay)
    rows = given["ewc_rows"] if held else Decision("ewc_rows", 0, "no rows tell which weights matter")
    held_out = ledger.decide(forgetting.general_held_out, rows)
    given[held_out.id] = replace(held_out, inputs=("ewc_rows",) * held)
    _mix(ledger)


def _has_general(given: Mapping[str, Decision]) -> bool:
    found = given.get(f"has_{GENERAL}_file")
    return found is not None and bool(found.value)


def _mix(ledger: Ledger) -> None:
    """Record the general rows that are learned, and the mean length of all training rows."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    own, mean, share = own_rows(value), value["tokens_per_example"], value["replay"]
    cut = value["overflow"] != "split"  # text that is split keeps all its tokens
    each = min(value["general_tokens"], value["max_length"]) if cut else value["general_tokens"]
    rows = max(1, round(own * mean * share / (1 - share) / each))
    told = f"beside {own:,} rows of about {mean:,} tokens, at about {each:,} tokens per general row"
    inputs = ("replay", "general_tokens", "max_length", "overflow", *OWN_ROWS)
    because = f"{percent(share)} of all training tokens {told}"
    ledger.record(Decision("replay_rows", rows, because, inputs=inputs, origin="planner"))
    mixed = round((own * mean + rows * each) / (own + rows))
    because = f"about {mean:,} per row of the task and {each:,} per general row"
    inputs = ("replay_rows", "general_tokens", "max_length", "overflow", *OWN_ROWS)
    ledger.record(Decision("training_tokens", mixed, because, inputs=inputs, origin="planner"))


def unusual(ledger: Ledger) -> None:
    """FP8 products and a loop of train.py's own; a recipe that states what is usual trains as without the key."""
    for rule, usual in _USUAL:
        wish = ledger.wishes.get(rule.key)
        if wish is not None and wish.value != usual:
            ledger.decide(rule)


def compile_for_fp8(ledger: Ledger, compiled: Decision) -> None:
    """The model is compiled where it multiplies in FP8, unless the recipe says otherwise (BAD-191)."""
    asked = ledger.decisions.get("fp8")
    if asked is not None and asked.value and compiled.origin != "recipe":
        because = "FP8 is faster than bf16 only where torch.compile fuses rounding and scaling"
        inputs = (*compiled.inputs, "fp8")
        ledger.decisions["compile"] = replace(compiled, value=True, because=because, inputs=inputs)


def combine_adapters(ledger: Ledger, table: str) -> None:
    """What combines the adapter of a stage with those of other tasks, where there are any."""
    if table:
        ledger.record(Decision("combined", table, "the recipe has several tasks", inputs=("stage",), origin="planner"))


def mix_adapters(ledger: Ledger, tasks: tuple[str, ...]) -> None:
    """Which adapters a stage learns to mix, where it mixes any."""
    if tasks:
        inputs = ("stage", "adaptation", "reduction_factor", "adapters_after")
        ledger.record(Decision("mixed_adapters", tasks, "those of all tasks", inputs=inputs, origin="planner"))


def beside_checkpoints(ledger: Ledger, every: Decision) -> Decision:
    """Where the recipe says how often to save, and not how often to evaluate, each checkpoint meets an evaluation."""
    saved = ledger.wishes.get("train.save_every")
    if saved is None or every.origin == "recipe":
        return every
    share = divided(saved.value, every.value)
    because = f"a checkpoint every {saved.value:g} of the steps, set in {saved.where}, must meet an evaluation"
    ledger.decisions[every.id] = replace(every, value=share, because=because)
    return ledger.decisions[every.id]
