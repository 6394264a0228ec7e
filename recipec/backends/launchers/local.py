"""Everything in order, on the node that the script is started on."""

from recipec.backends.launchers.launcher import Launcher
from recipec.recipe.schema import LOCAL

LAUNCHER = Launcher(
    asked_by=LOCAL,
    one_node=True,
    several_nodes=False,
    command="bash",
    script="launch/local.sh",
    template="launch/local.sh.j2",
    usage="launch/local.md.j2",
    names=lambda job: {
        "idle_nodes": job.because(job.facts.machines.nodes > 1, "nodes", "world_size"),
        "stated_nodes": job.because(job.facts.machines.nodes, "nodes"),
        "distributed": job.because(any(stage.strategy.distributed for stage in job.stages), "strategy"),
    },
)
