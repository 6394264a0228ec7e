"""The launch scripts, one file each: `launch.with` and the number of nodes choose."""

from __future__ import annotations

from dataclasses import dataclass

from recipec.backends.job import Job
from recipec.backends.launchers import local, nodes
from recipec.backends.launchers.launcher import Launcher, script_artifact, usage
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw

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


@dataclass(frozen=True, slots=True)
class Start:
    """The one command that starts a bundle: words, then a script of the bundle, then arguments for a short run."""

    command: str
    script: str
    short: str


def start_of(job: Job) -> Start:
    """How a bundle is started; a team with its own launcher begins with the data."""
    launcher = launcher_of(job)
    if launcher is None:
        return Start("python", "prepare_data.py", "")
    return Start(launcher.command, launcher.script, "--max-steps 20")


def starts(job: Job, script: str) -> list[Raw]:
    """How a training script says that it is started, line by line."""
    if launcher_of(job) is None:
        return [Raw(f"accelerate launch {script}   with your own launcher and configuration; README.md has the order")]
    start = start_of(job)
    whole = f"{start.command} {start.script}"
    return [
        Raw(f"{whole} {' ' * len(start.short)}   data, baseline, training, evaluation"),
        Raw(f"{whole} {start.short}   the same with a short training"),
    ]


def launch_artifacts(job: Job) -> list[Artifact]:
    """The launch scripts of a bundle."""
    launcher = launcher_of(job)
    return [script_artifact(launcher, job)] if launcher else []


__all__ = [
    "LAUNCHERS",
    "NO_SCRIPT",
    "Launcher",
    "Start",
    "launch_artifacts",
    "launcher_for",
    "launcher_of",
    "start_of",
    "starts",
    "usage",
]
