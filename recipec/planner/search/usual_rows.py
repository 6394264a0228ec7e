"""Rows of the usual length, which decide the time of a step; the longest ones decide its memory."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from recipec.estimate.workload import Workload
from recipec.rules.core import Decision
from recipec.rules.loader import by_chance


def typical(work: Workload, value: Mapping[str, Decision]) -> Workload:
    """The step with rows of the usual length."""
    if value["packing"].value:
        return replace(work, example_tokens=_example_tokens(work, value))
    usual = _mean_tokens(value) + beside_rows(work, value)
    return replace(work, seq_len_tokens=min(work.seq_len_tokens, usual))


def beside_rows(work: Workload, value: Mapping[str, Decision]) -> int:
    """Tokens of a sequence that its row does not have. Each has as many: answers are as long as they may be."""
    if value["packing"].value:
        return 0
    return work.written_tokens + work.shown_tokens + (work.lora.virtual_tokens if work.lora else 0)


def _example_tokens(work: Workload, value: Mapping[str, Decision]) -> int:
    """Tokens of a usual example in a packed sequence; of text the sequence, whose tokens attend to all before them."""
    packed = work.method.packs == "examples"
    return min(work.seq_len_tokens, _mean_tokens(value)) if packed else work.seq_len_tokens


def _mean_tokens(value: Mapping[str, Decision]) -> int:
    """Of the rows that are learned, replayed ones included."""
    return value.get("training_tokens", value["tokens_per_example"]).value


def spread(value: Mapping[str, Decision]) -> int | None:
    """The length that 99% of the rows do not exceed, where chance puts short and long ones into a batch."""
    longest, chance = value["tokens_p99"].value, by_chance({id: each.value for id, each in value.items()})
    return min(longest, value["max_length"].value) if longest and chance else None
