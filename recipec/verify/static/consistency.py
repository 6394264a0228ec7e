"""What the emitted files say about each other and about the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recipec.catalog.model_types import MODEL_TYPES
from recipec.verify.bundle import Bundle, BundleStage
from recipec.verify.report import VerifyReport
from recipec.verify.stand_in import NoStandIn, known_model, models_of
from recipec.verify.static.configurations import UnreadableConfiguration, deepspeed_file, read_keys, section
from recipec.verify.static.planned import argument_problems, differences


def check_consistency(bundle: Bundle, report: VerifyReport) -> None:
    """Only where the files could be read: what cannot be parsed has been reported already."""
    try:
        problems = consistency_problems(bundle)
    except (OSError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        problems = [f"a file cannot be read: {error}"]
    report.add("files agree with each other and with the plan", problems)


def consistency_problems(bundle: Bundle) -> list[str]:
    """Every disagreement between plan, train.py and the configuration files."""
    return [f"{stage.name}: {problem}" for stage in bundle.stages for problem in _stage_problems(bundle, stage)]


def _stage_problems(bundle: Bundle, stage: BundleStage) -> Iterator[str]:
    yield from argument_problems(stage)
    if stage.spreads.distributed:
        folder = bundle.root / "configs" / stage.name
        files = sorted((folder if folder.is_dir() else folder.parent).glob("*.yaml"))
        if not files:
            yield "configs/ has no file for it"
            return
        try:
            yield from _accelerate_problems(bundle, stage, files[0])
        except UnreadableConfiguration as error:
            yield str(error)


def _deepspeed(stage: BundleStage) -> dict[str, Any]:
    choice = stage.choice
    return {
        "train_micro_batch_size_per_gpu": choice["micro_batch_size"],
        "gradient_accumulation_steps": choice["gradient_accumulation"],
        "gradient_clipping": stage.decisions["max_grad_norm"],
    }


def _accelerate_problems(bundle: Bundle, stage: BundleStage, path: Path) -> Iterator[str]:
    name, found = bundle.name_of(path), read_keys(bundle, path)
    planned = {"distributed_type": stage.spreads.distributed_type, "num_processes": stage.choice["world_size"]}
    yield from differences(name, found, planned)
    yield from differences(name, section(name, found, "parallelism_config"), _groups(stage))
    wrapped = section(name, found, "fsdp_config").get("fsdp_transformer_layer_cls_to_wrap")
    if wrapped is not None and wrapped not in (layers := sorted(_decoder_layers(bundle))):
        yield f"{name}: wraps {wrapped}, the model's layers are {' or '.join(layers)}"
    file = deepspeed_file(name, found)
    if file and not (bundle.root / file).is_file():
        yield f"{name}: {file} does not exist"
    elif file:
        yield from _deepspeed_problems(stage, file, read_keys(bundle, bundle.root / file))


def _deepspeed_problems(stage: BundleStage, name: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield from differences(name, found, _deepspeed(stage))
    if "train_batch_size" in found:
        yield f"{name}: train_batch_size pins the world size"


def _groups(stage: BundleStage) -> dict[str, int]:
    if not stage.spreads.groups:
        return {}
    mesh = stage.choice["mesh"]
    return {f"parallelism_config_dp_{name}_size": mesh[name] for name in ("replicate", "shard")}


def _decoder_layers(bundle: Bundle) -> set[str]:
    """The layer class of the bundle's model; of every supported model type where the model is not known here."""
    try:
        return {known_model(models_of(bundle)[0]).architecture.decoder_layer}
    except NoStandIn:
        return {row.decoder_layer for row in MODEL_TYPES.values()}
