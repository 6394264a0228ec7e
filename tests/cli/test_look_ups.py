"""explain, list, schema, diff and verify."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from recipec.axes import ADAPTATIONS, CARRIED, LORA_VARIANTS, METHODS, ROW_FORMATS, STRATEGIES
from recipec.catalog.gpus import gpu_names
from recipec.catalog.models import model_names
from recipec.cli.glossary import GLOSSARY
from recipec.cli.plan_words import MEMORY_PARTS
from recipec.diagnostics.codes import CODES
from recipec.figures import FIGURES
from recipec.recipe.foreign import KEYS
from recipec.recipe.json_schema import schema_text
from recipec.recipe.kept_arguments import LAUNCHER_VARIABLES
from recipec.rules import RULES
from recipec.rules.combinations import COMBINATIONS
from recipec.rules.pages import RULE_BOOKS
from recipec.rules.unbuilt import UNBUILT

PAGES = [*CODES, *RULES, *(row.id for row in COMBINATIONS), *(row.id for row in UNBUILT), *FIGURES]


def test_everything_with_a_code_has_its_page(run):
    for code in PAGES:
        assert run("explain", code.lower()).stdout.startswith(f"# {code}"), code


@pytest.mark.parametrize("book", RULE_BOOKS)
def test_a_rule_book_has_its_page(run, book):
    for words in ([book], [f"{book}.md"], ["rule", "book", book], [f"Rule Book {book}"], [f"rule-book-{book}"]):
        assert run("explain", *words).stdout.startswith(f"# Rule book {book}: "), words


def test_a_citation_finds_its_rule_book(run):
    document = json.loads(run("explain", "docs/rule-books/001.md, Key hyperparameters", "--json").stdout)

    assert document["id"] == "001"
    assert "## Key hyperparameters" in document["page"]


def test_rule_books_have_an_index(run):
    assert run("explain", "rule", "books").stdout.startswith("# Rule books\n")


@pytest.mark.parametrize("word", ["nonsense", "005", "rule book 007", "docs/", ""])
def test_an_unknown_word_gets_the_rule_books(run, word):
    result = run("explain", word)

    assert result.exit_code == 2
    assert f"nothing is called `{word}`" in result.stderr
    assert "The rule books are 000, 001, 002, 003 and 004." in result.stderr


@pytest.mark.parametrize(
    ("code", "near"), [("E0230", "E0203"), ("OPT-01", "OPT-001"), ("bad-0002", "BAD-002"), ("fig-37", "FIG-307")]
)
def test_an_unknown_code_gets_its_nearest(run, code, near):
    assert near in run("explain", code).stderr


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("models", model_names()),
        ("gpus", gpu_names()),
        ("rules", sorted(RULES)),
        ("figures", sorted(FIGURES)),
        ("unbuilt", [row.id for row in UNBUILT]),
        ("methods", list(METHODS)),
        ("strategies", list(STRATEGIES)),
        ("adaptations", [*ADAPTATIONS, *(name for name in LORA_VARIANTS if name != "standard")]),
        ("formats", list(ROW_FORMATS)),
        ("diagnostics", list(CODES)),
    ],
)
def test_lists_are_complete_and_the_same_in_both_formats(run, what, names):
    rows = json.loads(run("list", what, "--json").stdout)[what]
    lines = run("list", what).stdout.splitlines()[1:]

    assert [row.get("name", row.get("id", row.get("code"))) for row in rows] == list(names)
    assert [line.split()[0] for line in lines] == list(names)


@pytest.mark.parametrize("what", ["gpus", "methods", "strategies", "adaptations", "formats", "unbuilt", "diagnostics"])
def test_a_list_is_not_wider_than_a_wide_terminal(run, what):
    assert max(map(len, run("list", what).stdout.splitlines())) <= 160


@pytest.mark.parametrize("name", [*METHODS, *STRATEGIES, *ADAPTATIONS, *LORA_VARIANTS, *ROW_FORMATS])
def test_every_row_has_its_page(run, name):
    page = run("explain", name.upper()).stdout

    assert page.startswith(f"# {name}: ")
    assert json.loads(run("explain", name, "--json").stdout)["id"] == name


def test_a_row_page_says_what_decides(run):
    assert "`alignment.beta`" in run("explain", "dpo").stdout and "5e-6" in run("explain", "dpo").stdout
    assert STRATEGIES["fsdp"].cons in run("explain", "fsdp").stdout
    assert "`label`" in run("explain", "prompt-completion").stdout
    assert "did you mean preference" in run("explain", "prefrence").stderr


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("lr", "# train.learning_rate: "),
        ("gradient_accumulation", "# train.global_batch_size: "),
        ("lora_r", "# train.lora.rank: "),
        ("sft.learning_rate", "# OPT-001: "),
        ("adam_beta2", "# OPT-005: "),
        ("rlaif", "# NOT-001: "),
        ("DoRA", "# dora: DoRA"),
        ("[slurm]", "# NOT-018: "),
        ("online-dpo", "# NOT-001: "),
    ],
)
def test_words_of_the_field_lead_to_a_page(run, word, page):
    assert run("explain", word).stdout.startswith(page)


def test_a_word_without_a_page_is_told_what_to_write(run):
    assert 'set `train.adaptation = "qlora"`' in run("explain", "load_in_4bit").stdout
    assert 'set `train.adaptation = "lora-int8"`' in run("explain", "load_in_8bit").stdout


# What people type who know TRL, axolotl, LLaMA-Factory or the papers -> a word of the page that they need.
TYPED = {
    **dict.fromkeys(("sharegpt", "chatml", "openai", "conversations", "messages"), "# chat: "),
    **dict.fromkeys(("chat template", "Chat template"), "# data.template: "),
    "ChatML": '`data.template = "chatml"`',
    "plain": '`data.template = "plain"`',
    **dict.fromkeys(("tool calling", "tool_use", "function calling"), "# tools, carried by rows"),
    **dict.fromkeys(("hyperparameter search", "hpo", "grid search", "Grid-Search"), "# NOT-007: "),
    "text classification": "# NOT-028: ",
    "Evaluation share": "# data.eval_fraction: ",
    "alpaca": "# instruction: ",
    **dict.fromkeys(("tools", "functions", "tool_calls"), "# tools, carried by rows"),
    **dict.fromkeys(("thinking", "reasoning", "cot"), "# data.reasoning: "),
    "reasoning_content": "# reasoning, carried by rows",
    **dict.fromkeys(("parts", "system"), "carried by rows"),
    "weight": "# weight, carried by rows",
    "loss_mask": "refused (E0308)",
    "function_calling": "# data.carry: ",
    **dict.fromkeys(("parquet", "jsonl", "csv", "dataset_dir"), "# data.train: "),
    **dict.fromkeys(("tsv", "arrow", "zst"), "# NOT-034: "),
    "load_dataset": "# data.train.hub: ",
    "interleave_probs": "# data.train.weight: ",
    "DATA_ROOT": "paths of the recipe start",
    **dict.fromkeys(("NPROC_PER_NODE", "NNODES", "SHARDS"), "OTHER_RANKS=1"),
    "MASTER_ADDR": "first node",
    "CUDA_VISIBLE_DEVICES": "# launch.env: ",
    "HF_TOKEN": "recipes hold no secrets",
    **dict.fromkeys(("torchrun", "accelerate"), "# launch.with: "),
    **dict.fromkeys(("docker", "ray", "sagemaker"), "# NOT-018: "),
    "horovod": "# NOT-016: ",
    **dict.fromkeys(("adamw", "sgd", "lion", "adafactor"), "# train.optimizer: "),
    "adamw_torch": '`train.optimizer = "adamw"`',
    **dict.fromkeys(("muon", "galore", "sophia", "schedule_free"), "# NOT-027: "),
    **dict.fromkeys(("cosine", "linear", "constant"), "# train.schedule: "),
    "wsd": '`train.schedule = "warmup-stable-decay"`',
    **dict.fromkeys(("polynomial", "min_lr", "cosine_with_restarts"), "# NOT-022: "),
    **dict.fromkeys(("bfloat16", "fp16", "fp32", "amp"), "# train.precision: "),
    **dict.fromkeys(("4bit", "int4"), "# qlora: "),
    "8bit": "# lora-int8: ",
    "int8": '`train.quantization = "int8"`',
    **dict.fromkeys(("gptq", "awq"), "# NOT-021: "),
    "fp8": "# train.fp8: ",
    "ewc": "# [train.ewc]: ",
    **dict.fromkeys(("wandb", "mlflow", "tensorboard", "tracker"), "# track.to: "),
    **dict.fromkeys(("comet", "swanlab", "neptune"), "# NOT-024: "),
    **dict.fromkeys(("sdpa", "fa2"), '`train.attention = "sdpa"`'),
    **dict.fromkeys(("xformers", "unsloth", "liger", "flex_attention"), "# NOT-023: "),
    "rslora": "# rslora: rsLoRA",
    "pissa": "# pissa: PiSSA",
    "loraplus_lr_ratio": "# train.lora.variant: ",
    "oft": "# NOT-013: ",
    "rm": "# reward: ",
    **dict.fromkeys(("gkd", "opd"), "# on-policy-distill: "),
    **dict.fromkeys(("lmbda", "seq_kd"), "# NOT-044: "),
    "margin": "# NOT-045: ",
    "hh-rlhf": "# preference: ",
    "chatml_template": "# data.template: ",
    **dict.fromkeys(("ipo", "hinge"), "# alignment.loss: "),
    **dict.fromkeys(("bco", "rpo", "dft"), "# NOT-030: "),
    "rlvr": "# grpo: ",
    **dict.fromkeys(("minillm", "nash"), "# NOT-001: "),
    **dict.fromkeys(("train_on_inputs", "response_template", "assistant_only_loss"), "`data.loss_on`"),
    "group_by_length": "`train.sampling`",
    "flash_attention_2": "a value that `train.attention` refuses",
    **dict.fromkeys(("ulysses", "ring_attention", "sequence_parallel"), "# NOT-008: "),
    "zero++": "# NOT-036: ",
    "cpu_offload": "# train.offload: ",
    "modules_to_save": "# NOT-025: ",
    **dict.fromkeys(("added_tokens", "new_special_tokens", "resize_vocab"), "# model.new_tokens: "),
    **dict.fromkeys(("rope_scaling", "yarn"), "# NOT-026: "),
    **dict.fromkeys(("vision", "vision-language", "reranker"), "# NOT-028: "),
    "multimodal": "google/gemma-3-4b-it, is trained on text",
    "Qwen/Qwen2.5-VL-7B-Instruct": "language model is trained on text, such as Qwen/Qwen3.5",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "experts beside gated delta net layers are not modeled",
    "gguf": "# NOT-029: ",
    **dict.fromkeys(("vllm", "use_vllm"), "# alignment.generation.engine: "),
    "vllm_server": "# alignment.generation.engine: ",
    "vllm_server_host": "# NOT-040: ",
    **dict.fromkeys(("schedulefree", "schedule_free_adamw"), "# NOT-027: "),
    "rpo_alpha": "# NOT-030: ",
    "cosine_min_lr_ratio": "# NOT-022: ",
    "multipack": "# train.packing: ",
    "fsdp_version": "FSDP2",
    "noisy_embedding_alpha": "neftune_noise_alpha",
    "reward_funcs": "# alignment.reward: ",
    "pretraining_dataset": "continue-pretrain",
    "wandb_entity": "[launch]",
    "freeze": "# NOT-031: ",
    "lora_model_dir": "# model.init_from: ",
    **dict.fromkeys(("tpu", "mps"), "# NOT-033: "),
    "mergekit": "# NOT-035: ",
    "neftune_noise_alpha": "[train.arguments]",
    "use_liger_kernel": "is not installed",
    "adam_epsilon": "recipec sets it",
    **dict.fromkeys(("learning_rate", "learning rate", "epochs"), "# train."),
    "rank": "# train.lora.rank: ",
    "bradley-terry": "# reward: ",
    **dict.fromkeys(("chosen", "rejected"), "# preference: "),
    **dict.fromkeys(("shared folder", "checkpoint folder", "output_dir"), "in `outputs/` of the bundle"),
    "4090": '`hardware.gpu = "rtx-4090"`',
    "Qwen/Qwen3-8B": '`model.name = "Qwen/Qwen3-8B"`',
    "llama3": "`meta-llama/Meta-Llama-3-8B-Instruct`",
    "verify": "`recipec verify --help`",
}


@pytest.mark.parametrize("word", TYPED)
def test_what_people_type_leads_to_a_key_a_value_a_page_or_why_it_is_not_built(run, word):
    result = run("explain", word)

    assert result.exit_code == 0, result.stderr
    assert TYPED[word] in result.stdout


@pytest.mark.parametrize("word", ["learning_rate", "learning rate", "epochs", "rank"])
def test_the_key_of_every_run_comes_before_those_of_several_adapters(run, word):
    heads = [line for line in run("explain", word).stdout.splitlines() if line.startswith("# ")]
    assert heads[0].startswith("# train.") and len(heads) > 1


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_a_format_says_what_its_rows_may_carry(run, name):
    page = run("explain", name).stdout

    assert [f"- May carry `{carry}`: " in page for carry in CARRIED] == [
        carry in ROW_FORMATS[name].carries for carry in CARRIED
    ]


def test_every_word_of_the_tables_leads_somewhere(run):
    """Names of keys, rows, values and variables elsewhere, whatever is added to a table."""
    rows = [*METHODS.values(), *STRATEGIES.values(), *ADAPTATIONS.values(), *ROW_FORMATS.values()]
    carried = [word for row in CARRIED.values() for word in (row.name, *row.columns, *row.fields)]
    words = [*KEYS, *LAUNCHER_VARIABLES, *carried, *(word for row in rows for word in row.elsewhere)]

    assert [word for word in dict.fromkeys(words) if run("explain", word).exit_code] == []


def test_schema_is_the_language(run):
    assert run("schema").stdout == schema_text()


def test_diff_of_recipes(run):
    document = json.loads(run("diff", "recipe.toml", "faster.toml", "--json").stdout)

    assert [row["id"] for row in document["decisions"]] == ["sft.learning_rate"]
    assert (document["decisions"][0]["a"]["value"], document["decisions"][0]["b"]["value"]) == (2e-4, 4e-4)
    train = next(file for file in document["files"] if file["path"] == "train.py")
    assert "-        learning_rate=2e-4," in train["diff"] and "+        learning_rate=4e-4," in train["diff"]


def test_diff_of_bundles_sees_decisions_figures_and_edits(run, out):
    assert run("diff", "out", "recipe.toml").exit_code == 0
    run("build", "faster.toml", "-o", "other")
    (out / "train.py").write_text("# mine\n")
    (out / "evaluate.py").unlink()

    document = json.loads(run("diff", "out", "other", "--json").stdout)

    changes = {file["path"]: file["change"] for file in document["files"]}
    assert (changes["train.py"], changes["evaluate.py"]) == ("changed", "added")
    assert run("diff", "out", "other").stdout.startswith("sft.learning_rate: 2e-4 -> 4e-4\n    - set in recipe.toml:17")


def test_diff_shows_another_figure(run, folder):
    recipe = (folder / "recipe.toml").read_text()
    (folder / "other.toml").write_text(recipe.replace("rtx-4090", "h100"))

    text = run("diff", "recipe.toml", "other.toml").stdout

    assert "stage" in text and "sft    -" in text and "sft    +" in text


def verifier(monkeypatch: pytest.MonkeyPatch, verify: object) -> None:
    """Put a verifier in the place of recipec.verify."""
    package, report = ModuleType("recipec.verify"), ModuleType("recipec.verify.report")
    package.verify_bundle = verify  # type: ignore[attr-defined]
    report.line_of = lambda check: f"tried: {check}"  # type: ignore[attr-defined]
    report.summary = lambda document: f"{document}\n"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "recipec.verify", package)
    monkeypatch.setitem(sys.modules, "recipec.verify.report", report)


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
def test_verify_passes_on_what_it_is_asked_and_what_is_found(run, out, monkeypatch, ok, code):
    asked = []

    def verify(*arguments: object) -> SimpleNamespace:
        asked.append(arguments[:-1])
        arguments[-1]("one thing")  # type: ignore[operator]
        return SimpleNamespace(ok=ok, document=lambda: {"schema_version": 1, "ok": ok})

    verifier(monkeypatch, verify)

    result = run("verify", "out", "--level", "run", "--ranks", "2", "--json")

    assert result.exit_code == code
    assert json.loads(result.stdout)["ok"] is ok
    assert asked == [(out, "run", 2)]
    assert run("verify", "out").stdout.startswith("tried: one thing\n\n{'schema_version'")


@pytest.mark.parametrize("ok", [True, False])
def test_verify_that_fails_names_edited_lines_and_their_keys(run, out, monkeypatch, ok):
    train = out / "train.py"
    train.write_text(train.read_text().replace("learning_rate=2e-4", "learning_rate=1e-4"))
    report = SimpleNamespace(ok=ok, document=lambda: {"schema_version": 1, "ok": ok})
    verifier(monkeypatch, lambda *_: report)

    said = run("verify", "out").stdout

    edit = "learning_rate=2e-4, -> learning_rate=1e-4,  (to keep it in the recipe, set `train.learning_rate`)\n"
    assert said.endswith(edit) is not ok
    keys = [each["key"] for each in json.loads(run("verify", "out", "--json").stdout)["edits"]]
    assert keys == ([] if ok else ["train.learning_rate"])


@pytest.mark.parametrize(
    ("missing", "says"),
    [("torch", "pip install recipec[verify]"), ("recipec.verify.runner", "this is a bug in recipec")],
)
def test_verify_without_its_packages(run, out, monkeypatch, missing, says):
    def verify(*_: object) -> None:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    verifier(monkeypatch, verify)

    result = run("verify", "out")

    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("word", ["usable", "reserved", "allocated", "accepted", "accepts", "band", "working_set"])
def test_words_of_a_plan_have_a_page(run, word):
    assert "a word of `recipec plan`" in run("explain", word).stdout


def test_every_part_of_the_memory_has_a_page():
    shown = {part.replace(" ", "_") for part in MEMORY_PARTS}
    plans = [json.loads(path.read_text()) for path in Path("generated-examples").glob("*/.recipec/plan.json")]
    terms = {term for plan in plans for stage in plan["stages"] for term in stage["memory"]["terms"]}
    assert len(plans) > 10 and terms <= shown


@pytest.mark.parametrize("word", GLOSSARY)
def test_a_word_of_bundles_is_explained(run, word):
    result = run("explain", word)
    assert result.exit_code == 0 and GLOSSARY[word] in result.stdout


def test_methods_name_the_models_beside_theirs_once(run):
    """What `explain` says of them, too: not the policy itself, and no model twice."""
    rows = {row["name"]: row["other_models"] for row in json.loads(run("list", "methods", "--json").stdout)["methods"]}
    assert (rows["kto"], rows["sft"]) == (["reference"], [])
