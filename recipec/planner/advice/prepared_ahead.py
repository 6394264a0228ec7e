"""What it costs that GPUs wait for what needs fewer: a machine without GPUs can prepare the rows, and one node can
download the model, score it and tokenize the rows before the others are rented, and score the result after them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.estimate.whole_run import TOKENIZATION, RunPart
from recipec.planner.plan import Plan, StagePlan
from recipec.recipe import LoadedRecipe
from recipec.recipe.schema import NO_SCRIPT
from recipec.units import counted, duration, usd

_MADE_FIRST = ("text part", "new tokens")  # parts that are between it and a scoring
WORTH_PREPARING_AHEAD = 3600.0  # GPU seconds that the GPUs wait for; our decision
# Weights at the top (transformers 5.23 utils/__init__.py:291), configurations, tokenizers, chat templates and code: not
# `original/` of Llama, nor `consolidated*.safetensors` of Mistral. In these patterns `*` also stands for folders
# (huggingface_hub utils/_paths.py).
READ_OF_A_MODEL = ("model*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.py")
ONLY_WHAT_IS_READ = " ".join(["--include", *(f'"{pattern}"' for pattern in READ_OF_A_MODEL)])  # of `hf download`
WORTH_DOWNLOADING_AHEAD = 0.05  # of the whole run, on one node; our decision


def spared_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that the GPUs need not wait for the rows of all stages; 0 where that is little of their time."""
    return _spared(plan, loaded, sum(stage.preparation_seconds for stage in plan.stages))


def tokenizing_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that all other nodes need not wait for the tokens of all stages, where one of them makes them first; 0
    where that is little of their time, or there is one node."""
    return _spared(plan, loaded, sum(stage.tokenizing_seconds for stage in plan.stages)) if _several(plan) else 0.0


def _several(plan: Plan) -> bool:
    return any(stage.layout.gpus > stage.decisions["gpus_per_node"].value for stage in plan.stages)


class OnOneNode(Struct, frozen=True):
    """What one of several nodes does alone."""

    download_seconds: float = 0.0
    scoring_seconds: float = 0.0  # one time of evaluate.py
    others: int = 0  # GPUs of the other nodes; 0 where it takes little of their time

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.download_seconds + self.scoring_seconds


def before_training(plan: Plan, loaded: LoadedRecipe) -> OnOneNode:
    """What evaluate.py does before the first step: it downloads the model that it scores, where the run reads no other
    and makes nothing of it before."""
    first = plan.stages[0]
    if METHODS[first.stage.name].named_models or any(part.name in _MADE_FIRST for part in first.parts):
        return OnOneNode()
    return _alone(plan, loaded, first, first.downloading_seconds)


def downloading_seconds(plan: Plan, loaded: LoadedRecipe) -> float:
    """Seconds that the GPUs of one node wait for the model, which is all that the run reads; 0 where that is little of
    their time, or several nodes wait."""
    first = plan.stages[0]
    seconds = first.downloading_seconds
    little = seconds <= WORTH_DOWNLOADING_AHEAD * sum(stage.run_seconds for stage in plan.stages)
    others = METHODS[first.stage.name].named_models or _several(plan)
    return 0.0 if little or others or not _costs(first, seconds) else seconds


def after_training(plan: Plan, loaded: LoadedRecipe) -> OnOneNode:
    """What evaluate.py does when all is trained; adapters of several tasks are not all scored at the end."""
    return OnOneNode() if plan.stages[0].stage.task else _alone(plan, loaded, plan.stages[-1], 0.0)


def _alone(plan: Plan, loaded: LoadedRecipe, stage: StagePlan, download_seconds: float) -> OnOneNode:
    """The launch script knows what one node has done, and leaves the others when training ends."""
    merges = stage is not plan.stages[-1] and stage.needs.merged_bytes  # as the bill counts how often it scores
    others = stage.decisions["gpus"].value - stage.decisions["gpus_per_node"].value
    found = OnOneNode(download_seconds, stage.scoring_seconds / (3 if merges else 2), others)
    scripted = loaded.recipe.launch.with_ != NO_SCRIPT and _several(plan)
    return found if scripted and others * found.seconds >= WORTH_PREPARING_AHEAD else OnOneNode()


def _spared(plan: Plan, loaded: LoadedRecipe, seconds: float) -> float:
    """The launch script alone finds what is made ahead: what starts a run without that script is not known."""
    return seconds if loaded.recipe.launch.with_ != NO_SCRIPT and _costs(plan.stages[0], seconds) else 0.0


def _costs(stage: StagePlan, seconds: float) -> bool:
    gpus, on_cpu = stage.decisions["gpus"].value, stage.decisions["gpu_is_cpu"].value
    return not on_cpu and gpus * seconds >= WORTH_PREPARING_AHEAD


def with_rows_ahead(plan: Plan, loaded: LoadedRecipe) -> Plan:
    """The plan that says what the GPUs wait for long enough, and whose first stage names the ways without."""
    first, *others = (_told(stage) for stage in plan.stages)
    ways = _ways(plan, loaded, " for all stages" * bool(others))
    return replace(plan, stages=(replace(first, options=(*first.options, *ways)), *others))


def _ways(plan: Plan, loaded: LoadedRecipe, of: str) -> Iterator[str]:
    first = plan.stages[0]
    if seconds := spared_seconds(plan, loaded):
        yield (
            "prepare the rows on a machine without GPUs, as README.md of the bundle says: prepare_data.py needs none, "
            f"and otherwise {waiting_gpus(first)} for it, {duration(seconds)}{_money(first, seconds, ' and {}')}{of}"
        )
    if seconds := tokenizing_seconds(plan, loaded):
        yield (
            "tokenize the rows on one node before the others are rented, as README.md of the bundle says: otherwise "
            f"{waiting_gpus(first)} for train.py, {duration(seconds)}{_money(first, seconds, ' and {}')}{of}"
        )
    if seconds := downloading_seconds(plan, loaded):
        yield (
            f"download the model without GPUs, with `{_download(first, loaded)}` into a `HF_HOME` that the node of the "
            f"run then has: otherwise {waiting_gpus(first)} for it, {duration(seconds)}"
            f"{_money(first, seconds, ' and {}')}"
        )
    if (ahead := before_training(plan, loaded)).others:
        parts = [f"download ({duration(ahead.download_seconds)})"] * bool(ahead.download_seconds)
        parts += [f"scoring ({duration(ahead.scoring_seconds)})"]
        yield (
            "run prepare_data.py and evaluate.py before on one node before the others are rented, as README.md of the "
            f"bundle says: otherwise {_others(ahead)} wait for the {' and the '.join(parts)} of the model"
            f"{_money(first, ahead.seconds, ', {}', ahead.others)}"
        )
    if (behind := after_training(plan, loaded)).others:
        last = plan.stages[-1]
        yield (
            "give the other nodes back when training ends, as README.md of the bundle says: otherwise "
            f"{_others(behind)} are paid for while one node scores the result, {duration(behind.seconds)}"
            f"{_money(last, behind.seconds, ' and {}', behind.others)}"
        )


def _download(stage: StagePlan, loaded: LoadedRecipe) -> str:
    """The command that fetches what `from_pretrained` reads: many repositories have the weights twice."""
    revision = loaded.recipe.model.revision
    pinned = f" --revision {revision}" * bool(revision)
    return f"hf download {stage.decisions['model'].value}{pinned} {ONLY_WHAT_IS_READ}"


def _others(found: OnOneNode) -> str:
    return f"{counted(found.others, 'GPU')} of other nodes"


def _told(stage: StagePlan) -> StagePlan:
    """The stage whose part of tokenization says what waits for it."""
    return replace(stage, parts=tuple(_with_wait(stage, part) for part in stage.parts))


def _with_wait(stage: StagePlan, part: RunPart) -> RunPart:
    if part.name != TOKENIZATION or not _costs(stage, part.seconds):
        return part
    told = f"{part.because}, while {waiting_gpus(stage)}{_money(stage, part.seconds, ' ({})')}"
    return replace(part, because=told)


def waiting_gpus(stage: StagePlan) -> str:
    """Who waits for a stage: "8 GPUs wait"."""
    gpus = stage.decisions["gpus"].value
    return f"{counted(gpus, 'GPU')} {'waits' if gpus == 1 else 'wait'}"


def _money(stage: StagePlan, seconds: float, text: str, gpus: int | None = None) -> str:
    """`text` with what so many seconds of some GPUs or of all cost; "" where their price is not known."""
    price, gpus = stage.decisions["gpu_price"].value, gpus or stage.decisions["gpus"].value
    return "" if price is None else text.format(usd(gpus * seconds / 3600 * price))
