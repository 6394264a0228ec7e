"""Parts: imports in ruff's order, what belongs together in one place, and a file behind every row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, KINDS, METHODS, ROW_FORMATS
from recipec.axes.strategies import ENGINES
from recipec.backends import missing
from recipec.backends.files import file_of
from recipec.backends.launchers import launchers_for
from recipec.backends.methods import BACKENDS
from recipec.backends.parts import Import, Part, import_blocks, joined, lines
from recipec.recipe.schema import LAUNCH_WITH, NO_SCRIPT
from recipec.render.environment import templates_folder
from recipec.render.traced import split, visible

MODULES = st.sampled_from(
    ["argparse", "os", "sys", "torch", "datasets", "transformers", "trl.experimental.kto", "peft"]
)
NAMES = st.sampled_from(
    [
        "",
        "AutoConfig",
        "SFTTrainer",
        "set_seed",
        "load_dataset",
        "MAX_LENGTH",
        "EarlyStoppingCallback",
        "IA3Config",
        "DPOConfig",
    ]
)


@given(st.lists(st.builds(Import, MODULES, NAMES), min_size=1, max_size=20))
def test_imports_are_sorted_as_ruff_sorts_them(imports: list[Import]) -> None:
    blocks = ["\n".join(map(visible, block)) for block in import_blocks(imports) if block]
    text = "\n\n".join(blocks) + "\n"
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--isolated", "--line-length", "120"]
    done = subprocess.run([*command, "--select", "I", "-"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, text + done.stdout


def test_an_import_belongs_to_all_that_need_it() -> None:
    wanted = [Import("peft", "LoraConfig", ("adaptation",)), Import("peft", "PeftModel", ("stage",))]
    _, [statement] = import_blocks([*wanted, *wanted])
    assert split(statement) == ("from peft import LoraConfig, PeftModel", {1: ("adaptation", "stage")})


def test_parts_keep_their_order() -> None:
    first, second = (Part(before_saving=lines((name,), f"{name}()")) for name in ("model", "strategy"))
    found = joined((first, Part(), second)).before_saving
    assert [split(line) for line in found] == [("model()", {1: ("model",)}), ("strategy()", {1: ("strategy",)})]


def test_every_row_has_its_file() -> None:
    assert list(missing()) == []
    folder = templates_folder()
    needed = [f"rows/{kind.template}" for kind in KINDS.values()]
    needed += [f"data/formats/{name.replace('-', '_')}" for name in ROW_FORMATS]
    assert not [name for name in needed if not (folder / f"{name}.py.j2").is_file()]
    named = {path for row in BACKENDS.values() for path in (row.taught, row.measure.template)}
    assert not [name for name in named if not (folder / name).is_file()]


@pytest.mark.parametrize(
    ("table", "row", "said"),
    [
        (
            METHODS,
            replace(METHODS["dpo"], name="odds-ratio"),
            "method `odds-ratio` has no file behind it: recipec/back",
        ),
        (ENGINES, replace(ENGINES["fsdp"], name="megatron"), "engine `megatron` has no file behind it: recipec/back"),
        (ADAPTATIONS, replace(ADAPTATIONS["lora"], family="prefix"), "recipec/backends/adaptations/prefix.py"),
        (ADAPTATIONS, replace(ADAPTATIONS["qlora"], base="int2"), "recipec/backends/adaptations/int2.py"),
    ],
)
def test_a_row_without_a_file_is_told(table: Any, row: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table, row.name, row)
    [found] = missing()
    assert said in found


def test_a_file_that_cannot_be_imported_is_not_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "behind_rows").mkdir()
    (tmp_path / "behind_rows" / "broken.py").write_text("import nobody_has_this")
    monkeypatch.syspath_prepend(tmp_path)
    assert file_of("behind_rows", "absent") is None
    with pytest.raises(ModuleNotFoundError, match="nobody_has_this"):
        file_of("behind_rows", "broken")


def test_a_value_of_launch_with_without_a_launcher_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAUNCH_WITH, "mainframe", "made up")
    told = "launch.with = `mainframe` has no launcher for {} in recipec/backends/launchers"
    assert list(missing()) == [told.format("one node"), told.format("several nodes")]


def test_every_value_of_launch_with_starts_one_node_and_several() -> None:
    for asked in LAUNCH_WITH.keys() - {NO_SCRIPT}:
        for several in (False, True):
            assert [row.asked_by for row in launchers_for(asked, several_nodes=several)] == [asked]
