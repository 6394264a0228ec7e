"""One run in a process of its own: the bundle's prepare_data.py and, at a word on stdin, its train.py, unmodified."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path


def main(folder: Path, steps: int, rows: int | None) -> None:
    """Run the bundle in `folder`; writes measured.json beside it."""
    import trl  # noqa: F401  imported while the run before this one has the GPU

    from benchmarks.gpu.meter import Measured, Meter, attach

    bundle = folder / "bundle"
    sys.path.insert(0, str(bundle))
    os.chdir(bundle)
    meter = Meter(Measured())
    try:
        _run(bundle / "prepare_data.py")
        if not sys.stdin.readline():
            return  # whoever started this is gone
        attach(meter, rows)
        _train(bundle, steps)
        meter.measured.status = "ran"
    except (Exception, SystemExit) as error:
        out_of_memory = "out of memory" in str(error)
        meter.measured.status = "out of memory" if out_of_memory else f"{type(error).__name__}: {error}"[:300]
    meter.ended()
    (folder / "measured.json").write_text(json.dumps(meter.document()))


def _train(bundle: Path, steps: int) -> None:
    import preflight

    preflight.try_save = lambda trainer: None
    outputs = bundle / "outputs"
    _run(bundle / "train.py", "--max-steps", str(steps), "--resume", "none", "--output-dir", str(outputs))


def _run(script: Path, *arguments: str) -> None:
    sys.argv = [str(script), *arguments]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
