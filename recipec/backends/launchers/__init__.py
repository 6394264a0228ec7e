"""The launch scripts, one file each: `launch.with` and the number of nodes choose."""

from __future__ import annotations

from msgspec import Struct

from recipec.backends.job import Job
from recipec.backends.launchers import local, nodes
from recipec.backends.launchers.launcher import Launcher, first_look, own_usage, script_artifact, usage
from recipec.recipe.schema import LOCAL, NO_SCRIPT
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw, fragment

LAUNCHERS = (local.LAUNCHER, nodes.LAUNCHER)


def launcher_of(job: Job) -> Launcher | None:
    """The launcher that the recipe asks for; None when the team has its own."""
    asked = job.loaded.recipe.launch.with_ or LOCAL
    return None if asked == NO_SCRIPT else launchers_for(asked, job.nodes > 1)[0]


def launchers_for(asked: str, several_nodes: bool) -> list[Launcher]:
    """The launchers of a value of launch.with; each value but NO_SCRIPT has one (recipec.backends.missing)."""
    fitting = (row for row in LAUNCHERS if (row.several_nodes if several_nodes else row.one_node))
    return [row for row in fitting if row.asked_by == asked]


class Start(Struct, frozen=True):
    """The one command that starts a bundle: words, then a script of the bundle, then arguments for a short run."""

    command: str
    script: str
    short: str
    nodes: int = 1  # on each of which it is started


def start_of(job: Job) -> Start:
    """How a bundle is started; a team with its own launcher begins with the data."""
    launcher = launcher_of(job)
    if launcher is None:
        return Start("python", "prepare_data.py", "")
    return Start(launcher.command, launcher.script, f"--max-steps {first_look(job)}", job.nodes)


class StartText(Struct, frozen=True):
    """What a training script says of its start: a sentence, and the commands that follow it."""

    says: str
    commands: list[Raw]


def start_text(job: Job, script: str) -> StartText:
    """How a training script says that it is started."""
    start = start_of(job)
    whole = f"{start.command} {start.script}"
    says = "A first look (data, baseline, a short training, evaluation), then the whole training:"
    commands = [f"{whole} {start.short}", whole]
    if launcher_of(job) is None:
        says = "With your own launcher and configuration; README.md has the order:"
        commands = [f"accelerate launch {script}"]
    return StartText(says, [fragment(text, job.ids("world_size", "gpus_per_node", "total_steps")) for text in commands])


def launch_artifacts(job: Job) -> list[Artifact]:
    """The launch scripts of a bundle."""
    launcher = launcher_of(job)
    return [script_artifact(launcher, job)] if launcher else []


__all__ = [
    "LAUNCHERS",
    "Launcher",
    "Start",
    "StartText",
    "launch_artifacts",
    "launcher_of",
    "launchers_for",
    "own_usage",
    "start_of",
    "start_text",
    "usage",
]
