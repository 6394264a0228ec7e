"""Whether the saved result is the checkpoint that the plan calls the best one: its weights, tensor by tensor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipec.verify.bundle import BundleStage
from recipec.verify.report import VerifyReport

if TYPE_CHECKING:
    import numpy

_BITS = {"F32": "<u4", "BF16": "<u2", "F16": "<u2"}  # of safetensors -> how numpy reads them


def check_best(stage: BundleStage, folder: Path, seen: Mapping[str, Any], report: VerifyReport) -> None:
    """Compare the result in a stage's output folder with the checkpoints of its training."""
    if not stage.saves:
        written = [path.name for path in sorted(folder.glob("checkpoint-*"))]
        problems = [f"the plan has no checkpoint, and {', '.join(written)} was written"] if written else []
        report.add(f"{stage.name}: the result is the last step", problems, "no checkpoint is written")
        return
    if stage.loop.own:
        return
    judged = {int(step): value for step, value in seen.get("judged", {}).items()}
    steps = [step for step in sorted(judged) if (folder / f"checkpoint-{step}").is_dir()]
    metric, greater = stage.decisions["best_metric"], "loss" not in stage.decisions["best_metric"]
    best = (max if greater else min)(steps, key=judged.__getitem__, default=None)
    told = ", ".join(f"{judged[step]:.4g} of checkpoint-{step}" for step in steps)
    said = f"the weights of checkpoint-{best}: {metric} is {told}"
    report.add(f"{stage.name}: the result is the best checkpoint", best_problems(stage, folder, best, seen, told), said)


def best_problems(stage: BundleStage, folder: Path, best: int | None, seen: Mapping[str, Any], told: str) -> list[str]:
    """Why what is saved is not the checkpoint of step `best`; where that is in shards, what was loaded at the end."""
    if best is None:
        return ["no checkpoint has an evaluation: look at eval_steps and save_steps in train.py"]
    cure = "let train() load the best one, with load_best_model_at_end, and save what it leaves"
    metric, whole = stage.decisions["best_metric"], folder / f"checkpoint-{best}"
    if not any(whole.glob(stage.adapts.weights)):
        loaded = seen.get("loaded", [])
        problem = f"train() ends with {', '.join(loaded) or 'the last weights'}, and the best is checkpoint-{best}"
        return [] if loaded == [whole.name] else [f"{problem} ({metric} {told}): {cure}"]
    result, checkpoint = (weights(place, stage.adapts.weights) for place in (folder, whole))
    wrong = different(result, checkpoint, converted=stage.variant.moves_base)
    if not wrong:
        return []
    return [
        f"{len(wrong)} of {len(checkpoint)} saved tensors are not those of checkpoint-{best}, the best by {metric} "
        f"({told}): {cure}"
    ]


def weights(folder: Path, pattern: str) -> dict[str, tuple[str, numpy.ndarray]]:
    """Name -> the type of a tensor and its bits, of all safetensors in a folder; in its shape for types of _BITS."""
    import numpy

    found = {}
    for path in sorted(folder.glob(pattern)):
        content = path.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        for name, of in json.loads(content[8:start]).items():
            if name != "__metadata__":
                first, last = of["data_offsets"]
                bits = numpy.frombuffer(content[start + first : start + last], _BITS.get(of["dtype"], "u1"))
                found[name] = of["dtype"], bits.reshape(of["shape"] if of["dtype"] in _BITS else -1)
    return found


def different(
    result: Mapping[str, tuple[str, numpy.ndarray]],
    checkpoint: Mapping[str, tuple[str, numpy.ndarray]],
    converted: bool = False,
) -> Sequence[str]:
    """The tensors of a checkpoint that a result has not, or has otherwise: not even rounded to the result's type.

    One may have another name there: libraries save some under that of the first release, and tied ones once. An adapter
    that is converted into plain LoRA has those of the checkpoint first, and behind them those it began with.
    """
    same = _begins if converted else _same
    return [
        name
        for name, (dtype, bits) in checkpoint.items()
        if not any(same(_rounded(bits, dtype, wanted), saved) for wanted, saved in _named(result, name))
    ]


def _named(result: Mapping[str, tuple[str, numpy.ndarray]], name: str) -> Sequence[tuple[str, numpy.ndarray]]:
    return [result[name]] if name in result else [*result.values()]


def _same(one: numpy.ndarray, other: numpy.ndarray) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _begins(one: numpy.ndarray, other: numpy.ndarray) -> bool:
    return one.ndim == other.ndim and _same(one, other[tuple(slice(size) for size in one.shape)])


def _rounded(bits: numpy.ndarray, dtype: str, wanted: str) -> numpy.ndarray:
    """Bits of fp32 as those of a type of 16 bits, to the nearest, ties to even; others as they are."""
    if (dtype, wanted) == ("F32", "BF16"):
        return ((bits.astype("u8") + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")
    return bits.view("<f4").astype("<f2").view("<u2") if (dtype, wanted) == ("F32", "F16") else bits
