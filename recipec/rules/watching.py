"""What to look at in training, where it depends on the value that was decided; elsewhere a rule's own `watch` holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from recipec.axes import ADAPTATIONS, METHODS, STRATEGIES, Method
from recipec.axes.adaptations import BOTTLENECKS, COMBINED, MATRICES
from recipec.rules.intervals import saves_in, steps_taught
from recipec.rules.watching_rewards import OF_ANSWERS, OF_REWARDS, ONE_EPOCH_OF_REWARDS


class Decided(Protocol):
    """What is read of a decision."""

    @property
    def value(self) -> Any: ...


Given = Mapping[str, Decided]  # what was decided before, by id


_HIGH_DECAY = 0.1  # the end of rule book 001's range; Lion's are higher
LOOKS_AT = {
    "max_length": ("overflow",),
    "dropped_rows_limit": ("overflow",),
    "quantization": ("adaptation",),
    "weight_decay": ("epochs",),
    **dict.fromkeys(("save_every", "best_metric"), ("eval_every", "total_steps", "updates", "answer_passes")),
}


def watched_for(id: str, value: Any, given: Given) -> str:
    """What to watch of this decision in this case; empty where every case is alike."""
    method = _method(id, value, given)
    if method and id in _OF_CHECKPOINTS and _saves_none(id, value, given):
        best = "highest" if method.earns else "lowest"
        return f"{method.judged_by}: {best} at the last step; if an earlier one is better, lower `train.save_every`"
    if method and method.earns and id in OF_REWARDS:
        text = ONE_EPOCH_OF_REWARDS if id == "epochs" and value <= 1 else OF_REWARDS[id]
        return text.format(best=method.judged_by)
    if method and method.generates and id in OF_ANSWERS:
        return OF_ANSWERS[id]
    return CASES[id](value, given) if id in CASES else ""


_OF_CHECKPOINTS = ("save_every", "best_metric")


def _saves_none(id: str, value: Any, given: Given) -> bool:
    """Whether no checkpoint is written, so that the last step is the result."""
    share = value if id == "save_every" else given["save_every"].value
    taught = steps_taught({name: decision.value for name, decision in given.items()})
    return not saves_in(given["eval_every"].value, share, given["total_steps"].value, taught)


def _method(id: str, value: Any, given: Given) -> Method | None:
    """The method that a decision is about: that of its stage, or the last one where stages are decided."""
    if "stage" in given:
        return METHODS[given["stage"].value]
    if id == "stages" and value:
        return METHODS[value[-1]]
    return next((row for row in METHODS.values() if id == "alignment_method" and row.alignment == value), None)


def _adaptation(value: str, given: Given) -> str:
    row = ADAPTATIONS[value]
    if row.trains_all:
        return "eval_loss, loss: both fall; if only the loss does, lower `train.learning_rate`"
    if row.asked_in:
        return f"eval_loss: falls; if it rises, set `epochs` under [{row.asked_in}] lower"
    larger = f", then set {_asking_for(row.above)}, where that fits" if _may_be(row.above, given) else ""
    if not row.table:
        return f"eval_loss: falls; if it stays flat, set {_asking_for(row.above)}"
    enlarged = {
        MATRICES: "raise `train.lora.rank`",
        BOTTLENECKS: "lower `train.bottleneck.reduction_factor`",
    }
    first = enlarged.get(row.trains, f"raise `train.{row.table}.virtual_tokens`")
    return f"eval_loss: falls; if it stays flat, {first}{larger}"


def _may_be(name: str, given: Given) -> bool:
    """Whether a recipe may ask for an adaptation: adapters of several tasks are of the kinds that can be combined."""
    return bool(name) and ("combined" not in given or ADAPTATIONS[name].trains in COMBINED[given["combined"].value])


def _asking_for(name: str) -> str:
    """The lines of a recipe that ask for an adaptation: one without a quantized base says so, too."""
    row = ADAPTATIONS[name]
    lines = [f'`train.adaptation = "{name}"`'] + ['`train.quantization = "none"`'] * (not row.trains_all)
    return " and ".join(lines)


def _quantization(value: str, given: Given) -> str:
    if value == "none":
        return _adaptation(given["adaptation"].value, given)
    return "loss: starts close to that of the model before quantization"


def _reduction_factor(value: int, given: Given) -> str:
    return _adaptation(given["adaptation"].value, given)


def _double_quantization(value: bool, given: Given) -> str:
    return "" if value else "peak_memory_gib: near the plan"


def _precision(value: str, given: Given) -> str:
    if value == "fp16":
        return ""
    return "loss, grad_norm: finite from step 1; a NaN comes from the data or from a high `train.learning_rate`"


def _strategy(value: str, given: Given) -> str:
    return "" if STRATEGIES[value].distributed else "tokens_per_second: near the plan"


def _offload(value: str, given: Given) -> str:
    return "tokens_per_second: near the plan" if value == "none" else ""


def _schedule(value: str, given: Given) -> str:
    return {
        "constant": "learning_rate: rises during the warmup, then stays",
        "warmup-stable-decay": "learning_rate: rises during the warmup, then stays, and falls at the end",
    }.get(value, "")


def _epochs(value: float, given: Given) -> str:
    if value > 1:
        return ""
    return "eval_loss, train_eval_gap: eval_loss falls to the end; if it rises, lower `train.learning_rate`"


def _weight_decay(value: float, given: Given) -> str:
    if value < _HIGH_DECAY:
        return ""
    less = "take fewer passes" if given["epochs"].value > 1 else "lower `train.learning_rate`"
    return f"train_eval_gap: small and steady; if it widens, {less}"


def _overflow(value: str, given: Given) -> str:
    return {
        "split": "num_tokens: rises with all of the text; long documents are cut, and nothing is dropped",
        "truncate": 'trained_tokens: above 0 in every sample; if answers never end, set `data.overflow = "drop"`',
    }.get(value, "")


def _max_length(value: int, given: Given) -> str:
    return {
        "split": "num_tokens: rises with all of the text; in fewer pieces where `data.max_length` is raised",
        "truncate": "eval_loss: falls; longer rows are cut here, so raise `data.max_length` where that loses what "
        "matters",
    }.get(given["overflow"].value, "")


def _dropped_rows_limit(value: float, given: Given) -> str:
    if given["overflow"].value != "split":
        return ""
    return "trained_tokens: above 0; longer rows are split and none is lost"


def _packing(value: bool, given: Given) -> str:
    if not value:
        return "tokens_per_second: near the plan; padding of short rows is computed, too"
    method = _method("packing", value, given)
    of_text = method is not None and method.of_text
    return "tokens_per_second, num_tokens: near the plan; every block is full" if of_text else ""


def _packing_strategy(value: str, given: Given) -> str:
    return "num_tokens: grows with the lengths of the rows" if value == "none" else ""


def _template(value: str, given: Given) -> str:
    if value == "model":
        return ""
    if value == "none":
        return "trained_tokens: those of the text, to which no template adds any"
    return "trained_tokens: above 0 in every printed sample; the model has not seen this chat template before"


def _loss_on(value: str, given: Given) -> str:
    return {
        "all": "trained_tokens: every token of the text",
        "score": "trained_tokens: above 0; they are the tokens of the answers that are scored",
    }.get(value, "")


def _eos_token(value: str, given: Given) -> str:
    return "eval_loss: falls; the model stops where it did" if value == "none" else ""


def _sampling(value: str, given: Given) -> str:
    return "" if value == "similar-lengths" else "loss, eval_loss: both fall; batches differ only by chance"


def _reference(value: str, given: Given) -> str:
    if "rewards/margins" in METHODS[given["stage"].value].metrics:
        return ""
    return "kl: starts at 0 and stays small; another start means a wrong reference"


CASES: dict[str, Callable[[Any, Given], str]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        _adaptation,
        _quantization,
        _reduction_factor,
        _double_quantization,
        _precision,
        _strategy,
        _offload,
        _schedule,
        _epochs,
        _weight_decay,
        _overflow,
        _max_length,
        _dropped_rows_limit,
        _packing,
        _packing_strategy,
        _template,
        _loss_on,
        _eos_token,
        _sampling,
        _reference,
    )
}
