"""From a line or a key of a bundle to the decisions behind it, as JSON models; and how two plans differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from recipec.bundle.lines import changed_lines, lines_of, stretches
from recipec.bundle.merge import conflict_at
from recipec.bundle.source_map import Lines, Origin, copied_from, ids_at
from recipec.cli.inputs import Records, files_on_disk, open_bundle, text_on_disk
from recipec.cli.output import Failure
from recipec.units import counted

SCHEMA_VERSION = 1
_DEEPEST = 100  # plans have a dozen

Document = dict[str, Any]


_ESTIMATES = ("prediction", "alternatives", "model_runners_up")  # shown as tables elsewhere


def decisions_of(plan: Document) -> dict[str, Document]:
    """Full id ("sft.learning_rate", as the source map writes it) -> decision."""
    return {
        f"{stage['name']}.{decision['id']}": decision for stage in plan["stages"] for decision in stage["decisions"]
    }


def changed_decisions(one: Document, other: Document) -> list[Document]:
    """The decisions with another value, or in one plan only: `a` and `b` have both values and reasons."""
    a, b = decisions_of(one), decisions_of(other)
    rows = [(id, a.get(id), b.get(id)) for id in dict.fromkeys([*a, *b])]
    changed = [row for row in rows if _value(row[1]) != _value(row[2]) and not row[0].endswith(_ESTIMATES)]
    return [{"id": id, "a": _side(old), "b": _side(new)} for id, old, new in changed]


def _value(decision: Document | None) -> Any:
    """What is compared; 1 and True and 1.0 are different, an absent decision differs from a null one."""
    return None if decision is None else (repr(decision["value"]),)


def _side(decision: Document | None) -> Document | None:
    return decision and {name: decision[name] for name in ("value", "because", "origin", "where")}


def reason(id: str, decisions: Mapping[str, Document]) -> Document:
    """The decision `id` with its inputs, recursively, under `from`."""
    return _grown(id, decisions, {id}, _DEEPEST)


def reasons(ids: Iterable[str], decisions: Mapping[str, Document]) -> list[Document]:
    """The trees of several decisions; what one has shown, the next ones leave out."""
    known = [id for id in dict.fromkeys(ids) if id in decisions]
    seen = set(known)
    return [_grown(id, decisions, seen, _DEEPEST) for id in known]


def _grown(id: str, decisions: Mapping[str, Document], seen: set[str], depth: int) -> Document:
    """Direct inputs are claimed before theirs, so that each decision stands as near to the top as it can."""
    if not depth:
        raise Failure(
            f"decisions of this plan rest on each other more than {_DEEPEST} deep",
            "recipec writes no such plan: build the bundle again",
        )
    stage = id.partition(".")[0]
    inputs = (f"{stage}.{name}" for name in decisions[id]["inputs"])
    fresh = [other for other in dict.fromkeys(inputs) if other in decisions and other not in seen]
    seen.update(fresh)
    return decisions[id] | {"id": id, "from": [_grown(other, decisions, seen, depth - 1) for other in fresh]}


def explain_line(out: Path, path: str, line: int) -> Document:
    """The JSON model.

    `kind` is decided, fixed (text of the template), copied (from a file of the user), left (of a file that an earlier
    build wrote and the last one did not) or yours (a line that the user added).
    """
    bundle = open_bundle(out)
    now = text_on_disk(out / path)
    origin = ids_at(out, path, line)
    if origin is None:
        raise _no_such_line(bundle, path, now)
    placed_by = of_every_line(bundle, path)
    own = [id for id in origin.ids if id not in placed_by]
    decisions, copied = decisions_of(bundle.plan), copied_from(out, path)
    return {
        "schema_version": SCHEMA_VERSION,
        "file": path,
        "line": line,
        "text": origin.text,
        "kind": _kind(origin, own, copied, left=path not in bundle.lines),
        "edited": origin.edited,
        "copied_from": copied,
        "conflict": conflict_at(now or "", line),
        "built": None if origin.line is None else {"line": origin.line, "text": _built_text(bundle, path, origin.line)},
        "decisions": reasons(own or origin.ids, decisions),
        "file_decided_by": _values(placed_by, decisions),
    }


def _kind(origin: Origin, own: list[str], copied: str, *, left: bool) -> str:
    if origin.line is None:
        return "yours"
    if left:
        return "left"
    if copied:
        return "copied"
    return "decided" if own else "fixed"


def of_every_line(bundle: Records, path: str) -> list[str]:
    """The decisions that put the whole file there: those that every one of its lines names."""
    lines = bundle.lines.get(path, {})
    if not lines or len(lines) < len(bundle.built[path].splitlines()):
        return []
    first, *others = lines.values()
    return [id for id in first if all(id in ids for ids in others)]


def _built_text(bundle: Records, path: str, line: int) -> str:
    return bundle.built[path].split("\n")[line - 1]


def _values(ids: list[str], decisions: Mapping[str, Document]) -> list[Document]:
    return [{"id": id, "value": decisions[id]["value"]} for id in ids if id in decisions]


def _no_such_line(bundle: Records, path: str, text: str | None) -> Failure:
    if path in bundle.built and text is not None:
        return Failure(f"`{path}` has {counted(len(text.splitlines()), 'line')}")
    gone = "is no longer there" if path in bundle.built else "is not a file that recipec built"
    return Failure(f"`{path}` {gone}", f"the files of this bundle: {', '.join(sorted(bundle.built))}")


class Emitted(Struct, frozen=True):
    """A plan, for each line of its files the decisions behind it, and which lines the user changed."""

    plan: Document
    lines: Lines
    edited: Mapping[str, Collection[int]] = {}

    @classmethod
    def in_bundle(cls, bundle: Records) -> Emitted:
        """The lines as they are numbered now, after the user's edits; lines that were taken out are gone."""
        texts = files_on_disk(bundle)
        now = {path: _moved(bundle.lines.get(path, {}), bundle.built[path], text) for path, text in texts.items()}
        changed = {path: changed_lines(bundle.built[path], text) for path, text in texts.items()}
        return cls(bundle.plan, now, {path: {after for _, after, *_ in found} for path, found in changed.items()})


def explain_key(key: str, emitted: Emitted) -> Document:
    """The JSON model for a decision id or a recipe key, with or without a stage; an unknown one ends the command."""
    decisions = decisions_of(emitted.plan)
    found = _called({key}, decisions) or _called({f"{key}.stage"}, decisions)
    found = found or _called({_several(key)}, decisions) or _called_elsewhere(key, decisions)
    if not found:
        raise _unknown(key, decisions)
    return {
        "schema_version": SCHEMA_VERSION,
        "key": key,
        "decisions": [_decision(id, decisions, emitted) for id in found],
    }


def _several(key: str) -> str:
    """The id of a decision on all that a key names: `rewards`, of alignment.reward."""
    return f"{key.rpartition('.')[2]}s"


def _called(names: set[str], decisions: Mapping[str, Document]) -> list[str]:
    """The ids of the decisions that answer to one of the names."""
    return [id for id, decision in decisions.items() if names & _names(id, decision["key"])]


def _called_elsewhere(name: str, decisions: Mapping[str, Document]) -> list[str]:
    """The ids of the decisions that a word of another tool, or the value of a key, is about."""
    from recipec.cli.meanings import keys_about  # takes pydantic to import

    return _called(keys_about(name), decisions)


def _names(id: str, key: str) -> set[str]:
    """What a decision answers to: sft.learning_rate, learning_rate, train.learning_rate, train.sft.learning_rate."""
    stage, _, name = id.partition(".")
    section, _, rest = key.partition(".")
    rest = rest.removeprefix(f"{stage}.")
    keys = (f"{section}.{rest}", rest.split(".")[-1], f"{section}.{stage}.{rest}")
    return {id, name, *(keys if key else ())}


def _decision(id: str, decisions: Mapping[str, Document], emitted: Emitted) -> Document:
    stage, _, name = id.partition(".")
    mates = ((other, decision) for other, decision in decisions.items() if other.startswith(f"{stage}."))
    decided = (row for row in mates if not row[0].endswith(_ESTIMATES))  # they name all that was decided
    leads_to = [other for other, decision in decided if name in decision["inputs"]]
    return reason(id, decisions) | {"leads_to": leads_to, "lines": _reached(id, emitted)}


def _reached(id: str, emitted: Emitted) -> list[Document]:
    """The lines that a decision marks, runs of them together; those that the user changed are runs of their own."""
    runs: list[Document] = []
    for path, marks in emitted.lines.items():
        for line in sorted(line for line, ids in marks.items() if id in ids):
            run = {"file": path, "edited": line in emitted.edited.get(path, ())}
            if runs and runs[-1] | run == runs[-1] and runs[-1]["last"] == line - 1:
                runs[-1]["last"] = line
            else:
                runs.append(run | {"first": line, "last": line})
    return runs


def _moved(marks: Mapping[int, tuple[str, ...]], built: str, now: str) -> dict[int, tuple[str, ...]]:
    """The marks on the lines where they are now; a changed line keeps its marks, as in `source_map.ids_at`."""
    pairs = [pair for each in stretches(lines_of(built), lines_of(now)) for pair in each.pairs]
    return {after + 1: marks[before + 1] for before, after in pairs if before + 1 in marks}


def _unknown(key: str, decisions: Mapping[str, Document]) -> Failure:
    from difflib import get_close_matches

    from recipec.recipe.foreign import not_built

    if help := not_built(key):
        return Failure(f"recipec does not build `{key}`", *help)
    from recipec.cli.explain import has_page

    if has_page(key):
        return Failure(f"no decision is called `{key}`", f"`recipec explain {key}` says what it is")
    names = sorted({name for id, decision in decisions.items() for name in _names(id, decision["key"])})
    near = get_close_matches(key, names, n=3)
    help = (
        f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "`recipec plan --json` has them all"
    )
    return Failure(f"no decision is called `{key}`", help)
