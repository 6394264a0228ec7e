"""Whether every file that was built is there: the other checks look at what they find."""

from __future__ import annotations

from recipec.bundle.state import MOST_BYTES
from recipec.verify.bundle import MOST_ADDED_BYTES, Bundle
from recipec.verify.report import VerifyReport

_READ_BY_NO_SCRIPT = ("README.md", ".gitattributes", ".gitignore", "ruff.toml", "registry/")  # files, and folders
_STARTED_BY_HAND = ("merge_adapter.py", "combine.py")  # of the last stage; no script reads them
_CURE = (
    "not there any more. `recipec build RECIPE -o OUT --restore FILE` writes a file again and keeps your other edits. "
    f"Only {', '.join((*_READ_BY_NO_SCRIPT, *_STARTED_BY_HAND))} and the launch script may stay deleted: for these, "
    "build once without options"
)


def check_files(bundle: Bundle, report: VerifyReport) -> bool:
    """Whether the bundle has all that its last build wrote, but for what its owner took out and no script reads."""
    problems = [*missing_problems(bundle), *size_problems(bundle)]
    if not report.add("every built file is there", problems, f"{len(bundle.built)} files"):
        return False
    if bundle.launcher and not (bundle.root / bundle.launcher).is_file():
        report.skip(bundle.launcher, "its owner deleted it: no script of the bundle starts the stages of the plan")
    if large := bundle.passed_over:
        names = ", ".join(bundle.name_of(path) for path in large[:8])
        report.skip(names, f"no build wrote it, and it is larger than {MOST_ADDED_BYTES // 2**20} MiB")
    return True


def missing_problems(bundle: Bundle) -> list[str]:
    """Files of the last build that are gone, or are no regular files any more."""
    gone = [path for path in sorted(bundle.built) if not (bundle.root / path).is_file()]
    lost = [path for path in gone if path not in bundle.lock.deleted or not _may_stay_away(bundle, path)]
    return [f"{', '.join(lost)}: {_CURE}"] if lost else []


def _may_stay_away(bundle: Bundle, path: str) -> bool:
    """Whether the bundle runs without this file: no script reads it, or it is one that people start."""
    by_hand = {f"{folder}{name}" for folder in ("", bundle.last.folder) for name in _STARTED_BY_HAND}
    return path in by_hand | {bundle.launcher} or any(
        path.startswith(name) if name.endswith("/") else path == name for name in _READ_BY_NO_SCRIPT
    )


def size_problems(bundle: Bundle) -> list[str]:
    """Emitted files that grew beyond what a build or a check reads."""
    found = (bundle.root / path for path in sorted(bundle.built))
    large = [path for path in found if path.is_file() and path.stat().st_size > MOST_BYTES]
    return [f"{bundle.name_of(path)}: it is larger than {MOST_BYTES // 2**20} MiB" for path in large]
