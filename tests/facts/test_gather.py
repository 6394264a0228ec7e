"""What is given: models, GPUs and data that are missing or unreadable, each said at its place; and calm figures."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, DATA, Tables, codes, compiled, with_key, without, write_data
from hypothesis import given
from hypothesis import strategies as st

from recipec.facts.sizes import rounded

CHAT, PAIRS, LORA, BOTH = (BASES[name] for name in ("lora-single", "dpo-full", "lora-ddp", "sft-dpo"))
OTHER = b'{"instruction": "a", "reply": "b"}'
DEEP = b'{"text":"a","x":' + b"[" * 900 + b"]" * 900 + b"}"

# Base, key, value, files -> the code, the recipe's section that it points at, and a word of what it says.
FINDINGS: dict[str, tuple[Any, str, Any, dict[str, bytes], str, str, str]] = {
    "model": (CHAT, "model.name", "org/nope", {}, "E0301", "model", "org/nope"),
    "like": (CHAT, "model", {"name": "org/nope", "like": "nope"}, {}, "E0301", "model", "nope"),
    "gpu": (CHAT, "hardware.gpu", "rtx-4091", {}, "E0302", "hardware", "rtx-4091"),
    "data": (CHAT, "data.train", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "second source": (CHAT, "data.train", ["chat.jsonl", "nope.jsonl"], {}, "E0303", "data", "nope.jsonl"),
    "preferences": (PAIRS, "data.preferences", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "eval": (CHAT, "data.eval", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "test": (CHAT, "data.test", "nope.jsonl", {}, "E0303", "data", "nope.jsonl"),
    "template": (CHAT, "data.template", "./nope.jinja", {}, "E0001", "data", "nope.jinja"),
    "bad template": (CHAT, "data.template", "./a.jinja", {"a.jinja": b"\xff"}, "E0003", "data", "a.jinja"),
    "template with a mark": (CHAT, "data.template", "./a.jinja", {"a.jinja": b"\xee\x80\x80"}, "E0006", "data", "a."),
    "template folder": (CHAT, "data.template", "./m.jinja", {"m.jinja/a": b""}, "E0002", "data", "m.jinja"),
    "no eval rows": (CHAT, "data.eval", "a.jsonl", {"a.jsonl": b"nope"}, "E0304", "data", "a.jsonl:1"),
    "eval of other columns": (LORA, "data.eval", "a.jsonl", {"a.jsonl": OTHER}, "E0305", "data", "data.eval"),
    "not JSON": (CHAT, "data.train", "a.jsonl", {"a.jsonl": b"nope"}, "E0304", "data", "a.jsonl:1"),
    "too deep": (CHAT, "data.train", "a.jsonl", {"a.jsonl": DEEP}, "E0304", "data", "a.jsonl:1"),
    "ending": (CHAT, "data.train", "a.xls", {"a.xls": b"a"}, "E0304", "data", "a.xls"),
    "format": (CHAT, "data.train", "a.jsonl", {"a.jsonl": b'{"foo": 1}'}, "E0305", "data", "data.train"),
    "hub": (CHAT, "data.train", {"hub": "org/name"}, {}, "E0305", "data", "data.train"),
    "asked format": (CHAT, "data.format", "text", {}, "E0305", "data", "data.train"),
    "eval of another format": (CHAT, "data.eval", "pairs.jsonl", {}, "E0305", "data", "data.eval"),
    "folder": (CHAT, "model.name", "./nope", {}, "E0306", "model", "./nope"),
    "config as a file": (
        *(CHAT, "model", {"name": "a/b", "like": "./m/config.json"}, {"m/config.json": b"{}"}),
        *("E0306", "model", "./m/config.json"),
    ),
    "config": (CHAT, "model.name", "./m", {"m/config.json": b"{}"}, "E0306", "model", "./m"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "template"),
    [
        ("tiiuae/Falcon3-7B-Instruct", "a chat template of its own"),
        ("Qwen/Qwen3-8B", "the chat template of qwen3"),
    ],
)
def test_a_model_has_a_chat_template_of_a_family_or_its_own(tmp_path: Path, model: str, template: str) -> None:
    plan = compiled(tmp_path, with_key(CHAT, "model.name", model), only_plan=True).plan
    assert plan and plan.stages[0].decisions["has_template"].because == f"{model} has {template}"


@pytest.mark.parametrize("case", FINDINGS)
def test_what_is_missing_is_said_at_its_place(tmp_path: Path, case: str) -> None:
    base, key, value, files, code, section, word = FINDINGS[case]
    write_data(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    [finding] = compiled(tmp_path, with_key(base, key, value)).diagnostics
    place = finding.labels[0].place
    assert finding.code == code
    assert place.text.splitlines()[place.span.line - 1].startswith(f"{section} = ")
    assert word in finding.title


def test_everything_missing_is_said_at_once(tmp_path: Path) -> None:
    recipe = with_key(with_key(CHAT, "model.name", "org/nope"), "hardware.gpu", "nope")
    found = compiled(tmp_path, with_key(recipe, "data.train", ["x.jsonl", "y.jsonl"])).diagnostics
    assert sorted(finding.code for finding in found) == ["E0301", "E0302", "E0303", "E0303"]


@pytest.mark.parametrize(("file", "stages"), [("chat.jsonl", ["sft"]), ("pairs.jsonl", ["dpo"])])
def test_an_eval_file_is_for_the_stage_with_such_rows(tmp_path: Path, file: str, stages: list[str]) -> None:
    (tmp_path / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA[file]))
    plan = compiled(tmp_path, with_key(BOTH, "data.eval", "held.jsonl")).plan
    assert plan is not None
    fractions = {part.stage.name: part.decisions["eval_fraction"].value for part in plan.stages}
    assert [name for name, fraction in fractions.items() if not fraction] == stages


@pytest.mark.parametrize(
    ("train", "eval", "found"),
    [
        ("chat.jsonl", "chat.jsonl", True),
        ("chat.jsonl", "./x/../chat.jsonl", True),
        ("chat.jsonl", "link.jsonl", True),
        ("*.jsonl", "chat.jsonl", True),
        (["other/a.jsonl", "chat.jsonl"], ["other/b.jsonl", "c*.jsonl"], True),
        ("chat.jsonl", "other/a.jsonl", False),
        ({"hub": "a/b"}, {"hub": "a/b", "split": "train"}, True),
        ({"hub": "a/b"}, {"hub": "a/b", "split": "test"}, False),
        ({"hub": "a/b"}, {"hub": "a/c"}, False),
        ({"hub": "a/b"}, {"hub": "a/b", "subset": "c"}, False),
    ],
)
@pytest.mark.parametrize("part", ["eval", "test"])
def test_what_is_learned_is_not_held_out_as_well(tmp_path: Path, train: Any, eval: Any, found: bool, part: str) -> None:
    write_data(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "other").mkdir()
    for name in ("a", "b"):
        (tmp_path / "other" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA["chat.jsonl"]))
    (tmp_path / "link.jsonl").symlink_to("chat.jsonl")
    data = LORA["data"] | {"train": train, part: eval, "format": "chat"}
    said = [one.title for one in compiled(tmp_path, LORA | {"data": data}).diagnostics if one.code == "E0401"]
    assert said == [f"data.{part} names rows that data.train trains on"] * found


@pytest.mark.parametrize("size", [None, 2**20 + 1])
def test_a_template_that_is_no_page_of_text_is_refused(tmp_path: Path, size: int | None) -> None:
    write_data(tmp_path)
    os.mkfifo(tmp_path / "a.jinja") if size is None else (tmp_path / "a.jinja").write_bytes(b" " * size)
    [finding] = compiled(tmp_path, with_key(CHAT, "data.template", "./a.jinja")).diagnostics
    assert (finding.code, finding.labels[0].message[:6]) == ("E0002", "it is ")


def test_a_template_is_read_as_python_reads_text(tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / "a.jinja").write_bytes("\ufeff{{ messages }}\r\n<｜é｜>".encode())
    facts = compiled(tmp_path, with_key(CHAT, "data.template", "./a.jinja")).facts
    assert facts is not None and facts.template_text == "{{ messages }}\n<｜é｜>"


@pytest.mark.parametrize(("share", "expected"), [(1e-4, ["E0205"]), (2e-4, [])])
@pytest.mark.parametrize("key", ["eval_fraction", "test_fraction"])
def test_a_share_holds_out_a_row(tmp_path: Path, key: str, share: float, expected: list[str]) -> None:
    found = compiled(tmp_path, with_key(CHAT, f"data.{key}", share)).diagnostics
    assert [finding.code for finding in found if finding.code.startswith("E")] == expected


def test_one_document_cannot_be_split(tmp_path: Path) -> None:
    recipe = with_key(BASES["text"], "data", {"train": "manual.txt"})
    [finding] = compiled(tmp_path, recipe).diagnostics
    assert (finding.code, finding.labels[0].message) == ("E0304", "1 row; a text file is one row")
    assert finding.help[0] == "add rows, or name files with `data.eval` and `data.test`"
    write_data(tmp_path)
    held_out = {"train": "manual.txt", "eval": "manual.txt", "test": "manual.txt"}
    assert "E0304" not in codes(compiled(tmp_path, with_key(recipe, "data", held_out)))


def test_rows_are_counted_as_often_as_they_are_drawn(tmp_path: Path) -> None:
    sources = [{"path": "chat.jsonl", "weight": 2.5}, {"path": "more.jsonl"}]
    write_data(tmp_path)
    (tmp_path / "more.jsonl").write_bytes((tmp_path / "chat.jsonl").read_bytes())
    plan = compiled(tmp_path, with_key(CHAT, "data", {"train": sources})).plan
    assert plan is not None
    assert plan.stages[0].decisions["examples"].value == 28


def test_a_share_of_assumed_rows_is_taken_as_it_is(tmp_path: Path) -> None:
    data = {"train": {"hub": "org/rows"}, "format": "chat", "eval_fraction": 1e-6}
    assert compiled(tmp_path, with_key(CHAT, "data", data)).files


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "EleutherAI/pythia-70m", "Qwen/Qwen3-30B-A3B", "microsoft/phi-4"])
def test_modules_are_those_of_the_model(tmp_path: Path, model: str) -> None:
    facts = compiled(tmp_path, with_key(CHAT, "model.name", model)).facts
    assert facts is not None
    names = [name for name, _, _ in facts.model.architecture.linear_shapes()]
    lora = with_key(with_key(CHAT, "model.name", model), "train.lora", {"targets": names})
    assert "E0401" not in codes(compiled(tmp_path, lora))
    [finding] = compiled(tmp_path, with_key(lora, "train.lora.targets", [*names, "self_attn"])).diagnostics
    assert (finding.code, finding.title) == ("E0401", "the model has no module `self_attn` for an adapter")
    assert ", ".join(names) in finding.labels[1].message


def test_pairs_need_a_preference_stage(tmp_path: Path) -> None:
    recipe = with_key(with_key(PAIRS, "data.preferences", None), "data.train", "pairs.jsonl")
    assert codes(compiled(tmp_path, recipe)) == []
    assert codes(compiled(tmp_path, with_key(recipe, "alignment.method", "none"))) == ["E0401"]


def test_the_size_of_all_texts_counts(tmp_path: Path) -> None:
    text = with_key(BASES["text"], "data", {"train": "*.txt"})
    write_data(tmp_path)
    for number in range(39):  # more than are looked into
        (tmp_path / f"{number}.txt").write_text("A pump moves water.\n" * 70)
    facts = compiled(tmp_path, text).facts
    assert facts is not None
    decisions = facts.data["train"].decisions
    assert (decisions["examples"].value, decisions["examples"].because) == (40, "counted in the files, rounded")
    size = (tmp_path / "manual.txt").stat().st_size + 39 * 1_400
    assert decisions["tokens_per_example"].value == rounded(size / 40 / 4)
    assert decisions["tokens_per_example"].because.endswith(", and on the size of all files")


def test_small_changes_of_the_data_change_nothing(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-ddp"], "data", {"train": "rows.jsonl"})
    row = {"instruction": "Add.", "output": "x" * 400}
    bundles = []
    for rows, longer in ((1000, 0), (1003, 7)):
        made = ({**row, "output": f"{n:04}" + row["output"] + "x" * longer} for n in range(rows))
        write_data(tmp_path)
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
        bundles.append([(file.path, file.text) for file in compiled(tmp_path, recipe).files])
    assert bundles[0] == bundles[1] != []


@given(st.floats(0, 1e12))
def test_rounding_keeps_two_digits(value: float) -> None:
    found = rounded(value)
    assert found >= 1
    assert len(str(found).rstrip("0")) <= 2
    assert value < 10 or abs(found - value) <= 0.05 * value + 0.5
    assert rounded(found) == found


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({"train.lr": 1, "data.train": "nowhere.jsonl"}, ["E0203", "E0303"]),
        ({"train.lr": 1, "data.train": {"hubb": "org/rows"}}, ["E0203", "E0203"]),
        ({"train.lr": 1, "data.train": 3}, ["E0202", "E0203"]),
        ({"train.lr": 1, "hardware": {"gpuu": "h100"}}, ["E0203", "E0203"]),
        ({"train.lr": 1, "hardware.gpu": "h1000"}, ["E0203", "E0302"]),
        ({"train.lr": 1, "model": {"name": "org/unknown", "lik": "Qwen/Qwen3-8B"}}, ["E0203", "E0203"]),
        ({"train.lr": 1, "model.name": "org/unknown"}, ["E0203", "E0301"]),
        ({"train.adaptation": "full", "train.quantization": "nf4", "model.name": "org/unknown"}, ["E0301", "E0401"]),
    ],
    ids=str,
)
def test_names_are_looked_up_beside_other_errors(tmp_path: Path, keys: Tables, found: list[str]) -> None:
    """What a key with an error may have named is not reported as missing."""
    recipe = BASES["lora-single"]
    for key, value in keys.items():
        recipe = with_key(recipe, key, value)
    assert sorted(codes(compiled(tmp_path, recipe))) == found


@pytest.mark.parametrize(
    ("base", "files", "says"),
    [
        ("lora-single", [], "no weights (*.safetensors) and no tokenizer (tokenizer.json)"),
        ("lora-single", ["tokenizer.json"], "no weights (*.safetensors)"),
        ("lora-single", ["model-00001-of-00002.safetensors"], "no tokenizer (tokenizer.json)"),
        ("lora-single", ["model.safetensors", "vocab.json"], None),
        ("pretrain", ["tokenizer.model"], None),
        ("pretrain", [], "no tokenizer (tokenizer.json)"),
    ],
)
def test_a_model_folder_that_is_not_complete_is_told(
    tmp_path: Path, base: str, files: list[str], says: str | None
) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}
    (tmp_path / "m").mkdir()
    config = {"model_type": "llama", "vocab_size": 8_000, "max_position_embeddings": 4096, **sizes}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    for name in files:
        (tmp_path / "m" / name).touch()
    found = compiled(tmp_path, with_key(BASES[base], "model.name", "./m")).diagnostics
    assert [one.labels[0].message for one in found if one.code == "W0517"] == ([says] if says else [])


def test_a_folder_that_is_named_like_a_model_is_found(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    (found,) = compiled(tmp_path, with_key(LORA, "model.name", "m")).diagnostics
    assert (found.code, found.help) == ("E0301", ('write `"./m"` for a folder, as seen from the recipe',))


_LATER = "if the run of another recipe makes this folder, check, plan and build this recipe when that run has ended"


@pytest.mark.parametrize("like", [None, "Qwen/Qwen2.5-7B"])
def test_a_folder_without_its_dots_is_no_id_of_the_hub(tmp_path: Path, like: str | None) -> None:
    recipe = with_key(LORA, "model", {"name": "out/outputs/sft"} | ({"like": like} if like else {}))
    (found,) = compiled(tmp_path, recipe).diagnostics
    assert (found.code, found.title[:17]) == ("E0301", "`out/outputs/sft`")
    assert found.help == ('write `"./out/outputs/sft"` for a folder, as seen from the recipe', _LATER)
    (tmp_path / "own").mkdir()
    (found,) = compiled(tmp_path, with_key(LORA, "model", {"name": "own", "like": "Qwen/Qwen2.5-7B"})).diagnostics
    assert (found.code, found.help) == ("E0301", ('write `"./own"` for a folder, as seen from the recipe',))


def test_an_address_of_the_hub_is_told_its_id(tmp_path: Path) -> None:
    (found,) = compiled(tmp_path, with_key(LORA, "model.name", "https://huggingface.co/Qwen/Qwen3-8B")).diagnostics
    assert (found.code, found.help) == ("E0301", ('write `"Qwen/Qwen3-8B"`',))


def test_a_folder_that_another_run_makes_is_told(tmp_path: Path) -> None:
    (found,) = compiled(tmp_path, with_key(LORA, "model.name", "./out/outputs/sft")).diagnostics
    assert found.code == "E0306" and found.help[-1] == _LATER
    (found,) = compiled(tmp_path, with_key(LORA, "model.init_from", "./out/outputs/sft")).diagnostics
    assert found.code == "E0311" and found.help[-1] == _LATER
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    (found,) = compiled(tmp_path, with_key(LORA, "model.init_from", "./m")).diagnostics
    assert found.help == ('for a whole model, set `model.name = "./m"` and remove `init_from`',)


def test_a_folder_whose_name_is_too_long_is_refused_where_its_tokenizer_would_be_read(tmp_path: Path) -> None:
    recipe = without(with_key(LORA, "model.name", f"./{'a' * 300}"), "data.tokens_per_example")
    assert {found.code for found in compiled(tmp_path, recipe).diagnostics} == {"E0306"}


def test_like_says_nothing_of_a_folder(tmp_path: Path) -> None:
    recipe = with_key(LORA, "model", {"name": "./m", "like": "Qwen/Qwen2.5-7B"})
    assert [found.code for found in compiled(tmp_path, recipe).diagnostics] == ["E0401", "E0306"]


def test_the_snippet_of_the_readme_without_its_file_is_told_what_a_plan_needs(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    recipe = tomllib.loads(readme.partition("```toml\n")[2].partition("```")[0])
    (error,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0303"]
    assert all(f"`data.{key}`" in error.help[-1] for key in ("format", "examples", "tokens_per_example"))
    stated = recipe["data"] | {"format": "chat", "examples": 12_000, "tokens_per_example": 450}
    assert not [found for found in compiled(tmp_path, recipe | {"data": stated}).diagnostics if found.code[0] == "E"]
