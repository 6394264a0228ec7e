"""The form of plan.json: every key that a check calculates with or looks up, and its type.

Values that are only compared with those of the emitted files need no type: another one is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, METHODS, STRATEGIES
from recipec.axes.adaptations import LORA
from recipec.axes.generators import TRANSFORMERS
from recipec.axes.loops import LOOPS, TRAINER
from recipec.axes.lora_variants import STANDARD

Whole = Annotated[int, Meta(ge=-1, le=2**53)]  # -1 stands for no limit
Counted = Annotated[int, Meta(ge=1, le=2**53)]


class MeshForm(Struct):
    """How ranks are grouped."""

    replicate: Counted
    shard: Counted


class ChoiceForm(Struct):
    """The layout that the planner chose."""

    adaptation: str
    quantization: str
    precision: str
    strategy: str
    optimizer: str
    mesh: MeshForm
    world_size: Counted
    micro_batch_size: Counted
    gradient_accumulation: Counted
    global_batch_size: Counted
    recompute_every: Whole
    checkpointing: bool
    activation_offload: bool
    packing: bool


class DecidedForm(Struct, kw_only=True):
    """Values of decisions; one with a default is not in every plan."""

    answers_apart: bool
    best_metric: str
    capacity_factor: float = 0.0
    carried: list[str] | None = None
    compile: bool
    dropped_rows_limit: float
    decay_share: float = 0.0
    early_stopping_patience: Whole
    engine_tensor_parallel: Counted = 1
    epochs: float
    eval_every: float
    eval_samples: Whole
    examples: Whole
    expert_parallel: Whole = 1
    generator: str = TRANSFORMERS.name
    gpu: str
    gpus_per_node: Counted
    init_from: str | None = None
    judge: str | None = None
    judge_like: str | None = None
    judge_revision: str | None = None
    learning_rate: float
    like: str | None = None
    loop: str = TRAINER.name
    lora_variant: str = STANDARD.name
    loss_on: str
    max_grad_norm: float
    max_length: Whole
    max_steps: Whole
    model: str
    new_tokens: Whole = 0
    overflow: str
    packing: bool
    params: Whole
    passed_over: list[str] | None = None
    per_prompt: Counted = 1
    reasoning: str
    reference: str | None = None
    reference_like: str | None = None
    reference_revision: str | None = None
    reward_likes: list[str | None] = []
    reward_models: list[str] = []
    reward_revisions: list[str | None] = []
    sampling: str
    save_every: float
    schedule: str
    teacher: str | None = None
    teacher_like: str | None = None
    teacher_revision: str | None = None
    template: str
    template_end: str
    total_steps: Whole
    track_project: str | None = None
    tracker: str | list[str]
    result_tokens: Counted = 1
    schema_tokens: Whole = 0
    tool_rounds: Counted = 1
    tools: list[str] = []
    trainable_params: Whole
    updates: Counted = 1
    weight_decay: float


class GeneratedForm(Struct, kw_only=True):
    """Further values of a method that learns from answers which the model writes."""

    max_new_tokens: Counted


class RewardedForm(Struct, kw_only=True):
    """Further values where rewards judge these answers."""

    answer_passes: Counted = 1
    per_prompt: Counted
    rewards: list[str]
    updates: Counted


class AdaptedForm(Struct, kw_only=True):
    """Further values of LoRA."""

    lora_alpha: float
    lora_dropout: float
    lora_rank: Counted
    lora_targets: str | list[str]


class DecisionForm(Struct):
    """An entry of the list of decisions."""

    id: str
    value: Any
    origin: str
    watch: str


class StageForm(Struct):
    """An entry of the list of stages."""

    name: str
    objective: str
    choice: ChoiceForm
    decisions: list[DecisionForm]


class PlanForm(Struct):
    """The document."""

    stages: list[StageForm]


def form_problem(document: object) -> str:
    """What is wrong with the form of a plan, with the key that has it; "" when nothing is."""
    try:
        plan = convert(document, PlanForm)
    except (ValidationError, OverflowError) as error:
        return str(error)
    found = (f"stage {n}: {said}" for n, stage in enumerate(plan.stages, start=1) for said in _stage_problems(stage))
    return next(found, "")


def _stage_problems(stage: StageForm) -> Iterator[str]:
    values = {decision.id: decision.value for decision in stage.decisions}
    try:
        decided = convert(values, DecidedForm)
        yield from _unknown(stage, decided)
        if METHODS[stage.objective].generates:
            convert(values, GeneratedForm)
        if METHODS[stage.objective].earns:
            convert(values, RewardedForm)
        if stage.choice.adaptation == LORA.family:
            convert(values, AdaptedForm)
    except (ValidationError, OverflowError) as error:
        yield f"decisions: {error}"


def _unknown(stage: StageForm, decided: DecidedForm) -> Iterator[str]:
    """Values that must be rows of tables and are none."""
    layout = stage.choice.adaptation, stage.choice.quantization
    layouts = {(row.family, row.base) for row in ADAPTATIONS.values()}
    for key, value, rows in (
        ("objective", stage.objective, METHODS),
        ("choice.strategy", stage.choice.strategy, STRATEGIES),
        ("choice.adaptation` with its `choice.quantization", layout, layouts),
        ("loop", decided.loop, LOOPS),
        ("lora_variant", decided.lora_variant, LORA_VARIANTS),
    ):
        if value not in rows:
            yield f"`{key}` is {value!r}, which recipec does not know"
