"""The same on several nodes that share the bundle's folder: the script is started on each of them."""

from __future__ import annotations

from typing import Any

from recipec.backends.job import Job, StageJob
from recipec.backends.launchers.launcher import Launcher
from recipec.recipe.schema import LOCAL
from recipec.rules.loader import node_cores


def _asked_of_slurm(job: Job) -> dict[str, Any]:
    """What a job asks of each node: the GPUs, and the cores that the plan counts on to prepare and load rows."""
    gpus = job.facts.machines.gpus_per_node
    cores = max(node_cores(stage.values) for stage in job.stages)
    return {
        "gpus": job.because(0 if job.last.on_cpu else gpus, "gpu", "gpus_per_node"),
        "assumes_cores": job.because(any(map(_assumed, job.stages)), "host_cores"),
        "cores": job.because(cores, "host_cores", "dataloader_workers", "gpus_per_node"),
    }


def _assumed(stage: StageJob) -> bool:
    found = stage.plan.decisions.get("host_cores")
    return found is not None and found.value is not None and found.origin == "default"


LAUNCHER = Launcher(
    asked_by=LOCAL,
    one_node=False,
    several_nodes=True,
    command="NODE_RANK=0 MASTER_ADDR=first-node bash",
    script="launch/nodes.sh",
    template="launch/nodes.sh.j2",
    usage="launch/nodes.md.j2",
    names=lambda job: {"nodes": job.because(job.nodes, "world_size", "gpus_per_node")},
    told=_asked_of_slurm,
)
