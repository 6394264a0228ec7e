"""What a plan would gain from more memory of its GPUs."""

from __future__ import annotations

from msgspec.structs import replace

from recipec.facts import Facts
from recipec.planner.search.bounds import Bounds
from recipec.planner.search.candidates import Candidate, retimed, with_batch
from recipec.planner.search.preference import clearly_faster


def short_of_room(chosen: Candidate, facts: Facts, bounds: Bounds) -> bool:
    """Whether a larger micro batch would be clearly faster even with the copies of activations in host memory."""
    layout = chosen.layout
    hosted = replace(layout, checkpointing=True, recompute_every=1, activation_offload=True)
    share = layout.micro_batch * layout.accumulation
    sizes = (size for size in range(layout.micro_batch + 1, share + 1) if share % size == 0)
    larger = [replace(chosen, layout=with_batch(hosted, size, layout.global_batch)) for size in sizes]
    return any(clearly_faster(each, chosen) for each in retimed(larger, facts, bounds))
