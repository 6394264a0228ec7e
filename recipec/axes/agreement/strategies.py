"""What a strategy says of its engine and of what it shards, and whether there is one for every number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from recipec.axes.agreement.names import unknown
from recipec.axes.strategies import ENGINES, OFFLOADS, ONE_PROCESS, SHARDED, STRATEGIES, Strategy


def of_strategy(strategy: Strategy) -> Iterator[str]:
    """The contradictions of one strategy."""
    row = f"strategy `{strategy.name}`"
    yield from unknown(row, "engine", [strategy.engine], ENGINES, "the engines")
    yield from unknown(row, "shards", strategy.shards, SHARDED, "what can be sharded")
    yield from unknown(row, "offloads", strategy.offloads, OFFLOADS, "the values of train.offload")
    yield from _of_engine(row, strategy)
    for first, then in pairwise(SHARDED):
        if then in strategy.shards and first not in strategy.shards:
            yield f"{row} shards the {then} and not the {first}, which no engine does"


def _of_engine(row: str, strategy: Strategy) -> Iterator[str]:
    engine, type = f"engine `{strategy.engine}`", ENGINES.get(strategy.engine)
    if type and strategy.distributed_type != type:
        yield f"{row}: distributed_type is `{strategy.distributed_type}`, and {engine} is `{type}`"
    if strategy.one_rank != (strategy.engine == ONE_PROCESS):
        ranks = "one rank" if strategy.one_rank else "several ranks"
        yield f"{row} is for {ranks}, and {engine} {'runs several' if strategy.one_rank else 'runs one'}"


def of_all_strategies() -> Iterator[str]:
    """Runs on one rank and runs on several each have a strategy."""
    for one_rank, ranks in ((True, "one rank"), (False, "several ranks")):
        if not any(row.one_rank == one_rank for row in STRATEGIES.values()):
            yield f"no strategy is for {ranks} (one_rank of {', '.join(STRATEGIES)})"
