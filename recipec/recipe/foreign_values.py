"""Values of TRL, transformers, DeepSpeed, axolotl, LLaMA-Factory and others, and what a recipe says instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from recipec.axes import ADAPTATIONS, BASES, LORA_VARIANTS, METHODS, ROW_FORMATS, STRATEGIES, tasks
from recipec.axes.adaptations import LORA
from recipec.axes.attention import ATTENTIONS
from recipec.axes.loops import LOOPS
from recipec.axes.lora_variants import STANDARD
from recipec.axes.spelling import joined
from recipec.recipe.foreign import KEYS, NAMES, not_built
from recipec.recipe.schema_keys import allowed_values
from recipec.recipe.shares import NO_ROWS, worked_out
from recipec.recipe.slips import slip
from recipec.recipe.trainer_arguments import written_as_argument


class NamedElsewhere(Protocol):
    """What the rows of three axes have in common."""

    @property
    def elsewhere(self) -> tuple[str, ...]: ...


def _rows(rows: Mapping[str, NamedElsewhere]) -> dict[str, str]:
    return {word: f'"{name}"' for name, row in rows.items() for word in row.elsewhere}


def _variants() -> dict[str, str]:
    """A variant of LoRA that is named as an adaptation."""
    words = (
        (word, row) for row in LORA_VARIANTS.values() if row is not STANDARD for word in (row.name, *row.elsewhere)
    )
    return {word: f'"{LORA.family}"` and `train.lora.variant = "{row.name}"' for word, row in words}


def _tasks() -> dict[str, tuple[str, ...]]:
    """Every word of the methods' rows, and its tasks: a word may be two tasks' in two tools."""
    words = dict.fromkeys(word for row in METHODS.values() for word in row.elsewhere)
    return {word: tuple(dict.fromkeys(row.task for row in METHODS.values() if word in row.elsewhere)) for word in words}


def _task(word: str, task: str) -> str:
    """The task, with the method that the word names where several can fulfil it."""
    named = [row.alignment for row in METHODS.values() if word in row.elsewhere and row.alignment]
    return f'"{task}"` and `alignment.method = "{named[0]}"' if len(named) == 1 else f'"{task}"'


_TASKS = _tasks()
# Templates that other tools name: the model brings its own, where it is no base model.
_TEMPLATES = (
    "tokenizer_default default llama2 llama3 qwen qwen2 qwen2_5 qwen3 qwen3_nothink mistral gemma gemma3 phi phi4 "
)
_TEMPLATES += "phi phi4 deepseek deepseek3 zephyr vicuna yi glm4 granite3"
# Value that people type -> what to write, by the key that it was typed for. The rows of the axes bring their own.
_VALUES: dict[str, dict[str, str]] = {
    "goal.task": {word: _task(word, found[0]) for word, found in _TASKS.items() if len(found) == 1},
    "data.format": _rows(ROW_FORMATS),
    "train.strategy": _rows(STRATEGIES),
    "train.loop": _rows(LOOPS),
    "train.adaptation": _rows(ADAPTATIONS) | _variants(),
    "train.lora.variant": _rows(LORA_VARIANTS),
    "train.optimizer": {
        **dict.fromkeys(("adamw_torch", "adamw_torch_fused", "adamw_hf", "fused_adamw", "adam"), '"adamw"'),
        **dict.fromkeys(("adamw_8bit", "adamw_bnb_8bit"), '"adamw-8bit"'),
        "paged_adamw_32bit": '"paged-adamw"',
        "paged_adamw_8bit": '"paged-adamw-8bit"',
    },
    "train.precision": {
        **dict.fromkeys(("bfloat16", "bf16_mixed", "bf16_true", "mixed_bf16"), '"bf16"'),
        **dict.fromkeys(("float16", "half", "16_mixed", "fp16_mixed"), '"fp16"'),
        **dict.fromkeys(("float32", "float", "32_true"), '"fp32"'),
        **dict.fromkeys(("fp8", "float8"), '"bf16"` and `train.fp8 = true'),
    },
    "train.lora.targets": dict.fromkeys(("all", "linear", "all_linear"), '"all-linear"'),
    "train.activation_checkpointing": dict.fromkeys(("unsloth", "full", "unsloth_checkpointing"), "true"),
    "train.schedule": {
        **dict.fromkeys(("wsd", "warmup_stable_decay"), '"warmup-stable-decay"'),
        "constant_with_warmup": '"constant"',
    },
    "train.attention": _rows(ATTENTIONS) | {row.name: '"sdpa"' for row in ATTENTIONS.values() if row.package},
    "train.quantization": _rows(BASES) | dict.fromkeys(("fp8", "float8"), '"none"` and `train.fp8 = true'),
    "alignment.generation.engine": {"server": '"vllm-server"', "colocate": '"vllm"'},
    "data.loss_on": dict.fromkeys(("assistant", "completion", "completions", "answer", "response"), '"answers"'),
    "data.template": dict.fromkeys(_TEMPLATES.split(), '"auto"'),
}


def values_meant(word: str) -> tuple[str, ...]:
    """The lines of a recipe, `key = value`, that say what another tool says with the word."""
    return tuple(f"{key} = {names[word]}" for key, names in _VALUES.items() if word in names)


_SOURCE_FORMAT = re.compile(r"data\.\w+(\[\d+\])?\.format")  # of one source: the words are those of data.format


_NAMES_A_METHOD = next(row.words for row in NAMES if row.key == "goal.task")


def adaptation_instead(key: str, value: object) -> str:
    """What to write for an unknown key such as `method`, where its value says which weights train; else ""."""
    named = value.lower() if isinstance(value, str) else ""
    if named in _TASKS or key.lower() not in _NAMES_A_METHOD:
        return ""
    asked = f'"{named}"' if named in ADAPTATIONS else _VALUES["train.adaptation"].get(named)
    return f"set `train.adaptation = {asked}`" if asked else ""


_SEVERAL_TASKS = (
    "name the last task alone: stages before it follow from the rows, continued pretraining from `data.domain_text`, "
    "supervised fine-tuning from `data.train`"
)
_SPLIT = 'write the split of a data set of the Hub into its source: `train = {{ hub = "OWNER/NAME", split = "{}" }}`'
_VLLM = (
    'set `alignment.generation.engine = "vllm"` where vLLM runs on the GPUs that train (`vllm_mode = "colocate"`), and '
    '`"vllm-server"` where it has its own (`vllm_mode = "server"`)'
)
_PRECISIONS = ("bf16", "fp16")  # which other tools switch on
_SHARES = {
    "data.eval_fraction": "eval eval_split validation validation_size valid_size val val_set_size val_size val_split",
    "data.test_fraction": "test test_size test_split",
}  # of the rows: key -> the words for it, whose values may also be a number of rows, a file or a data set
_SHARE_OF = {word: key for key, words in _SHARES.items() for word in words.split()}


def by_value(key: str, value: object) -> str:
    """What to write for an unknown key that means one thing with this value and another with others; else ""."""
    word = key.lower()
    if word in _PRECISIONS and value is True:
        return f'set `train.precision = "{word}"`'
    if share := held_out_share(word, value):
        return share
    if word in ("gpus", "num_gpus") and isinstance(value, str) and not value.isdecimal():
        return f'set `hardware.gpu = "{value:.40}"`'
    if word in ("deepspeed", "ds_config", "deepspeed_config") and (strategy := _deepspeed(value)):
        return strategy
    if word == "type" and value in _KINDS_OF_FILES:
        return "remove it: recipec reads a file by its ending"
    if word == "lora_target_linear" and value is True:
        return 'set `train.lora.targets = "all-linear"`'
    if KEYS.get(word, "").startswith("set `data.train`") and isinstance(value, str) and _HUB_ID.fullmatch(value):
        source = f'{{ hub = "{value}", split = "train", format = "…" }}'
        return f"set `data.train = {source}`, with the format of its rows: `recipec list formats`"
    if word == "use_vllm" and value is True:
        return _VLLM
    if word == "special_tokens" and isinstance(value, dict):
        return "; ".join(f"`{name}`: {_token(name, text)}" for name, text in value.items())
    return adaptation_instead(key, value) or _with_value(KEYS.get(word, ""), value)


def _token(name: str, text: object) -> str:
    return KEYS.get(name) or written_as_argument(name, text) or "remove it: the tokenizer of `model.name` has it"


_KINDS_OF_FILES = ("json", "jsonl", "csv", "parquet", "txt")
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-]+(\.\d[\w-]*)*")  # no file, whose ending is a word
_KEY_FIRST = re.compile(r"set `([\w.]+)`(?:, or `[\w.]+`)?(; [^`]*)?(, for example .*)?")
_STAGE_OF_ZERO = re.compile(r"(?:zero|stage|z)[_-]?([123])")


def _with_value(help: str, value: object) -> str:
    """The key that stands for another tool's, with what its value is called in a recipe; "" where that is not known."""
    key, word = _KEY_FIRST.fullmatch(help), value.lower() if isinstance(value, str) else ""
    if not key or not word:
        return ""
    if key[1] == "goal.task" and len(several := instead_of(key[1], word)) > 1:
        return ", or ".join(several)
    named = _meaning(key[1], word) or (f'"{word}"' if word in allowed_values(tuple(key[1].split("."))) else None)
    return f"set `{key[1]} = {named}`{key[2] or ''}" if named else ""


def as_file(name: str) -> str:
    """The path of a chat template as a recipe writes it, for one without its `./`; "" for other values."""
    return f"./{name}" if _TEMPLATE_FILE.fullmatch(name) else ""


_TEMPLATE_FILE = re.compile(r"[^/~\n\t][^\n\t]*\.jinja2?")


def _deepspeed(value: object) -> str:
    """The strategy of a configuration of DeepSpeed that is named by its file, "ds_z3_config.json"; else ""."""
    stage = _STAGE_OF_ZERO.search(value.lower()) if isinstance(value, str) else None
    return f'set `train.strategy = "zero{stage[1]}"`; recipec writes the configuration' if stage else ""


def held_out_share(word: str, value: object) -> str:
    """What to write for a share or a number of rows that are held out, under any name; "" for other values."""
    key = _SHARE_OF.get(word)
    if key is None or isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return ""
    if value < 1:
        return f"set `{key} = {value:g}`" if value else NO_ROWS
    return f"set `{key}` to a share of the rows{worked_out(value, None, 'rows')}"


def share_meant(part: str, path: str) -> tuple[str, ...]:
    """What to write where a path of data.eval or data.test is a share in quotes, "10%" or "0.1"; () for other paths."""
    number = slip(path, ("float_type",)).rpartition(": ")[2]
    share = held_out_share(part, float(number)) if _SHARE_IN_QUOTES.fullmatch(path) and number else ""
    return (share,) if share else ()


_SHARE_IN_QUOTES = re.compile(r"0?\.\d+|\d+(\.\d+)? ?%")


def of_another_kind(key: str, value: object) -> tuple[str, ...]:
    """What to write for a value of the wrong kind whose meaning is known."""
    if key in ("data.eval", "data.test") and (share := held_out_share(key.removeprefix("data."), value)):
        return (share,)
    if key == "data.split" and isinstance(value, str):
        return (_SPLIT.format(value),)
    if key == "goal.task" and isinstance(value, list):
        return (_SEVERAL_TASKS,)
    if key == "hardware.gpu" and isinstance(value, list) and value and isinstance(value[0], str):
        return (f'write one name, `gpu = "{value[0]:.40}"`, and their number, `gpus_per_node = {len(value)}`',)
    if key.endswith((".eval_every", ".save_every")) and isinstance(value, str):
        return ("write a share of the steps, such as 0.1, or remove it: recipec then decides",)
    if key.endswith(".columns") and isinstance(value, list):
        return ('write a table of roles and columns, `columns = { prompt = "question" }`, or remove it',)
    family = next((row.family for row in ADAPTATIONS.values() if row.table and key == f"train.{row.table}"), None)
    if family and isinstance(value, bool):
        return (f'set `train.adaptation = "{family}"`' if value else "remove it",)
    return instead_of(key, str(value).lower())


# Key, or the name of keys of several tables -> what is meant by a number below its range, and by one above it.
_BEYOND = {
    "learning_rate": (
        "",
        "with AdamW a weight moves by up to the learning rate in a step (arXiv 1412.6980, section 2.1), and most "
        "weights of a model are far below 1; with SGD a step is the gradient times the learning rate, and 0.03 is "
        "published for a 7B model (LOMO, arXiv 2306.09782): write 2e-4 for 0.0002",
    ),
    "train.max_steps": ("remove it: `epochs` then decides how long training takes", ""),
    "hardware.gpus_per_node": (
        "",
        "GPUs of several nodes: set `nodes` to their number, and `gpus_per_node` to that of one",
    ),
}


def beyond_range(key: str, value: float) -> tuple[str, ...]:
    """What to write for a number outside the range of its key, where it is known what is meant."""
    below, above = _BEYOND.get(key) or _BEYOND.get(key.rpartition(".")[2], ("", ""))
    return tuple(help for help in (below if value < 1 else above,) if help)


def instead_of(key: str, value: str) -> tuple[str, ...]:
    """What to write for a value of another tool, one line for each of its meanings."""
    shown, key = ("format", "data.format") if _SOURCE_FORMAT.fullmatch(key) else (key, key)
    meanings = _TASKS.get(value, ()) if key == "goal.task" else ()
    if len(meanings) > 1:
        return tuple(f'set `{key} = "{task}"`: {tasks()[task]}' for task in meanings)
    instead = _meaning(key, value)
    return (f"set `{shown} = {instead}`",) if instead else not_built(value)


def _meaning(key: str, value: str) -> str | None:
    """What a recipe calls the value of a key, however its parts are joined: "zero-stage-3" is "zero_stage_3"."""
    names = _VALUES.get(key, {})
    return names.get(value) or next((name for word, name in names.items() if joined(word) == joined(value)), None)
