"""The hyperparameters of one stage under one adaptation: what decides how it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, METHODS, Adaptation
from recipec.axes.adaptations import MATRICES, SCALES, STAYING, WEIGHTS
from recipec.catalog.architecture import Architecture
from recipec.estimate.sizes import trainable_params
from recipec.estimate.workload import adapter_shape
from recipec.facts import Facts
from recipec.facts.data import DataFacts
from recipec.planner.plan import Stage
from recipec.planner.search.asked import (
    beside_checkpoints,
    combine_adapters,
    compile_for_fp8,
    dispatch_tokens,
    hold_weights,
    mix_adapters,
    replay_rows,
    unusual,
)
from recipec.planner.search.experts import adapted_experts, router_loss
from recipec.planner.search.global_batch import IDLE, raise_batch, whole_groups
from recipec.planner.search.new_rows import trained_rows
from recipec.planner.search.sequences import settled_method, step_inputs, training_sequences
from recipec.planner.search.served import serve_answers
from recipec.rules import (
    adaptation as adaptations,
)
from recipec.rules import (
    batch,
    checkpoints,
    data,
    evaluation,
    kernels,
    loader,
    lora,
    memory,
    optimizer,
    preference,
    schedule,
    tracking,
)
from recipec.rules import precision as precisions
from recipec.rules.core import Decision, Ledger, Wish
from recipec.rules.optimizers import WITHOUT_BETAS
from recipec.rules.watching import watched_for
from recipec.units import percent

EIGHT_BIT = "adamw-8bit"  # what the planner takes where the states of AdamW do not fit


class Context(Struct, frozen=True):
    """One stage, everything that is given for it, and what the recipe fixes."""

    stage: Stage
    goals: tuple[Decision, ...]  # what decided that this stage runs
    facts: Facts
    data: DataFacts
    wishes: Mapping[str, Wish]
    before: Adaptation | None  # of the stage that it starts from, once that one is planned
    undropped: str = ""  # why adapters have no dropout where the recipe does not set it
    small_states: str = ""  # why AdamW keeps its states in 8 bits where the recipe does not name an optimizer
    least_batch: int = 0  # examples in a global batch that the recipe does not set, so that GPUs have work
    batch_short: str = IDLE  # what is wrong with fewer
    slower: float = 1.0  # times the time per example of the best global batch that its own takes
    only: str = ""  # the one adaptation to look at; "" for all that are acceptable
    built: bool = False  # whether only what a bundle can train is of use

    @property
    def acts(self) -> bool:
        """Whether the model calls tools while it learns."""
        return bool(METHODS[self.stage.name].acts) and self.facts.acting.acts

    def _rewards(self) -> tuple[Decision, ...]:
        """What judges the answers."""
        environment = self.facts.acting.judges if self.acts else ""
        return self.facts.rewards.decisions(self.stage.judge, environment)

    def ledger(self) -> Ledger:
        """A fresh ledger that holds the facts."""
        ledger = Ledger(self.wishes)
        others = [self.facts.others[role].decisions.values() for role in METHODS[self.stage.name].named_models]
        rewards = self._rewards() if METHODS[self.stage.name].earns else ()
        acting = self.facts.acting.decisions() if self.acts else ()
        of_models = (*chain(*others), *rewards, *acting)
        given = (*self.facts.decisions.values(), *of_models, *self.data.decisions.values(), *self.goals)
        for fact in given:
            ledger.record(fact)
        names = next(decision.value for decision in self.goals if decision.id == "stages")
        place = f"stage {names.index(self.stage.name) + 1} of {len(names)}" if len(names) > 1 else "the only stage"
        place = f"the adapter of {self.stage.task}, beside those of other tasks" if self.stage.task else place
        place = f"behind the adapters of {', '.join(self.stage.mixes)}, which it mixes" if self.stage.mixes else place
        inputs = tuple(decision.id for decision in self.goals)
        ledger.record(Decision("stage", self.stage.name, place, inputs=inputs, origin="planner"))
        combine_adapters(ledger, self.stage.combined)
        if self.stage.judge:
            because = "the recipe names no reward, so that the result of this stage judges the answers"
            ledger.record(Decision("judge", self.stage.judge, because, inputs=("stages",), origin="planner"))
        return ledger


def settle(context: Context, adaptation: str, because: str) -> Ledger:
    """Decide everything that does not depend on how the stage lies on the hardware; `adaptation` names a row."""
    ledger = context.ledger()
    _adaptation(ledger, ADAPTATIONS[adaptation], because)
    _numerics(ledger)
    if context.small_states:
        _small_states(ledger, context.small_states)
    _data(ledger)
    _learning(ledger)
    dispatch_tokens(ledger, context.facts.model.architecture)
    raise_batch(ledger, context.least_batch, context.batch_short)
    if ADAPTATIONS[adaptation].trains == MATRICES:
        _lora(ledger, context.facts.model.architecture)
        if context.undropped:
            dropout = ledger.decisions["lora_dropout"]
            why = f"{context.undropped}; {dropout.because}"
            ledger.decisions[dropout.id] = replace(dropout, value=0.0, because=why, origin="planner")
    if ADAPTATIONS[adaptation].trains == SCALES:
        ledger.decide(adaptations.scaled_modules, ledger.decisions["moe"])
    for rule in adaptations.shaping(ADAPTATIONS[adaptation]):
        ledger.decide(rule)
    mix_adapters(ledger, context.stage.mixes)
    for rule in preference.own_rules(context.stage.name, acts=context.acts):
        ledger.decide(rule, *(ledger.decisions[name] for name in rule.inputs))
    if "per_prompt" in ledger.decisions:
        whole_groups(ledger)
    serve_answers(ledger, context.facts.model.architecture)
    if settled_method(ledger.decisions).has_reference:
        _reference(ledger, context)
    plain = "balance_loss" not in ledger.decisions
    if plain and settled_method(ledger.decisions).writes and context.facts.model.architecture.balanced:
        ledger.record(router_loss(ledger.decisions["adaptation"]))
    _trainable(ledger, context.facts.model.architecture)
    _passes(ledger)
    return ledger


def _adaptation(ledger: Ledger, row: Adaptation, because: str) -> None:
    given = ledger.decisions
    basis = ("stage", "priority", "data_rows", "params", "total_vram_gb", "new_domain", "first_time", "gpu_is_cpu")
    reasons = (
        ("adaptation", row.name, because, basis),
        ("quantization", row.base, row.why_base, ("adaptation", *basis)),
    )
    for id, value, why, inputs in reasons:
        wish = ledger.wishes.get(f"train.{id}")
        ledger.record(
            Decision(
                id,
                value,
                _stated(wish) if wish else why,
                inputs=inputs,
                origin="recipe" if wish else "planner",
                rule=adaptations.adaptation_preferences.id,
                watch=watched_for(id, value, ledger.decisions),
                source=adaptations.adaptation_preferences.source,
                key=f"train.{id}",
                where=wish.where if wish else "",
            )
        )
    ledger.decide(adaptations.double_quantization, given["quantization"])
    if row.trains == MATRICES:
        ledger.decide(lora.lora_variant)


def _stated(wish: Wish) -> str:
    """How the recipe says it."""
    if not wish.implied_by:
        return f"set in {wish.where}"
    return f"the table `{wish.implied_by.rpartition('.')[-1]}` in {wish.where} shapes an adapter"


def _numerics(ledger: Ledger) -> None:
    given = ledger.decisions
    ledger.decide(precisions.precision, given["gpu_bf16"], given["gpu_is_cpu"])
    unusual(ledger)
    ledger.decide(kernels.attention, given["has_sdpa"])
    ledger.decide(optimizer.optimizer, given["adaptation"], given["priority"], given["gpu_is_cpu"])
    ledger.decide(
        memory.checkpointing_default,
        given["params"],
        given["priority"],
        given["total_vram_gb"],
        given["gpu_is_cpu"],
    )


def _small_states(ledger: Ledger, because: str) -> None:
    """8-bit states instead of those of AdamW, which do not fit; adapters have few of them."""
    decided = ledger.decisions["optimizer"]
    if decided.origin != "recipe" and decided.value == "adamw" and not ledger.decisions["gpu_is_cpu"].value:
        ledger.decisions[decided.id] = replace(decided, value=EIGHT_BIT, because=because)


def _data(ledger: Ledger) -> None:
    given = ledger.decisions
    stage = given["stage"]
    ledger.decide(data.overflow, stage)
    ledger.decide(data.max_length, stage, given["tokens_per_example"], given["tokens_p99"], given["max_position"])
    packing = ledger.decide(data.packing, stage, given["attention"])
    compile_for_fp8(ledger, ledger.decide(kernels.compile_model, ledger.decide(data.packing_strategy, stage, packing)))
    ledger.decide(data.dropped_rows_limit)
    template = ledger.decide(data.template, given["data_format"], given["model_kind"], given["has_template"])
    marked, apart = given["template_has_mask"], given["answers_apart"]
    ledger.decide(data.loss_on, stage, given["data_format"], template, marked, apart)
    ledger.decide(data.eos_token, stage, template, given["template_end"], given["has_turn_end"], given["stop_tokens"])
    ledger.decide(data.deduplication)
    ledger.decide(data.leak_check)
    _held_out(ledger)


def _held_out(ledger: Ledger) -> None:
    """The shares for evaluation and test; one that is decided leaves room for one that the recipe sets."""
    given = ledger.decisions
    held = given["source_rows"], given["stage"], given["params"]
    parts = [(evaluation.eval_fraction, given["has_eval_file"]), (evaluation.test_fraction, given["has_test_file"])]
    beside: list[Decision] = []
    for rule, has_file in sorted(parts, key=lambda part: part[0].key not in ledger.wishes):
        decided = ledger.decide(rule, has_file, *held, *beside)
        beside = [decided] * (rule.key in ledger.wishes)


def _learning(ledger: Ledger) -> None:
    given = ledger.decisions
    stage, adaptation, examples, params = (given[id] for id in ("stage", "adaptation", "examples", "params"))
    named, variant = given["optimizer"], [given["lora_variant"]] if "lora_variant" in given else []
    ledger.decide(optimizer.learning_rate, stage, adaptation, examples, params, named, *variant)
    if ledger.decide(schedule.schedule).value == "warmup-stable-decay":
        ledger.decide(schedule.decay_share)
    ledger.decide(schedule.warmup, stage, examples)
    ledger.decide(schedule.epochs, stage, adaptation, given["data_rows"])
    if named.value not in WITHOUT_BETAS:
        ledger.decide(optimizer.adam_beta2, stage, adaptation, named)
    ledger.decide(optimizer.weight_decay, stage, named)
    ledger.decide(optimizer.max_grad_norm)
    size = (given["max_length"], given["tokens_per_example"], given["packing"], given["gpus"])
    held = (given["source_rows"], given["eval_fraction"], given["test_fraction"])
    ledger.decide(batch.global_batch_size, stage, adaptation, examples, params, *size, *held)
    ledger.decide(tracking.seed)
    ledger.decide(tracking.tracker)
    cores = (given["cores_per_gpu"], given["host_cores"], given["gpus_per_node"])
    if ledger.decide(loader.dataloader_workers, *cores, given["gpu_is_cpu"], stage).value:
        ledger.decide(loader.prefetch_factor)
        ledger.decide(loader.pin_memory, given["gpu_is_cpu"])
        ledger.decide(loader.persistent_workers)
    _order(ledger)
    hold_weights(ledger)
    replay_rows(ledger)


def _order(ledger: Ledger) -> None:
    """In which order the rows come: the recipe's curriculum, or the method's own."""
    asked = [rule for rule in (loader.curriculum_by, loader.curriculum_column) if rule.key in ledger.wishes]
    for one in asked:
        ledger.decide(one)
    parts, rule = ledger.decide(loader.curriculum_parts) if asked else None, loader.sampling
    if parts is None or rule.key in ledger.wishes:  # both is refused (BAD-123)
        ledger.decide(rule, ledger.decisions["stage"], ledger.decisions["packing"])
        return
    because = f"the rows stand from easy to hard, in {parts.value} parts"
    inputs = (*(one.decides for one in asked), parts.id)
    pages = {"rule": rule.id, "watch": parts.watch, "source": rule.source}
    ledger.record(Decision("sampling", "sequential", because, inputs=inputs, origin="planner", **pages))


def _lora(ledger: Ledger, architecture: Architecture) -> None:
    given = ledger.decisions
    stage, rows, variant = given["stage"], given["data_rows"], given["lora_variant"]
    rank = ledger.decide(lora.lora_rank, stage, given["new_domain"], rows, given["total_vram_gb"], given["gpu_is_cpu"])
    ledger.decide(lora.lora_alpha, stage, rank, variant)
    targets = ledger.decide(lora.lora_targets, given["moe"])
    experts = ledger.record(adapted_experts(targets, architecture))
    if experts.value:
        ledger.decide(lora.lora_expert_rank, rank, given["experts_per_token"])
    ledger.decide(lora.lora_dropout, stage, rows, experts, variant)
    if "new_tokens" in given and settled_method(given).learns_tokens:
        ledger.record(trained_rows(given["new_tokens"]))


_SHAPED_BY = {
    WEIGHTS: ("params", "adaptation", "stage"),
    MATRICES: ("params", "stage", "lora_rank", "lora_targets", "lora_variant"),
    SCALES: ("params", "adaptation", "stage", "ia3_scales"),
    **dict.fromkeys(STAYING, ("params", "adaptation", "stage")),
}


def _trainable(ledger: Ledger, architecture: Architecture) -> None:
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    shape = adapter_shape(architecture, value)
    count = trainable_params(architecture, shape, settled_method(ledger.decisions))
    because = f"{percent(count / architecture.params)} of the {value['params']:,} parameters of the model"
    row = ADAPTATIONS[value["adaptation"]]
    inputs = _SHAPED_BY[row.trains] + tuple(rule.decides for rule in adaptations.shaping(row))
    inputs += ("mixed_adapters",) if "mixed_adapters" in value else ()
    inputs += ("lora_expert_rank",) if shape and shape.experts else ()
    inputs += ("trained_rows",) if shape and shape.new_rows else ()
    ledger.record(Decision("trainable_params", count, because, inputs=inputs, origin="planner"))


def _reference(ledger: Ledger, context: Context) -> None:
    start = context.stage.starts_from
    from_stage = Decision(
        "starts_from_adapter",
        context.before is not None and context.before.merges,
        f"the stage starts from {f'the result of {start}' if start else 'the model of the recipe'}",
        inputs=("stages", "adaptation"),
        origin="planner",
    )
    ledger.decide(preference.reference, ledger.decisions["adaptation"], ledger.record(from_stage))


def _passes(ledger: Ledger) -> None:
    """How often the steps see a row: the epochs, or what the steps that are set make of them."""
    given, wish = ledger.decisions, ledger.wishes.get("train.max_steps")
    seen = float(f"{_seen(ledger, wish.value):.3g}") if wish else given["epochs"].value
    ledger.record(
        Decision(
            "max_steps",
            wish.value if wish else -1,
            f"set in {wish.where}" if wish else "the number of epochs decides",
            origin="recipe" if wish else "planner",
            watch=f"epoch: reaches {seen:g}, unless training stops early",
            key="train.max_steps",
            where=wish.where if wish else "",
        )
    )
    ledger.record(
        Decision(
            "passes",
            seen,
            "how often the steps that are set see a row" if wish else "the epochs",
            inputs=("max_steps", *step_inputs(given)),
            origin="planner",
        )
    )


def _seen(ledger: Ledger, steps: int) -> float:
    """How often so many steps see a row."""
    value = {id: decision.value for id, decision in ledger.decisions.items()}
    return steps * value["global_batch_size"] / training_sequences(value)


def settle_steps(
    ledger: Ledger,
    total_steps: int,
    step_seconds: float,
    checkpoint_seconds: float,
    evaluation_seconds: Callable[[], float],
    known: tuple[str, ...],
) -> None:
    """Decide what depends on how many optimizer steps there are, and on what they, a checkpoint and an evaluation take.

    `known` are the decisions that these times depend on; the time of an evaluation is asked for once the rows that it
    reads are decided.
    """
    given, fixed = ledger.decisions, "train.max_steps" in ledger.wishes
    each = f"each epoch's {_learned_in_steps(ledger)}, divided by the global batch and rounded up"
    reason, inputs = ("`train.max_steps` is set", ("max_steps",)) if fixed else (each, step_inputs(given))
    steps = ledger.record(Decision("total_steps", total_steps, reason, inputs=inputs, origin="planner"))
    training = ledger.record(
        _predicted("training_seconds", step_seconds, (*known, steps.id), "predicted time of all training steps")
    )
    saving = ledger.record(_predicted("checkpoint_seconds", checkpoint_seconds, known, "predicted time to write one"))
    read = ledger.decide(evaluation.eval_samples, given["stage"], given["params"])
    looking = ledger.record(
        _predicted("evaluation_seconds", evaluation_seconds(), (*known, steps.id, read.id), "predicted time of one")
    )
    shared = [given[id] for id in ("updates", "answer_passes") if id in given]
    weighed = training, saving, given["gpus"]
    every = beside_checkpoints(ledger, ledger.decide(evaluation.eval_every, steps, *weighed, looking, *shared))
    saved = ledger.decide(checkpoints.save_every, every, steps, *weighed, given["passes"], *shared)
    decay = [every, saved, steps, given["decay_share"], *shared] if "decay_share" in given else []
    ledger.decide(checkpoints.keep_checkpoints, *decay)
    ledger.decide(evaluation.best_metric, given["stage"], every, saved, steps, *shared)
    ledger.decide(evaluation.early_stopping_patience, given["stage"], given["passes"], every, saved, steps, *shared)
    ledger.decide(tracking.logging_steps, steps)


def _learned_in_steps(ledger: Ledger) -> str:
    """What the sequences of a step are."""
    rows = "packed blocks" if ledger.decisions["packing"].value else "training rows"
    return "answers" if METHODS[ledger.decisions["stage"].value].generates else rows


def _predicted(id: str, seconds: float, inputs: tuple[str, ...], because: str) -> Decision:
    """A prediction in three digits, which are more than it is worth."""
    return Decision(id, float(f"{seconds:.3g}"), because, inputs=inputs, origin="planner")
