"""Why a decision was taken, in every stage that has it, and which lines it reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recipec.bundle.merge import lines_of
from recipec.cli.bundles import Bundle, files_on_disk
from recipec.cli.decisions import decisions_of
from recipec.cli.output import Failure
from recipec.cli.reasons import reason

SCHEMA_VERSION = 1

Document = dict[str, Any]
Lines = Mapping[str, Mapping[int, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Emitted:
    """A plan, and for each line of its files the decisions behind it."""

    plan: Document
    lines: Lines

    @classmethod
    def in_bundle(cls, bundle: Bundle) -> Emitted:
        """The lines as they are numbered now, after the user's edits; lines that were taken out are gone."""
        texts = files_on_disk(bundle)
        now = {path: _moved(bundle.lines.get(path, {}), bundle.built[path], text) for path, text in texts.items()}
        return cls(bundle.plan, now)


def explain_key(key: str, emitted: Emitted) -> Document:
    """The JSON model for a decision id or a recipe key, with or without a stage; an unknown one ends the command."""
    decisions = decisions_of(emitted.plan)
    found = [id for id, decision in decisions.items() if key in _names(id, decision["key"])]
    if not found:
        raise _unknown(key, decisions)
    return {
        "schema_version": SCHEMA_VERSION,
        "key": key,
        "decisions": [_decision(id, decisions, emitted.lines) for id in found],
    }


def _names(id: str, key: str) -> set[str]:
    """What a decision answers to: sft.learning_rate, learning_rate, train.learning_rate, train.sft.learning_rate."""
    stage, _, name = id.partition(".")
    section, _, rest = key.partition(".")
    return {id, name, *((key, rest.split(".")[-1], f"{section}.{stage}.{rest}") if key else ())}


def _decision(id: str, decisions: Mapping[str, Document], lines: Lines) -> Document:
    stage, _, name = id.partition(".")
    mates = ((other, decision) for other, decision in decisions.items() if other.startswith(f"{stage}."))
    leads_to = [other for other, decision in mates if name in decision["inputs"]]
    return reason(id, decisions) | {"leads_to": leads_to, "lines": _reached(id, lines)}


def _reached(id: str, lines: Lines) -> list[Document]:
    """The lines that a decision marks, runs of them together."""
    runs: list[Document] = []
    for path, marks in lines.items():
        for line in sorted(line for line, ids in marks.items() if id in ids):
            if runs and runs[-1]["file"] == path and runs[-1]["last"] == line - 1:
                runs[-1]["last"] = line
            else:
                runs.append({"file": path, "first": line, "last": line})
    return runs


def _moved(marks: Mapping[int, tuple[str, ...]], built: str, now: str) -> dict[int, tuple[str, ...]]:
    """The marks on the lines where they are now; a changed line keeps its marks, as in `source_map.ids_at`."""
    from difflib import SequenceMatcher

    if built == now:
        return dict(marks)
    matcher = SequenceMatcher(None, lines_of(built), lines_of(now), autojunk=False)
    kept = [(a, b, end_a - a) for _, a, end_a, b, end_b in matcher.get_opcodes() if end_a - a == end_b - b]
    shifts = ((before + i, after + i) for before, after, size in kept for i in range(1, size + 1))
    return {after: marks[before] for before, after in shifts if before in marks}


def _unknown(key: str, decisions: Mapping[str, Document]) -> Failure:
    from difflib import get_close_matches

    names = sorted({name for id, decision in decisions.items() for name in _names(id, decision["key"])})
    near = get_close_matches(key, names, n=3)
    help = (
        f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "`recipec plan --json` has them all"
    )
    return Failure(f"no decision is called `{key}`", help)
