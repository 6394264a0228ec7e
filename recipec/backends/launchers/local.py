"""Everything in order, on the machine that the script is started on."""

from recipec.backends.launchers.launcher import Launcher

LAUNCHER = Launcher(
    asked_by="local",
    one_node=True,
    several_nodes=False,
    script="launch/local.sh",
    template="launch/local.sh.j2",
    usage="launch/local.md.j2",
    names=lambda job: {},
)
