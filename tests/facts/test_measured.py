"""A file of measurements: what of it reaches the plan, what stays assumed, and whether it is this machine's and new."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, codes, compiled, with_key, write_data

from recipec.catalog.measured import BOUNDS, TABLES
from recipec.cli.plan import plan_text
from recipec.compiler import Compilation, compile_recipe
from recipec.facts import measured as facts

PAIR = Path(__file__).parent / "h100-pair.toml"  # two H100, made up
START_SECONDS, WRITE_GB_S, READ_GB_S = 9.4, 1.9, 2.8  # of it
NAMED = "my-node.toml"
ON_PAIR = with_key(BASES["lora-ddp"], "hardware.measured", NAMED)


@pytest.fixture(autouse=True)
def soon_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample stays new."""
    monkeypatch.setattr(facts, "today", lambda: date(2026, 12, 1))


def planned(folder: Path, recipe: dict[str, Any] = ON_PAIR, **edits: str) -> Compilation:
    """Compile with the sample, in which texts are replaced."""
    text = PAIR.read_text()
    for old, new in edits.items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / NAMED).write_text(text)
    return compiled(folder, recipe)


def stage(found: Compilation) -> dict[str, Any]:
    assert found.plan is not None, found.diagnostics
    return json.loads(found.plan_json)["stages"][0]


def without(table: str) -> str:
    """The sample without the rows of one table."""
    tables = PAIR.read_text().split("\n\n")
    return "\n\n".join(text for text in tables if not text.startswith((f"[{table}]", f"[[{table}]]"))) + "\n"


def test_a_measured_plan_says_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    found = stage(planned(tmp_path))
    assert found["measured"]["label"] == "measured on my-node, 2026-11-20"
    assert {"bf16 products", "memory traffic", "links in the node"} <= set(found["measured"]["measured"])
    assert found["measured"]["assumed"] == []
    said = plan_text({"stages": [found], "total": {}})
    assert "rates    measured on my-node, 2026-11-20: bf16 products" in said


def test_measured_starts_and_disks_are_in_the_bill(tmp_path: Path) -> None:
    found = stage(planned(tmp_path))
    seconds = {part["part"]: part["seconds"] for part in found["run"]}
    weights_gb = 2 * next(fact["value"] for fact in found["decisions"] if fact["id"] == "params") / 1e9
    saved_gb = found["storage"]["export_bytes"] / 1e9
    expected = START_SECONDS + weights_gb / READ_GB_S + saved_gb / WRITE_GB_S
    assert seconds["loading"] == pytest.approx(expected, rel=1e-3)
    each = found["storage"]["checkpoint_bytes"] / 1e9 / WRITE_GB_S
    assert seconds["checkpoints"] / each == pytest.approx(round(seconds["checkpoints"] / each), rel=1e-3)


@pytest.mark.parametrize(
    ("table", "name"),
    [("product", "bf16 products"), ("memory_copy", "memory traffic"), ("collective", "links in the node")],
)
def test_what_the_file_does_not_have_stays_assumed_and_is_named(tmp_path: Path, table: str, name: str) -> None:
    write_data(tmp_path)
    (tmp_path / NAMED).write_text(without(table))
    found = stage(compiled(tmp_path, ON_PAIR))
    assert found["measured"]["assumed"] == [name]
    assert f"assumed, not told by that file: {name}" in plan_text({"stages": [found], "total": {}})


def test_a_plan_without_measurements_says_nothing_of_them(tmp_path: Path) -> None:
    assert "measured" not in stage(compiled(tmp_path, BASES["lora-ddp"]))


@pytest.mark.parametrize("edit", [{"tflops = 655.0": "tflops = 327.0"}, {"gb_s = 2710.0": "gb_s = 300.0"}])
def test_a_slower_machine_takes_longer(tmp_path: Path, edit: dict[str, str]) -> None:
    """Without micro steps, whose law would put down the difference to something else."""
    text = without("micro_step")
    (old, new), *_ = edit.items()
    write_data(tmp_path)
    (tmp_path / NAMED).write_text(text)
    fast = stage(compiled(tmp_path, ON_PAIR))["time"]["terms"]["compute"]
    (tmp_path / NAMED).write_text(text.replace(old, new))
    assert stage(compiled(tmp_path, ON_PAIR))["time"]["terms"]["compute"] > 1.05 * fast


def test_measured_memory_and_host_replace_the_catalogs(tmp_path: Path) -> None:
    found = planned(tmp_path, **{"total_gib = 79.11": "total_gib = 72.5", "free_gib = 78.6": "free_gib = 70.4"})
    memory = stage(found)["memory"]
    assert memory["capacity_bytes"] == int(72.5 * 2**30)
    assert memory["peak_device_bytes"] - memory["peak_reserved_bytes"] > 2 * 2**30
    assert found.facts is not None
    assert found.facts.decisions["cores_per_gpu"].value == 26
    assert found.facts.decisions["vram_gib"].because == "memory of a h100, measured on my-node, 2026-11-20"


def test_what_the_recipe_states_wins_over_what_was_measured(tmp_path: Path) -> None:
    found = planned(tmp_path, with_key(ON_PAIR, "hardware.cpu_cores", 16))
    assert found.facts is not None and found.facts.decisions["cores_per_gpu"].value == 8


def test_old_measurements_are_used_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "W0524" not in codes(planned(tmp_path))
    monkeypatch.setattr(facts, "today", lambda: date(2027, 5, 20))
    found = planned(tmp_path)
    assert "W0524" in codes(found) and "measured" in stage(found)


@pytest.mark.parametrize("torch", ["2.12.1+cu130", "2.14.0"])
def test_another_minor_version_of_torch_is_a_warning(tmp_path: Path, torch: str) -> None:
    assert "W0524" in codes(planned(tmp_path, **{"2.13.0+cu130": torch}))


def test_a_gpu_that_only_its_memory_describes_is_compared_by_it(tmp_path: Path) -> None:
    hardware = {"vram_gib": 80, "gpus_per_node": 2, "measured": NAMED}
    recipe = {**ON_PAIR, "hardware": hardware}
    assert "measured" in stage(planned(tmp_path, recipe))
    assert "E0412" in codes(planned(tmp_path, {**recipe, "hardware": hardware | {"vram_gib": 40}}))


@pytest.mark.parametrize(("bus", "refused"), [(305, False), (700, True)])
def test_a_bridge_that_the_recipe_states_is_measured_against_its_own_rate(
    tmp_path: Path, bus: int, refused: bool
) -> None:
    """A bridge between two H100 NVL has 300 GB/s per direction, their slots 64."""
    measured = {"NVIDIA H100 80GB HBM3": "NVIDIA H100 NVL", "total_gib = 79.11": "total_gib = 93.1"}
    measured["bus_gb_s = 310"] = f"bus_gb_s = {bus}"
    cards = with_key(ON_PAIR, "hardware.gpu", "h100-nvl")
    assert "E0413" in codes(planned(tmp_path, cards, **measured))
    found = codes(planned(tmp_path, with_key(cards, "hardware.gpu_link", "nvlink"), **measured))
    assert "E0412" not in found
    assert ("E0413" in found) is refused


PASSES, STEPS = "passes_seconds = 0.0284", "optimizer_seconds = 0.0034"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("to_device_gb_s = 53.1", "to_device_gb_s = 70.0", "the peak is 63 GB/s"),
        ("to_host_gb_s = 51.8", "to_host_gb_s = 500.0", "the peak is 63 GB/s"),
        ("write_gb_s = 1.9", "write_gb_s = 190.0", "the peak is 100 GB/s"),
        ("read_gb_s = 2.8", "read_gb_s = 280.0", "the peak is 100 GB/s"),
        ("tflops = 51.0", "tflops = 520.0", "the peak is 494.7 TFLOP/s"),
        (PASSES, "passes_seconds = 0.0029", "the peak is 989.4 TFLOP/s"),
        (STEPS, "optimizer_seconds = 0.0020", "the peak is 3,350 GB/s"),
        (PASSES, "passes_seconds = 0.0140", "4,096 tokens; 2,048 took 0.0152 s"),
        ("free_gib = 78.6", "free_gib = 79.6", "of 79.11 GiB in all"),
        ("started_gib = 1.31", "started_gib = 500.0", "of 442.5 GiB in all"),
        ("date = 2026-11-20", "date = 2026-12-03", "today is 2026-12-01"),
    ],
)
def test_what_no_machine_has_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    found = planned(tmp_path, **{old: new})
    refused = [each for each in found.diagnostics if each.code == "E0413"]
    assert said in [label.message for each in refused for label in each.labels], found.diagnostics
    assert found.plan is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("started_gib = 1.31", "started_gib = 1e15", "`process.started_gib` is 1000000000000000.0"),
        ("start_seconds = 9.4", "start_seconds = 1e9", "`process.start_seconds` is 1000000000.0"),
        ("start_seconds_spread = 0.08", "start_seconds_spread = 1e9", "`process.start_seconds_spread` is 1000000000.0"),
        ("write_gb_s = 1.9", "write_gb_s = 1e-12", "`disk.write_gb_s` is 1e-12"),
        ("tflops = 51.0", "tflops = 1e-15", "`product.tflops` is 1e-15"),
        ("host_memory_gib = 442.5", "host_memory_gib = 1e12", "`machine.host_memory_gib` is 1000000000000.0"),
        ("cores = 52", "cores = 1000000000", "`machine.cores` is 1_000_000_000"),
    ],
)
def test_what_is_far_from_any_machine_is_refused_by_name(tmp_path: Path, old: str, new: str, said: str) -> None:
    found = planned(tmp_path, **{old: new})
    assert said in [each.title for each in found.diagnostics if each.code == "E0205"], found.diagnostics
    assert found.plan is None


def test_every_number_of_the_file_has_bounds() -> None:
    numbers = {key for table in TABLES.values() for key in (*table.figures, *table.sizes, *table.amounts)}
    assert numbers == BOUNDS.keys()


def test_the_day_has_begun_elsewhere(tmp_path: Path) -> None:
    assert "E0413" not in codes(planned(tmp_path, **{"date = 2026-11-20": "date = 2026-12-02"}))


def test_a_part_of_a_gpu_is_another_machine(tmp_path: Path) -> None:
    edits = {"total_gib = 79.11": "total_gib = 39.5", "free_gib = 78.6": "free_gib = 39.1"}
    assert codes(planned(tmp_path, **edits)) == ["E0412"]


def test_micro_steps_in_another_precision_are_not_used(tmp_path: Path) -> None:
    steps = PAIR.read_text().index("[[micro_step]]")
    other = PAIR.read_text()[:steps] + PAIR.read_text()[steps:].replace('"bf16"', '"fp16"')
    write_data(tmp_path)
    (tmp_path / NAMED).write_text(other)
    assert stage(compiled(tmp_path, ON_PAIR))["measured"]["assumed"] == ["launches", "the rest of a step"]


def planned_on_cpu(folder: Path, *tables: str) -> Compilation:
    """Compile with the head of the sample, as if it were a CPU's, and with more tables."""
    text = re.sub(r"\n\[gpu_memory\][^[]*", "\n", PAIR.read_text()).replace('"cuda"', '"cpu"')
    text = re.sub(r"gpus = .*", "gpus = []", text)
    head, first, _ = text.partition("\n[memory_copy]")
    assert first
    write_data(folder)
    (folder / NAMED).write_text("\n".join((head, *tables)))
    return compiled(folder, with_key(BASES["cpu"], "hardware.measured", NAMED))


def test_the_memory_of_a_cpu_is_measured_in_both_units(tmp_path: Path) -> None:
    found = planned_on_cpu(tmp_path)
    assert found.facts is not None, found.diagnostics
    value = {name: found.facts.decisions[name].value for name in ("vram_gib", "total_vram_gb")}
    assert value == {"vram_gib": 442.5, "total_vram_gb": pytest.approx(442.5 * 2**30 / 1e9)}


def heap(grown_gib: float) -> str:
    return f"[heap]\nsequences = 4\ntokens = 512\ngrown_gib = {grown_gib}\n"


def test_what_the_heap_of_a_cpu_keeps_is_learned_from_micro_steps(tmp_path: Path) -> None:
    """Those of 4 x 512 tokens hold 0.553 GiB by the law, of which 0.038 are weights."""
    found = stage(planned_on_cpu(tmp_path, heap(0.8)))
    memory = found["memory"]
    assert memory["peak_reserved_bytes"] / memory["peak_allocated_bytes"] == pytest.approx(0.838 / 0.553, rel=0.01)
    assert memory["peak_device_bytes"] == memory["peak_reserved_bytes"] + round(1.31 * 2**30)
    assert "what its heap keeps" in found["measured"]["measured"]
    assert memory["error_band"]["source"] == "four trainings on one CPU"


@pytest.mark.parametrize("tables", [(), (heap(0.1),)])
def test_a_heap_that_no_library_has_is_not_believed(tmp_path: Path, tables: tuple[str, ...]) -> None:
    found = stage(planned_on_cpu(tmp_path, *tables))
    memory = found["memory"]
    assert "what its heap keeps" in found["measured"]["assumed"]
    assert memory["peak_reserved_bytes"] == pytest.approx(1.06 * memory["peak_allocated_bytes"], rel=0.001)


def test_a_heap_is_not_larger_than_the_host(tmp_path: Path) -> None:
    assert codes(planned_on_cpu(tmp_path, heap(500.0))) == ["E0413"]


def test_a_preset_names_a_file_beside_it(tmp_path: Path) -> None:
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    mine.mkdir()
    shutil.copy(PAIR, shared / NAMED)
    (shared / "team.toml").write_text(f'[hardware]\ngpu = "h100"\ngpus_per_node = 2\nmeasured = "{NAMED}"\n')
    write_data(mine)
    (mine / "recipe.toml").write_text(
        '[recipe]\nname = "case"\nextends = "../shared/team.toml"\n[goal]\ntask = "instruct"\n'
        '[model]\nname = "Qwen/Qwen3-8B"\n[data]\ntrain = "chat.jsonl"\n'
    )
    assert "measured" in stage(compile_recipe(mine / "recipe.toml"))
