"""requirements.txt of a bundle."""

from __future__ import annotations

from recipec.backends.job import Job
from recipec.backends.trackers import trackers
from recipec.catalog.stack import requirements
from recipec.render.traced import Raw, fragment
from recipec.rules.optimizers import BITSANDBYTES


def requirements_of(job: Job) -> list[Raw]:
    """The pins that the bundle imports, each with the decision that needs it."""
    always = ("torch", "transformers", "trl", "accelerate", "datasets", "pyarrow")
    needed: dict[str, tuple[str, ...]] = dict.fromkeys(always, ())
    for stage in job.stages:
        needed |= dict.fromkeys(stage.adapts.packages, stage.ids("adaptation", "quantization"))
        if stage.value("optimizer") in BITSANDBYTES:
            needed |= {"bitsandbytes": stage.ids("quantization", "optimizer")}
        if stage.method.generates:
            needed |= dict.fromkeys(stage.method.written_by.packages, stage.ids("generator"))
        if stage.fp8:
            needed |= {"torchao": stage.ids("fp8")}
        needed |= dict.fromkeys(stage.engine.packages, stage.ids("strategy"))
        needed |= dict.fromkeys(trackers(stage), stage.ids("tracker"))
    return [fragment(line, needed[line.split("==")[0]]) for line in requirements(needed)]
