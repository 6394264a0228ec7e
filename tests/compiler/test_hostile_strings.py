"""Every string of the recipe language, with values that try to break out of every output language.

A value is refused with a diagnostic, or it is data: each artifact has the structure that a harmless value gives it, and
the value itself wherever that one stood.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import yaml
from compiling import BASES, DATA, OF_METHOD, Tables, compiled, texts, with_key, without
from tiers import one_in

from recipec.compiler import Compilation
from recipec.diagnostics.human import human
from recipec.recipe.fields import Section
from recipec.recipe.schema import Recipe
from recipec.recipe.schema_training import ADAPTED

HARMLESS = "harmless"
HOSTILE = (
    '"', "'", '"""', "'''", '\\"', "a\\", '"; import os; x = "', '""" + f() + """', "')\nimport os\n#",
    "$(touch pwned) `touch pwned` $HOME ${IFS}",
    "; touch pwned & touch pwned | touch pwned > pwned", "'; touch pwned; '", "yes", "null", "1e3",
    "{{ 7 * 7 }} {% raw %} {# a #}", "{% endraw %}", "{0} %s !! * ~", "# a #b", "a: b", "- a", "--help", "---", "===",
    "| a | b |", "1. a", "2024-01-31", "!!python/object:os.system", "&a *a <<", "[a]", "{a: b}",
    "</script><b><!--", "![a](javascript:b) &lt;", "```", "a\nb", "a\r\nb", "\t", " a ", "../../etc/passwd",
    "/etc/passwd", "./a b", "é 日本 🙂 👩\u200d👧 ﬁ", "\u00a0\u0301", "ａ", "\u202e", "\u200b", "\u2028", "\x85",
    "\x00", "\x1b[31m", "\x7f", "\ufeff", "\ue000a\ue001b\ue002", "\U000f0000", "\U000e0041", "\ufffe", "x" * 4000,
    "x" * 40_000, "class", "self", "adam_beta1", "ｌearning_rate",
)  # fmt: skip

Put = Callable[[str], Tables]

LORA, PAIRS = BASES["lora-ddp"], BASES["sft-dpo"]
CHATS = BASES["lora-single"]


def _at(key: str, recipe: Tables = LORA, **more: Any) -> Put:
    """Put a value at a dotted key, after setting the keys that it needs."""
    for name, value in more.items():
        recipe = with_key(recipe, name.replace("__", "."), value)
    return lambda value: with_key(recipe, key, value)


def _in_list(key: str, recipe: Tables = LORA) -> Put:
    return lambda value: with_key(recipe, key, [value])


def _hub(part: str, key: str, recipe: Tables = PAIRS) -> Put:
    """A data set of the Hub; its other keys are harmless."""
    base = with_key(
        with_key(without(recipe, "data.train"), "data.train", [{"path": "chat.jsonl"}]), "data.format", "chat"
    )
    return lambda value: with_key(base, f"data.{part}", [{"hub": "org/name", key: value}])


_FIRST = dict.fromkeys(("train", "eval", "test"), "messages") | {"preferences": "chosen"}  # a conventional column
_SOURCE: dict[str, Put] = {
    **{f"data.{part}[].path": _in_list(f"data.{part}", PAIRS) for part in ("train", "preferences", "eval", "test")},
    **{
        f"data.{part}[].{key}": _hub(part, key)
        for part in ("train", "preferences", "eval", "test")
        for key in ("hub", "split", "subset", "revision")
    },
}
_PROMPTS = BASES["grpo"]
_SOURCE |= {"data.prompts[].path": _in_list("data.prompts", _PROMPTS)}
_SOURCE |= {
    f"data.prompts[].{key}": lambda value, key=key: with_key(
        _PROMPTS, "data.prompts", [{"hub": "org/name", key: value}]
    )
    for key in ("hub", "split", "subset", "revision")
}
_SOURCE |= {
    f"data.prompts[].columns{{{side}}}": lambda value, side=side: with_key(
        _PROMPTS,
        "data.prompts",
        [{"hub": "org/name", "columns": {value: "prompt"} if side == "key" else {"prompt": value}}],
    )
    for side in ("key", "value")
}
_SOURCE |= {
    f"data.{part}[].columns{{{side}}}": lambda value, part=part, side=side: with_key(
        BASES["lora-single" if part != "preferences" else "sft-dpo"],
        f"data.{part}",
        [{"hub": "org/name", "columns": {value: "chosen"} if side == "key" else {_FIRST[part]: value}}],
    )
    for part in ("train", "preferences", "eval", "test")
    for side in ("key", "value")
}


def _of_chats(recipe: Tables) -> Tables:
    """Every adapter learns chats, so that the format of a data set of the Hub can be said."""
    tasks = [task | {"train": "chat.jsonl"} for task in recipe["adapters"]]
    return {**with_key(recipe, "data.format", "chat"), "adapters": tasks}


_TASKS, _MIXED = _of_chats(BASES["adapters"]), _of_chats(BASES["fusion"])
_TEXT = BASES["text-sft"]


def _of_task(key: str, made: Callable[[str], Any]) -> Put:
    """A key of the second table of [[adapters]]."""
    first, second = _TASKS["adapters"]
    return lambda value: {**_TASKS, "adapters": [first, second | {key: made(value)}]}


def _of_source(key: str) -> Callable[[str], Any]:
    """A list of one source with a value there."""
    if key.startswith("columns"):
        return lambda value: [{"hub": "org/name", "columns": {value: "text"} if "{key}" in key else {"text": value}}]
    return lambda value: [{"path": value}] if key == "path" else [{"hub": "org/name", key: value}]


_KEYS = ("path", "hub", "split", "subset", "revision", "columns{key}", "columns{value}")
_SOURCE |= {"adapters[].name": _of_task("name", str)}
_SOURCE |= {
    f"adapters[].{part}[].{key}": _of_task(part, _of_source(key)) for part in ("train", "eval", "test") for key in _KEYS
}
_SOURCE |= {
    f"fusion.{part}[].{key}": lambda value, part=part, key=key: {
        **_MIXED,
        "fusion": {part: _of_source(key)(value)},
    }
    for part in ("train", "eval", "test")
    for key in _KEYS
}
_SOURCE |= {
    f"data.domain_text[].{key}": lambda value, key=key: with_key(_TEXT, "data.domain_text", _of_source(key)(value))
    for key in _KEYS
}
_ELASTIC = with_key(with_key(BASES["lora-single"], "train.adaptation", "full"), "train.ewc", {"strength": 2.0})
_SOURCE |= {
    f"data.general[].{key}": lambda value, key=key: with_key(_ELASTIC, "data.general", _of_source(key)(value))
    for key in _KEYS
}
_REPEATED = {"train", "general", "preferences", "eval", "test", "prompts", "domain_text", *OF_METHOD}
_STAGES = {method: BASES[base] for method, base in OF_METHOD.items()}
_ADAPTERS: dict[str, Put] = {
    f"train.{stage}lora.targets[]": _in_list(f"train.{stage}lora.targets", with_key(recipe, "train.adaptation", "lora"))
    for stage, recipe in {"": LORA, **{f"{name}.": _STAGES[name] for name in ADAPTED}}.items()
}
_ARGUMENTS: dict[str, Put] = {
    f"train.{stage}arguments{{{part}}}": _at(f"train.{stage}arguments", recipe)
    for stage, recipe in {"": LORA, **{f"{name}.": base for name, base in _STAGES.items()}}.items()
    for part in ("key", "value")
}

_DESCRIBED = with_key(with_key(LORA, "data.train", [{"hub": "org/name"}]), "data.format", "instruction")

_CURRICULA: dict[str, Put] = {
    f"train.{stage}curriculum.column": _at(f"train.{stage}curriculum.column", recipe)
    for stage, recipe in {"": _DESCRIBED, **{f"{name}.": base for name, base in _STAGES.items()}}.items()
}

_TEACHERS: dict[str, Callable[[str], Tables]] = {
    ".name": lambda value: {"name": value, "like": "Qwen/Qwen2.5-7B"},
    ".like": lambda value: {"name": "org/unknown", "like": value},
    ".revision": lambda value: {"name": "Qwen/Qwen2.5-7B-Instruct", "revision": value},
}
_JUDGES: dict[str, Callable[[str], Any]] = {
    ".model": lambda value: [{"model": value, "like": "Qwen/Qwen2.5-0.5B"}],
    ".like": lambda value: [{"model": "org/unknown", "like": value}],
    ".revision": lambda value: [{"model": "Qwen/Qwen2.5-0.5B", "revision": value}],
}
# Where a recipe has strings -> a recipe with the value there. `[]` is an entry of a list, `{key}` a key of a table.
FIELDS: dict[str, Put] = {
    "recipe.name": _at("recipe.name"),
    "recipe.description": _at("recipe.description"),
    "data.system": _at("data.system"),
    "recipe.extends[]": _in_list("recipe.extends"),
    "recipe.allow[]": _in_list("recipe.allow"),
    "model.name": _at("model.name", model__like="Qwen/Qwen2.5-7B"),
    "model.like": _at("model.like", model__name="org/unknown"),
    "model.revision": _at("model.revision"),
    "model.init_from": _at("model.init_from"),
    "model.new_tokens": _at("model.new_tokens"),
    "model.new_tokens[]": _in_list("model.new_tokens"),
    "model.family[]": _in_list("model.family", BASES["auto"]),
    "model.licenses[]": _in_list("model.licenses", BASES["auto"]),
    **{f"alignment.teacher{part}": _at("alignment.teacher", BASES["distill"]) for part in _TEACHERS},
    "data.split.stratify": _at("data.split", data__eval_fraction=0.1),
    "data.split.group": _at("data.split", data__eval_fraction=0.1),
    "data.split.time": _at("data.split", data__eval_fraction=0.1),
    "data.ignore[]": _in_list("data.ignore", _DESCRIBED),
    "data.columns{key}": lambda value: with_key(LORA, "data.columns", {value: "instruction"}),
    "data.columns{value}": lambda value: with_key(_DESCRIBED, "data.columns", {"instruction": value}),
    "data.template": _at("data.template", CHATS),
    **{f"alignment.reward[]{part}": _at("alignment.reward", _PROMPTS) for part in _JUDGES},
    "alignment.reward[].function": lambda value: with_key(_PROMPTS, "alignment.reward", [{"function": value}]),
    "alignment.environment": _at("alignment.environment", BASES["tools"]),
    "alignment.tools[]": _in_list("alignment.tools", BASES["tools"]),
    "hardware.gpu": _at("hardware.gpu"),
    "hardware.measured": _at("hardware.measured"),
    "launch.env{key}": lambda value: with_key(LORA, "launch.env", {value: "x"}),
    "launch.env{value}": lambda value: with_key(LORA, "launch.env", {"WORD": value}),
    "launch.setup[]": _in_list("launch.setup"),
    "track.project": _at("track.project", track__to="wandb"),
    "track.run": _at("track.run"),
    "registry.tags[]": _in_list("registry.tags"),
    "budget.prices": _at("budget.prices"),
    "policy.models[]": _in_list("policy.models"),
    "policy.licenses[]": _in_list("policy.licenses"),
    **_SOURCE,
    **_ADAPTERS,
    **_ARGUMENTS,
    **_CURRICULA,
}  # fmt: skip
_WRAPPED = {
    **{f"alignment.teacher{part}": wrap for part, wrap in _TEACHERS.items()},
    **{f"alignment.reward[]{part}": wrap for part, wrap in _JUDGES.items()},
    "data.split.stratify": lambda value: {"stratify": value},
    "data.split.group": lambda value: {"group": value},
    "data.split.time": lambda value: {"time": value},
    **{name: lambda value: {value: "x"} for name in FIELDS if name.endswith("arguments{key}")},
    **{name: lambda value: {"word": value} for name in FIELDS if name.endswith("arguments{value}")},
}


def _few(field: str) -> tuple[str, ...]:
    """A twelfth of the values, another one for every field, and half as many for a copy of a field."""
    apart = 24 if _copies(field).index(field) else 12
    return HOSTILE[list(FIELDS).index(field) % apart :: apart]


def _values(field: str) -> tuple[str, ...]:
    """All values, and an eighth of them for a copy of a field."""
    place = _copies(field).index(field)
    return HOSTILE[place % 8 :: 8] if place else HOSTILE


def _copies(field: str) -> list[str]:
    """The field and its likes: what other sections and stages have, too."""
    return [other for other in FIELDS if _described(other) == _described(field)]


def _described(field: str) -> str:
    """The field without the section or stage that it is in."""
    section, *parts = re.sub(r"^(adapters\[\]|fusion)\.", "data.", field).split(".")
    return ".".join([section, *(part for part in parts if part.removesuffix("[]") not in _REPEATED)])


def test_every_string_of_the_language_is_listed() -> None:
    assert set(_strings(Recipe, "")) == FIELDS.keys()


@pytest.mark.parametrize("field", one_in(2, FIELDS))
def test_hostile_values_stay_data(tmp_path: Path, field: str) -> None:
    _assert_data(tmp_path, field, _few(field))


@pytest.mark.matrix
@pytest.mark.parametrize("field", FIELDS)
def test_every_hostile_value_stays_data(tmp_path: Path, field: str) -> None:
    _assert_data(tmp_path, field, _values(field))


def _assert_data(folder: Path, field: str, values: tuple[str, ...]) -> None:
    harmless = texts(_compiled(folder, field, HARMLESS))
    for value in values:
        found = _compiled(folder, field, value)
        assert found.files or found.diagnostics, f"{value!r} is refused without a word"
        human(found.diagnostics).encode()
        if found.files and harmless and field not in ("launch.setup[]", "adapters[].name"):
            _assert_same_structure(harmless, texts(found), value)


def test_setup_lines_are_verbatim_lines(tmp_path: Path) -> None:
    for value in HOSTILE:
        found = _compiled(tmp_path, "launch.setup[]", value)
        if found.files:
            assert value in texts(found)["launch/local.sh"].split("\n")


def test_environment_arrives_as_written(tmp_path: Path) -> None:
    for value in HOSTILE:
        found = _compiled(tmp_path, "launch.env{value}", value)
        if found.files:
            assert _environment(tmp_path, texts(found)["launch/local.sh"])["WORD"] == value
    assert not list(tmp_path.rglob("pwned"))


def _compiled(folder: Path, field: str, value: str) -> Compilation:
    """Compile with the value at the field; a data file of that name is there if a file can have it."""
    if field.endswith("[].path"):
        rows = DATA["pairs.jsonl" if "preferences" in field else "chat.jsonl"]
        value = _with_file(folder, value, rows)
    return compiled(folder, FIELDS[field](_WRAPPED.get(field, lambda value: value)(value)))


def _with_file(folder: Path, value: str, rows: list[Any]) -> str:
    name = f"{value}.jsonl"
    if "/" not in name and "\x00" not in name and len(name.encode()) < 250:
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def _strings(annotation: Any, path: str) -> Iterator[str]:
    """Where a type of the schema has strings of the user's own."""
    if get_origin(annotation) in (Union, UnionType):
        found = [name for part in get_args(annotation) for name in _strings(part, path)]
        yield from dict.fromkeys(found)
    elif hasattr(annotation, "__metadata__"):
        yield from _strings(annotation.__origin__, path)
    elif get_origin(annotation) is list:
        yield from _strings(get_args(annotation)[0], f"{path}[]")
    elif get_origin(annotation) is dict:
        yield from (f"{path}{{key}}", f"{path}{{value}}")
    elif isinstance(annotation, type) and issubclass(annotation, Section):
        for name, field in annotation.model_fields.items():
            yield from _strings(field.annotation, f"{path}.{field.alias or name}".lstrip("."))
    elif annotation is str:
        yield path
    else:
        assert get_origin(annotation) is Literal or annotation in (int, float, bool, NoneType), annotation


def _assert_same_structure(before: dict[str, str], after: dict[str, str], value: str) -> None:
    """The bundle of `value` is that of HARMLESS with the one in place of the other."""
    assert before.keys() == after.keys()
    for path, old in before.items():
        if after[path] == old:
            continue
        suffix = next(suffix for suffix in _READERS if path.endswith(suffix))
        expected = Counter(repr(_replaced(part, value)) for part in _parts(suffix, old))
        found = Counter(repr(_replaced(part, value)) for part in _parts(suffix, after[path]))
        assert found == expected, f"{path} with {value!r}: {found - expected} instead of {expected - found}"


@lru_cache(maxsize=100)  # the harmless bundle is compared with that of every value
def _parts(suffix: str, text: str) -> tuple[Any, ...]:
    """The structure of a text and the values in it."""
    return tuple(_READERS[suffix](text))


def _replaced(part: Any, value: str) -> Any:
    """HARMLESS gives way to the value, and a digest of the plan to nothing."""
    text = part.replace(HARMLESS, value) if isinstance(part, str) else part
    return "" if isinstance(text, str) and re.fullmatch("[0-9a-f]{16}(-[a-z-]+)?", text) else text


def _python(text: str) -> Iterator[Any]:
    """The nodes and constants of a module; docstrings are words, so only their place counts."""
    tree = ast.parse(text)
    compile(tree, "emitted", "exec")
    nodes = list(ast.walk(tree))
    prose = {node.value for node in nodes if isinstance(node, ast.Expr)}
    yield " ".join(type(node).__name__ for node in nodes)
    for node in nodes:
        if isinstance(node, ast.Constant) and node not in prose:
            yield node.value


def _data(value: Any) -> Iterator[Any]:
    """Every key and scalar of nested data, in order."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _data(part)
    elif isinstance(value, list):
        yield len(value)
        for part in value:
            yield from _data(part)
    else:
        yield value


def _markdown(text: str) -> Iterator[Any]:
    """How every line begins, and the markup in it that is not escaped; a model card begins with YAML."""
    if text.startswith("---\n"):
        _, given, text = text.split("---\n", 2)
        yield from _data(yaml.safe_load(given))
    for line in text.split("\n"):
        begin = re.match(r" {0,3}(#+ |[-*+] |\d+[.)] |>|\||```|~~~|=+$|-+$|)", line)
        assert begin
        yield begin[1]
        yield "".join(re.findall(r"(?<!\\)(?:\\\\)*([|<`])", line))


def _shell(text: str) -> Iterator[str]:
    yield subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False).stderr


_READERS: dict[str, Callable[[str], Iterator[Any]]] = {
    ".py": _python,
    ".json": lambda text: _data(json.loads(text)),
    ".yaml": lambda text: _data(yaml.safe_load(text)),
    ".md": _markdown,
    ".sh": _shell,
    "": lambda text: iter(text.splitlines()),
}


def _environment(folder: Path, script: str) -> dict[str, str]:
    """What a script exports by the time it starts Python."""
    (folder / "launch").mkdir(exist_ok=True)
    (folder / "launch" / "local.sh").write_text(script)
    stub = "python() { env -0 > env.bin; exit 0; }; source launch/local.sh"
    subprocess.run(["bash", "-c", stub], cwd=folder, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    pairs = (folder / "env.bin").read_bytes().decode().split("\0")
    return dict(pair.partition("=")[::2] for pair in pairs if pair)
