"""What every shipped recipe emits: Python that is linted and formatted, shell that is checked, of the promised size."""

from __future__ import annotations

import ast
import csv
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from compiling import BASES, CHAT, METRICS, OF_METHOD, PAIRS, compiled, good, shape, texts, toml, with_key, write_data
from jsonschema import Draft7Validator
from pyarrow import parquet

from recipec.axes import METHODS, Method
from recipec.compiler import Compilation, compile_recipe

SHIPPED = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
WHOLE = [path for path in SHIPPED if path.name != "team.toml"]  # a preset, which others extend
TOOLS = Path(sys.executable).parent
RULES = "F,E,I,UP,B,SIM,RUF,C4"


@cache
def _bundle(recipe: Path) -> dict[str, str]:
    found = compile_recipe(recipe)
    assert found.files, [str(finding) for finding in found.diagnostics]
    return texts(found)


def _written(folder: Path, bundle: dict[str, str]) -> Path:
    for path, text in bundle.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run([str(TOOLS / command[0]), *command[1:]], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_hyperparameter_of_a_method_is_shown(tmp_path: Path, method: Method) -> None:
    bundle = texts(good(tmp_path, BASES[OF_METHOD[method.name]]))
    entry = json.loads(bundle["registry/entry.json"])["hyperparameters"][method.name]
    for own in method.own:
        assert f"\n| {own.name} | " in bundle["README.md"] and own.name in entry


@pytest.mark.parametrize("recipe", WHOLE, ids=lambda path: path.stem)
def test_shipped_recipes_emit_clean_code(tmp_path: Path, recipe: Path) -> None:
    _assert_clean(_written(tmp_path, _bundle(recipe)))


@pytest.mark.parametrize("name", BASES)
def test_every_shape_emits_clean_code(tmp_path: Path, name: str) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES[name]))
    _assert_clean(_written(tmp_path / "bundle", bundle))


@pytest.mark.parametrize("name", ["distill", "on-policy-distill"])
def test_a_mixture_of_divergences_emits_clean_code(tmp_path: Path, name: str) -> None:
    bundle = texts(good(tmp_path / "recipe", with_key(BASES[name], "alignment.beta", 0.5)))
    assert "mixture = " in bundle["evaluate.py"]
    _assert_clean(_written(tmp_path / "bundle", bundle))


_TOOL = {"name": "f", "parameters": {}}
_LABELED = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "label": n % 2 == 0, "tools": [_TOOL]} for n in range(40)]
_TOPICS = [row | {"topic": n % 3, "system": "Be kind.", "tools": [_TOOL]} for n, row in enumerate(5 * CHAT)]
_WEIGHED = [
    {"messages": [row["messages"][0], {**row["messages"][1], "weight": n % 2}]} for n, row in enumerate(5 * CHAT)
]
_NAMES = ("reasoning_content", "reasoning", "thinking", "thought")
_ANSWER = {"role": "assistant", "content": "So."}
_TOKENS = [{"input_ids": [n, 1, 2], "attention_mask": [1, 1, 1]} for n in range(40)]
_THOUGHTS = [
    {"messages": [{"role": "user", "content": f"Why {n}?"}, _ANSWER | {_NAMES[n % 4]: "Hm."}]} for n in range(40)
]
_HUB = {"hub": "org/rows", "take": 20, "format": "chat"}
CARRYING = {  # what rows hold, of which the lines of prepare_data.py and rows.py become long
    "labels and tools": ("kto", {"preferences": "rows.jsonl"}, _LABELED),
    "classes, tools and prompts": ("lora-single", {"train": "rows.jsonl", "split": {"stratify": "topic"}}, _TOPICS),
    "tools in two stages": ("sft-kto", {"train": "rows.jsonl", "ignore": ["topic"]}, _TOPICS),
    "weights beside a hub": ("lora-single", {"train": ["rows.jsonl", _HUB], "ignore": ["id"]}, _WEIGHED),
    "tokens before pairs": ("sft-dpo", {"train": "rows.jsonl"}, _TOKENS),
    "tokens": ("lora-single", {"train": [{"path": "rows.jsonl", "weight": 2}, "mor?.jsonl"]}, _TOKENS),
    "four names of thoughts": ("lora-single", {"train": "rows.jsonl", "reasoning": "keep"}, _THOUGHTS),
}


@pytest.mark.parametrize("what", CARRYING)
def test_what_rows_carry_emits_clean_code(tmp_path: Path, what: str) -> None:
    base, data, rows = CARRYING[what]
    write_data(tmp_path)
    for name in ("rows", "more"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = BASES[base]
    for key, value in data.items():
        recipe = with_key(recipe, f"data.{key}", value)
    _assert_clean(_written(tmp_path / "out", texts(good(tmp_path, recipe))))


_DATED = [row | {"at": "2026-01-31", "id": n} for n, row in enumerate(5 * CHAT)]
_SUMS = [{"instruction": f"Add {n} and 1.", "output": str(n + 1), "": str(n)} for n in range(40)]
READ = {  # how rows are read: each way has lines of its own in prepare_data.py
    "Parquet": ("lora-single", "rows.parquet", {}, 5 * CHAT),
    "Parquet by time": ("lora-single", "rows.parquet", {"split": {"time": "at"}, "ignore": ["id"]}, _DATED),
    "Parquet by group": ("sft-dpo", "rows.parquet", {"split": {"group": "id"}, "ignore": ["at"]}, _DATED),
    "Parquet beside the Hub": ("lora-single", ["rows.parquet", _HUB], {"ignore": ["id", "at"]}, _DATED),
    "CSV": ("lora-ddp", "rows.csv", {"ignore": [""]}, _SUMS),
    "any file": ("lora-single", "rows.*", {"system": "Be kind."}, 5 * CHAT),
    "any folder": ("lora-single", "**/rows.json", {}, 5 * CHAT),
}


@pytest.mark.parametrize("what", READ)
def test_every_way_to_read_rows_emits_clean_code(tmp_path: Path, what: str) -> None:
    base, train, data, rows = READ[what]
    write_data(tmp_path)
    first = train[0] if isinstance(train, list) else train
    _write_rows(tmp_path / first.removeprefix("**/").replace("*", "json"), rows)
    pairs = [row | {"id": n} for n, row in enumerate(5 * PAIRS)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    recipe = with_key(BASES[base], "data.train", train)
    for key, value in data.items():
        recipe = with_key(recipe, f"data.{key}", value)
    bundle = texts(good(tmp_path, recipe))
    _assert_clean(_written(tmp_path / "out", bundle))
    assert "pyarrow==" in bundle["requirements.txt"] and "from pyarrow import" in bundle["prepare_data.py"]


def _write_rows(file: Path, rows: list[dict[str, object]]) -> None:
    if file.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), file)
    elif file.suffix == ".csv":
        with file.open("w", newline="") as text:
            table = csv.DictWriter(text, rows[0])
            table.writeheader()
            table.writerows(rows)
    else:
        file.write_text(json.dumps(rows))


def test_a_recipe_with_a_long_name_emits_clean_code(tmp_path: Path) -> None:
    write_data(tmp_path)
    recipe = tmp_path / f"{'long-' * 16}name.toml"
    recipe.write_text(toml(BASES["sft-dpo"]), encoding="utf-8")
    _assert_clean(_written(tmp_path / "out", texts(compile_recipe(recipe))))


def test_the_readme_says_what_is_left_to_the_chat_template_of_results_of_tools(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row | {"tools": [_TOOL]}) + "\n" for row in 5 * CHAT))
    with_tools = texts(good(tmp_path, with_key(BASES["lora-single"], "data.train", "rows.jsonl")))
    words = "whether the model sees tool_call_id and name of a result is left to the chat template"
    assert words in with_tools["README.md"]
    assert words not in texts(shape("lora-single"))["README.md"]


@pytest.mark.parametrize("loop", [None, "accelerate"])
def test_a_model_in_a_folder_emits_clean_code(tmp_path: Path, loop: str | None) -> None:
    from transformers import AutoConfig

    AutoConfig.for_model("qwen2", architectures=["Qwen2ForCausalLM"]).save_pretrained(tmp_path / "own")
    (tmp_path / "own" / "chat_template.jinja").write_text(
        "{% for message in messages %}{{ message.content }}{% endfor %}"
    )
    recipe = with_key(BASES["lora-single"], "model.name", "./own")
    recipe = with_key(recipe, "train.loop", loop) if loop else recipe
    _assert_clean(_written(tmp_path / "out", texts(good(tmp_path, recipe))))


@pytest.mark.parametrize(("base", "loop"), [("dpo-full", None), ("kto", None), ("lora-single", "torch")])
def test_a_chat_template_is_read_in_its_encoding(tmp_path: Path, base: str, loop: str | None) -> None:
    """Marks such as DeepSeek's are not ASCII: a host of another encoding would train on others."""
    recipe = with_key(with_key(BASES[base], "data.template", "chatml"), "model.name", "Qwen/Qwen3-4B-Base")
    recipe = with_key(recipe, "train.loop", loop) if loop else recipe
    bundle = texts(good(tmp_path / "recipe", recipe))
    assert '(BUNDLE / "chat_template.jinja").read_text(' in bundle["train.py"]
    _assert_clean(_written(tmp_path / "out", bundle))


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_a_loop_on_deepspeed_is_clean_code(tmp_path: Path, strategy: str) -> None:
    write_data(tmp_path)
    recipe = with_key(with_key(BASES["lora-ddp"], "train.strategy", strategy), "train.loop", "deepspeed")
    bundle = texts(good(tmp_path, with_key(recipe, "track", {"to": "tensorboard"})))
    assert (
        "if not self.rank:  # each writer makes a file\n            self.tracker = SummaryWriter(" in bundle["train.py"]
    )
    _assert_clean(_written(tmp_path / "out", bundle))


@pytest.mark.parametrize("adaptation", ["lora", "full"])
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("loop", ["trainer", "torch", "accelerate", "deepspeed"])
def test_every_loop_is_clean_code_in_other_precisions(
    tmp_path: Path, loop: str, precision: str, adaptation: str
) -> None:
    gpus = {
        "gpu": "v100-32gb" if precision == "fp16" else "h100",
        "gpus_per_node": 1 + (loop in ("accelerate", "deepspeed")),
    }
    recipe = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-0.6B")
    train = {"loop": loop, "adaptation": adaptation, "precision": precision}
    bundle = texts(good(tmp_path / "recipe", recipe | {"hardware": gpus, "train": train}))
    _assert_clean(_written(tmp_path / "out", bundle))
    in_fp32 = precision == "fp16" and adaptation == "full" and loop != "deepspeed"  # DeepSpeed gathers in 16 bits
    assert ("Its weights are in fp32, as they were trained" in bundle["README.md"]) == in_fp32
    assert ("torch.float16" in bundle["evaluate.py"]) == (precision == "fp16")


@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp32"])
def test_a_reward_model_in_any_precision_is_clean_code(tmp_path: Path, precision: str) -> None:
    judge = {"model": "acme/judge", "like": "Qwen/Qwen3-0.6B"}
    for name, reward in ("grpo", judge), ("rloo", [judge, "judge.py:is_right"]), ("reward", None):
        recipe = with_key(BASES[name], "train.precision", precision)
        recipe = with_key(recipe, "alignment.reward", reward) if reward else recipe
        bundle = texts(good(tmp_path / name / "recipe", recipe))
        head = [path for path in ("judge.py", "evaluate.py") if "score.float()" in bundle.get(path, "")]
        assert head == ["judge.py" if reward else "evaluate.py"] * (precision != "fp32")
        _assert_clean(_written(tmp_path / name / "out", bundle))


def _assert_clean(folder: Path) -> None:
    _run("ruff", "check", "--no-cache", "--config", "ruff.toml", "--select", RULES, "--ignore", "E402", ".", cwd=folder)
    _run("ruff", "format", "--no-cache", "--config", "ruff.toml", "--check", ".", cwd=folder)
    for script in folder.rglob("*.sh"):
        _run("shellcheck", str(script), cwd=folder)
    unnamed = [
        f"{script.name}: {line}" for script in folder.rglob("*.py") for line in _in_the_encoding_of_a_host(script)
    ]
    assert not unnamed, unnamed


def _in_the_encoding_of_a_host(script: Path) -> list[str]:
    """Calls that read or write text, and do not say in which encoding."""
    calls = [node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = {id(call) for call in calls if any(keyword.arg == "encoding" for keyword in call.keywords)}
    return [ast.unparse(call) for call in calls if id(call) not in named and _is_of_text(call)]


def _is_of_text(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    binary = any("b" in mode for mode in modes if isinstance(mode, str) and len(mode) <= 3)
    opens = name in {"open", "fdopen"} and ast.unparse(call.func) != "os.open"
    return name in {"read_text", "write_text"} or (opens and not binary)


def test_a_column_that_the_data_lack_is_not_read(tmp_path: Path) -> None:
    rows = [{"instruction": f"Add {n} and 1.", "output": str(n + 1)} for n in range(40)]
    (tmp_path / "bare.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tables = with_key(BASES["lora-ddp"], "data.train", "bare.jsonl")

    assert "None]" not in texts(good(tmp_path, tables))["prepare_data.py"]


@pytest.mark.parametrize("recipe", WHOLE, ids=lambda path: path.stem)
def test_python_compiles_and_is_of_the_promised_length(recipe: Path) -> None:
    for path, text in _bundle(recipe).items():
        if path.endswith(".py"):
            compile(text, path, "exec")
        if path.endswith("train.py"):
            assert 90 <= len(text.splitlines()) <= (420 if "class Training" in text else 160), path


@pytest.mark.parametrize("recipe", WHOLE, ids=lambda path: path.stem)
def test_no_emitted_python_names_a_device_or_recipec(recipe: Path) -> None:
    for path, text in _bundle(recipe).items():
        if path.endswith(".py"):
            assert "import recipec" not in text
            assert "cuda" not in text.lower(), path
            assert "nccl" not in text.lower(), path


def test_the_result_names_the_base_of_its_adapter() -> None:
    bundle = texts(shape("sft-dpo"))
    assert json.loads(bundle["registry/entry.json"])["artifacts"]["adapter_base"] == "outputs/sft/merged"
    assert "for the model outputs/sft/merged: keep both" in bundle["README.md"]
    assert 'name = "./THIS_FOLDER/outputs/dpo/merged"' in bundle["README.md"]
    assert "init_from" not in bundle["README.md"], "the model below that adapter is another run's folder"
    assert "python stages/2-dpo/merge_adapter.py" in bundle["README.md"]
    assert "one model that loads without PEFT" in bundle["stages/2-dpo/merge_adapter.py"]


def test_the_registry_entry_tells_all_stages(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["sft-dpo"], "train.global_batch_size", 1), "train.sft.global_batch_size", 64)
    entry = json.loads(texts(good(tmp_path, recipe))["registry/entry.json"])
    assert entry["training_metadata"]["gpu_count"] == {"sft": 2, "dpo": 1}
    assert entry["dataset"]["size"] == {"sft": 5_000, "dpo": 5_000}
    assert entry["dataset"]["hash"] == {"sft": None, "dpo": None}
    assert "perplexity" in entry["metrics"]["sft"] and "reward_accuracy" in entry["metrics"]["dpo"]
    assert "reward_accuracy" not in entry["metrics"]["sft"]


REGISTERED = {  # what the rules and the planner decide of qlora, and what the recipe sets of it
    "schedule": "linear", "optimizer": "adamw", "precision": "bf16", "quantization": "nf4", "lora_rank": 8,
    "lora_dropout": 0.1, "lora_targets": ["q_proj", "v_proj"], "max_grad_norm": 1, "packing": False, "max_steps": 90,
}  # fmt: skip


def test_the_registry_entry_has_what_makes_a_run_another_run(tmp_path: Path) -> None:
    lora = {"rank": 8, "dropout": 0.1, "targets": ["q_proj", "v_proj"]}
    recipe = BASES["qlora"] | {"train": {"schedule": "linear", "max_steps": 90, "lora": lora}}
    bundle = texts(good(tmp_path, recipe))
    entry, schema = (json.loads(bundle[f"registry/entry{kind}.json"]) for kind in ("", ".schema"))
    assert entry["hyperparameters"]["sft"].items() >= REGISTERED.items()
    Draft7Validator(schema).validate(entry)
    entry["hyperparameters"]["sft"]["lora_targets"] = {}
    assert not Draft7Validator(schema).is_valid(entry)


def test_the_registry_entry_of_full_fine_tuning_has_no_adapter() -> None:
    entry = json.loads(texts(shape("full-fsdp"))["registry/entry.json"])
    kept = entry["hyperparameters"]["sft"]
    assert not [name for name in kept if name.startswith("lora")] and "max_steps" not in kept and "schedule" in kept


def test_a_whole_model_needs_no_merging() -> None:
    bundle = texts(shape("full-fsdp"))
    assert not [path for path in bundle if "merge" in path]
    assert "adapter" not in json.loads(bundle["registry/entry.json"])["artifacts"]


def test_rows_that_are_held_out_are_not_said_to_be_trained(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["lora-single"], "data.eval_fraction", 0.1), "data.test_fraction", 0.05)
    bundle = texts(good(tmp_path, recipe))
    assert "4,250 of 5,000 rows" in bundle["README.md"] and "4,250 of 5,000 rows" in bundle["train.py"]


@pytest.mark.parametrize("name", ["lora-single", "cpu"])
def test_what_the_readme_watches_is_measured_by_the_bundle(name: str) -> None:
    """The trainers log the other metrics themselves."""
    own = ("perplexity", "train_eval_gap", "tokens_per_second", "peak_memory_gib", "dropped_rows", "trained_tokens")
    assert set(own) <= METRICS
    preflight = texts(shape(name))["preflight.py"]
    assert not [name for name in own if name not in preflight]


@pytest.mark.parametrize("name", BASES)
def test_scripts_that_need_prepared_rows_say_so(name: str) -> None:
    bundle = texts(shape(name))
    asked = [path for path, text in bundle.items() if "is missing. Run prepare_data.py first." in text]
    scripts = [path for path in bundle if Path(path).name in ("preflight.py", "evaluate.py")]
    assert scripts and {*scripts} <= {*asked}


@pytest.mark.parametrize(("overflow", "lost"), [("split", False), ("drop", True), ("truncate", False)])
def test_only_rows_that_are_dropped_can_be_too_many(tmp_path: Path, overflow: str, lost: bool) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["text"], "data.overflow", overflow)))
    assert ("MAX_DROPPED" in bundle["prepare_data.py"]) is lost
    assert ("report.json" in bundle["train.py"]) is lost
    assert ('["dropped_share"] = 0.0' in bundle["prepare_data.py"]) is not lost


@pytest.mark.parametrize("name", ["lora-single", "dpo-full", "kto"])
def test_rows_that_the_trainer_leaves_out_are_counted(tmp_path: Path, name: str) -> None:
    bundle = texts(good(tmp_path, with_key(BASES[name], "data.overflow", "truncate")))
    assert "(rows_given - len(rows)) / rows_given" in bundle["preflight.py"] and "report.json" in bundle["train.py"]


@pytest.mark.parametrize("loop", ["trainer", "torch", "accelerate"])
@pytest.mark.parametrize(("overflow", "twice"), [("drop", False), ("truncate", True)])
def test_a_loss_that_was_accepted_in_preparation_stops_no_training(
    tmp_path: Path, loop: str, overflow: str, twice: bool
) -> None:
    """Training refuses what its own cut loses: preparation has no other limit for what it drops itself."""
    recipe = with_key(with_key(BASES["lora-single"], "data.overflow", overflow), "train.packing", False)
    bundle = texts(good(tmp_path, with_key(recipe, "train.loop", loop)))
    assert "MAX_DROPPED" in bundle["prepare_data.py"] and 'counted["dropped_rows"] = lost' in bundle["preflight.py"]
    assert ("MAX_DROPPED in preflight.py" in bundle["preflight.py"]) is twice
    assert bundle["preflight.py"].count("MAX_DROPPED") == 3 * twice


def test_of_packed_rows_it_is_not_known_which_were_left_out(tmp_path: Path) -> None:
    packed = with_key(with_key(BASES["lora-single"], "data.overflow", "truncate"), "train.packing", True)
    assert "MAX_DROPPED" not in texts(good(tmp_path, packed))["preflight.py"]


def test_the_disk_of_the_checkpoints_grows_with_what_is_kept(tmp_path: Path) -> None:
    def asked(keep: int) -> float:
        long = with_key(BASES["full-fsdp"], "train.epochs", 8)  # saves more often than it keeps
        recipe = with_key(long, "train.keep_checkpoints", keep)
        text = texts(good(tmp_path, recipe))["preflight.py"]
        return float(next(line for line in text.splitlines() if line.startswith("DISK_GIB")).split()[2])

    checkpoint = (8.03e9 * (4 + 8)) / 2**30  # fp32 weights and two moments of an 8B model
    assert asked(4) - asked(3) == pytest.approx(checkpoint, rel=0.02)
    assert asked(3) > 4 * checkpoint


ON_EIGHT = ["GPUs: 8 x h100;", "Host memory:", "Evaluation:", "Disk:", "Python 3.11", "a hub token"]


@pytest.mark.parametrize(
    ("name", "needs", "fewer"),
    [
        (
            "lora-single",
            ["GPUs: 1 x a100-80gb;", "Host memory:", "Evaluation:", "Disk:", "To merge the adapter:", "Python 3.11"],
            "",
        ),
        (
            "sft-dpo",
            ["GPUs: 2 x a100-80gb;", "Host memory:", "Evaluation:", "Disk:", "To merge the adapter:", "Python 3.11"],
            "",
        ),
        (
            "full-fsdp",
            ["GPUs: 8 x h100;", "Host memory:", "Evaluation:", "Disk:", "Python 3.11", "a hub token"],
            "NPROC_PER_NODE=4",
        ),
        ("cpu", ["Memory:", "Disk:", "To merge the adapter:", "Python 3.11"], ""),
    ],
)
def test_the_readme_says_what_is_needed(name: str, needs: list[str], fewer: str) -> None:
    readme = texts(shape(name))["README.md"]
    listed = readme.split("## You need\n\n")[1].split("\n\n")[0].splitlines()
    assert [line.startswith(f"- {need}") for line, need in zip(listed, needs, strict=True)] == [True] * len(needs)
    assert ("NPROC_PER_NODE=" in readme) == bool(fewer)
    assert fewer in readme


@pytest.mark.parametrize(
    ("name", "folder", "adapter"),
    [
        ("full-fsdp", "outputs/sft", False),
        ("lora-single", "outputs/sft/merged", True),
        ("qlora", "outputs/sft/merged", True),
        ("reward", "", False),
    ],
)
def test_the_readme_says_how_another_recipe_goes_on(name: str, folder: str, adapter: bool) -> None:
    readme = texts(shape(name))["README.md"]
    result = readme.split("## The result\n")[1].split("\n## Stage")[0]
    assert (f'name = "./THIS_FOLDER/{folder}"\n' in result) is bool(folder)
    assert ('`init_from = "./THIS_FOLDER/outputs/sft"`' in result) is adapter
    refused = "Only continued pretraining or supervised fine-tuning goes on from an adapter"
    assert (refused in result) is adapter is ("`single` or `ddp`" in result)  # BAD-080, BAD-081
    assert ('`train.adaptation = "qlora"`' in result) is (name == "qlora")
    assert ("plan and build that recipe when this run has ended" in result) is bool(folder)


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("pretrain", "no document to train on is the same as one that is held out."),
        ("dpo-full", "no row to train on has the question of one that is held out."),
    ],
)
def test_raw_text_has_no_question(name: str, apart: str) -> None:
    readme = texts(shape(name))["README.md"]
    (line,) = [line for line in readme.splitlines() if line.startswith("- Held out: ")]
    assert line.endswith(apart)


@pytest.mark.parametrize(
    ("packing", "batch", "met"),
    [(True, 8, True), (True, 7, False), (False, 8, False), (False, 32, True), (False, 31, False)],
)
def test_a_packed_batch_is_judged_by_its_rows(tmp_path: Path, packing: bool, batch: int, met: bool) -> None:
    """Of 256 tokens each, 4 rows share a sequence."""
    recipe = with_key(with_key(BASES["lora-single"], "train.packing", packing), "train.global_batch_size", batch)
    recipe["data"] = {**recipe["data"], "tokens_per_example": 256, "max_length": 1024}
    recipe["hardware"] = {"gpu": "h100"}
    readme = texts(good(tmp_path, recipe))["README.md"]
    held = f"about {4 * batch} rows in {batch} packed sequences" if packing else f"{batch} sequences"
    said = f"the global batch has {held}{'' if met else ', which is fewer'}"
    assert f"- [{'x' if met else ' '}] Global batch of 32 or more: {said}\n" in readme


def test_what_only_the_run_can_tell_is_a_list_of_its_own() -> None:
    readme = texts(shape("lora-single"))["README.md"]
    before, after = readme.split("Before the run:")[1].split("After the run:")
    assert "known only" not in before
    assert [line.startswith("- [ ] ") for line in after.strip().splitlines()] == [True] * 3


@pytest.mark.parametrize(
    ("name", "says"),
    [("qlora", "in 4 bits. It is merged"), ("lora-int8", "very weights"), ("lora-single", "The sum of base")],
)
def test_merging_speaks_of_what_was_trained(name: str, says: str) -> None:
    bundle = texts(shape(name))
    assert says in bundle["merge_adapter.py"]
    assert ("dequantize" in bundle["merge_adapter.py"]) is (name != "lora-single")
    assert re.search(r"write \d+\.\d GiB into\s`outputs/\w+/merged`", bundle["README.md"])


def test_the_readme_says_what_is_ignored_and_what_each_part_is_for(tmp_path: Path) -> None:
    rows = [row | {"id": 1, "source": "a", "note": "b"} for row in CHAT]
    for name in ("rows", "held"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = with_key(with_key(BASES["lora-single"], "data.train", "rows.jsonl"), "data.ignore", ["id", "source"])
    del recipe["data"]["examples"], recipe["data"]["tokens_per_example"]
    recipe = with_key(with_key(recipe, "data.eval", "held.jsonl"), "train.max_steps", 90)
    readme = texts(compiled(tmp_path, recipe))["README.md"]

    data, held = (
        next(line for line in readme.splitlines() if line.startswith(f"- {part}: ")) for part in ("Data", "Held out")
    )
    assert "; not read, as data.ignore says: id, source; read by nothing: note." in data
    assert re.search(r"; 8 rows \(counted in the files, rounded\) of about \d+ tokens \(measured on 8 rows", data)
    assert "held.jsonl for evaluation during training, which chooses the checkpoint, and 10% of the rows for " in held
    assert "evaluate.py, which measures the model on rows that chose nothing" in held


def test_steps_that_are_set_stand_in_place_of_the_epochs(tmp_path: Path) -> None:
    by_epochs = texts(good(tmp_path / "a", BASES["lora-single"]))
    by_steps = texts(good(tmp_path / "b", with_key(BASES["lora-single"], "train.max_steps", 90)))
    assert "| epochs |" in by_epochs["README.md"] and "| max_steps |" not in by_epochs["README.md"]
    assert "| max_steps | 90 |" in by_steps["README.md"].replace("\\", "") and "| epochs |" not in by_steps["README.md"]
    told = [json.loads(each["registry/entry.json"])["hyperparameters"]["sft"] for each in (by_epochs, by_steps)]
    assert "epochs" in told[0] and "epochs" not in told[1] and told[1]["max_steps"] == 90


def test_one_predicted_peak_stands_in_train_py() -> None:
    text = texts(shape("lora-single"))["train.py"]
    assert len(re.findall("(?i)predicted[_ ]peak", text.replace("{PREDICTED_PEAK_GIB}", ""))) == 1


def behind(found: Compilation, file: str, part: str) -> set[str]:
    """The decisions behind the line of a file that holds `part`."""
    number = next(n for n, line in enumerate(texts(found)[file].splitlines(), 1) if part in line)
    return set(found.source_map[file][number])


def test_what_an_engine_adds_is_traced_to_it(tmp_path: Path) -> None:
    sharded = good(tmp_path, with_key(BASES["full-fsdp"], "train.activation_checkpointing", True))
    assert "sft.strategy" in behind(sharded, "train.py", "inside FSDP2's hooks")
    zero = shape("zero3-offload")
    for size in ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"):
        assert "sft.model" in behind(zero, "configs/deepspeed.json", size)


LOADERS = ("AutoTokenizer.from_pretrained", "AutoModelForCausalLM.from_pretrained", "LoraConfig")


@pytest.mark.parametrize("name", ["lora-single", "dpo-full", "sft-dpo"])
def test_a_pinned_commit_reaches_every_loading_call(tmp_path: Path, name: str) -> None:
    bundle = texts(good(tmp_path, with_key(BASES[name], "model.revision", "0123abc")))
    first = "train.py" if "train.py" in bundle else "stages/1-sft/train.py"
    assert '"revision": "0123abc"' in bundle[first]
    for path in (first, first.replace("train.py", "evaluate.py"), "prepare_data.py"):
        calls = [n for n in ast.walk(ast.parse(bundle[path])) if isinstance(n, ast.Call)]
        loading = [ast.unparse(call) for call in calls if ast.unparse(call.func) in LOADERS]
        assert loading
        assert [call for call in loading if "revision='0123abc'" not in call] == []
    assert json.loads(bundle["registry/entry.json"])["base_model_revision"] == "0123abc"
    assert "is not pinned" not in bundle["README.md"]


def test_a_later_stage_takes_no_commit_of_the_hub(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["sft-dpo"], "model.revision", "0123abc")))
    assert not [path for path, text in bundle.items() if "stages/2-dpo" in path and "0123abc" in text]


def test_a_commit_that_is_not_pinned_is_said() -> None:
    bundle = texts(shape("lora-single"))
    assert "The commit of Qwen/Qwen3-8B is not pinned" in bundle["README.md"]
    assert json.loads(bundle["registry/entry.json"])["base_model_revision"] is None


def test_the_models_own_code_is_trusted_in_every_loading_call(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "model.trust_remote_code", True)))
    calls = {path: bundle[path].count("trust_remote_code=True") for path in ("evaluate.py", "merge_adapter.py")}
    assert calls == {"evaluate.py": 2, "merge_adapter.py": 3}


_SMALL = {"strategy": "fsdp", "global_batch_size": 64, "micro_batch_size": 1}
_TRACED = BASES | {"full-fsdp, accumulated": with_key(BASES["full-fsdp"], "train", _SMALL)}


@pytest.mark.parametrize("name", _TRACED)
def test_every_line_comes_from_decisions_that_exist(tmp_path: Path, name: str) -> None:
    found = good(tmp_path, _TRACED[name])
    assert found.plan
    decided = {f"{part.stage.label}.{id}" for part in found.plan.stages for id in part.decisions}
    named = {id for file in found.files for ids in file.lines.values() for id in ids}
    assert named and named <= decided


@pytest.mark.parametrize(
    ("adaptation", "strategy", "sides"),
    [
        ("full", "single", ()),
        ("lora", "single", ("get_base_model",)),
        ("full", "ddp", ()),
        ("full", "fsdp", ("DTensor",)),
        ("lora", "fsdp", ("get_base_model", "DTensor")),
        ("full", "zero2", ()),
        ("full", "zero3", ("prepare_deepspeed",)),
    ],
)
def test_the_trainer_of_distillation_knows_the_sides_of_its_plan_alone(
    tmp_path: Path, adaptation: str, strategy: str, sides: tuple[str, ...]
) -> None:
    recipe = with_key(BASES["distill"], "hardware.gpus_per_node", 1 if strategy == "single" else 2)
    recipe = with_key(with_key(recipe, "train.strategy", strategy), "train.adaptation", adaptation)
    trainer = texts(good(tmp_path, recipe))["distillation.py"]
    found = [name for name in ("get_base_model", "DTensor", "prepare_deepspeed") if name in trainer]
    assert found == list(sides)
    assert "is_peft_model" not in trainer and "zero_stage" not in trainer


@pytest.mark.parametrize(("strategy", "shards"), [("single", False), ("ddp", False), ("zero2", False), ("zero3", True)])
def test_a_teacher_of_written_answers_is_sharded_by_zero3_alone(tmp_path: Path, strategy: str, shards: bool) -> None:
    recipe = with_key(BASES["on-policy-distill"], "hardware.gpus_per_node", 1 if strategy == "single" else 2)
    trainer = texts(good(tmp_path, with_key(recipe, "train.strategy", strategy)))["on_policy.py"]
    assert ("prepare_deepspeed" in trainer) is shards
    assert ("device_map" in trainer) is not shards


@pytest.mark.parametrize(
    ("strategy", "precision", "casts"),
    [("ddp", "bf16", True), ("ddp", "fp32", False), ("fsdp", "bf16", False), ("zero2", "bf16", False)],
)
def test_a_loss_of_written_answers_is_cast_where_accelerate_casts(
    tmp_path: Path, strategy: str, precision: str, casts: bool
) -> None:
    """FSDP2 and DeepSpeed hold the weights in the type that is computed in."""
    recipe = with_key(with_key(BASES["on-policy-distill"], "hardware.gpus_per_node", 2), "train.strategy", strategy)
    trainer = texts(good(tmp_path, with_key(recipe, "train.precision", precision)))["on_policy.py"]
    assert ("self.accelerator.autocast()" in trainer) is casts


@pytest.mark.parametrize(("strategy", "learns"), [("ddp", True), ("fsdp", True), ("zero2", False)])
def test_the_longest_batch_is_tried_with_its_backward_pass(tmp_path: Path, strategy: str, learns: bool) -> None:
    """DeepSpeed's engine would count it as a step of the training."""
    recipe = with_key(with_key(BASES["dpo-full"], "hardware.gpus_per_node", 2), "train.strategy", strategy)
    preflight = texts(good(tmp_path, recipe))["preflight.py"]
    tried = preflight.partition("def try_longest")[2].partition("\ndef ")[0]
    assert "trainer.compute_loss(trainer.model_wrapped, batch)" in tried
    assert ("trainer.accelerator.backward(loss)" in tried) is learns
    assert ("What backward needs is not tried" in tried) is not learns


@pytest.mark.parametrize(("name", "gathers"), [("full-fsdp", True), ("lora-ddp", False), ("zero3-offload", False)])
def test_the_trial_save_is_one_whole_model(name: str, gathers: bool) -> None:
    """FSDP saves shards unless it is told otherwise, and shards again for checkpoints."""
    saves = texts(shape(name))["preflight.py"].partition("def try_save")[2]
    assert ('set_state_dict_type("FULL_STATE_DICT")' in saves) is gathers
    assert ('set_state_dict_type("SHARDED_STATE_DICT")' in saves) is gathers


@pytest.mark.parametrize(
    ("train", "told"), [("chat.jsonl", True), ({"hub": "org/chats"}, False), ([{"hub": "org/a"}, "chat.jsonl"], True)]
)
def test_readme_and_prepare_data_say_where_the_paths_start(tmp_path: Path, train: object, told: bool) -> None:
    recipe = with_key(BASES["lora-single"], "data.train", train)
    recipe = with_key(recipe, "data.format", "chat") if train != "chat.jsonl" else recipe
    bundle = texts(good(tmp_path, recipe))
    assert ("\nexport DATA_ROOT=FOLDER   # FOLDER: that of recipe.toml" in bundle["README.md"]) == told
    assert "\nbash launch/local.sh " in bundle["README.md"]
    assert ("--data-root" in bundle["prepare_data.py"]) == ("root" in bundle["prepare_data.py"]) == told


@pytest.mark.parametrize(("weight", "judged"), [(None, True), (2.0, False)])
def test_weights_that_the_recipe_sets_are_not_judged(tmp_path, weight, judged):
    base = BASES[OF_METHOD["kto"]]
    recipe = with_key(base, "alignment.desirable_weight", weight) if weight else base
    assert ("def check_balance" in texts(good(tmp_path, recipe))["prepare_data.py"]) is judged


@pytest.mark.parametrize("name", BASES)
def test_rows_that_are_grouped_by_length_come_in_the_order_of_the_bundle(name: str) -> None:
    """transformers' own order is another one after a resume."""
    bundle = texts(shape(name))
    for path in (path for path in bundle if path.endswith("train.py")):
        grouped = 'train_sampling_strategy="group_by_length"' in bundle[path]
        assert ("trainer._get_train_sampler = partial(SimilarLengths, trainer)" in bundle[path]) is grouped
        assert (path.replace("train.py", "similar_lengths.py") in bundle) is grouped
        assert not grouped or '"similar_lengths"' in bundle["ruff.toml"]
