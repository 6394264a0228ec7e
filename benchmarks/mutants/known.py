"""The mutants of tests/known-mutants.toml: mistakes that once no test noticed, and the test that notices each now."""

from __future__ import annotations

import tomllib

from msgspec import Struct

from benchmarks.mutants.sandbox import ROOT, Sandbox

TABLE = ROOT / "tests" / "known-mutants.toml"


class Known(Struct, frozen=True, kw_only=True):
    """One line of one file, wrong."""

    mistake: str  # in words
    file: str
    before: str  # stands in the file once
    after: str
    test: str  # fails on it


def known_mutants() -> list[Known]:
    """The rows of the table."""
    return [Known(**row) for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutant"]]


def run_known(sandbox: Sandbox) -> int:
    """Try each on its test; 1 where one survives."""
    survived = 0
    for known in known_mutants():
        text = (ROOT / known.file).read_text(encoding="utf-8")
        assert text.count(known.before) == 1, (
            f"{known.file}: {known.before!r} stands there {text.count(known.before)} times"
        )
        changed = text.replace(known.before, known.after).encode()
        killed_by, seconds = sandbox.killer(known.file, changed, [known.test], 300)
        survived += not killed_by
        print(f"{known.mistake}: {killed_by or 'SURVIVED'} ({seconds:.0f} s)", flush=True)
    return int(bool(survived))
