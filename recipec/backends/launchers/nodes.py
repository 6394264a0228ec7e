"""The same on several nodes that share the bundle's folder: the script is started on each of them."""

from recipec.backends.launchers.launcher import Launcher
from recipec.recipe.schema import LOCAL

LAUNCHER = Launcher(
    asked_by=LOCAL,
    one_node=False,
    several_nodes=True,
    command="NODE_RANK=0 MASTER_ADDR=first-node bash",
    script="launch/nodes.sh",
    template="launch/nodes.sh.j2",
    usage="launch/nodes.md.j2",
    names=lambda job: {"nodes": job.because(job.nodes, "world_size", "gpus_per_node")},
)
