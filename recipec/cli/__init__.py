"""The command line: one short file per command, imported when the command is used."""

from __future__ import annotations

import gc

_OBJECTS_BETWEEN_COLLECTIONS = 100_000  # Python's 700 are passed hundreds of times while the imports run


def main() -> None:
    """Run the command line on `sys.argv` and exit: the console script `recipec`.

    A compilation makes hardly any garbage; looking for it took an eighth of `recipec build` (measured 2026-11).
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from recipec.cli.group import recipec

    try:
        recipec.main(prog_name="recipec")
    finally:
        gc.freeze()  # or Python looks through everything once more before it ends
