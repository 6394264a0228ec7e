"""Arguments that somebody added to the trainer of train.py and that change what is learned: no plan knows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from recipec.bundle.state import LAST
from recipec.verify.bundle import BundleStage, function, keywords

_NEVER_LEARNED = (  # how names begin that change what is told, kept, measured or how it is computed
    *("batch_eval", "bf16_full", "dataloader", "dataset_num_proc", "ddp_", "debug", "disable_tqdm", "do_", "eval"),
    *("fp16_full", "hub", "include", "liger", "log", "num_completions_to_print", "output_dir", "prediction_loss"),
    *("project", "push", "report_to", "restore", "resume", "run_name", "save", "skip_memory", "torch_empty", "trackio"),
    *("use_cache", "use_liger", "vllm"),
)
_OF_THE_PLAN = ("bf16", "fp16", "tf32", "torch_compile")  # told with what the plan says


def added_problems(stage: BundleStage) -> Iterator[str]:
    """Those that are neither in train.py as it was built nor passed on by the recipe; none where it was not kept."""
    path = stage.root / LAST / stage.folder / "train.py"
    if not path.is_file():
        return
    known = {*keywords(function(path, "training_config")), *stage.passed_on, *_OF_THE_PLAN}
    for name, value in keywords(function(stage.script, "training_config")).items():
        if name not in known and not name.startswith(_NEVER_LEARNED):
            cure = "where it is meant, pass it on with `arguments` under [train]"
            yield f"train.py: {name} is {ast.unparse(value)}, which is not of the plan: {cure}"
