"""Score the time estimate against published throughput: `python -m benchmarks.throughput_accuracy [CSV] [--json]`.

Scored: tokens per second and GPU of runs whose model, batch, length and strategy are stated and modelled.
Errors are predicted / measured - 1.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import inf

from benchmarks.names import card_of
from benchmarks.published import RESULTS, Row, Unmodelled, rows
from benchmarks.report import Score, publish
from benchmarks.stacks import case_of
from recipec.catalog.gpus import Gpu
from recipec.catalog.machines import machine
from recipec.estimate.links import link_of
from recipec.estimate.nearest import FILE
from recipec.estimate.throughput import step_time

GPUS_PER_NODE = 8
_NETWORK = re.compile(r"(\d+) Gbps node-node")
_IN_SAMPLE = (
    "The rates of recipec/estimate/kernels.py were chosen with the other sources' runs in view: another table may "
    "score worse. Those of mosaicml/llm-foundry were scored later, in 2026-11: no rate was changed for them, and "
    "one was added from its source, that of the first FlashAttention, which no emitted code uses."
)

_WRITTEN = "# Measured over predicted time of a step; written by `python -m benchmarks.throughput_accuracy`.\n"


def main(arguments: list[str]) -> int:
    """Print the tables; write them, and the groups that plans tell of, unless another CSV is named."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    scores, skipped = score(rows(names[0] if names else "published_throughput.csv"))
    target = None if names else RESULTS / "throughput_accuracy.md"
    publish("Accuracy of the throughput estimate", scores, skipped, arguments, target, [_IN_SAMPLE])
    if target is not None:
        FILE.write_text(groups_of(rows("published_throughput.csv"), scores), encoding="utf-8")
    return 0


def groups_of(table: Iterable[Row], scores: Iterable[Score]) -> str:
    """The scored runs of dense models by card, precision, training and strategy, as recipec/estimate/nearest.py reads
    them."""
    published, found = {row["id"]: row for row in table}, defaultdict[tuple[str, ...], list[_Run]](list)
    for item in scores:
        row = published[item.id]
        case, card = case_of(row), card_of(row)
        layout = case.layout
        if case.architecture.moe is None:
            trained = "pretraining" if item.method == "pretrain" else layout.adapts.title
            key = (card.name, str(card.capability), layout.precision, trained, layout.adaptation, layout.strategy)
            gpus = layout.mesh.world_size
            found[key].append((gpus, 1 + item.error, network_gbps(row, card, gpus)))
    return "\n".join([_WRITTEN, *(_table(key, runs) for key, runs in sorted(found.items()))])


_Run = tuple[int, float, float]  # GPUs, measured over predicted time, and Gbit/s between nodes: infinite in one node


def _table(key: tuple[str, ...], runs: Sequence[_Run]) -> str:
    card, capability, *others = key
    names = ("precision", "trained", "adaptation", "strategy")
    gpus, ratios = sorted({count for count, *_ in runs}), [ratio for _, ratio, _ in runs]
    slowest = min(gbps for *_, gbps in runs)
    lines = [f'card = "{card}"', f"capability = {capability}"]
    lines += [f'{name} = "{value}"' for name, value in zip(names, others, strict=True)]
    lines += [f"gpus = {gpus}", f"runs = {len(runs)}", f"low = {min(ratios):.3f}", f"high = {max(ratios):.3f}"]
    lines += [f"network_gbps = {slowest:g}"] * (slowest < inf)
    return "\n".join(["[[group]]", *lines, ""])


def score(table: Iterable[Row]) -> tuple[list[Score], Counter[str]]:
    """Predict every run that states its tokens per second; count the rest by unmodelled feature."""
    scores, skipped = [], Counter[str]()
    for row in table:
        if not row["tokens_per_s_per_gpu"]:
            continue
        try:
            scores.append(_score(row))
        except Unmodelled as reason:
            skipped[str(reason)] += 1
    return scores, skipped


def network_gbps(row: Row, card: Gpu, ranks: int) -> float:
    """Of a node of several: as its notes state it, or what a plan assumes of such machines; raises Unmodelled."""
    if ranks <= GPUS_PER_NODE:
        return inf
    stated = _NETWORK.search(row["notes"])
    found = float(stated[1]) if stated else machine(card.name, GPUS_PER_NODE).network_gbps
    if found is None:
        raise Unmodelled("not stated: the network between nodes")
    return found


def _score(row: Row) -> Score:
    case, card = case_of(row), card_of(row)
    link = link_of(card, network_gbps=network_gbps(row, card, case.layout.mesh.world_size))
    time = step_time(case.architecture, case.layout, case.work, card, link)
    return Score(
        id=row["id"],
        source=row["source_repo_or_doc"],
        kind="tokens/s",
        method=row["method"],
        strategy=case.layout.strategy,
        measured=float(row["tokens_per_s_per_gpu"]),
        predicted=time.tokens_per_second_per_gpu,
        note=f"{card.name}, {time.bound_by}, MFU {time.mfu:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
