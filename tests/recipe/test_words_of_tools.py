"""What people write by habit from axolotl, LLaMA-Factory, TRL and torchtune leads to the key or value in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.diagnostics.model import Diagnostic, Report
from recipec.recipe import load_recipe
from recipec.recipe.foreign import KEYS

FOLDERS = (
    "remove it: checkpoints, logs and results are in `outputs/` of the bundle; build the bundle in the folder where "
    "they are to be, with `recipec build -o FOLDER`"
)
RECIPE = """
[recipe]
name = "case"
[goal]
task = "instruct"
[model]
name = "Qwen/Qwen3-8B"
[data]
train = "rows.jsonl"
[hardware]
gpu = "h100"
"""


def findings(folder: Path, text: str) -> list[Diagnostic]:
    (folder / "recipe.toml").write_text(text)
    report = Report()
    load_recipe(folder / "recipe.toml", report)
    return list(report.diagnostics)


@pytest.mark.parametrize(
    ("line", "instead", "help"),
    [
        ('name = "Qwen/Qwen3-8B"', 'base_model = "Qwen/Qwen3-8B"', "set `model.name`"),
        (
            'train = "rows.jsonl"',
            'datasets = ["rows.jsonl"]',
            "set `data.train`, the files of the rows or a data set of the Hub",
        ),
        ('gpu = "h100"', 'gpu_type = "h100"', 'set `hardware.gpu` to the name of a GPU, or to "cpu"'),
        ('train = "rows.jsonl"', 'trian = "rows.jsonl"', "did you mean `train`?"),
    ],
)
def test_a_key_that_another_stands_for_is_not_missing_as_well(tmp_path, line: str, instead: str, help: str) -> None:
    (found,) = findings(tmp_path, RECIPE.replace(line, instead))
    assert (found.code, found.help) == ("E0203", (help,))


@pytest.mark.parametrize(
    "lines",
    [
        '[train]\nstrategy = "fsdp"\n[hardware]\nnproc_per_node = 8',
        '[train]\nstrategy = "fsdp"\n[hardware]\nnnodes = 2',
        '[track]\nproject = "p"\nreport_to = "wandb"',
        '[data]\neval = "e.jsonl"\ntest = "t.jsonl"\nsplit = { group = "user" }\nval_set_size = 0.1',
        '[goal]\ntask = "distill"\n[alignment]\nteacher_model = "Qwen/Qwen3-14B"',
        '[goal]\ntask = "align"\n[alignment]\nmethod = "grpo"\nreward_model = "./judge"\n[data]\nprompts = "p.jsonl"',
    ],
)
def test_nothing_follows_from_the_absence_of_a_key_that_another_stands_for(tmp_path: Path, lines: str) -> None:
    """A number of GPUs, a tracker, a share, models: refused once, under the name that was typed."""
    text = RECIPE
    for part in lines.split("\n["):
        head, _, rest = part.lstrip("[").partition("]\n")
        text = (
            text.replace(f"[{head}]\n", f"[{head}]\n{rest}\n") if f"[{head}]" in text else f"{text}[{head}]\n{rest}\n"
        )
    if "task =" in lines:
        text = text.replace('task = "instruct"\n', "")
    assert [found.code for found in findings(tmp_path, text)] == ["E0203"]


def test_what_nothing_stands_for_is_still_missing(tmp_path: Path) -> None:
    found = findings(tmp_path, RECIPE.replace('name = "Qwen/Qwen3-8B"', "revision_of = 1"))
    assert [each.code for each in found] == ["E0201", "E0203"]


@pytest.mark.parametrize(
    ("written", "help"),
    [
        ('task = "kto"', 'set `goal.task = "align"` and `alignment.method = "kto"`'),
        ('task = "grpo"', 'set `goal.task = "align"` and `alignment.method = "grpo"`'),
        ('task = "rlhf"', 'set `goal.task = "align"`'),
        ('task = "sft"', 'set `goal.task = "instruct"`'),
    ],
)
def test_a_method_in_the_place_of_the_task_is_named(tmp_path: Path, written: str, help: str) -> None:
    (found,) = findings(tmp_path, RECIPE.replace('task = "instruct"', written))
    assert (found.code, found.help) == ("E0204", (help,))


@pytest.mark.parametrize(("name", "format"), [("alpaca", "instruction"), ("sharegpt", "chat")])
def test_a_source_knows_the_formats_of_other_tools(tmp_path: Path, name: str, format: str) -> None:
    source = f'train = [{{ path = "rows.jsonl", format = "{name}" }}]'
    (found,) = findings(tmp_path, RECIPE.replace('train = "rows.jsonl"', source))
    assert (found.code, found.help) == ("E0204", (f'set `format = "{format}"`',))


@pytest.mark.parametrize(
    ("section", "line", "help"),
    [
        ("data", "message_property_mappings = { role = 'from' }", "set `data.columns`"),
        ("data", 'type = "alpaca"', 'set `data.format = "instruction"`'),
        ("data", "eval_split = 0.1", "set `data.eval_fraction = 0.1`"),
        ("data", 'eval_split = "e.jsonl"', "set `data.eval`"),
        ("data", "shuffle_merged_datasets = true", "remove it: rows are shuffled, with `recipe.seed`"),
        ("data", 'pretrain = "a.txt"', KEYS["data.pretrain"]),
        ("model", 'tokenizer_type = "AutoTokenizer"', "remove it: `model.name` brings its own"),
        (
            "model",
            'special_tokens = { pad_token = "<pad>" }',
            '`pad_token`: write `arguments = { pad_token = "<pad>" }` under [train]: it is a keyword of the trainer '
            "(DPOConfig, RewardConfig, SFTConfig)",
        ),
        ("hardware", "gpu_memory_gib = 80", "set `hardware.vram_gib`"),
        ("train", "fp16 = true", 'set `train.precision = "fp16"`'),
        ("train", "fp16 = false", 'set `train.precision`, for example "bf16"'),
        ("train", 'optim = "adamw_torch_fused"', 'set `train.optimizer = "adamw"`'),
        ("train", 'attention = "flash_attn_2"', 'set `train.attention = "sdpa"`'),
        ("train", "flash_attention = true", KEYS["use_flash_attention_2"]),
        (
            "train",
            "nothing_alike = true",
            "remove it: nothing like it is a key; `recipec explain train` lists them",
        ),
        (
            "train",
            "temperature = 0.9",
            "set `alignment.generation.temperature` (grpo, rloo, ppo, on-policy-distill), "
            "or set `alignment.temperature` (distill)",
        ),
        (
            "train",
            'reward_funcs = "r.py:f"',
            'set `alignment.reward`, for example to "rewards.py:correct" or { model = "FOLDER" }',
        ),
        ("train", "lora = true", 'set `train.adaptation = "lora"`'),
        ("train", "lora = false", "remove it"),
        ("data", 'template = "llama3"', 'set `data.template = "auto"`'),
        ("data", 'chat_template = "llama3"', 'set `data.template = "auto"`'),
        ("data", "eval = 0.1", "set `data.eval_fraction = 0.1`"),
        ("data", "test = 0.1", "set `data.test_fraction = 0.1`"),
        ("data", "val_set_size = 0.05", "set `data.eval_fraction = 0.05`"),
        ("data", "test_size = 0.1", "set `data.test_fraction = 0.1`"),
        (
            "data",
            "val_set_size = 200",
            "set `data.eval_fraction` to a share of the rows: 200 rows of all are 200 divided by their number",
        ),
        (
            "data",
            "val_set_size = 0.0",
            "every run is judged by rows that it does not learn: leave the key out, or set a small share such as 0.01",
        ),
        ("data", 'max_length = "auto"', "remove it: recipec decides what a recipe does not set"),
        ("train", 'micro_batch_size = "auto"', "remove it: recipec decides what a recipe does not set"),
        ("train", 'batch_size = "auto"', "remove it: recipec decides what a recipe does not set"),
        ("train", 'train_batch_size = "auto"', "remove it: recipec decides what a recipe does not set"),
        ("data", 'overflow = "auto"', "remove it: recipec decides what a recipe does not set"),
        ("train", 'strategy = "deepspeed-zero3"', 'set `train.strategy = "zero3"`'),
        ("train", 'strategy = "deepspeed_zero_stage_3"', 'set `train.strategy = "zero3"`'),
        ("train", 'strategy = "ZeRO Stage 2"', 'set `train.strategy = "zero2"`'),
        ("train", 'adapter = "qlora"', 'set `train.adaptation = "qlora"`'),
        ("model", 'attn_implementation = "flash_attention_2"', 'set `train.attention = "sdpa"`'),
        ("model", 'torch_dtype = "bfloat16"', 'set `train.precision = "bf16"`'),
        (
            "train",
            'deepspeed = "examples/deepspeed/ds_z3_config.json"',
            'set `train.strategy = "zero3"`; recipec writes the configuration',
        ),
        ("train", 'lora_target = "all"', 'set `train.lora.targets = "all-linear"`'),
        ("train", "lora_target_linear = true", 'set `train.lora.targets = "all-linear"`'),
        *(
            ("goal", f'stage = "{stage}"', help)
            for stage, help in {
                "sft": 'set `goal.task = "instruct"`',
                "rm": 'set `goal.task = "reward"`',
                "ppo": 'set `goal.task = "align"` and `alignment.method = "ppo"`',
                "dpo": 'set `goal.task = "align"` and `alignment.method = "dpo"`',
                "kto": 'set `goal.task = "align"` and `alignment.method = "kto"`',
                "pt": 'set `goal.task = "pretrain"`: pretraining from random weights on raw text, or '
                'set `goal.task = "continue-pretrain"`: continued pretraining on raw text',
            }.items()
        ),
        (
            "train",
            'output_dir = "/shared/checkpoints"',
            FOLDERS,
        ),
        ("data", 'template = "My tools/gemma.jinja"', 'write `template = "./My tools/gemma.jinja"`'),
        ("goal", "epochs = 3", "`epochs` is a key of [train] and [adapters] and [fusion]"),
        ("alignment", 'vllm_mode = "server"', 'set `alignment.generation.engine = "vllm-server"`'),
        ("alignment", 'vllm_mode = "colocate"', 'set `alignment.generation.engine = "vllm"`'),
        (
            "alignment",
            "use_vllm = true",
            'set `alignment.generation.engine = "vllm"` where vLLM runs on the GPUs that train (`vllm_mode = '
            '"colocate"`), and `"vllm-server"` where it has its own (`vllm_mode = "server"`)',
        ),
        ("train", 'lora = { targets = "all" }', 'set `train.lora.targets = "all-linear"`'),
        ("train", 'use_gradient_checkpointing = "unsloth"', "set `train.activation_checkpointing = true`"),
        ("train", 'activation_checkpointing = "unsloth"', "set `train.activation_checkpointing = true`"),
        ("train", "group_by_length = true", KEYS["group_by_length"]),
        (
            "data",
            'dataset_name = "trl-lib/ultrafeedback_binarized"',
            'set `data.train = { hub = "trl-lib/ultrafeedback_binarized", split = "train", format = "…" }`, '
            "with the format of its rows: `recipec list formats`",
        ),
        (
            "data",
            'dataset_name = "data/rows.jsonl"',
            "set `data.train`, the files of the rows or a data set of the Hub",
        ),
        ("train", 'precision = "bf16-mixed"', 'set `train.precision = "bf16"`'),
        (
            "train",
            'eval_every = "steps"',
            "write a share of the steps, such as 0.1, or remove it: recipec then decides",
        ),
        (
            "data",
            'columns = ["question"]',
            'write a table of roles and columns, `columns = { prompt = "question" }`, or remove it',
        ),
        ("data", 'type = "json"', "remove it: recipec reads a file by its ending"),
        ("track", 'entity = "me"', 'write `env = { WANDB_ENTITY = "NAME" }` under [launch]'),
        ("train", "alpha = 16", "`alpha` is a key of [train.lora]"),
        ("train", 'format = "chat"', "`format` is a key of [data]"),
        ("train", 'model = "Qwen/Qwen3-8B"', 'write `name = "Qwen/Qwen3-8B"` under [model]'),
        ("train", 'strategy = "FULL_SHARD"', 'set `train.strategy = "fsdp"`'),
        ("data", 'loss_on = "assistant"', 'set `data.loss_on = "answers"`'),
        ("train", 'strategy = "ds_z3"', 'set `train.strategy = "zero3"`'),
        ("train", 'quantization = "4bit"', 'set `train.quantization = "nf4"`'),
        ("train", 'quantization = "8bit"', 'set `train.quantization = "int8"`'),
        ("train", 'adaptation = "8bit"', 'set `train.adaptation = "lora-int8"`'),
        ("train", "load_in_8bit = true", 'set `train.adaptation = "lora-int8"`'),
        ("train", "random_state = 3407", "set `recipe.seed`"),
        ("train", "do_train = true", "remove it: a bundle has no such switch"),
        ("train", "overwrite_output_dir = true", "remove it: `train.py` resumes from its newest checkpoint"),
        ("train", "padding_free = true", "remove it: `train.packing` decides what shares a row, in evaluations too"),
        ("train", "train_on_responses_only = true", KEYS["train_on_inputs"]),
        ("train", "max_prompt_length = 512", "set `data.max_length`, the tokens of the prompt and the answer together"),
        ("train", 'logging_dir = "logs"', FOLDERS),
        ("train", 'method = "full"', 'set `train.adaptation = "full"`'),
        ("goal", 'method = "qlora"', 'set `train.adaptation = "qlora"`'),
        ("train", 'method = "dora"', 'set `train.adaptation = "lora"` and `train.lora.variant = "dora"`'),
        ("train", 'method = "sft"', 'set `goal.task = "instruct"`'),
        (
            "train",
            "neftune_noise_alpha = 5.0",
            "write `arguments = { neftune_noise_alpha = 5.0 }` under [train]: it is a keyword of the trainer; methods "
            "whose model writes answers, or is compared with a reference, refuse it",
        ),
        (
            "train",
            "label_smoothing_factor = 0.1",
            "write `arguments = { label_smoothing_factor = 0.1 }` under [train]: it is a keyword of the trainer; "
            "supervised fine-tuning and pretraining alone take it",
        ),
        (
            "train",
            'pad_token = "<pad>"',
            'write `arguments = { pad_token = "<pad>" }` under [train]: it is a keyword of the trainer '
            "(DPOConfig, RewardConfig, SFTConfig)",
        ),
        ("train", "debug = []", "write `arguments = { debug = VALUE }` under [train]: it is a keyword of the trainer"),
        ("train", "apply_lora_to_mlp = true", "set `train.lora.targets`"),
        ("alignment", 'loss_type = "ipo"', "set `alignment.loss` (dpo, kto), or set `alignment.variant` (grpo)"),
    ],
)
def test_a_word_of_another_tool_leads_to_the_key(tmp_path: Path, section: str, line: str, help: str) -> None:
    text = RECIPE if f"[{section}]" in RECIPE else f"{RECIPE}[{section}]\n"
    found, *_ = findings(tmp_path, text.replace(f"[{section}]", f"[{section}]\n{line}"))
    assert found.help == (help,)


@pytest.mark.parametrize(
    ("source", "help"),
    [
        ('type = "alpaca"', 'set `format = "instruction"` in this source'),
        ('type = "of_mine"', "set `format` in this source"),
        ("dataset_train_split = 'a'", "set `split` in this source"),
        ("dataset_config = 'a'", "set `subset` in this source"),
        ("chat_template = 'a'", "set `data.template`"),
    ],
)
def test_a_word_in_a_source_leads_to_the_key_of_the_source(tmp_path: Path, source: str, help: str) -> None:
    text = RECIPE.replace('"rows.jsonl"', f'[{{ path = "rows.jsonl", {source} }}]')
    assert findings(tmp_path, text)[0].help == (help,)


def test_a_split_of_a_data_set_stands_in_its_source(tmp_path: Path) -> None:
    found, *_ = findings(tmp_path, RECIPE.replace("[data]", '[data]\nsplit = "train_prefs"'))
    line = '`train = { hub = "OWNER/NAME", split = "train_prefs" }`'
    assert found.help == (f"write the split of a data set of the Hub into its source: {line}",)


def test_of_several_tasks_the_last_is_named(tmp_path: Path) -> None:
    found, *_ = findings(tmp_path, RECIPE.replace('"instruct"', '["continue-pretrain", "instruct"]'))
    assert found.code == "E0202" and "continued pretraining from `data.domain_text`" in found.help[0]


def test_a_key_of_another_method_names_its_namesake(tmp_path: Path) -> None:
    text = RECIPE.replace('task = "instruct"', 'task = "align"') + '[alignment]\nmethod = "grpo"\ntemperature = 0.9\n'
    helps = [each.help for each in findings(tmp_path, text) if "temperature" in each.title]
    assert helps == [("set `alignment.generation.temperature` of grpo, or remove temperature",)]


@pytest.mark.parametrize(("method", "key"), [("dpo", "alignment.loss"), ("grpo", "alignment.variant")])
def test_a_keyword_of_the_trainer_leads_to_the_key_of_the_method(tmp_path: Path, method: str, key: str) -> None:
    text = RECIPE.replace('"instruct"', '"align"') + f'[alignment]\nmethod = "{method}"\nreward = "r.py:f"\n'
    found = findings(tmp_path, text + '[train.arguments]\nloss_type = "ipo"\n')
    assert [each.help for each in found if each.code == "E0407"] == [(f"set `{key}` instead",)]


def test_a_name_of_a_shipped_recipe_and_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text("[goal]\npriority = 'speed'\n")
    (found,) = findings(tmp_path, RECIPE.replace('name = "case"', 'name = "case"\nextends = "team"'))
    assert found.code == "E0007" and found.help[0] == 'write `extends = "team.toml"` for the file'


def test_a_misspelled_table_is_not_missing_as_well(tmp_path: Path) -> None:
    """Nor are the keys that it must have, which are written in it."""
    for table, near in (("hardwre", "hardware"), ("modle", "model"), ("goals", "goal")):
        found = findings(tmp_path, RECIPE.replace(f"[{near}]", f"[{table}]"))
        assert [(each.code, each.help) for each in found] == [("E0203", (f"did you mean `{near}`?",))]


def test_sections_may_be_written_as_texts_by_mistake(tmp_path: Path) -> None:
    """Each is told where to write it, and what it stands for is not missing as well."""
    text = (
        'model = "Qwen/Qwen3-8B"\ndata = "rows.jsonl"\nhardware = "h100"\n[recipe]\nname = "case"\ntask = "instruct"\n'
    )
    found = findings(tmp_path, text)
    assert [each.help[0] for each in found] == [
        'write `name = "Qwen/Qwen3-8B"` under [model]',
        'write `train = "rows.jsonl"` under [data]',
        'write `gpu = "h100"` under [hardware]',
        "`task` is a key of [goal]",
    ]


def test_a_list_of_gpus_is_one_name_and_a_number(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, RECIPE.replace('gpu = "h100"', 'gpu = ["h100", "h100"]'))
    assert found.help == ('write one name, `gpu = "h100"`, and their number, `gpus_per_node = 2`',)


@pytest.mark.parametrize(
    ("table", "word", "key"),
    [
        ("data", "tokens", "data.tokens_per_example"),
        ("data", "total_tokens", "data.tokens_per_example"),
        ("data", "dataset_size", "data.examples"),
        ("hardware", "usd_per_gpu_hour", "budget.price_per_gpu_hour"),
        ("budget", "usd", "budget.max_cost_usd"),
        ("budget", "deadline", "budget.max_hours"),
        ("model", "tokens", "model.new_tokens"),
    ],
)
def test_words_for_size_and_money_lead_to_their_keys(tmp_path: Path, table: str, word: str, key: str) -> None:
    text = RECIPE.replace(f"[{table}]\n", f"[{table}]\n{word} = 5\n")
    text += "" if f"[{table}]" in RECIPE else f"[{table}]\n{word} = 5\n"
    (found,) = [each for each in findings(tmp_path, text) if each.code == "E0203"]
    assert found.help[0].startswith(f"set `{key}`"), found.help
