"""How a bundle holds the user's own functions: the files that wrap them, and what a call of one may take and give."""

from __future__ import annotations

from recipec.backends.job import StageJob
from recipec.render.artifact import Artifact
from recipec.render.traced import Raw

JUDGE = "judge"  # the file of the bundle that runs a reward model
REWARDS = "rewards"  # the file of the bundle that has the functions as they are trained with
FUNCTIONS = "functions"  # the folder with copies of the user's files
SECONDS = 60  # that one call may take before the run stops, or the model reads that it failed: recipec's choice
CLAMP = 100.0  # recipec's choice; one reward of 1e30 makes the gradient of its batch 0, without a word (TRL 1.16, run)


def copy_artifact(stage: StageJob, module: str, text: str, file: str, ids: tuple[str, ...]) -> Artifact:
    """The copy of a user's file in the bundle."""
    path = f"{stage.folder}{FUNCTIONS}/{module}.py"
    return Artifact(path, ids, "trl/given.py.j2", {"given": Raw(text)}, copy_of=file)
