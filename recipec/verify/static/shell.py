"""The launch scripts: bash reads them and shellcheck finds nothing."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from recipec.verify.bundle import Bundle
from recipec.verify.process import ASK_SECONDS, ask, clean_environment, program
from recipec.verify.report import VerifyReport

_SUFFIXES = (".sh", ".sbatch")


def check_shell(bundle: Bundle, report: VerifyReport) -> None:
    """Syntax by bash, style and traps by shellcheck."""
    scripts = bundle.ending(*_SUFFIXES)
    if not scripts:
        return
    if report.add("bash reads the launch scripts", bash_problems(bundle), f"{len(scripts)} scripts"):
        check = program("shellcheck")
        if check is None:
            report.skip("shellcheck", "it is not installed")
        else:
            report.add("shellcheck", shellcheck_problems(bundle, check))


def bash_problems(bundle: Bundle) -> list[str]:
    """What `bash -n` says, and scripts that cannot be executed."""
    problems = []
    for path in bundle.ending(*_SUFFIXES):
        problems += _said_of(bundle, [program("bash") or "bash", "-n", str(path)])
        if not os.access(path, os.X_OK):
            problems.append(f"{bundle.name_of(path)} is not executable")
    return problems


def shellcheck_problems(bundle: Bundle, check: str) -> list[str]:
    """What shellcheck says."""
    scripts = [str(path) for path in bundle.ending(*_SUFFIXES)]
    return _said_of(bundle, [check, "--format=gcc", *scripts])


def _said_of(bundle: Bundle, command: list[str]) -> list[str]:
    """What a program that reads scripts says, line by line."""
    with TemporaryDirectory(prefix="recipec-shell-") as elsewhere:
        done = ask(command, folder=Path(elsewhere), environment=clean_environment(Path(elsewhere)))
    late = f"{Path(command[0]).name} has not come to its end within {ASK_SECONDS:.0f} s"
    return [late] if done.code is None else (done.output + done.errors).replace(f"{bundle.root}/", "").splitlines()
