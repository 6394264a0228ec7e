"""The levels of verification, in order: read this first."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from recipec.axes.generators import GENERATORS
from recipec.verify.bundle import Bundle, NotABundle, read_bundle
from recipec.verify.report import Check, VerifyReport


def verify(out: Path, level: str, ranks: int | None, told: Callable[[Check], None]) -> VerifyReport:
    """Verify the bundle in `out` up to `level`; what was tried and what was not is in the report."""
    report, started = VerifyReport(level, told), time.monotonic()
    try:
        bundle = read_bundle(out)
    except NotABundle as error:
        report.add("the folder is a bundle", str(error))
        return report
    if check_statically(bundle, report) and level != "static":
        execute(bundle, level, ranks, report)
    report.metrics["seconds"] = round(time.monotonic() - started, 1)
    return report


def check_statically(bundle: Bundle, report: VerifyReport) -> bool:
    """Every file by the loader that will read it, and what the files say about each other; False where some miss."""
    from recipec.verify.static import STATIC_CHECKS
    from recipec.verify.static.files import check_files

    if not check_files(bundle, report):
        report.skip("the other checks", "files are missing")
        return False
    for check in STATIC_CHECKS:
        check(bundle, report)
    return True


def execute(bundle: Bundle, level: str, ranks: int | None, report: VerifyReport) -> None:
    """Run the bundle in a private folder, and let it learn where that is asked for."""
    from recipec.verify.combining import check_combining
    from recipec.verify.data import FEWEST_OWN_ROWS, NoSample
    from recipec.verify.learn import learn_bundle, rows_to_learn
    from recipec.verify.planted import check_planted
    from recipec.verify.real_rows import count_rows
    from recipec.verify.run import ROWS, prepare_launch, ranks_for, run_bundle
    from recipec.verify.sandbox import make_sandbox
    from recipec.verify.stand_in import NoStandIn

    if not bundle.launcher or not (bundle.root / bundle.launcher).is_file():
        report.skip(level, "the bundle has no launch script: its owner launches it some other way")
        return
    processes = ranks_for(bundle, ranks)
    rows = ROWS if level == "run" else rows_to_learn(bundle, processes)
    report.add("the installed packages are the pinned ones", *installed_problems(bundle.root / "requirements.txt"))
    with TemporaryDirectory(prefix="recipec-verify-") as folder:
        try:
            sandbox = make_sandbox(bundle, Path(folder), rows, FEWEST_OWN_ROWS if level == "run" else rows)
        except (NoStandIn, NoSample) as error:
            report.skip(level, str(error))
            return
        check_planted(sandbox, report)
        count_rows(bundle, Path(folder) / "real-rows", report)
        launch = prepare_launch(sandbox, processes, level == "learn", report)
        if level == "run":
            run_bundle(launch, report)
        else:
            learn_bundle(launch, report)
        check_combining(launch, report)


_TRACKERS = "tensorboard", "wandb", "mlflow"
_OF_GENERATORS = (package for row in GENERATORS.values() for package in row.packages)
_OPTIONAL = (*_TRACKERS, *_OF_GENERATORS, "torchao")  # a run without them is a substitution


def installed_problems(requirements: Path) -> tuple[list[str], str]:
    """Packages that are missing here or have another version, and what was compared."""
    from recipec.verify.static.python import pins

    wanted = {name: pin for name, pin in pins(requirements).items() if name not in _OPTIONAL}
    found = {name: _version(name) for name in wanted}
    wrong = [
        f"{name} {found[name] or 'is not installed'}, not {pin}" for name, pin in wanted.items() if found[name] != pin
    ]
    return wrong, ", ".join(f"{name} {pin}" for name, pin in wanted.items())


def _version(name: str) -> str | None:
    """The installed version without a local part such as +cpu."""
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None
