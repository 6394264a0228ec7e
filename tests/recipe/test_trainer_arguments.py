"""What may stand in train.arguments: names that Python takes, and none that the bundles set themselves."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from compiling import BASES, compiled, good, texts, with_key
from transformers import TrainingArguments

from recipec.axes import METHODS
from recipec.backends.methods import BACKENDS
from recipec.planner.advice.arguments import NEFTUNE, SMOOTHING, UNFIT
from recipec.recipe.foreign import KEYS
from recipec.recipe.kept_arguments import BROUGHT_ARGUMENTS, DECIDED_ARGUMENTS, OF_VARIANTS, UNFIT_ARGUMENTS
from recipec.recipe.schema_keys import keys_of
from recipec.recipe.trainer_arguments import _WITHOUT_EFFECT, arguments_of, kind_of, written_as_argument
from recipes import BASE, codes, load

EXAMPLES = Path(__file__).parents[2] / "generated-examples"
BROUGHT = {
    row.config: row for row in METHODS.values() if BACKENDS[row.name].trainer and BACKENDS[row.name].trainer.config
}
CONFIGS = sorted({row.config for row in METHODS.values()})


def test_every_argument_of_the_examples_is_decided() -> None:
    used = {name for path in EXAMPLES.rglob("train.py") for name in _keywords(path)}
    assert len(used) > 40
    assert used - {"ddp_timeout"} <= DECIDED_ARGUMENTS.keys() | UNFIT_ARGUMENTS.keys()  # ddp_timeout may be set


def test_every_key_that_decides_an_argument_exists() -> None:
    homes = {home for home in DECIDED_ARGUMENTS.values() if home}
    assert not [home for home in homes if home.split(".")[-1] not in keys_of(tuple(home.split(".")[:-1]))]


@pytest.mark.parametrize("name", DECIDED_ARGUMENTS | BROUGHT_ARGUMENTS)
def test_a_decided_argument_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, name) == ["E0407"]


def refused(folder: Path, name: str) -> list[str]:
    """The errors of a keyword, for a method that takes it where one does; not that the recipe has no such stage."""
    taker = next((row.name for row in METHODS.values() if name in arguments_of(row.config)), "sft")
    found = codes(folder, recipe=f"{BASE}[train.{taker}.arguments]\n{name} = 1\n")
    return [code for code in found if code != "E0401"]


@pytest.mark.parametrize("name", sorted(arguments_of("GRPOConfig") - arguments_of("RLOOConfig")))
def test_what_grpo_takes_and_rloo_does_not_is_said_so(tmp_path: Path, name: str) -> None:
    """Neither a key of GRPO's variants nor a keyword of the like is proposed."""
    found = compiled(tmp_path, with_key(BASES["rloo"], "train.arguments", {name: 1})).diagnostics
    (told,) = (each for each in found if each.code.startswith("E"))
    assert told.code == "E0206" and told.title == f"`{name}` is not an argument of RLOOConfig"
    assert "GRPOConfig" in told.labels[0].message
    assert told.help == ("remove it: RLOOConfig does not have it",)


@pytest.mark.parametrize(("name", "key"), [("max_length", "data.max_length"), ("packing", "train.packing")])
def test_a_key_of_every_method_is_named_where_the_trainer_lacks_the_keyword(
    tmp_path: Path, name: str, key: str
) -> None:
    found = compiled(tmp_path, with_key(BASES["rloo"], "train.arguments", {name: 1})).diagnostics
    assert [each.help for each in found if each.code == "E0407"] == [(f"set `{key}` instead",)]


OF_ANSWERS = {  # what a bundle sets in some cases alone, and no example has
    "vllm": ("grpo", {"alignment.generation.engine": "vllm"}),
    "served": ("served", {}),
    "gspo": ("grpo", {"alignment.variant": "gspo"}),
    "sapo": ("grpo", {"alignment.variant": "sapo", "alignment.beta": 0.1}),
    "cispo": ("grpo", {"alignment.variant": "cispo"}),
}


@pytest.mark.parametrize("case", OF_ANSWERS)
def test_every_argument_of_these_is_decided(tmp_path: Path, case: str) -> None:
    """One that a recipe could hand on, too, would stand in train.py twice, which Python does not read."""
    base, keys = OF_ANSWERS[case]
    recipe = BASES[base]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    (tmp_path / "train.py").write_text(texts(good(tmp_path, recipe))["train.py"])
    assert {*_keywords(tmp_path / "train.py")} <= DECIDED_ARGUMENTS.keys() | UNFIT_ARGUMENTS.keys()


@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.1), ("mask_truncated_completions", True)])
def test_rloo_takes_what_variants_of_grpo_decide(tmp_path: Path, updates: int, name: str, value: float) -> None:
    """It has no variants, so that nothing of the bundle sets it, or the recipe's value stands in its place."""
    recipe = with_key(BASES["rloo"], "train.arguments", {name: value})
    emitted = texts(good(tmp_path, with_key(recipe, "alignment.generation.updates", updates)))["train.py"]
    assert emitted.count(f" {name}=") == 1 and f" {name}={value}," in emitted


def test_grpo_keeps_what_its_variants_decide(tmp_path: Path) -> None:
    found = compiled(tmp_path, with_key(BASES["grpo"], "train.arguments", {"epsilon": 0.1}))
    assert [each.code for each in found.diagnostics if each.code.startswith("E")] == ["E0407"]


@pytest.mark.parametrize("name", ["class", "None", "self", "__debug__", "a-b", "1a", "", "a b", "\u00e9", "\uff4cr"])
def test_a_name_that_python_does_not_take_is_refused(tmp_path: Path, name: str) -> None:
    table = f'[train.sft.arguments]\n"{name}" = 1\n'
    assert codes(tmp_path, recipe=BASE + table) == ["E0206"]


@pytest.mark.parametrize("name", ["nonsense", "neftune_noise", "_x", "match"])
def test_a_name_that_no_trainer_takes_is_refused(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, recipe=f"{BASE}[train.arguments]\n{name} = 1\n") == ["E0206"]


@pytest.mark.parametrize("config", [config for config in CONFIGS if config not in BROUGHT])
def test_the_names_are_those_of_the_installed_trainers(config: str) -> None:
    module = importlib.import_module(next(row.module for row in METHODS.values() if row.config == config))
    fields = dataclasses.fields(getattr(module, config))
    assert arguments_of(config) == {field.name for field in fields if field.init}


@pytest.mark.parametrize("config", [config for config in CONFIGS if config not in BROUGHT])
def test_the_kinds_of_values_are_those_of_the_installed_trainers(config: str) -> None:
    module = importlib.import_module(next(row.module for row in METHODS.values() if row.config == config))
    hints = get_type_hints(getattr(module, config))
    varies = any(own.key == "variant" for row in METHODS.values() if row.config == config for own in row.keys)
    set_here = {*DECIDED_ARGUMENTS, *UNFIT_ARGUMENTS} - {*(() if varies else OF_VARIANTS)}
    given = arguments_of(config) - set_here
    assert given
    assert {name: set(kind_of(name)[1]) for name in given} == {name: _in_toml(hints[name]) for name in given}


def _in_toml(hint: Any) -> set[type]:
    """The types of TOML that an annotation allows."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = {type(get_args(part)[0]) if get_origin(part) is Literal else get_origin(part) or part for part in parts}
    kinds = {list if kind is tuple else kind for kind in kinds if not issubclass(kind, Enum | NoneType)}
    return kinds | {int} if float in kinds else kinds


@pytest.mark.parametrize("config", BROUGHT)
def test_a_configuration_of_the_bundle_has_the_names_that_are_known(config: str) -> None:
    tree = ast.parse(
        (EXAMPLES / BROUGHT[config].name / f"{BACKENDS[BROUGHT[config].name].trainer.module}.py").read_text()
    )
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == config]
    fields = {node.target.id for node in found.body if isinstance(node, ast.AnnAssign)}
    known = arguments_of(config)
    assert known - {field.name for field in dataclasses.fields(TrainingArguments)} <= fields <= known


def test_what_is_refused_is_an_argument() -> None:
    known = frozenset[str]().union(*map(arguments_of, CONFIGS))
    brought = {own.argument for row in METHODS.values() for own in row.own}
    assert UNFIT_ARGUMENTS.keys() | DECIDED_ARGUMENTS.keys() - brought <= known
    assert not UNFIT_ARGUMENTS.keys() & DECIDED_ARGUMENTS.keys()


# Read in the sources of transformers 5.23 and TRL 1.16 on 2026-11-30: no decision contradicts them, and no file of a
# bundle depends on them. What some plans alone refuse is in planner/advice/arguments.py.
PASSED_ON = {
    *("average_tokens_across_devices", "full_determinism", "eval_delay", "debug", "torch_empty_cache_steps"),
    *("ddp_timeout", "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph"),
    *("dataloader_multiprocessing_context", "disable_tqdm", "log_level", "log_level_replica", "log_on_each_node"),
    *("logging_first_step", "skip_memory_metrics", "pad_token"),
    # losses of DPO
    *("loss_weights", "f_divergence_type", "f_alpha_divergence_coef", "ld_alpha", "use_weighting"),
    # losses of GRPO and RLOO, and what they say of answers
    *("entropy_coef", "entropy_coef_delta", "entropy_coef_max", "entropy_coef_min", "entropy_target"),
    *("use_adaptive_entropy", "top_entropy_quantile", "off_policy_mask_threshold", "multi_objective_aggregation"),
    *("normalize_advantages", "reward_clip_range"),
    *("log_completions", "log_unique_prompts", "num_completions_to_print"),
}


def test_every_keyword_of_every_trainer_is_judged() -> None:
    """One that a new version of a trainer brings is read in its source before it is passed on."""
    known = frozenset[str]().union(*map(arguments_of, CONFIGS))
    in_some_plans = {name for row in UNFIT for name in row.names}
    assert known - DECIDED_ARGUMENTS.keys() - UNFIT_ARGUMENTS.keys() - in_some_plans == PASSED_ON
    assert not PASSED_ON & in_some_plans


@pytest.mark.parametrize("name", sorted(PASSED_ON | {name for row in UNFIT for name in row.names}))
def test_what_the_trainer_takes_is_not_to_be_removed(name: str) -> None:
    """Written under [train], it leads to `arguments`."""
    told = KEYS.get(name) or written_as_argument(name, 1)
    assert told.startswith(("write `arguments", "set `"))


def test_a_keyword_that_some_methods_refuse_says_so_where_it_is_looked_for() -> None:
    for name in NEFTUNE + SMOOTHING:
        assert "trainer; " in written_as_argument(name, 1)


UNREAD = {
    ("ppo", "dataloader_multiprocessing_context"): "without a data loader",
    ("ppo", "train_sampling_strategy"): "once for all passes over its answers",
    ("grpo", "train_sampling_strategy"): "in a random order",
    ("simpo", "sync_ref_model"): "compares with no reference",
    ("simpo", "ld_alpha"): "has another loss",
    ("distill", "loss_type"): "has another loss",
}


@pytest.mark.parametrize(("method", "name"), UNREAD)
def test_a_keyword_that_a_trainer_does_not_read_says_why(tmp_path: Path, method: str, name: str) -> None:
    found = compiled(tmp_path, with_key(BASES[method], f"train.{method}.arguments", {name: 1})).diagnostics
    (told,) = (each for each in found if each.code == "E0407")
    assert UNREAD[method, name] in told.labels[0].message


CHANGE_THE_RUN = (
    *("use_liger_kernel", "liger_kernel_config", "padding_free", "eval_packing", "auto_find_batch_size", "hub_token"),
    *(
        "dataloader_drop_last",
        "ignore_data_skip",
        "resume_from_checkpoint",
        "save_only_model",
        "truncation_mode",
        "enable_jit_checkpoint",
    ),
    *("deepspeed", "fsdp", "bf16", "max_length", "packing", "per_device_train_batch_size", "num_train_epochs", "optim"),
    *("gradient_accumulation_steps", "output_dir", "seed", "label_names", "local_rank", "push_to_hub", "hub_model_id"),
)


@pytest.mark.parametrize("name", dict.fromkeys([*CHANGE_THE_RUN, *UNFIT_ARGUMENTS]))
def test_what_changes_the_run_unseen_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, name) == ["E0407"]


WITHOUT_EFFECT = [(name, value) for value, names in _WITHOUT_EFFECT for name in names.split()]
# Other values than the default, which TOML has no word for or writes in another way.
SWITCHED_OFF = {"neftune_noise_alpha = 0.0": None, "include_num_input_tokens_seen = False": "no"}


@pytest.mark.parametrize("config", [config for config in CONFIGS if config not in BROUGHT])
def test_values_without_effect_are_the_defaults_of_the_installed_trainers(config: str) -> None:
    """And all such values of refused keywords pass, but of those that a bundle sets in some plans."""
    module = importlib.import_module(next(row.module for row in METHODS.values() if row.config == config))
    defaults = {field.name: _default(field) for field in dataclasses.fields(getattr(module, config))}
    for name, value in WITHOUT_EFFECT:
        if name in defaults:
            assert repr(SWITCHED_OFF.get(f"{name} = {value}", value)) == repr(defaults[name]), name
    refused = {*UNFIT_ARGUMENTS, *(name for row in UNFIT for name in row.names)} & defaults.keys()
    left = {name for name in refused - {name for name, _ in WITHOUT_EFFECT} if defaults[name] is not None}
    assert left <= {name for name in defaults if name.startswith("vllm_")} | SET_IN_SOME_PLANS


SET_IN_SOME_PLANS = {"use_vllm", "top_p", "top_k", "repetition_penalty", "num_iterations", "pad_to_multiple_of"}


def _default(field: Any) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@pytest.mark.parametrize(("name", "value"), WITHOUT_EFFECT)
def test_a_value_that_changes_nothing_is_passed_on(tmp_path: Path, name: str, value: object) -> None:
    rows = [row.name for row in METHODS.values() if name in arguments_of(row.config) - {*row.unread_arguments}]
    base = next(
        base for method in rows if (base := {"sft": "lora-single", "dpo": "dpo-full"}.get(method, method)) in BASES
    )
    recipe = with_key(BASES[base], "train.arguments", {name: value})
    emitted = texts(good(tmp_path, recipe))["train.py"]
    assert emitted.count(f" {name}=") == 1


@pytest.mark.parametrize(
    "line", ["use_cache = 0", "dataloader_in_order = 1", "save_on_each_node = true", "use_vllm = false"]
)
def test_a_value_that_is_like_one_without_effect_is_refused(tmp_path: Path, line: str) -> None:
    taker = "grpo" if "vllm" in line else "sft"
    assert "E0407" in codes(tmp_path, recipe=f"{BASE}[train.{taker}.arguments]\n{line}\n")


@pytest.mark.parametrize(
    ("name", "value"), [("neftune_noise_alpha", 5), ("full_determinism", True), ("eval_delay", 0.5)]
)
def test_other_names_are_passed_on(tmp_path: Path, name: str, value: float) -> None:
    line = f"{name} = {str(value).lower()}\n"
    found = load(tmp_path, recipe=f"{BASE}[train.arguments]\n{line}").wishes("sft", last=True)
    assert found["train.arguments"].value == {name: value}


@pytest.mark.parametrize(
    "line",
    [
        *('full_determinism = "yes"', "full_determinism = 1", "ddp_timeout = 1.5", 'neftune_noise_alpha = "5"'),
        *("skip_memory_metrics = 1", "log_level = 1", "pad_to_multiple_of = true", "debug = 1"),
    ],
)
def test_a_value_of_another_kind_is_refused(tmp_path: Path, line: str) -> None:
    assert codes(tmp_path, recipe=f"{BASE}[train.arguments]\n{line}\n") == ["E0202"]


def _keywords(path: Path) -> Iterator[str]:
    """The keywords of the configuration's constructor in an emitted train.py."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONFIGS:
            yield from (keyword.arg for keyword in node.keywords if keyword.arg)
