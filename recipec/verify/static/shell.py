"""The launch scripts: bash reads them and shellcheck finds nothing."""

from __future__ import annotations

import os
import subprocess

from recipec.verify.bundle import Bundle
from recipec.verify.process import program
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
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
        problems += done.stderr.replace(f"{bundle.root}/", "").splitlines()
        if not os.access(path, os.X_OK):
            problems.append(f"{bundle.name_of(path)} is not executable")
    return problems


def shellcheck_problems(bundle: Bundle, check: str) -> list[str]:
    """What shellcheck says."""
    scripts = [str(path) for path in bundle.ending(*_SUFFIXES)]
    done = subprocess.run([check, "--format=gcc", *scripts], capture_output=True, text=True)
    return (done.stdout + done.stderr).replace(f"{bundle.root}/", "").splitlines()
