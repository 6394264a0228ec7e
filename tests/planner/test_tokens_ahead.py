"""What GPUs wait for while train.py tokenizes: its cost is said, and with several nodes a way to make it on one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from huggingface_hub.utils import filter_repo_objects
from transformers.utils import CHAT_TEMPLATE_FILE, CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from recipec.cli.plan import plan_text
from recipec.planner.advice.prepared_ahead import READ_OF_A_MODEL
from recipec.planner.document import plan_document
from recipec.units import duration, usd


def pretraining(examples: int, nodes: int = 4, **more: Any) -> Tables:
    """Documents of a thousand tokens on nodes of 8 H100."""
    tables = with_key(with_key(BASES["pretrain"], "data.examples", examples), "data.tokens_per_example", 1000)
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": nodes}
    hardware |= {"network_gbps": 3200} if nodes > 1 else {}
    return with_key(tables, "hardware", hardware) | more


def named(folder: Path, tables: Tables) -> list[str]:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    return [line for line in plan.stages[0].options if line.startswith("tokenize the rows on one node")]


def test_the_part_says_who_waits_and_for_how_much(tmp_path: Path) -> None:
    plan = good(tmp_path, pretraining(20_000_000, nodes=1)).plan
    assert plan is not None
    (stage,) = plan.stages
    (part,) = (each for each in stage.parts if each.name == "tokenization")
    cost = usd(8 * part.seconds / 3600 * stage.decisions["gpu_price"].value)
    assert part.because.endswith(f", while 8 GPUs wait ({cost})")
    assert part.because in plan_text(plan_document(plan))
    assert part.because in texts(good(tmp_path, pretraining(20_000_000, nodes=1)))["README.md"]


@pytest.mark.parametrize(("examples", "nodes", "proposed"), [(20_000_000, 4, 1), (20_000_000, 1, 0), (20_000, 4, 0)])
def test_one_node_is_proposed_where_many_would_wait(tmp_path: Path, examples: int, nodes: int, proposed: int) -> None:
    tables = pretraining(examples, nodes)
    lines, found = named(tmp_path, tables), good(tmp_path, tables)
    assert len(lines) == proposed
    assert ("To tokenize before you rent all nodes" in texts(found)["README.md"]) is bool(proposed)
    assert found.plan is not None
    waited = sum(stage.tokenizing_seconds for stage in found.plan.stages)
    for line in lines:
        assert f"32 GPUs wait for train.py, {duration(waited)} and $" in line


@pytest.mark.parametrize(
    ("base", "repeats"), [("dpo-full", "drops pairs whose prompt"), ("kto", "drops rows whose prompt")]
)
def test_what_each_rank_does_anew_is_said(tmp_path: Path, base: str, repeats: str) -> None:
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 4, "network_gbps": 3200}
    tables = with_key(with_key(BASES[base], "data.examples", 20_000_000), "data.tokens_per_example", 1000)
    readme = texts(good(tmp_path, with_key(tables, "hardware", hardware)))["README.md"]
    assert f"Each rank still {repeats}" in readme
    assert "Each rank still" not in texts(good(tmp_path, pretraining(20_000_000)))["README.md"]


def test_no_launch_script_no_proposal(tmp_path: Path) -> None:
    assert not named(tmp_path, pretraining(20_000_000, launch={"with": "none"}))


@pytest.mark.parametrize(("strategy", "shards"), [("fsdp", ""), ("hsdp", "SHARDS=8 ")])
def test_the_command_states_every_number_that_the_script_would_refuse(
    tmp_path: Path, strategy: str, shards: str
) -> None:
    files = texts(good(tmp_path, with_key(pretraining(20_000_000), "train.strategy", strategy)))
    (command,) = re.findall(r"run `([^`]*launch/nodes.sh --max-steps 1)`", files["README.md"])
    assert command.startswith(f"OTHER_RANKS=1 NNODES=1 {shards}NODE_RANK=0")
    known = set(re.findall(r"planned ([A-Z_]+) \d", files["launch/nodes.sh"])) - {"NPROC_PER_NODE"}
    assert known == set(re.findall(r"(NNODES|SHARDS)=", command))


def long_rows(**more: Any) -> Tables:
    """Few rows of 90,000 tokens, whose scoring takes long, on 2 nodes."""
    data = {"train": "chat.jsonl", "examples": 5_000, "tokens_per_example": 90_000, "max_length": 131072}
    hardware = {"gpu": "h100", "gpus_per_node": 8, "nodes": 2, "network_gbps": 3200}
    tables = with_key(with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.1-8B-Instruct"), "data", data)
    return with_key(with_key(tables, "hardware", hardware), "train", {"adaptation": "full"}) | more


def of_one_node(folder: Path, tables: Tables) -> list[str]:
    plan = compiled(folder, tables, only_plan=True).plan
    assert plan is not None
    starts = ("run prepare_data.py and evaluate.py before on one node", "give the other nodes back")
    return [line for line in plan.stages[0].options if line.startswith(starts)]


def test_what_one_node_does_alone_is_named_with_what_the_others_cost(tmp_path: Path) -> None:
    """evaluate.py runs twice, on one of two nodes: half of the money of its time is that of the other."""
    plan = compiled(tmp_path, long_rows(), only_plan=True).plan
    assert plan is not None
    (stage,) = plan.stages
    scoring, price = stage.scoring_seconds / 2, stage.decisions["gpu_price"].value
    download = next(part.seconds for part in stage.parts if part.name == "download")
    ahead, behind = of_one_node(tmp_path, long_rows())
    both = f"wait for the download ({duration(download)}) and the scoring ({duration(scoring)}) of the model"
    assert ahead.endswith(f"8 GPUs of other nodes {both}, {usd(8 * (download + scoring) / 3600 * price)}")
    assert behind.endswith(f"scores the result, {duration(scoring)} and {usd(8 * scoring / 3600 * price)}")
    few = with_key(long_rows(), "data", {"train": "chat.jsonl", "examples": 5_000, "tokens_per_example": 100})
    assert not of_one_node(tmp_path, few)
    assert not of_one_node(tmp_path, long_rows(launch={"with": "none"}))


def test_readme_says_how_one_node_scores_alone(tmp_path: Path) -> None:
    """The commands are those of the launch script, and the file is what evaluate.py looks for."""
    files = texts(good(tmp_path, long_rows()))
    (before,) = re.findall(r"run `python prepare_data.py` and `([^`]+)` on one node", files["README.md"])
    (after,) = re.findall(r"finished.json` is there, and run `([^`]+)` on one node", files["README.md"])
    launch = files["launch/nodes.sh"].replace('"$BUNDLE/evaluate.py"', "evaluate.py")
    launch = launch.replace('"$((SFT_PROCESSES / SFT_NODES))"', "8")
    for command in (before, after):
        assert f'[[ "$NODE" != 0 ]] || {command} ' in launch
    assert 'TRAINED = BUNDLE / "outputs" / "sft"' in files["evaluate.py"]
    assert "`outputs/sft/finished.json`" in files["README.md"] and 'TRAINED / "finished.json"' in files["evaluate.py"]
    ends = launch.partition(f"{after} ")[2]
    assert "together" not in ends, "the other nodes have nothing left to do"


def large(examples: int, **more: Any) -> Tables:
    """A model of 132 GiB on one node: its download takes 8 minutes, of which 8 GPUs are paid for."""
    hardware = {"gpu": "h100", "gpus_per_node": 8} | more
    data = {"train": "chat.jsonl", "examples": examples, "tokens_per_example": 500}
    tables = with_key(with_key(BASES["lora-single"], "model.name", "meta-llama/Llama-3.3-70B-Instruct"), "data", data)
    return with_key(tables, "hardware", hardware)


@pytest.mark.parametrize(("examples", "more", "named"), [(1_000, {}, 1), (200_000, {}, 0), (1_000, {"nodes": 2}, 0)])
def test_a_download_that_the_gpus_of_one_node_wait_for_is_named(
    tmp_path: Path, examples: int, more: dict[str, int], named: int
) -> None:
    plan = compiled(tmp_path, large(examples, **more), only_plan=True).plan
    assert plan is not None
    (stage,) = plan.stages
    lines = [line for line in stage.options if line.startswith("download the model without GPUs")]
    assert len(lines) == named
    seconds = next(part.seconds for part in stage.parts if part.name == "download")
    for line in lines:
        assert '`hf download meta-llama/Llama-3.3-70B-Instruct --include "model*.safetensors" "*.json" ' in line
        cost = usd(8 * seconds / 3600 * stage.decisions["gpu_price"].value)
        assert line.endswith(f"otherwise 8 GPUs wait for it, {duration(seconds)} and {cost}")


READ = [
    *("model.safetensors", "model-00001-of-00030.safetensors", "model.safetensors-00001-of-00014.safetensors"),
    *("model.safetensors.index.json", "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model"),
    *("merges.txt", "chat_template.jinja", "additional_chat_templates/tool_use.jinja", "modeling_own.py"),
]
NOT_READ = [
    *("original/consolidated.00.pth", "original/model--00001-of-00007.safetensors", "consolidated.safetensors"),
    *("pytorch_model-00001-of-00002.bin", "metal/model.bin", "onnx/model.onnx", "model-q4.gguf", "README.md"),
]


def test_the_download_is_of_what_from_pretrained_reads() -> None:
    """As huggingface_hub reads the patterns of `hf download --include`."""
    found = filter_repo_objects(READ + NOT_READ, allow_patterns=list(READ_OF_A_MODEL))
    assert list(found) == READ


@pytest.mark.parametrize("name", [SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, CONFIG_NAME, CHAT_TEMPLATE_FILE])
def test_files_that_transformers_names_are_downloaded(name: str) -> None:
    assert list(filter_repo_objects([name], allow_patterns=list(READ_OF_A_MODEL))) == [name]
