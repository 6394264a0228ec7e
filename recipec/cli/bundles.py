"""Read a bundle from its folder: the plan, the source map and the emitted files; writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipec.bundle.source_map import load
from recipec.bundle.state import PLAN, STATE, read_last, read_text
from recipec.bundle.write import is_interrupted
from recipec.cli.output import Failure

PLAN_VERSION = 1  # planner.document.SCHEMA_VERSION, which takes pydantic to import


@dataclass(frozen=True, slots=True)
class Bundle:
    """What `.recipec/` tells of a bundle."""

    out: Path
    plan: dict[str, Any]
    lines: Mapping[str, Mapping[int, tuple[str, ...]]]  # path -> line of the last build -> decision ids
    built: Mapping[str, str]  # path -> text as it was emitted


def is_bundle(folder: Path) -> bool:
    """Whether something was built in `folder`."""
    return (folder / STATE).is_dir()


def plan_if_any(out: Path) -> dict[str, Any] | None:
    """The plan of the last build in `out`; None when there is none that this version can read."""
    try:
        plan = json.loads((out / PLAN).read_bytes())
    except (OSError, ValueError):
        return None
    return plan if isinstance(plan, dict) and plan.get("schema_version") == PLAN_VERSION else None


def open_bundle(out: Path) -> Bundle:
    """The bundle in `out`; ends the command with the reason when there is none."""
    if not out.exists():
        raise Failure(f"there is no folder `{out}`", exit_code=2)
    if not is_bundle(out):
        raise Failure(f"`{out}` is not a bundle: recipec built nothing there", "recipec build RECIPE -o OUT makes one")
    if is_interrupted(out):
        raise Failure(f"a build of `{out}` was interrupted", "build it again; that finishes what was begun")
    plan, source_map, last = plan_if_any(out), load(out), read_last(out)
    if plan is None or source_map is None or last is None:
        raise Failure(f"`{out}/{STATE}` is damaged or of another version of recipec", "build it again")
    lines = {path: {int(line): tuple(ids) for line, ids in each.items()} for path, each in source_map["files"].items()}
    return Bundle(out, plan, lines, last.texts)


def files_on_disk(bundle: Bundle) -> dict[str, str]:
    """Path -> text as it is now, of the emitted files that are still there."""
    texts = {path: read_text(bundle.out / path) for path in bundle.built}
    return {path: text for path, text in texts.items() if text is not None}
