"""What verification found: one JSON document, and the human text made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field, to_builtins

SCHEMA_VERSION = 1
_WIDTH = 100  # of a detail in the human text before it moves below its headline


class Check(Struct, frozen=True):
    """One thing that was tried; `detail` says what was seen, or what is wrong."""

    name: str
    ok: bool
    detail: str = ""


class Substituted(Struct, frozen=True):
    """What this machine could not do as planned, what was done instead, and what the run therefore does not show."""

    what: str
    planned: str
    used: str
    claim_lost: str

    def document(self) -> dict[str, str]:
        """The row of the JSON model."""
        return {"what": self.what, "from": self.planned, "to": self.used, "claim_lost": self.claim_lost}


class NotRun(Struct, frozen=True):
    """Something that was not tried; never a pass."""

    what: str
    reason: str


class VerifyReport(Struct):
    """Everything one verification found."""

    level: str
    told: Callable[[Check], None] = lambda check: None  # hears of every check when it is made: some take minutes
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # stage -> what the run was
    substitutions: list[Substituted] = field(default_factory=list)
    not_run: list[NotRun] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether at least one check was made, none failed, and the level itself was run."""
        untried = any(row.what == self.level for row in self.not_run)
        return bool(self.checks) and all(check.ok for check in self.checks) and not untried

    def add(self, name: str, problems: list[str] | str, passed: str = "") -> bool:
        """Record a check: it failed when there are problems; `passed` is the detail otherwise."""
        found = [problems] if isinstance(problems, str) and problems else list(problems)
        self.checks.append(Check(name, not found, "; ".join(found) or passed))
        self.told(self.checks[-1])
        return not found

    def skip(self, what: str, reason: str) -> None:
        """Record that something was not tried."""
        self.not_run.append(NotRun(what, reason))

    def document(self) -> dict[str, Any]:
        """The JSON model."""
        return {
            "schema_version": SCHEMA_VERSION,
            "level": self.level,
            "ok": self.ok,
            "checks": to_builtins(self.checks),
            "facts": self.facts,
            "substitutions": [row.document() for row in self.substitutions],
            "not_run": to_builtins(self.not_run),
            "metrics": self.metrics,
        }


def summary(document: Mapping[str, Any]) -> str:
    """What a verification found, for people, behind the lines of its checks."""
    parts: list[list[str]] = []
    if document["facts"]:
        parts.append(["facts:", *(f"  {stage}: {_pairs(facts)}" for stage, facts in document["facts"].items())])
    if document["substitutions"]:
        parts.append(["substituted on this machine, and what is therefore not shown:"])
        parts[-1] += [
            f"  {row['what']}: {row['from']} -> {row['to']} ({row['claim_lost']})" for row in document["substitutions"]
        ]
    if document["not_run"]:
        parts.append(["not run:", *(f"  {row['what']}: {row['reason']}" for row in document["not_run"])])
    if document["metrics"]:
        parts.append([f"measured: {_pairs(document['metrics'])}"])
    parts.append([_verdict(document)])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def line_of(check: Check) -> str:
    """A check for people."""
    detail = check.detail
    if "\n" in detail or len(detail) > _WIDTH:
        detail = "\n         ".join(["", *detail.splitlines()])
    return f"  {'ok  ' if check.ok else 'FAIL'}   {check.name}{': ' if detail else ''}{detail}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _verdict(document: Mapping[str, Any]) -> str:
    failed = sum(not check["ok"] for check in document["checks"])
    total = len(document["checks"])
    if document["ok"]:
        return f"verified at level {document['level']}: {total} checks passed"
    return f"NOT verified at level {document['level']}: {failed} of {total} checks failed" + _untried(document)


def _untried(document: Mapping[str, Any]) -> str:
    reasons = [row["reason"] for row in document["not_run"] if row["what"] == document["level"]]
    return f", not run: {reasons[0]}" if reasons else ""
