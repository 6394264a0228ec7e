"""text_part.py: the language model out of a checkpoint that holds a vision tower too, as a folder that stages load."""

from __future__ import annotations

from recipec.backends.job import Job
from recipec.backends.models import RECORD, base_model, folder_check, from_hub, is_below_root, taken_from
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.traced import Raw

SCRIPT = "text_part.py"


def text_part_artifacts(job: Job) -> list[Artifact]:
    """The script that takes the language model out; none where the checkpoint is one."""
    stored, first = job.facts.model.stored, job.stages[0]
    if stored is None:
        return []
    ids = first.ids("model")
    renamed = [Arg("key_mapping", _renamed(*stored.renamed), ids)] if stored.renamed else []
    load = from_hub(first, "AutoModelForCausalLM", Raw("MODEL"), whole=True)
    options = [
        Arg("config", Raw("shape"), ids),
        *renamed,
        Arg("dtype", "auto", ids),
        Arg("output_loading_info", True, ids),
    ]
    names = {
        "name": first.traced("model"),
        "model": base_model(first),
        "below_root": first.because(is_below_root(job.facts.model.name), "model"),
        "folder_check": folder_check(first, "model", "MODEL"),
        "taken_from": first.traced("model", taken_from(first)),
        "record": RECORD,
        "shape": from_hub(first, "AutoConfig", Raw("MODEL"), whole=True),
        "load": Call(load.target, [*load.args, *options]),
        "tokenizer": from_hub(first, "AutoTokenizer", Raw("MODEL"), whole=True),
    }
    return [Artifact(SCRIPT, ids, "text_part.py.j2", names)]


def _renamed(begin: str, becomes: str) -> dict[str, str]:
    """The names of parameters by a regular expression, as transformers takes them."""
    return {"^" + begin.replace(".", "[.]"): becomes}
