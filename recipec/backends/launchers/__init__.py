"""The launch scripts, one file each: `launch.with` and the number of nodes choose."""

from __future__ import annotations

from recipec.backends.job import Job
from recipec.backends.launchers import local, nodes
from recipec.backends.launchers.launcher import Launcher, script_artifact, usage
from recipec.render.artifact import Artifact

LAUNCHERS = (local.LAUNCHER, nodes.LAUNCHER)
USUAL, NO_SCRIPT = "local", "none"  # values of launch.with: where it is not set; a team with its own launcher


def launcher_of(job: Job) -> Launcher | None:
    """The launcher that the recipe asks for; None when the team has its own."""
    asked = job.loaded.recipe.launch.with_ or USUAL
    return None if asked == NO_SCRIPT else launcher_for(asked, job.nodes > 1)


def launcher_for(asked: str, several_nodes: bool) -> Launcher:
    """The launcher of a value of launch.with; raises StopIteration where none is for it."""
    fitting = (row for row in LAUNCHERS if (row.several_nodes if several_nodes else row.one_node))
    return next(row for row in fitting if row.asked_by == asked)


def launch_artifacts(job: Job) -> list[Artifact]:
    """The launch scripts of a bundle."""
    launcher = launcher_of(job)
    return [script_artifact(launcher, job)] if launcher else []


__all__ = ["LAUNCHERS", "NO_SCRIPT", "Launcher", "launch_artifacts", "launcher_for", "launcher_of", "usage"]
