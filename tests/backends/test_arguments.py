"""Every argument with training meaning is written out: the closed list of each configuration class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, good, shape, texts, with_key

from recipec.axes import METHODS, Method
from recipec.backends.arguments import OPTIMIZERS
from recipec.backends.methods import BACKENDS
from recipec.compiler import Compilation
from recipec.rules.loader import MOST_PROCESSES

COMMON = {
    *("output_dir", "seed", "num_train_epochs", "max_steps", "max_length", "bf16", "activation_checkpointing"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "per_device_eval_batch_size"),
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm"),
    *("optim", "adam_beta1", "adam_beta2", "adam_epsilon"),
    *("eval_strategy", "eval_steps", "eval_on_start", "save_strategy", "save_steps", "save_total_limit"),
    *("load_best_model_at_end", "metric_for_best_model", "greater_is_better"),
    *("logging_steps", "logging_nan_inf_filter", "report_to", "run_name"),
    *("dataloader_num_workers", "dataloader_pin_memory", "dataloader_prefetch_factor"),
    *("dataloader_persistent_workers", "train_sampling_strategy", "model_init_kwargs"),
}
OF_CHECKPOINTS = {
    *("save_steps", "save_total_limit", "load_best_model_at_end", "metric_for_best_model", "greater_is_better"),
}
MUST = {
    "SFTConfig": COMMON | {"packing"},
    "DPOConfig": COMMON | {"disable_dropout"},
    "KTOConfig": COMMON | {"disable_dropout"},
    "RewardConfig": COMMON | {"disable_dropout"},
    "PPOConfig": COMMON - {"max_length", "train_sampling_strategy"} | {"value_clip_range", "reward_weights"},
    "DistillationConfig": COMMON - {"max_length", "train_sampling_strategy"}
    | {"top_p", "top_k", "repetition_penalty", "shuffle_dataset", "disable_dropout"},
    "RLOOConfig": COMMON - {"max_length", "train_sampling_strategy"}
    | {
        *("num_generations_eval", "num_iterations", "top_p", "top_k", "repetition_penalty"),
        *("shuffle_dataset", "reward_weights", "disable_dropout"),
    },
    "GRPOConfig": COMMON - {"max_length", "train_sampling_strategy"}
    | {
        *("importance_sampling_level", "scale_rewards", "mask_truncated_completions", "cast_lm_head_to_fp32"),
        *("num_generations_eval", "num_iterations", "top_p", "top_k", "repetition_penalty"),
        *("shuffle_dataset", "reward_weights", "disable_dropout"),
    },
}
TEMPLATES = Path(__file__).parents[2] / "templates"
NOT_READ = {  # method -> arguments that it does not read: of weights by chance, and of loaders that it does not make
    "pretrain": {"model_init_kwargs"},
    "ppo": {f"dataloader_{name}" for name in ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers")},
}

# What a recipe's shape adds: base -> arguments that are there for it, and not for the plain LoRA run.
SHAPES = {
    "lora-single": {"tf32", "assistant_only_loss"},
    "qlora": {"tf32", "assistant_only_loss"},
    "lora-int8": {"tf32", "assistant_only_loss"},
    "lora-ddp": {
        *("tf32", "completion_only_loss"),
        *("ddp_find_unused_parameters", "chat_template_path"),
    },
    "full-fsdp": {
        *("tf32", "assistant_only_loss", "chat_template_path"),
        "dataset_num_proc",
    },
    "zero3-offload": {"tf32", "completion_only_loss"},
    "dpo-full": {"tf32", "precompute_ref_log_probs"},
    "kto": {"tf32", "precompute_ref_log_probs"},
    "orpo": {"tf32", "precompute_ref_log_probs"},
    "cpo": {"tf32", "precompute_ref_log_probs"},
    "simpo": {"tf32"},
    "reward": {"tf32", "chat_template_path"},
    "grpo": {"tf32", "epsilon", "epsilon_high"},
    "tools": {"tf32", "epsilon", "epsilon_high", "max_tool_calling_iterations"},
    "rloo": {"tf32"},
    "ppo": {"tf32"},
    "distill": {"tf32", "assistant_only_loss"},
    "on-policy-distill": {"tf32"},
    "text": {"tf32", "packing_strategy"},
    "pretrain": {"tf32", "packing_strategy", "ddp_find_unused_parameters"},
    "cpu": {"use_cpu", "assistant_only_loss", "chat_template_path"},
}

# Recipe key -> the argument that carries its value, and how it reads there.
CARRIED: dict[str, tuple[Any, str, Any]] = {
    "recipe.seed": (7, "seed", 7),
    "train.epochs": (2, "num_train_epochs", 2),
    "train.micro_batch_size": (4, "per_device_train_batch_size", 4),
    "train.learning_rate": (3e-4, "learning_rate", 3e-4),
    "train.schedule": ("linear", "lr_scheduler_type", "linear"),
    "train.warmup": (0.2, "warmup_steps", 0.2),
    "train.weight_decay": (0.05, "weight_decay", 0.05),
    "train.max_grad_norm": (0.5, "max_grad_norm", 0.5),
    "train.logging_steps": (3, "logging_steps", 3),
    "train.optimizer": ("adamw-8bit", "optim", "adamw_8bit"),
    "train.precision": ("fp16", "fp16", True),
    "train.activation_checkpointing": (False, "activation_checkpointing", False),
    "train.compile": (True, "torch_compile", True),
    "train.eval_every": (0.1, "eval_steps", 0.1),
    "train.save_every": (0.4, "save_steps", 150),  # of 375 steps: 75 from one evaluation to the next
    "train.keep_checkpoints": (5, "save_total_limit", 5),
    "train.arguments": ({"neftune_noise_alpha": 5}, "neftune_noise_alpha", 5),
    "data.max_length": (512, "max_length", 512),
    "track.to": (["wandb", "mlflow"], "report_to", ["wandb", "mlflow"]),
    "track.run": ("second", "run_name", "second"),
    "alignment.beta": (0.3, "beta", 0.3),
    "alignment.loss": ("ipo", "loss_type", ["ipo"]),
    "alignment.center_rewards_coefficient": (0, "center_rewards_coefficient", 0),
}  # fmt: skip
CARRIED_BY = {"alignment.center_rewards_coefficient": "reward"}  # key -> the base that has it


def arguments(text: str) -> tuple[str, dict[str, Any]]:
    """The configuration class of a train.py and its keywords; a choice as in the planned run, other code as None."""
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "training_config")
    call = next(node for node in ast.walk(function) if isinstance(node, ast.Call))
    assert isinstance(call.func, ast.Name)
    return call.func.id, {str(keyword.arg): _literal(keyword.value) for keyword in call.keywords}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node.body if isinstance(node, ast.IfExp) else node)
    except ValueError:
        return None


def _stages(bundle: Compilation) -> list[tuple[str, dict[str, Any]]]:
    return [arguments(text) for path, text in texts(bundle).items() if path.endswith("train.py")]


def _methods(bundle: Compilation) -> Iterator[tuple[Method, set[str], set[str]]]:
    """The method of every stage, what its configuration must have, and what it has."""
    assert bundle.plan
    for stage, (config, found) in zip(bundle.plan.stages, _stages(bundle), strict=True):
        method = METHODS[stage.stage.name]
        assert config == method.config
        own = {own.argument for own in method.own if own.argument and not own.of_trainer}
        without = OF_CHECKPOINTS if stage.needs.storage.checkpoints_bytes == 0 else set()
        yield method, (MUST[config] | own) - without, set(found)


@pytest.mark.parametrize("name", BASES)
def test_the_closed_list_is_written_out(name: str) -> None:
    for method, must, found in _methods(shape(name)):
        assert must - found == NOT_READ.get(method.name, set())
        assert found >= OF_CHECKPOINTS or not OF_CHECKPOINTS & found, "of no checkpoint the best is chosen"


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_else_is_written(tmp_path: Path, name: str) -> None:
    [(_, must, found)] = _methods(good(tmp_path, with_key(BASES[name], "train.activation_checkpointing", True)))
    assert found - must == SHAPES[name] | {"activation_checkpointing_kwargs"}


@pytest.mark.parametrize(("share", "written"), [(0.5, "eval_steps=0.5,"), (0.25, "if args.max_steps == -1 else 0.5,")])
def test_evaluations_half_way_are_no_other_ones_in_a_run_cut_short(tmp_path: Path, share: float, written: str) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "train.eval_every", share), "train.save_every", share)
    assert written in texts(good(tmp_path, recipe))["train.py"]


def test_a_constant_rate_still_has_its_warmup(tmp_path: Path) -> None:
    """transformers' "constant" knows no warmup."""
    [(_, found)] = _stages(good(tmp_path, with_key(BASES["lora-single"], "train.schedule", "constant")))
    assert found["lr_scheduler_type"] == "constant_with_warmup"


@pytest.mark.parametrize(("max_steps", "steps"), [(None, "(args.max_steps if args.max_steps > 0 else "), (90, "args.")])
def test_the_decay_is_a_share_of_the_steps(tmp_path: Path, max_steps: int | None, steps: str) -> None:
    recipe = with_key(BASES["pretrain"], "train.schedule", "warmup-stable-decay")
    recipe = with_key(recipe, "train.max_steps", max_steps) if max_steps else recipe
    text = texts(good(tmp_path, recipe))["train.py"]
    assert 'lr_scheduler_type="warmup_stable_decay",' in text
    assert f'lr_scheduler_kwargs={{"num_decay_steps": int(0.1 * {steps}' in text


@pytest.mark.parametrize(("schedule", "told"), [("warmup-stable-decay", True), ("cosine", False)])
def test_the_checkpoint_before_the_decay_is_spoken_of(tmp_path: Path, schedule: str, told: bool) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "train.schedule", schedule), "train.eval_every", 0.02)
    recipe = with_key(recipe, "train.save_every", 0.02)
    readme = texts(good(tmp_path, recipe))["README.md"]
    assert ("`train.keep_checkpoints = 7` keeps it" in readme.replace("\\", "")) == told
    assert ("| keep_checkpoints | 3 |" in readme) == told


@pytest.mark.parametrize("patience", [0, 1, 7])
def test_patience_is_that_of_the_recipe(tmp_path: Path, patience: int) -> None:
    """Also in a single pass, where recipec would let every training end; 0 lets it end."""
    recipe = with_key(with_key(BASES["lora-single"], "train.epochs", 1), "train.early_stopping_patience", patience)
    text = texts(good(tmp_path, recipe))["train.py"]
    assert (f"StopWithoutProgress(patience={patience})" in text) == (patience > 0)
    assert ("StopWithoutProgress" in text) == (patience > 0)


@pytest.mark.parametrize("key", CARRIED)
def test_a_recipe_key_arrives_in_its_argument(tmp_path: Path, key: str) -> None:
    value, argument, expected = CARRIED[key]
    base = BASES[CARRIED_BY.get(key, "dpo-full" if key.startswith("alignment") else "lora-single")]
    [(_, found)] = _stages(good(tmp_path, with_key(base, key, value)))
    assert found[argument] == expected


@pytest.mark.parametrize(
    ("base", "run", "names"),
    [
        ("dpo-full", None, ["case"]),
        ("dpo-full", "second", ["second"]),
        ("sft-dpo", None, ["case-sft", "case-dpo"]),
        ("sft-dpo", "second", ["second-sft", "second-dpo"]),
    ],
)
def test_a_run_is_named_once_and_every_stage_apart(
    tmp_path: Path, base: str, run: str | None, names: list[str]
) -> None:
    recipe = with_key(BASES[base], "track.run", run) if run else BASES[base]
    assert [found["run_name"] for _, found in _stages(good(tmp_path, recipe))] == names


@pytest.mark.parametrize(
    ("to", "variables"),
    [
        ("wandb", {"WANDB_PROJECT"}),
        ("mlflow", {"MLFLOW_EXPERIMENT_NAME"}),
        (["tensorboard", "wandb", "mlflow"], {"WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"}),
    ],
)
def test_the_project_reaches_the_tracker(tmp_path: Path, to: Any, variables: set[str]) -> None:
    """The Trainer reads it from the environment, which keeps what the user has set there; `project=` is Trackio's."""
    recipe = with_key(BASES["sft-dpo"], "track", {"to": to, "project": "assistants"})
    stages = {path: text for path, text in texts(good(tmp_path, recipe)).items() if path.endswith("train.py")}
    for text in stages.values():
        fresh, own = {}, dict.fromkeys(variables, "mine")
        for environment in (fresh, own):
            lines = [line for line in text.splitlines() if line.startswith("os.environ.setdefault")]
            exec("\n".join(lines), {"os": SimpleNamespace(environ=environment)})
        assert {name for name, value in fresh.items() if value == "assistants"} == variables
        assert {name for name, value in own.items() if value == "mine"} == variables
        assert "project" not in arguments(text)[1]


@pytest.mark.parametrize(
    ("base", "hardware", "examples", "processes"),
    [
        ("full-fsdp", {"gpus_per_node": 8, "cpu_cores": 48}, 250_000, 48),
        ("full-fsdp", {"gpus_per_node": 8, "cpu_cores": 192}, 250_000, MOST_PROCESSES),
        ("full-fsdp", {"gpus_per_node": 8, "cpu_cores": 48}, 30_000, None),
        ("lora-single", {"gpus_per_node": 1, "cpu_cores": 8}, 250_000, 8),
        ("grpo", {"gpus_per_node": 8, "cpu_cores": 48}, 250_000, None),
    ],
)
def test_many_rows_are_tokenized_by_all_cores_while_the_gpus_wait(
    tmp_path: Path, base: str, hardware: dict[str, int], examples: int, processes: int | None
) -> None:
    recipe = with_key(BASES[base], "data.examples", examples)
    for key, count in hardware.items():
        recipe = with_key(recipe, f"hardware.{key}", count)
    [(_, found)] = _stages(good(tmp_path, recipe))
    assert found.get("dataset_num_proc") == processes


@pytest.mark.parametrize("planned", [-1, 400])
def test_a_run_cut_short_evaluates_and_saves_twice(tmp_path: Path, planned: int) -> None:
    """A plan of 400 steps has no checkpoint but that of the last, which is not written: the recipe says otherwise."""
    often = with_key(BASES["full-fsdp"], "train.save_every", 0.4)
    often = with_key(often, "train.eval_every", 0.2)
    recipe = with_key(often, "train.max_steps", planned) if planned > 0 else often
    tree = ast.parse(texts(good(tmp_path, recipe))["train.py"])
    call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "SFTConfig")
    code = {str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords}

    def share(name: str, max_steps: int) -> float:
        return eval(code[name], {"args": SimpleNamespace(max_steps=max_steps)})

    for name in ("eval_steps", "save_steps"):
        assert share(name, 20) == 0.5
        assert share(name, planned) >= 50, "whole steps: a checkpoint of all weights is rarer than an evaluation"


@pytest.mark.parametrize(
    ("optimizer", "optim", "of_adam"),
    [
        ("adamw", "adamw_torch_fused", {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}),
        ("paged-adamw", "paged_adamw_32bit", {"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8}),
        ("lion", "lion_32bit", {"adam_beta1": 0.9, "adam_beta2": 0.99}),
        ("lion-8bit", "lion_8bit", {"adam_beta1": 0.9, "adam_beta2": 0.99}),
        ("adafactor", "adafactor", {}),
        ("sgd", "sgd", {}),
    ],
)
def test_an_optimizer_gets_what_it_reads(tmp_path: Path, optimizer: str, optim: str, of_adam: dict[str, float]) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "train.optimizer", optimizer)))
    _, found = arguments(bundle["train.py"])
    assert found["optim"] == optim
    assert {name: value for name, value in found.items() if name.startswith("adam_")} == of_adam
    pinned = optimizer in ("paged-adamw", "lion", "lion-8bit")
    assert ("bitsandbytes==" in bundle["requirements.txt"]) is pinned


@pytest.mark.parametrize(
    ("model", "source"),
    [
        ("Qwen/Qwen3-30B-A3B", "Qwen3MoeConfig"),
        ("mistralai/Mixtral-8x7B-v0.1", "MixtralConfig"),
        ("openai/gpt-oss-20b", "GptOssConfig"),
    ],
)
def test_experts_are_balanced_as_in_the_models_own_configuration(tmp_path: Path, model: str, source: str) -> None:
    import transformers

    recipe = with_key(with_key(BASES["lora-single"], "model.name", model), "hardware", {"gpu": "b200"})
    [(_, found)] = _stages(good(tmp_path, with_key(recipe, "hardware.gpus_per_node", 8)))
    assert found["router_aux_loss_coef"] == getattr(transformers, source)().router_aux_loss_coef


@pytest.mark.parametrize(
    ("base", "written"),
    [("dpo-full", True), ("kto", True), ("orpo", True), ("cpo", True), ("simpo", True), ("reward", False)],
)
def test_experts_are_balanced_by_every_method_that_writes(tmp_path: Path, base: str, written: bool) -> None:
    recipe = with_key(BASES[base], "model.name", "Qwen/Qwen3-30B-A3B")
    recipe = with_key(recipe, "train.adaptation", "lora")
    [(_, found)] = _stages(good(tmp_path, with_key(recipe, "hardware", {"gpu": "b200", "gpus_per_node": 8})))
    assert ("router_aux_loss_coef" in found) == written


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_trainer_that_drops_dropout_is_told(tmp_path: Path, dropout: float) -> None:
    """DPOTrainer switches all dropout off unless it is told otherwise, that of adapters too."""
    recipe = with_key(BASES["sft-dpo"], "train.dpo.lora", {"dropout": dropout})
    (_, first), (_, second) = _stages(good(tmp_path, recipe))
    assert "disable_dropout" not in first
    assert second["disable_dropout"] is (dropout == 0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_pinned_stack_knows_every_optimizer(optimizer: str) -> None:
    from transformers.training_args import OptimizerNames

    assert OPTIMIZERS[optimizer] in list(OptimizerNames)


@pytest.mark.parametrize("recomputes", [True, False])
def test_layers_are_recomputed_by_the_trainer_under_fsdp_too(tmp_path: Path, recomputes: bool) -> None:
    """FSDP's own switch hides adapters from a save (tests/rules/test_recomputation_on_stack.py); both are an error."""
    bundle = texts(good(tmp_path, with_key(BASES["full-fsdp"], "train.activation_checkpointing", recomputes)))
    found = arguments(bundle["train.py"])[1]
    assert found["activation_checkpointing"] is recomputes
    assert ("activation_checkpointing_kwargs" in found) is recomputes
    assert "activation_checkpointing" not in bundle["configs/fsdp.yaml"]


@pytest.mark.parametrize(
    ("strategy", "adaptation", "reenters"),
    [
        *(("zero3", "lora", True), ("zero3", "full", False), ("zero2", "lora", False), ("fsdp", "lora", False)),
        ("ddp", "lora-int8", True),
    ],
)
@pytest.mark.parametrize("base", ["full-fsdp", "dpo-full"])
def test_layers_are_recomputed_as_trl_recomputes_them(
    tmp_path: Path, base: str, strategy: str, adaptation: str, reenters: bool
) -> None:
    """Told another value, TRL 1.16 warns and takes this one; 8-bit layers keep their inputs with the other one."""
    train = {"strategy": strategy, "adaptation": adaptation, "activation_checkpointing": True}
    recipe = with_key(with_key(BASES[base], "train", train), "hardware.gpus_per_node", 8)
    [(_, found)] = _stages(good(tmp_path, recipe))
    assert found["activation_checkpointing_kwargs"]["use_reentrant"] is reenters


@pytest.mark.parametrize("micro_batch", [1, 8])
def test_gradients_that_accumulate_stay_sharded(tmp_path: Path, micro_batch: int) -> None:
    """Otherwise FSDP2 keeps whole ones on every rank until the last micro step."""
    train = {"strategy": "fsdp", "global_batch_size": 64, "micro_batch_size": micro_batch}
    recipe = with_key(BASES["full-fsdp"], "train", train)
    [(_, found)] = _stages(good(tmp_path, recipe))
    asked = found.get("accelerator_config", {}).get("gradient_accumulation_kwargs", {})
    assert (found["gradient_accumulation_steps"], asked.get("sync_each_batch")) in ((8, True), (1, None))


def test_ddp_does_not_look_for_unused_weights() -> None:
    """Every weight that trains is used, and layers that are recomputed would be taken for unused."""
    [(_, found)] = _stages(shape("lora-ddp"))
    assert found["ddp_find_unused_parameters"] is False


@pytest.mark.parametrize("name", BASES)
def test_configuration_classes_know_every_argument(name: str) -> None:
    known = {config: _fields(config) for config in MUST}
    for config, found in _stages(shape(name)):
        assert not found.keys() - known[config]


@pytest.mark.parametrize("name", METHODS)
def test_the_stack_has_every_class_of_a_row(name: str) -> None:
    """Read without importing it."""
    row = METHODS[name]
    own = BACKENDS[name].trainer
    ours = {own.config, row.trainer} if own and own.config else set()
    assert {row.trainer, row.config} - ours <= _classes(row.module), row.module
    assert row.auto_class in _classes("transformers")


@pytest.mark.parametrize("name", METHODS)
def test_a_trainer_is_brought_what_its_configuration_does_not_take(name: str) -> None:
    row = METHODS[name]
    taken = _fields(row.config)
    carried = [own for own in row.own if own.argument]
    assert [own.argument for own in carried if own.of_trainer == (own.argument in taken)] == []


@cache
def _classes(package: str) -> set[str]:
    """The names of all classes in a package of the pinned stack."""
    from importlib.util import find_spec

    spec = find_spec(package)
    assert spec and spec.origin
    folder = Path(spec.origin).parent
    patterns = {"transformers": "models/auto/modeling_auto.py", "peft": "auto.py"}
    files = folder.glob(patterns.get(package, "**/*.py"))
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _fields(config: str) -> set[str]:
    """The annotated fields of a configuration class of the pinned stack and its parents, read without importing."""
    from importlib.util import find_spec

    files = [
        f"trl/trainer/{config.removesuffix('Config').lower()}_config.py",
        *["trl/trainer/base_config.py"] * (config != "PPOConfig"),
        "transformers/training_args.py",
    ]
    roots = {package: Path(str(find_spec(package).origin)).parents[1] for package in ("trl", "transformers")}  # type: ignore[union-attr]
    brought = TEMPLATES / f"trl/{config.removesuffix('Config').lower()}_config.py.j2"
    trees = [ast.parse(brought.read_text())] if brought.exists() else []
    trees += [ast.parse(path.read_text()) for file in files if (path := roots[file.split("/")[0]] / file).exists()]
    return {
        n.target.id
        for tree in trees
        for n in ast.walk(tree)
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }


def test_trl_knows_what_its_fused_head_is_asked_for() -> None:
    from importlib.util import find_spec

    source = Path(str(find_spec("trl").origin)).with_name("kernels") / "chunked_logprob.py"  # type: ignore[union-attr]
    known = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OPTIONAL_OUTPUTS"
    )
    for method in METHODS.values():
        assert set(method.loss_outputs) <= {"log_probs", *known}
