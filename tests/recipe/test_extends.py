"""Recipes laid over others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipec.recipe import extends
from recipec.recipe.extends import rebased
from recipec.recipe.locate import KeyPath
from recipec.recipe.schema_keys import keys_of
from recipes import BASE, codes, findings, load

NAMED = '[recipe]\nname = "case"\nextends = "team.toml"\n'
WHOLE = BASE.replace('name = "case"', 'description = "shared"', 1)


def test_tables_merge_key_by_key_and_the_rest_is_replaced(tmp_path: Path) -> None:
    team = WHOLE + '[train]\nepochs = 3\nwarmup = 0.1\n[launch]\nsetup = ["a", "b"]\n'
    loaded = load(tmp_path, team=team, recipe=NAMED + '[train]\nwarmup = 0.2\n[launch]\nsetup = ["c"]\n')
    train = loaded.recipe.train
    assert (train.epochs, train.warmup, loaded.recipe.launch.setup) == (3, 0.2, ["c"])
    assert loaded.recipe.recipe.description == "shared"


def test_lists_and_sources_are_replaced_and_the_page_says_so(tmp_path: Path) -> None:
    team = """[launch]\nsetup = ["a"]\n[launch.env]\nA = "1"\n[data]\nignore = ["id"]\neval = { path = "e.jsonl" }\n"""
    over = BASE.replace("[data]", '[data]\nignore = ["day"]\neval = { hub = "a/b" }')
    over = over.replace("[goal]", 'extends = "team.toml"\n[goal]') + '[launch]\nsetup = ["b"]\nenv = { B = "2" }\n'
    loaded = load(tmp_path, recipe=over, team=team)
    assert (loaded.value("launch", "setup"), loaded.value("data", "ignore")) == (["b"], ["day"])
    assert loaded.value("data", "eval") == {"hub": "a/b"}
    assert loaded.value("launch", "env") == {"A": "1", "B": "2"}
    description = keys_of(("recipe",))["extends"].description
    assert description and "Tables are merged key by key; lists" in description and "replaced as a whole" in description


def test_a_value_points_into_the_file_that_wrote_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, base__team=WHOLE, recipe=NAMED.replace("team", "base/team") + "[train]\nepochs = 2\n")
    assert loaded.where("goal", "task") == "base/team.toml:4"
    assert loaded.where("train", "epochs") == "recipe.toml:5"
    assert [path.name for path in loaded.files] == ["recipe.toml", "team.toml"]


def test_the_name_is_never_inherited(tmp_path: Path) -> None:
    assert codes(tmp_path, team=BASE, recipe='[recipe]\nextends = "team.toml"\n') == ["E0201"]


def test_later_recipes_of_a_list_win(tmp_path: Path) -> None:
    recipe = NAMED.replace('"team.toml"', '["team.toml", "./fast.toml"]')
    loaded = load(tmp_path, team=WHOLE + "[train]\nepochs = 3\n", fast="[train]\nepochs = 1\n", recipe=recipe)
    assert loaded.recipe.train.epochs == 1


def test_a_recipe_that_is_reached_in_two_ways_counts_at_its_first_place(tmp_path: Path) -> None:
    """Read again through `c`, `d` does not undo what `b` wrote over it, nor what that replaced."""
    over = '[recipe]\nextends = "d.toml"\n'
    files = {
        "b": f'{over}[train]\nlearning_rate = 1e-4\nmax_steps = 50\n[launch]\nsetup = ["b"]\n',
        "c": f"{over}[train]\nwarmup = 0.1\nlora.rank = 8\n[launch.env]\nC = '1'\n",
        "d": f"{WHOLE}[train]\nlearning_rate = 3e-4\nepochs = 2\nwarmup = 0.2\n"
        "[launch]\nsetup = ['a', 'd']\nenv.D = '1'\n",
    }
    loaded = load(tmp_path, **files, recipe=NAMED.replace('"team.toml"', '["b.toml", "c.toml"]'))
    train, launch = loaded.recipe.train, loaded.recipe.launch
    assert (train.learning_rate, train.max_steps, train.epochs, train.warmup) == (1e-4, 50, None, 0.1)
    assert (launch.setup, launch.env) == (["b"], {"C": "1", "D": "1"})
    places = {key: loaded.where("train", key).partition(":")[0] for key in ("learning_rate", "max_steps", "warmup")}
    assert places == {"learning_rate": "b.toml", "max_steps": "b.toml", "warmup": "c.toml"}
    assert loaded.where("launch", "setup", 0).startswith("b.toml")


def test_a_base_named_last_does_not_undo_what_came_over_it(tmp_path: Path) -> None:
    over = '[recipe]\nextends = "d.toml"\n[train]\nepochs = 5\n'
    recipe = NAMED.replace('"team.toml"', '["b.toml", "d.toml"]')
    loaded = load(tmp_path, b=over, d=f"{WHOLE}[train]\nepochs = 2\nwarmup = 0.2\n", recipe=recipe)
    assert (loaded.recipe.train.epochs, loaded.recipe.train.warmup) == (5, 0.2)


PATHS = {
    "file": ('train = "a.jsonl"', "shared/a.jsonl"),
    "up": ('train = "../a.jsonl"', "a.jsonl"),
    "absolute": ('train = "/data/a.jsonl"', "/data/a.jsonl"),
    "table": ('train = {path = "./a.jsonl", weight = 2}', "shared/a.jsonl"),
    "glob in a list": ('train = ["d/*.jsonl"]', "shared/d/*.jsonl"),
}


@pytest.mark.parametrize(("written", "seen"), PATHS.values(), ids=PATHS.keys())
def test_inherited_data_is_found_from_the_recipes_folder(tmp_path: Path, written: str, seen: str) -> None:
    team = WHOLE.replace('train = "train.jsonl"', written)
    loaded = load(tmp_path, shared__team=team, recipe=NAMED.replace("team", "shared/team"))
    assert [source.path for source in loaded.recipe.data.train] == [seen]


LISTS = ("adapters",)  # of tables


def _paths(table: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every key with an example that is a path, and that example."""
    for name, field in keys_of(table).items():
        for example in field.examples or ():
            if isinstance(example, str) and (example.startswith("./") or ".jsonl" in example or ".py:" in example):
                yield (*table, name), example
        yield from _paths((*table, name)) if len(table) < 3 else ()


@pytest.mark.parametrize(("path", "example"), [*_paths()])
def test_every_path_of_an_extended_recipe_is_found_from_the_recipe(path: KeyPath, example: str) -> None:
    steps = [step for name in path for step in ((name, 0) if name in LISTS else (name,))]
    data: Any = example
    for step in reversed(steps):
        data = [data] if step == 0 else {step: data}
    moved: Any = rebased(data, Path("/work/team"), Path("/work/mine"))
    for step in steps:
        moved = moved[step]
    assert moved == f"../team/{example.removeprefix('./')}"


def test_inherited_names_stay_and_paths_stay_paths(tmp_path: Path) -> None:
    shared = WHOLE.replace("Qwen/Qwen3-8B", "../model").replace("[data]", '[data]\ntemplate = "./chat.jinja"')
    loaded = load(tmp_path, shared__team=shared, recipe=NAMED.replace("team", "shared/team"))
    assert (loaded.recipe.model.name, loaded.recipe.data.template) == ("./model", "./shared/chat.jinja")


EXCLUDED = [
    ("[hardware]\nvram_gib = 24\n", ("hardware", "gpu")),
    ("[train]\nmax_steps = 9\n", ("train", "epochs")),
    ('[data]\neval = "e.jsonl"\n', ("data", "eval_fraction")),
    ('[data]\ntrain = {hub = "org/set"}\n', ("data", "train", "path")),
]


@pytest.mark.parametrize(("over", "replaced"), EXCLUDED)
def test_a_key_takes_the_place_of_those_it_excludes(tmp_path: Path, over: str, replaced: tuple[str, ...]) -> None:
    team = WHOLE.replace("[data]", "[data]\neval_fraction = 0.1") + "[train]\nepochs = 3\n"
    team = team.replace('"train.jsonl"', '{path = "train.jsonl"}')
    loaded = load(tmp_path, team=team, recipe=NAMED + over)
    assert not loaded.is_set(*replaced)


def test_a_shipped_recipe_is_named_without_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "base.toml").write_text(WHOLE)
    monkeypatch.setattr(extends, "shipped_recipes", lambda: {"base": tmp_path / "shipped" / "base.toml"})
    loaded = load(tmp_path / "mine", recipe=NAMED.replace("team.toml", "base"))
    assert loaded.where("goal", "task") == "shipped/base.toml:4"
    assert loaded.recipe.data.train[0].path == "train.jsonl"


def test_an_error_in_an_extended_recipe_is_shown_there(tmp_path: Path) -> None:
    (diagnostic,) = findings(tmp_path, team=WHOLE + "[train]\nepoks = 1\n", recipe=NAMED).diagnostics
    assert (diagnostic.code, Path(diagnostic.labels[0].place.file).name) == ("E0203", "team.toml")


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path) -> None:
    assert codes(tmp_path, recipe=NAMED.replace("team", "recipe"))[0] == "E0008"


def test_a_recipe_that_is_reached_by_many_ways_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level names both recipes of the next one: 2 ** 14 ways lead to the last."""
    levels = [f'[recipe]\nextends = ["a{level + 1}.toml", "b{level + 1}.toml"]\n' for level in range(14)]
    files = {f"{name}{level}": text for level, text in enumerate(levels) for name in "ab"}
    read, reads = extends.read, []
    monkeypatch.setattr(extends, "read", lambda path, *more, **named: reads.append(path) or read(path, *more, **named))
    top = levels[0].replace("[recipe]\n", '[recipe]\nname = "case"\n')
    loaded = load(tmp_path, **files, a14=WHOLE, b14=WHOLE + "[train]\nepochs = 2\n", recipe=top)
    assert loaded.recipe.train.epochs == 2
    assert len(reads) == len(set(reads)) == 2 * 14 + 1


def test_a_long_line_of_recipes_is_refused(tmp_path: Path) -> None:
    files = {f"r{level}": f'[recipe]\nextends = "r{level + 1}.toml"\n' for level in range(20)}
    first = findings(tmp_path, **files, recipe=NAMED.replace("team", "r0")).diagnostics[0]
    assert (first.code, first.title) == ("E0009", "recipes extend each other more than 16 levels deep")


def test_a_recipe_extends_a_bounded_number_of_others(tmp_path: Path) -> None:
    many = ", ".join(['"team.toml"'] * 300)
    found = findings(tmp_path, team=WHOLE, recipe=NAMED.replace('"team.toml"', f"[{many}]"))
    assert [finding.code for finding in found.diagnostics] == ["E0009", "E0207"]
