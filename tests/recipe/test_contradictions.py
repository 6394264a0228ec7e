"""Recipes that hold together: nothing is found in them. What is found in others is shown in tests/errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes import BASE, codes, findings, load

ALIGN = BASE.replace("instruct", "align")
GOOD = {
    "all strategies on two GPUs": BASE + '[train]\nstrategy = "zero3"\noffload = "cpu"\n',
    "qlora with nf4": BASE + '[train]\nadaptation = "qlora"\nquantization = "nf4"\nlora.rank = 8\n',
    "batches that divide": BASE + "[train]\nglobal_batch_size = 64\nmicro_batch_size = 8\n",
    "a batch for fewer GPUs": BASE.replace("node = 2", "node = 8")
    + "[train.sft]\nglobal_batch_size = 4\nmicro_batch_size = 1\n",
    "preference pairs only": ALIGN.replace("train =", "preferences ="),
    "preference pairs as training data": ALIGN + "[alignment]\nbeta = 0.1\n",
    "bf16 on a CPU": BASE.replace("h100", "cpu") + '[train]\nprecision = "bf16"\nstrategy = "ddp"\n',
    "single on a CPU": BASE.replace("h100", "cpu").replace("= 2", "= 1") + '[train]\nstrategy = "single"\n',
    "raw text split": BASE.replace("[data]", '[data]\nformat = "text"\noverflow = "split"'),
    "a split of a share": BASE.replace("[data]", '[data]\ntest_fraction = 0.1\nsplit = {group = "user"}'),
    "steps of one stage, epochs of the other": ALIGN + "[train]\nepochs = 1\n[train.sft]\nmax_steps = 5\n",
    "arguments of every kind": BASE
    + '[train.arguments]\neval_delay = 1\nlog_level = "info"\ndebug = ["underflow_overflow"]\n',
    "variables that are not secret": BASE + '[launch.env]\nNCCL_DEBUG = "INFO"\nTOKENIZERS_PARALLELISM = "false"\n',
}


@pytest.mark.parametrize("recipe", GOOD.values(), ids=GOOD.keys())
def test_a_recipe_that_holds_together_is_accepted(tmp_path: Path, recipe: str) -> None:
    load(tmp_path, recipe=recipe)


def test_a_project_needs_a_tracker_that_has_projects(tmp_path: Path) -> None:
    """A recipe may take another tracker than the one that it extends, whose project it cannot remove."""
    project = '[track]\nproject = "pumps"\n'
    extending = BASE.replace('name = "case"', 'name = "case"\nextends = "team.toml"', 1)
    assert codes(tmp_path, recipe=BASE + project) == ["E0401"]
    assert codes(tmp_path, recipe=BASE + project + 'to = ["none"]\n') == ["E0401"]
    load(tmp_path, recipe=BASE + project + 'to = ["tensorboard", "mlflow"]\n')
    load(tmp_path, team=project + 'to = "wandb"\n', recipe=extending + '[track]\nto = "tensorboard"\n')


def test_a_policy_allows_what_it_names(tmp_path: Path) -> None:
    team = '[policy]\nmodels = ["Qwen/*"]\nmax_gpus = 2\n'
    recipe = BASE.replace('name = "case"', 'name = "case"\nextends = "team.toml"', 1)
    assert load(tmp_path, team=team, recipe=recipe).recipe.policy.max_gpus == 2


@pytest.mark.parametrize("pattern", ["[", "Qwen/[A", "[!]", "[ab]*[", "[]" * 41])
def test_a_pattern_with_an_open_set_is_refused(tmp_path: Path, pattern: str) -> None:
    recipe = BASE.replace('name = "case"', 'name = "case"\nextends = "team.toml"', 1)
    assert codes(tmp_path, team=f'[policy]\nmodels = ["{pattern}"]\n', recipe=recipe) == ["E0206"]


def test_sets_of_characters_are_patterns(tmp_path: Path) -> None:
    patterns = '["[Q]wen/*", "[]]*", "[!]]*[[]", "]", "*"]'
    recipe = BASE.replace('name = "case"', 'name = "case"\nextends = "team.toml"', 1)
    load(tmp_path, team=f"[policy]\nmodels = {patterns}\n", recipe=recipe)


def test_a_policy_is_narrowed_on_the_way(tmp_path: Path) -> None:
    files = {"org": "[policy]\nmax_gpus = 4\n", "team": '[recipe]\nextends = "org.toml"\n[policy]\nmax_gpus = 1\n'}
    recipe = BASE.replace('name = "case"', 'name = "case"\nextends = "team.toml"', 1)
    assert codes(tmp_path, recipe=recipe, **files) == ["E0404"]


@pytest.mark.parametrize("order", [["team", "preset"], ["preset", "team"]])
def test_of_siblings_the_narrower_limit_holds(tmp_path: Path, order: list[str]) -> None:
    """Both extend the organization, and the team alone narrows what it allows."""
    files = {
        "org": "[policy]\nmax_gpus = 8\n",
        "team": '[recipe]\nextends = "org.toml"\n[policy]\nmax_gpus = 4\n',
        "preset": '[recipe]\nextends = "org.toml"\n[train]\nepochs = 2\n',
    }
    names = ", ".join(f'"{name}.toml"' for name in order)
    recipe = BASE.replace('name = "case"\n', f'name = "case"\nextends = [{names}]\n', 1)
    loaded = load(tmp_path, recipe=recipe, **files)
    assert loaded.recipe.policy.max_gpus == 4
    assert loaded.where("policy", "max_gpus").startswith("team.toml")
    wider = f"{recipe}[policy]\nmax_gpus = 5\n"  # and in the recipe itself it limits nobody
    (found,) = findings(tmp_path, recipe=wider, **files).diagnostics
    assert (found.code, found.title) == ("E0404", "`max_gpus` of [policy] in the recipe itself")


SECRETS = ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "hf_token"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, recipe=BASE + f'[launch.env]\n{name} = "x"\n') == ["E0406"]


def test_a_secret_is_refused_by_its_form(tmp_path: Path) -> None:
    recipe = BASE + f'[launch.env]\nHUB = "hf_{"a" * 34}"\n'
    assert codes(tmp_path, recipe=recipe) == ["E0406"]


@pytest.mark.parametrize(("stage", "expected"), [("pretrain", "E0203"), ("sft", "E0401")])
def test_only_stages_that_can_train_adapters_have_a_table_for_them(tmp_path: Path, stage: str, expected: str) -> None:
    recipe = BASE.replace("instruct", "pretrain") + f"[train.{stage}]\nlora.rank = 8\n"
    assert codes(tmp_path, recipe=recipe) == [expected]


@pytest.mark.parametrize("value", ['["high"]', "[]", "{ a = 1 }"])
def test_a_level_that_is_no_text_is_refused(tmp_path: Path, value: str) -> None:
    assert "E0202" in codes(tmp_path, recipe=ALIGN + f"[alignment]\nkl_control = {value}\n")


@pytest.mark.parametrize("keys", [("epochs = 3", "max_steps = 9"), ("max_steps = 9", "epochs = 3")])
def test_the_first_of_two_values_is_the_upper_one(tmp_path: Path, keys: tuple[str, str]) -> None:
    (found,) = findings(tmp_path, recipe=BASE + "[train]\n" + "\n".join(keys) + "\n").diagnostics
    lines = {label.message: label.place.span.line for label in found.labels}
    assert lines["first value"] < lines["second value"]
