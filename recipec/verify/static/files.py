"""Whether every file that was built is there: the other checks look at what they find."""

from __future__ import annotations

from recipec.verify.bundle import Bundle
from recipec.verify.report import VerifyReport


def check_files(bundle: Bundle, report: VerifyReport) -> bool:
    """Whether the bundle has all that its last build wrote, but for documents that the user took out before it."""
    return report.add("every built file is there", missing_problems(bundle), f"{len(bundle.lock['files'])} files")


def missing_problems(bundle: Bundle) -> list[str]:
    """Files of the last build that are gone, or are no regular files any more."""
    out = {path for path in bundle.lock["deleted"] if not path.endswith((".py", ".sh"))}
    lost = [path for path in bundle.lock["files"] if path not in out and not (bundle.root / path).is_file()]
    cure = (
        "`recipec build --force` writes them again; a document that is to stay away is noted by a build without --force"
    )
    return [f"{', '.join(lost)}: {cure}"] if lost else []
