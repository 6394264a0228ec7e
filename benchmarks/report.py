"""Scores of predictions against measurements, and the tables made of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from msgspec import Struct

from recipec.units import counted

_COLUMNS = ("median", "p90", "p95", "worst", "bias")


class Score(Struct, frozen=True):
    """One run: what was measured and what is predicted, in the same unit."""

    id: str
    source: str
    kind: str
    method: str
    strategy: str
    measured: float
    predicted: float
    note: str

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1


def publish(
    title: str,
    scores: list[Score],
    skipped: Counter[str],
    arguments: list[str],
    target: Path | None,
    more: Sequence[str] = (),
) -> None:
    """Print rows, JSON or the table as `arguments` ask, and write the table to `target`."""
    text = "\n".join([*_report(title, scores, skipped), "", *more]).rstrip() + "\n"
    if "--rows" in arguments:
        print("\n".join(_row(score) for score in scores))
    elif "--json" in arguments:
        print(json.dumps(summary(scores, skipped), indent=1))
    else:
        print(text, end="")
    if target is not None:
        target.write_text(text, encoding="utf-8")


def summary(scores: list[Score], skipped: Counter[str]) -> dict[str, object]:
    """The table as plain values."""
    groups = {name: dict(zip(_COLUMNS, percentiles(group), strict=True)) for name, group in _groups(scores)}
    return {"modelled": len(scores), "not_modelled": dict(skipped), "groups": groups}


def percentiles(group: list[Score]) -> list[float]:
    """Absolute error: median, p90, p95, worst; then the median signed error."""
    errors = sorted(abs(item.error) for item in group)
    cuts = [errors[round(share * (len(errors) - 1))] for share in (0.9, 0.95)]
    return [median(errors), *cuts, errors[-1], median(item.error for item in group)]


def _report(title: str, scores: list[Score], skipped: Counter[str]) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield f"{len(scores)} of the {len(scores) + sum(skipped.values())} rows that state what is scored are modelled."
    yield "Errors are predicted / measured - 1; bias is their median with its sign."
    yield ""
    yield "| group | n | " + " | ".join(_COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(_COLUMNS)
    for name, group in _groups(scores):
        yield f"| {name} | {len(group)} | " + " | ".join(f"{value:.1%}" for value in percentiles(group)) + " |"
    yield ""
    for kind, sources in sorted(_by_source(scores).items()):
        mean = fmean(median(abs(item.error) for item in group) for group in sources)
        yield f"Every source weighted alike, {kind}: median error {mean:.1%} over {counted(len(sources), 'source')}."
        largest, count = max(sources, key=len), sum(map(len, sources))
        yield f"Of {counted(count, 'run')} {len(largest) / count:.0%} are of one source, {largest[0].source}."
    yield ""
    yield "Not modelled, by the feature that is missing:"
    yield ""
    for reason, count in skipped.most_common():
        yield f"- {count} x {reason}"


def _groups(scores: list[Score]) -> list[tuple[str, list[Score]]]:
    groups: dict[str, list[Score]] = defaultdict(list)
    for item in scores:
        groups[f"{item.kind}: all"].append(item)
        groups[f"{item.kind}: {item.source}"].append(item)
        groups[f"{item.kind}: {item.method}, {item.strategy}"].append(item)
    return sorted(groups.items())


def _by_source(scores: list[Score]) -> dict[str, list[list[Score]]]:
    kinds: dict[str, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for item in scores:
        kinds[item.kind][item.source].append(item)
    return {kind: list(sources.values()) for kind, sources in kinds.items()}


def _row(score: Score) -> str:
    return (
        f"{score.id:20} {score.kind:9} {score.method:8} {score.strategy:7} "
        f"{score.measured:9.2f} {score.predicted:9.2f} {score.error:+7.1%} {score.note}"
    )
