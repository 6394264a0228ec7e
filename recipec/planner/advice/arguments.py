"""Keywords of [train.arguments] that do harm in some plans alone: each with the plans, the reason and its source.

What no plan takes is in recipe/kept_arguments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from recipec.axes import METHODS, Method
from recipec.axes.method import LOSSES, REFERENCE
from recipec.diagnostics.model import Diagnostic, Label, Report
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.trainer_arguments import without_effect


class Unfit(Struct, frozen=True, kw_only=True):
    """One row: which keywords, in which plans, what happens then, what to do instead, and who says so."""

    names: tuple[str, ...]
    applies: Callable[[StagePlan], bool]
    why: str
    instead: str = "remove it"
    whatever: bool = False  # whether a value that changes nothing elsewhere does harm, too
    source: str


def _method(stage: StagePlan) -> Method:
    return METHODS[stage.stage.name]


def _generates(stage: StagePlan) -> bool:
    return _method(stage).generates


def _compares(stage: StagePlan) -> bool:
    """Whether answers of rows are compared with what a reference says of them."""
    return not _generates(stage) and LOSSES[_method(stage).loss].compares_with == REFERENCE


def _decided(id: str) -> Callable[[StagePlan], bool]:
    return lambda stage: id in stage.decisions and bool(stage.decisions[id].value)


def _before_rows(stage: StagePlan) -> bool:
    """Whether PEFT lays trained tokens, or keys and values, before the rows."""
    return bool({"virtual_tokens", "prefix_tokens"} & stage.decisions.keys())


def _clips_softly(stage: StagePlan) -> bool:
    """Whether the variant of GRPO has a loss of its own in the place of two clipped ratios."""
    return "variant" in stage.decisions and stage.decisions["variant"].value in ("cispo", "sapo")


NEFTUNE, SMOOTHING = ("neftune_noise_alpha",), ("label_smoothing_factor",)
_TRAINER = "transformers 5.23 trainer.py"
UNFIT = (
    Unfit(
        names=NEFTUNE,
        applies=_generates,
        why="the model writes its answers in training mode, so that noise as large as the embeddings would be in every "
        "token that it writes; where it writes them otherwise, they are learned from under noise alone",
        source="transformers 5.23 integrations/neftune.py:53; TRL 1.16 trainer/grpo_trainer.py",
    ),
    Unfit(
        names=NEFTUNE,
        applies=_compares,
        why="the loss compares the model with its reference: noise in one of them, or other noise in each, is learned "
        "as a difference, which is why TRL switches dropout off",
        source="TRL 1.16 trainer/dpo_trainer.py:932, 990 and 1333; transformers 5.23 integrations/neftune.py:53",
    ),
    Unfit(
        names=NEFTUNE,
        applies=lambda stage: _before_rows(stage) and stage.decisions["model_type"].value == "gpt_neox",
        why="transformers looks for the embeddings of a model with a soft prompt or a prefix where GPT-NeoX has none, "
        "and the run would stop before step 1",
        whatever=True,
        source="transformers 5.23 integrations/neftune.py:87; peft 0.21 peft_model.py",
    ),
    Unfit(
        names=SMOOTHING,
        applies=lambda stage: _method(stage).loss == "pairs",
        why="DPO's trainer does not read it",
        instead='remove it; for data with some wrong labels, set `alignment.loss = "robust"`',
        source="TRL 1.16 trainer/dpo_trainer.py:817",
    ),
    Unfit(
        names=SMOOTHING,
        applies=lambda stage: _method(stage).loss == "divergence",
        why="the loss of a teacher has no labels to smooth, and the run would stop at its first batch",
        instead="remove it; to soften the teacher's probabilities, raise `alignment.temperature`",
        source="TRL 1.16 trainer/sft_trainer.py:1601",
    ),
    Unfit(
        names=SMOOTHING,
        applies=lambda stage: _method(stage).loss not in ("pairs", "divergence", "supervised"),
        why="only the trainer of supervised fine-tuning and pretraining reads it",
        source="TRL 1.16 trainer/sft_trainer.py:1601",
    ),
    Unfit(
        names=SMOOTHING,
        applies=_decided("router_loss"),
        why="the loss that keeps the load of the experts balanced would be left out",
        source="TRL 1.16 trainer/sft_trainer.py:1601",
    ),
    Unfit(
        names=SMOOTHING,
        applies=_decided("virtual_tokens"),
        why="the smoothed loss has no labels for the virtual tokens, and the run would stop at its first batch",
        source="TRL 1.16 trainer/sft_trainer.py:1607",
    ),
    Unfit(
        names=("torch_compile_backend", "torch_compile_mode"),
        applies=lambda stage: not stage.decisions["compile"].value,
        why="it switches torch.compile on, which the plan does not have",
        instead="set `train.compile = true`, or remove it",
        source="transformers 5.23 training_args.py:1621",
    ),
    Unfit(
        names=("pad_to_multiple_of",),
        applies=_decided("fp8"),
        why="`train.fp8` sets it: products in FP8 need lengths that 16 divides",
        source="torchao 0.18 float8 training",
    ),
    Unfit(
        names=("include_num_input_tokens_seen",),
        applies=_generates,
        why="the trainer counts the tokens of its answers itself, and they would be counted twice",
        source=f"TRL 1.16 trainer/grpo_trainer.py:2292; {_TRAINER} (_track_num_input_tokens)",
    ),
    Unfit(
        names=("precompute_ref_batch_size",),
        applies=lambda stage: not stage.layout.precomputes,
        why="the reference does not score the rows before step 1",
        instead="set `alignment.precompute_reference = true`, or remove it",
        source="TRL 1.16 trainer/dpo_trainer.py:1017",
    ),
    Unfit(
        names=("delta",),
        applies=_clips_softly,
        why="the loss of this variant does not read it",
        instead='remove it, or choose another `alignment.variant`, such as "grpo"',
        source="TRL 1.16 trainer/grpo_trainer.py:3115",
    ),
)


def check_arguments(loaded: LoadedRecipe, plan: Plan, report: Report) -> None:
    """Report the keywords that do harm in the stages as they are planned (E0407), each place once."""
    found = [finding for stage in plan.stages for finding in _unfit(loaded, plan, stage)]
    for finding in {(finding.title, finding.labels): finding for finding in found}.values():
        report.add(finding)


def _unfit(loaded: LoadedRecipe, plan: Plan, stage: StagePlan) -> Iterator[Diagnostic]:
    for row in UNFIT:
        for name in row.names:
            if _given(stage, row, name) and row.applies(stage):
                path = given_at(loaded, stage, name)
                label = Label(loaded.place(*path, part="key"), row.why)
                title = f"`{name}` cannot be given as a trainer argument of {_method(stage).title}"
                help = (row.instead, *_elsewhere(plan, row, shared=len(path) == len(_SHARED) + 1))
                yield Diagnostic("E0407", title, (label,), help, (f"the source is {row.source}",))


def _given(stage: StagePlan, row: Unfit, name: str) -> bool:
    """Whether the stage has the keyword, with a value that can do what the row says."""
    return name in stage.verbatim and (row.whatever or not without_effect(name, stage.verbatim[name]))


_SHARED = ("train", "arguments")


def given_at(loaded: LoadedRecipe, stage: StagePlan, name: str) -> tuple[str, ...]:
    """Where the recipe has a keyword of a stage: in its own table, or in the one of all stages."""
    own = ("train", stage.stage.name, "arguments", name)
    return own if loaded.is_set(*own) else (*_SHARED, name)


def _elsewhere(plan: Plan, row: Unfit, *, shared: bool) -> list[str]:
    """The tables of the stages that may have what all stages share."""
    takers = dict.fromkeys(stage.stage.name for stage in plan.stages if shared and not row.applies(stage))
    return [f"write it under [train.{name}.arguments] alone" for name in takers]
