"""What the plan decides must stand in the files as it was built; every other edit is named and left to its owner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recipec.bundle.state import LAST, read_text
from recipec.verify.bundle import Bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.configurations import read_keys
from recipec.verify.static.edits import edited
from recipec.verify.static.settled import settled_problems

_UNREADABLE = (OSError, ValueError, SyntaxError, RecursionError, MemoryError)
_OWN_CODE = "functions"  # the folder of the recipe's own code, such as reward functions
_OPEN_KEYS = (  # how keys of a configuration begin that decide what is told, or where processes meet
    *("comms_logger", "csv_monitor", "debug", "dump_state", "flops_profiler", "main_process_", "rdzv_"),
    *("same_network", "steps_per_print", "tensorboard", "wall_clock_breakdown", "wandb"),
)
_CURE = "to change what is decided, change the recipe and build again"


def check_built(bundle: Bundle, report: VerifyReport) -> None:
    """Compare every built file with the text that the last build kept of it."""
    kept = [name for name in sorted(bundle.built) if (bundle.root / LAST / name).is_file()]
    problems = [problem for name in kept for problem in built_problems(bundle, name)]
    report.add(
        "what the plan decides stands as built",
        [*dict.fromkeys(problems), *[_CURE] * bool(problems)],
        f"{len(kept)} files",
    )
    for name, places in ((name, edited(bundle.root, name)) for name in kept):
        if places:
            report.skip(f"edits of {name}", f"{', '.join(places)}: checks compare only what the plan decides")
    if lost := sorted(bundle.built - {*kept}):
        report.skip(", ".join(lost), f"{LAST} has no text of the last build to compare with")


def built_problems(bundle: Bundle, name: str) -> Iterator[str]:
    """What was decided in the file `name` and stands there otherwise; nothing where other checks cannot read it."""
    path = bundle.root / name
    try:
        if path.suffix in (".json", ".yaml") and name.startswith("configs/"):
            yield from _key_problems(bundle, name)
        elif path.suffix == ".py" and _OWN_CODE not in Path(name).parts and path.is_file():
            yield from settled_problems(name, _tree(path), _tree(bundle.root / LAST / name))
    except _UNREADABLE:
        return


def _tree(path: Path) -> ast.Module:
    return ast.parse(read_text(path) or "", filename=str(path))


def _key_problems(bundle: Bundle, name: str) -> Iterator[str]:
    now, built = (_flat(read_keys(bundle, bundle.root / folder / name)) for folder in ("", LAST))
    for key in dict.fromkeys((*built, *now)):
        if key.startswith(_OPEN_KEYS) or now.get(key) == built.get(key):
            continue
        found = now.get(key, "not set")
        before = f"was built as {built[key]}" if key in built else "was built without it"
        yield f"{name}: {key} is {found}, and {before}"


def _flat(found: Any, at: str = "") -> dict[str, Any]:
    """Every value of a configuration by its dotted key."""
    if not isinstance(found, dict) or not found:
        return {at: found}
    joined = (_flat(value, f"{at}.{key}" if at else str(key)) for key, value in found.items())
    return {key: value for part in joined for key, value in part.items()}
