"""merge_adapter.py of a stage: one model of an adapter and its base."""

from __future__ import annotations

from recipec.axes import BASES
from recipec.backends.job import StageJob
from recipec.backends.models import bundle_root, code, head_options, weights_dtype
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw


def merge_artifact(stage: StageJob) -> Artifact:
    """merge_adapter.py: the next stage needs it, and whoever wants one model that loads without PEFT."""
    path = f"{stage.folder}merge_adapter.py"
    dtype = code(stage, weights_dtype(stage), "precision")
    folder = [Arg("", Raw("OUTPUT"))]
    if stage.job.loaded.recipe.model.trust_remote_code:
        folder.append(Arg("trust_remote_code", True, stage.ids("model")))
    options = [*folder, Arg("dtype", Raw(f"torch.{dtype}")), *head_options(stage)]
    names = {
        "stage": stage.traced("stage"),
        "quantized": stage.because(stage.adapts.quantized, "quantization"),
        "bits": stage.because(BASES[stage.adapts.base].bits, "quantization"),
        "is_last": stage.because(not stage.merges, "stage"),
        "judges": stage.because(stage.judges, "stage"),
        "path": path,
        "loader": Raw(stage.method.adapter_class),
        "dtype": dtype,
        "load_model": Call(f"{stage.method.adapter_class}.from_pretrained", options),
        "load_tokenizer": Call("AutoTokenizer.from_pretrained", folder),
        "writes": stage.because(stage.method.writes, "stage"),
        "ends_elsewhere": stage.because(bool(stage.eos_token), "eos_token"),
        "bundle_root": bundle_root(stage),
    }
    return Artifact(path, stage.ids("adaptation", "stage"), "trl/merge_adapter.py.j2", names)
