"""Host memory that grows with the rows: their order in every rank, and prepare_data.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, good, with_key
from estimate_shapes import LLAMA_8B, layout

from recipec.axes.method import AS_STORED, RANDOM, SIMILAR
from recipec.estimate.many_rows import PREPARED_ROW_BYTES, RowOrder
from recipec.estimate.memory import step_memory
from recipec.estimate.storage import PROCESS_BYTES, host_memory, preparing_host
from recipec.estimate.workload import Workload
from recipec.units import GIB

MANY = 500_000_000


def stage_of(folder: Path, rows: int, **hardware: Any) -> Any:
    recipe = with_key(with_key(BASES["text"], "data.train", {"hub": "a/b"}), "data.examples", rows)
    recipe = with_key(recipe, "data.tokens_per_example", 1000)
    for name, value in {"gpus_per_node": 8, "host_memory_gib": 2000, **hardware}.items():
        recipe = with_key(recipe, f"hardware.{name}", value)
    done = good(folder, recipe)
    return done, done.plan.stages[0]


def ordered(order: RowOrder, spread: str = "fsdp") -> Any:
    work, shape = Workload(full_weights="bf16"), layout("full", 1, 8, spread)
    return host_memory(LLAMA_8B, shape, work, 8, step_memory(LLAMA_8B, shape, work), order)


def test_every_rank_lists_the_order_of_all_rows() -> None:
    """48 bytes of each while torch's RandomSampler makes its list; the weights are on the GPUs by then."""
    host = ordered(RowOrder(MANY, RANDOM))
    assert host.needed_bytes == 8 * PROCESS_BYTES + 8 * 48 * MANY
    assert host.because == "8 processes x 3 GiB, 8 x 22.4 GiB for the order of 500,000,000 sequences"
    assert ordered(RowOrder(1000, RANDOM)) == ordered(RowOrder())


@pytest.mark.parametrize(
    ("order", "each"),
    [
        (RowOrder(MANY, SIMILAR), 120),
        (RowOrder(MANY, AS_STORED), 0),
        (RowOrder(MANY, RANDOM, own_loop=True), 88),
        (RowOrder(MANY, SIMILAR, own_loop=True), 120),
    ],
)
def test_an_order_takes_what_its_sampler_lists(order: RowOrder, each: int) -> None:
    assert order.rank_bytes == each * MANY


def test_preparation_is_one_process_and_all_rows() -> None:
    host = preparing_host(MANY)
    assert host.needed_bytes == host.per_gpu_bytes == PROCESS_BYTES + PREPARED_ROW_BYTES * MANY
    assert "prepare_data.py" in host.because and "500,000,000 rows" in host.because


def test_the_plan_counts_many_rows(tmp_path: Path) -> None:
    """Packed: about 488 of 1,000 tokens go into a sequence of 2,048."""
    few, many = (stage_of(tmp_path, rows)[1] for rows in (1_000_000, MANY))
    assert "order" not in few.needs.host.because
    assert many.needs.host.needed_bytes > few.needs.host.needed_bytes + 30 * GIB
    sequences = round(MANY * 1000 / many.decisions["max_length"].value / 1e6)
    assert f"for the order of {sequences}," in many.needs.host.because


def test_rows_alone_warn_and_take_no_other_layout(tmp_path: Path) -> None:
    plain = stage_of(tmp_path, MANY)[1]
    done, tight = stage_of(tmp_path, MANY, host_memory_gib=60)
    assert (tight.layout, tight.crowds_host, plain.crowds_host) == (plain.layout, True, False)
    (found,) = (one for one in done.diagnostics if one.code == "W0505")
    assert "500,000,000 rows" in found.notes[0] or "for the order of" in found.notes[0]


def test_preparation_is_the_larger_on_one_gpu(tmp_path: Path) -> None:
    done, stage = stage_of(tmp_path, MANY, gpus_per_node=1, host_memory_gib=60)
    assert stage.needs.host == preparing_host(MANY)
    (found,) = (one for one in done.diagnostics if one.code == "W0505")
    assert found.help == ("take a node with more memory",)


def test_layouts_that_offload_need_room_for_the_order(tmp_path: Path) -> None:
    """Their states must be in host memory, and the order stands beside them."""
    recipe = with_key(with_key(BASES["zero3-offload"], "data.train", {"hub": "a/b"}), "data.examples", 1_000_000)
    recipe = with_key(with_key(recipe, "data.format", "chat"), "data.tokens_per_example", 500)
    recipe = with_key(recipe, "train.offload", "cpu")
    needed = good(tmp_path, recipe).plan.stages[0].needs.host.needed_bytes
    recipe = with_key(recipe, "hardware.host_memory_gib", int(needed / GIB / 0.95) + 20)
    assert good(tmp_path, recipe).plan
    refused = compiled(tmp_path, with_key(recipe, "data.examples", MANY))
    assert "E0402" in {one.code for one in refused.diagnostics}
