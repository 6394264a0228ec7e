"""Arguments of the trainer that no decision names and that change what is learned: held to train.py as built."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from recipec.bundle.state import LAST
from recipec.verify.bundle import BundleStage, function, keywords

_NEVER_LEARNED = (  # how names begin that change what is told, kept, measured or how it is computed
    *("batch_eval", "bf16_full", "dataloader", "dataset_num_proc", "ddp_", "debug", "disable_tqdm", "do_", "eval"),
    *("fp16_full", "hub", "include", "liger", "log", "num_completions_to_print", "prediction_loss"),
    *("project", "push", "report_to", "restore", "resume", "run_name", "save", "skip_memory", "torch_empty", "trackio"),
    *("use_cache", "use_liger", "use_vllm", "vllm_enable", "vllm_gpu", "vllm_group", "vllm_mode", "vllm_model_impl"),
    *("vllm_server", "vllm_tensor"),
)


def unplanned_problems(stage: BundleStage, planned: Collection[str]) -> Iterator[str]:
    """Those, without the `planned` ones, that are not as they were built; none where that text was not kept."""
    path = stage.root / LAST / stage.folder / "train.py"
    if not path.is_file():
        return
    built, found = (_written(script) for script in (path, stage.script))
    for name in dict.fromkeys((*built, *found)):
        now, before = found.get(name, "not set"), built.get(name)
        if name in planned or name.startswith(_NEVER_LEARNED) or now == before:
            continue
        if before is not None:
            yield f"train.py: {name} is {now}, and was built as {before}"
        elif name not in stage.passed_on:
            cure = "where it is meant, pass it on with `arguments` under [train]"
            yield f"train.py: {name} is {now}, which is not of the plan: {cure}"


def _written(script: Path) -> dict[str, str]:
    """The arguments of the trainer's configuration as text."""
    return {name: ast.unparse(value) for name, value in keywords(function(script, "training_config")).items()}
