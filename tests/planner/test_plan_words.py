"""What a plan says of its own limits: what was scored, what is counted, what is assumed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

from recipec.catalog.models import model, models
from recipec.cli.plan import plan_text
from recipec.planner.document import plan_document
from recipec.rules.words import waiting
from recipec.units import duration, usd


def shown(folder: Path, recipe: Tables) -> str:
    found = compiled(folder, recipe, only_plan=True)
    assert found.plan
    return plan_text(json.loads(found.plan_json))


@pytest.mark.parametrize(
    ("base", "band"),
    [
        ("lora-single", "+5% to +34% (15 published runs of LoRA on 1 x a100-80gb)"),
        ("qlora", "-2% to +56% (17 published runs of QLoRA on 1 x a100-80gb)"),
        (
            "full-fsdp",
            "-17% to +23% (56 published runs of full fine-tuning and pretraining with fsdp on 2 to 64 x a100-80gb)",
        ),
    ],
)
def test_a_kind_that_was_scored_has_its_band(tmp_path: Path, base: str, band: str) -> None:
    recipe = with_key(BASES[base], "hardware.gpu", "a100-80gb")
    recipe = with_key(recipe, "train.adaptation", "qlora") if base == "qlora" else recipe
    text = shown(tmp_path, with_key(recipe, "hardware.gpus_per_node", 4) if base == "full-fsdp" else recipe)
    assert f"measured over predicted: {band}" in text
    assert "no published run" not in text


NOT_SCORED = "measured over predicted: not known, no published run of this kind was scored"


@pytest.mark.parametrize("base", ["lora-ddp", "zero3-offload", "dpo-full", "kto", "reward", "cpu"])
def test_a_kind_that_was_not_scored_has_no_band(tmp_path: Path, base: str) -> None:
    text = shown(tmp_path, BASES[base])
    assert "published runs of" not in text
    assert text.count(NOT_SCORED) == 2 * text.count("  memory "), "of memory and of time"


def test_memory_is_scored_on_any_card_and_time_on_those_that_were_timed(tmp_path: Path) -> None:
    text = shown(tmp_path, with_key(BASES["lora-single"], "hardware.gpu", "rtx-4090"))
    assert text.count(NOT_SCORED) == 1
    assert text.index("measured over predicted: -2% to +4%") < text.index(NOT_SCORED)


def test_a_mixture_of_experts_was_not_scored(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B")
    assert shown(tmp_path, recipe).count(NOT_SCORED) == 2


def test_time_and_cost_say_what_they_leave_out(tmp_path: Path) -> None:
    text = shown(tmp_path, BASES["qlora"])
    assert "for the whole run" in text and "GPU hours of the whole run at $" in text
    assert "not counted: installing packages, waiting for the machine" in text


def test_a_short_run_is_not_zero_hours(tmp_path: Path) -> None:
    text = shown(tmp_path, with_key(BASES["lora-single"], "train.max_steps", 2))
    assert "0.0 GPU hours" not in text
    assert "GPU seconds of the whole run" in text or "GPU minutes of the whole run" in text


def test_an_assumed_network_is_told_in_plan_and_readme(tmp_path: Path) -> None:
    recipe = with_key(BASES["full-fsdp"], "hardware.nodes", 2)
    assumed = "Gbit/s between nodes, usual with h100 GPUs (a low figure of 17 machine types, 2026-11)"
    assert f"  assumes  1,600 {assumed}" in shown(tmp_path, recipe)
    readme = texts(good(tmp_path, recipe))["README.md"].replace("\\", "")
    assert f"assumed: 1,600 {assumed}" in readme
    stated = with_key(recipe, "hardware.network_gbps", 400)
    assert assumed not in shown(tmp_path, stated) + texts(good(tmp_path, stated))["README.md"]


@pytest.mark.parametrize(("base", "batch"), [("dpo-full", "32 pairs ="), ("kto", "32 answers ="), ("qlora", "32 seq")])
def test_a_batch_counts_what_the_method_counts(tmp_path: Path, base: str, batch: str) -> None:
    assert f"  batch    {batch}" in shown(tmp_path, BASES[base])


def test_a_plan_speaks_of_host_memory(tmp_path: Path) -> None:
    text = shown(tmp_path, BASES["zero3-offload"])
    assert "weights and states in host memory" in text and "of host memory per node" in text
    assert "CPU memory" not in text


def test_a_plan_and_its_readme_use_the_terms_of_the_field(tmp_path: Path) -> None:
    recipe = with_key(BASES["lora-single"], "train.activation_checkpointing", True)
    text, readme = shown(tmp_path, recipe), texts(good(tmp_path, recipe))["README.md"]
    assert " attention, gradient checkpointing, " in text and "| gradient checkpointing | yes |" in readme
    assert (
        "\n  with more hardware: full fine-tuning with 8-bit optimizer states needs" in text
        and '(set `train.adaptation = "full"`)' in text
    )
    assert "the device" not in text + readme and "of 79.1 GiB GPU memory" in readme


def test_a_plan_without_alternatives_says_so(tmp_path: Path) -> None:
    plan = compiled(tmp_path, with_key(BASES["cpu"], "train.adaptation", "full"), only_plan=True).plan
    assert plan and plan.stages[0].decisions["alternatives"].because == "no other was tried"


def test_a_plan_leaves_out_what_would_read_as_nothing(tmp_path: Path) -> None:
    """One GPU has no links, and a few megabytes of tokens are no disk space; eight GPUs and 250,000 rows have both."""
    text = shown(tmp_path, with_key(BASES["lora-single"], "data.examples", 300))
    assert "tokenized data" not in text and "\n  links" not in text
    text = shown(tmp_path, BASES["full-fsdp"])
    assert "prepared and tokenized data 6." in text and "tokenized data 0.0" not in text
    assert not waiting(0.004, ()) and waiting(0.006, ())


def test_tokens_of_pretraining_are_those_of_the_rows(tmp_path: Path) -> None:
    """The last batch of an epoch is not full; as many steps as the recipe sets are."""
    recipe = with_key(with_key(BASES["pretrain"], "data.examples", 3_000), "train.global_batch_size", 512)
    (found,) = [d for d in compiled(tmp_path, recipe, only_plan=True).diagnostics if d.code == "W0506"]
    assert found.title.startswith("pretraining on 960,000 tokens")  # 80% of 3,000 rows of 400 tokens
    capped = with_key(recipe, "train.max_steps", 10)
    (found,) = [d for d in compiled(tmp_path, capped, only_plan=True).diagnostics if d.code == "W0506"]
    assert found.title.startswith("pretraining on 5.24M tokens")  # 10 batches of 512 rows of 1,024 tokens


def test_the_base_model_that_is_named_has_the_context_and_a_license(tmp_path: Path) -> None:
    """SmolLM2-360M has the size and half the context; Llama 3.2 a license of its maker's."""
    config = {"model_type": "llama", "hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32}
    config |= {"num_attention_heads": 15, "num_key_value_heads": 5, "vocab_size": 49152, "tie_word_embeddings": True}
    config |= {"max_position_embeddings": 16_384, "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps(config))
    recipe = with_key(with_key(BASES["pretrain"], "model.name", "./own"), "data.max_length", 16_384)
    recipe = with_key(recipe, "data.examples", 1_000_000)
    (found,) = [d for d in compiled(tmp_path, recipe, only_plan=True).diagnostics if d.code == "W0506"]
    name, context, license = re.search(
        r'`model.name = "([^"]+)"` \([^,]+ parameters, a context of ([\d,]+) tokens, license (.+)\)$', found.help[0]
    ).groups()
    assert int(context.replace(",", "")) >= 16_384 and license in ("Apache-2.0", "MIT")
    own = with_key(recipe, "recipe.extends", "team.toml")
    (tmp_path / "team.toml").write_text('[policy]\nlicenses = ["Llama 3.2 Community License"]\n')
    (found,) = [d for d in compiled(tmp_path, own, only_plan=True).diagnostics if d.code == "W0506"]
    assert "license Llama 3.2 Community License" in found.help[0] and name not in found.help[0]


def test_the_base_model_that_is_named_has_no_special_purpose(tmp_path: Path) -> None:
    """The catalog has this very shape as an intermediate checkpoint of TinyLlama alone."""
    config = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32_000, "tie_word_embeddings": False}
    config |= {"max_position_embeddings": 2048, "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps(config))
    recipe = with_key(BASES["pretrain"], "model.name", "./own")
    (found,) = [d for d in compiled(tmp_path, recipe, only_plan=True).diagnostics if d.code == "W0506"]
    named = model(re.search(r'`model.name = "([^"]+)"`', found.help[0])[1])
    alike = next(each for each in models() if each.name.startswith("TinyLlama/") and each.kind == "base")
    assert alike.purpose and f"{alike.architecture.params:,}" == "1,100,048,384", "the case shows nothing"
    assert not named.purpose


def test_random_weights_are_made_and_not_read(tmp_path: Path) -> None:
    parts = {part.name: part.because for part in compiled(tmp_path, BASES["pretrain"]).plan.stages[0].parts}
    assert "GiB of random weights and tries a save" in parts["loading"] and "reads" not in parts["loading"]
    parts = {part.name: part.because for part in compiled(tmp_path, BASES["lora-single"]).plan.stages[0].parts}
    assert "of weights and tries a save" in parts["loading"] and "random" not in parts["loading"]


def test_gpus_that_wait_for_the_rows_are_named_with_what_they_cost(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["pretrain"], "data.examples", 20_000_000), "hardware.gpu", "h100")
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    (stage,) = plan.stages
    (line,) = [line for line in stage.options if line.startswith("prepare the rows on a machine without GPUs")]
    waited = stage.preparation_seconds / 3600 * stage.value("gpus") * stage.value("gpu_price")
    assert line.endswith(f"{duration(stage.preparation_seconds)} and {usd(waited)}")
    few = compiled(tmp_path, with_key(recipe, "data.examples", 20_000), only_plan=True).plan
    assert not [line for line in few.stages[0].options if line.startswith("prepare")]


@pytest.mark.parametrize(
    ("key", "value", "proposed"),
    [("launch.with", "none", 0), ("data.train", [{"hub": "org/texts", "format": "text"}], 1)],
)
def test_what_no_launch_would_find_prepared_is_not_proposed(
    tmp_path: Path, key: str, value: Any, proposed: int
) -> None:
    """README.md of a bundle without a script has no way to prepare the rows before the GPUs are rented."""
    recipe = with_key(with_key(BASES["pretrain"], "data.examples", 20_000_000), "hardware.gpu", "h100")
    recipe = with_key(with_key(recipe, "data.tokens_per_example", 400), key, value)
    (stage,) = compiled(tmp_path, recipe, only_plan=True).plan.stages
    assert len([line for line in stage.options if line.startswith("prepare")]) == proposed


@pytest.mark.parametrize(("rows", "proposed"), [(1_200_000, False), (1_600_000, True), (3_000_000, True)])
def test_plan_and_readme_propose_rows_prepared_ahead_alike(tmp_path: Path, rows: int, proposed: bool) -> None:
    """The wait for the rows of all stages counts: of 1.6 million rows neither stage alone is long enough."""
    recipe = with_key(with_key(BASES["sft-dpo"], "data.train", "chat.jsonl"), "data.examples", rows)
    found = good(tmp_path, with_key(recipe, "hardware.gpus_per_node", 8))
    lines = [line for stage in found.plan.stages for line in stage.options if line.startswith("prepare the rows")]
    assert len(lines) == proposed
    assert ("before you rent them" in texts(found)["README.md"]) is proposed
    waited = sum(stage.preparation_seconds for stage in found.plan.stages)
    for line in lines:
        assert f"{duration(waited)} and $" in line and line.endswith(" for all stages")
        assert f"takes about {duration(waited)}" in texts(found)["README.md"]


def test_ranks_that_share_layers_are_named_in_the_head_of_a_plan(tmp_path: Path) -> None:
    tables = with_key(BASES["lora-single"], "hardware", {"gpu": "h100", "gpus_per_node": 8})
    tables = with_key(tables, "train", {"adaptation": "full", "tensor_parallel": 8})
    text = plan_text(plan_document(compiled(tmp_path, tables, only_plan=True).plan))
    assert "(8 tensor parallel), nothing offloaded" in text and "accumulated x 1 group of 8 ranks" in text
