"""[[adapters]]: each task is a recipe of its own, with places in the one file that was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, codes, compiled, good, texts, with_key

from recipec.recipe.load import LoadedRecipe

TWO = BASES["adapters"]
NAMES = ["support", "orders"]


def changed(key: str, value: Any, place: int = 1) -> Tables:
    """The recipe with one key of one adapter set; None takes it away."""
    tables = [dict(table) for table in TWO["adapters"]]
    tables[place][key] = value
    return {**TWO, "adapters": [{k: v for k, v in table.items() if v is not None} for table in tables]}


def tasks(folder: Path, recipe: Tables) -> dict[str, LoadedRecipe]:
    found = compiled(folder, recipe, only_plan=True)
    assert found.recipe, found.diagnostics
    return dict(found.recipe.tasks)


def test_each_task_is_a_recipe_with_its_own_rows(tmp_path: Path) -> None:
    found = tasks(tmp_path, with_key(TWO, "train.lora", {"rank": 32}))
    assert list(found) == NAMES
    ranks = {name: task.wishes("sft", last=True)["train.lora.rank"].value for name, task in found.items()}
    assert ranks == {"support": 32, "orders": 8}
    sizes = {name: task.recipe.data.examples for name, task in found.items()}
    assert sizes == {"support": 5_000, "orders": 900}
    assert all(task.recipe.data.max_length == 1024 and task.recipe.adapters is None for task in found.values())


def test_what_an_adapter_says_is_placed_where_it_says_it(tmp_path: Path) -> None:
    text = (tmp_path / "recipe.toml") if tasks(tmp_path, TWO) else tmp_path
    line = next(n for n, line in enumerate(text.read_text().splitlines(), 1) if line.startswith("adapters"))
    places = [task.place("data", "train").span for task in tasks(tmp_path, TWO).values()]
    assert [span.line for span in places] == [line, line] and places[0].col < places[1].col


@pytest.mark.parametrize("table", ["train", "train.sft"])
def test_an_adapter_is_over_what_holds_for_all(tmp_path: Path, table: str) -> None:
    """[train.STAGE] is over [train]; it would be over the adapter's own rate, too."""
    recipe = with_key(changed("learning_rate", 5e-5), f"{table}.learning_rate", 1e-4)
    rates = [task.wishes("sft", last=True)["train.learning_rate"].value for task in tasks(tmp_path, recipe).values()]
    assert rates == [1e-4, 5e-5]


@pytest.mark.parametrize("table", ["train", "train.sft"])
def test_epochs_of_an_adapter_take_the_place_of_steps_that_hold_for_all(tmp_path: Path, table: str) -> None:
    recipe = with_key(changed("epochs", 2), f"{table}.max_steps", 77)
    first, second = (task.wishes("sft", last=True) for task in tasks(tmp_path, recipe).values())
    assert "train.epochs" not in first and first["train.max_steps"].value == 77
    assert "train.max_steps" not in second and second["train.epochs"].value == 2


def test_an_own_file_takes_the_place_of_a_shared_fraction(tmp_path: Path) -> None:
    recipe = with_key(changed("eval", "chat.jsonl"), "data.eval_fraction", 0.2)
    first, second = tasks(tmp_path, recipe).values()
    assert (first.recipe.data.eval_fraction, first.recipe.data.eval) == (0.2, None)
    assert second.recipe.data.eval_fraction is None and second.recipe.data.eval


def test_two_keys_of_one_adapter_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    recipe = changed("eval", "chat.jsonl")
    recipe["adapters"][1]["eval_fraction"] = 0.2
    assert codes(compiled(tmp_path, recipe)) == ["E0401"]


def test_adapters_are_lora_where_nothing_is_said(tmp_path: Path) -> None:
    """Of a model this small, and with so many rows, the rules would rather train all weights."""
    recipe = with_key(changed("examples", 200_000, 0), "model.name", "Qwen/Qwen2.5-0.5B")
    recipe = with_key(recipe, "goal.priority", "quality")
    alone = {**{name: part for name, part in recipe.items() if name != "adapters"}}
    alone["data"] = {"train": "chat.jsonl", "examples": 200_000, "tokens_per_example": 400}
    (whole,) = good(tmp_path / "alone", alone).plan.stages
    assert whole.layout.adapts.trains_all
    assert not any(part.layout.adapts.trains_all for part in good(tmp_path, recipe).plan.stages)


def test_a_list_of_a_recipe_replaces_that_of_the_one_it_extends(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    good(folder, TWO)
    (tmp_path / "recipe.toml").write_text(
        '[recipe]\nname = "mine"\nextends = "team/recipe.toml"\n'
        + "".join(f'[[adapters]]\nname = "{name}"\ntrain = "team/chat.jsonl"\n' for name in ("a", "b", "c"))
    )
    from recipec.compiler import compile_recipe

    assert list(compile_recipe(tmp_path / "recipe.toml", only_plan=True).recipe.tasks) == ["a", "b", "c"]


def test_paths_of_an_extended_list_start_from_its_own_file(tmp_path: Path) -> None:
    from recipec.compiler import compile_recipe

    good(tmp_path / "team", TWO)
    (tmp_path / "recipe.toml").write_text('[recipe]\nname = "mine"\nextends = "team/recipe.toml"\n')
    found = compile_recipe(tmp_path / "recipe.toml")
    assert found.files, found.diagnostics
    assert '"team/chat.jsonl"' in texts(found)["prepare_data.py"]


def test_the_plan_is_that_of_all_tasks(tmp_path: Path) -> None:
    both = good(tmp_path, TWO).plan
    document = json.loads(good(tmp_path, TWO).plan_json)
    assert [(stage["name"], stage["objective"]) for stage in document["stages"]] == [(name, "sft") for name in NAMES]
    assert both.seconds == pytest.approx(sum(part.run_seconds for part in both.stages))
    assert [part.name for part in both.stages[0].parts].count("download") == 1
    assert "download" not in [part.name for part in both.stages[1].parts]  # the model is there by then
    assert both.stages[1].needs.storage.hub_cache_bytes == 0 < both.stages[0].needs.storage.hub_cache_bytes


def test_the_budget_is_for_all_tasks_together(tmp_path: Path) -> None:
    seconds = [part.run_seconds for part in good(tmp_path, TWO).plan.stages]
    limit = (max(seconds) + sum(seconds)) / 2 / 3600  # each task alone keeps to it
    found = compiled(tmp_path, with_key(TWO, "budget.max_hours", limit))
    assert codes(found) == ["E0403"]
    assert "`train.epochs`" in found.diagnostics[0].help[-1]


def test_a_faulty_task_does_not_hide_another(tmp_path: Path) -> None:
    recipe = changed("train", "nowhere.jsonl")
    recipe["adapters"][0]["train"] = "not-there.jsonl"
    recipe["adapters"] = [{k: v for k, v in table.items() if k in ("name", "train")} for table in recipe["adapters"]]
    assert codes(compiled(tmp_path, recipe)) == ["E0303", "E0303"]


def test_stages_start_from_the_base_and_none_is_merged(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, TWO))
    for place, name in enumerate(NAMES, 1):
        train = bundle[f"stages/{place}-{name}/train.py"]
        assert 'MODEL = "Qwen/Qwen2.5-7B"' in train and f'/ "outputs" / "{name}"' in train
    assert "merge_adapter.py" not in bundle["launch/local.sh"]
    assert "combine.py" in bundle and "combine.py" not in texts(good(tmp_path / "one", BASES["lora-single"]))


def test_what_to_write_names_the_key_as_the_table_of_an_adapter_has_it(tmp_path: Path) -> None:
    """`adapters.orders.epochs` is no key of TOML."""
    support, orders = BASES["adapters"]["adapters"]
    recipe = BASES["adapters"] | {"adapters": [support, orders | {"examples": 90, "epochs": 1}]}
    (found,) = [each for each in compiled(tmp_path, recipe, only_plan=True).diagnostics if each.code == "W0508"]
    assert "raise `epochs` of adapter `orders` or lower" in found.help[0]
