"""A published run is described by what its row states, or refused by the name of what is not modelled."""

from __future__ import annotations

import sys
from collections import defaultdict
from math import inf
from pathlib import Path

import pytest
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[2]))  # the benchmarks are no part of the package

from benchmarks import memory_accuracy, throughput_accuracy
from benchmarks.names import architecture, card_of
from benchmarks.published import Unmodelled
from benchmarks.stacks import case_of
from recipec.catalog.machines import machine
from recipec.catalog.models import model

ROW = {
    "id": "own-1", "source_repo_or_doc": "own", "model": "Llama-2 7B", "method": "lora", "lora_rank": "16",
    "lora_targets": "q_proj,v_proj", "quant": "none", "optimizer": "adamw_torch", "precision": "bf16",
    "micro_batch": "2", "seq_len": "2048", "grad_checkpointing": "full", "packing": "no", "attention_impl": "sdpa",
    "fused_loss": "none", "strategy": "single", "num_gpus": "1", "gpu": "A100 80GB",
    "peak_mem_gb_per_gpu": "20", "mem_kind": "allocated", "unit": "GiB",
}  # fmt: skip


def row(**changed: str) -> dict[str, str]:
    """A described run, with cells changed."""
    return defaultdict(str, {**ROW, **changed})


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"attention_impl": "eager"}, lambda case: case.layout.attention == "eager"),
        ({"attention_impl": "flash-attn 2"}, lambda case: case.layout.attention == "flash_attention_2"),
        ({"fused_loss": "liger fused linear CE"}, lambda case: case.work.head == "fused"),
        ({"optimizer": "paged_adamw_8bit"}, lambda case: case.layout.optimizer == "paged-adamw-8bit"),
        ({"optimizer": "AdamW fused"}, lambda case: not case.work.foreach and case.layout.optimizer == "adamw"),
        ({"method": "lora", "quant": "nf4 (bnb)"}, lambda case: case.layout.adaptation == "qlora"),
        ({"method": "lora dpo"}, lambda case: case.work.objective == "dpo"),
        ({"method": "full", "precision": "bf16 mixed"}, lambda case: case.work.full_weights == "fp32"),
        ({"method": "full", "precision": "bf16-true"}, lambda case: not case.work.autocast),
        ({"strategy": "DeepSpeed ZeRO-3", "num_gpus": "8"}, lambda case: case.layout.strategy == "zero3"),
        ({"strategy": "fsdp2 (8)", "num_gpus": "8"}, lambda case: case.work.fsdp == 2),
        ({"packing": "no (padded to the maximum)"}, lambda case: case.work.padded),
        ({"method": "qlora", "quant": "nf4 (bnb)", "notes": "uses prepare_model_for_kbit_training"},
         lambda case: case.work.kbit_fp32_residual),
    ],
)  # fmt: skip
def test_what_a_row_states_is_described(changed, found):
    assert found(case_of(row(**changed)))
    assert not found(case_of(row()))


FOUNDRY = {"source_repo_or_doc": "mosaicml/llm-foundry", "model": "MPT-7b", "method": "pretrain", "packing": "yes"}
FOUNDRY |= {"attention_impl": "flash attention", "strategy": "fsdp1 FULL_SHARD", "num_gpus": "16"}


@pytest.mark.parametrize(("mode", "wide"), [("DEFAULT", True), ("PURE", False)])
def test_a_run_of_llm_foundry_reduces_as_its_mode_says(mode, wide):
    case = case_of(row(**FOUNDRY, notes=f"MP mode {mode}"))
    assert case.work.reduces_in_fp32 is wide and case.work.first_flash and case.layout.fsdp
    assert case.architecture.params == pytest.approx(6.65886e9, rel=0.002), "but for the learned positions"


def test_a_row_of_several_nodes_has_the_network_that_it_states_or_that_a_plan_assumes():
    stated = row(**FOUNDRY, notes="with 1600 Gbps node-node interconnect")
    card = card_of(stated)
    assert throughput_accuracy.network_gbps(stated, card, 16) == 1600
    assert throughput_accuracy.network_gbps(stated, card, 8) == inf
    assert throughput_accuracy.network_gbps(row(**FOUNDRY), card, 16) == machine(card.name, 8).network_gbps
    with pytest.raises(Unmodelled, match="the network between nodes"):
        throughput_accuracy.network_gbps(row(**FOUNDRY), replace(card, name="unknown"), 16)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"lora_targets": "q_proj,lm_head"}, "LoRA on the head"),
        ({"attention_impl": "from scratch"}, "attention_impl: from scratch"),
        ({"fused_loss": "cut-cross-entropy"}, "fused_loss: cut-cross-entropy"),
        ({"notes": "with Liger's RMSNorm"}, "kernels of layers: Liger"),
        ({"grad_checkpointing": "selective (op)"}, "grad_checkpointing: selective (op)"),
        ({"grad_checkpointing": ""}, "not stated: grad_checkpointing"),
        ({"offload": "activations"}, "offload: activations"),
        ({"optimizer": "Muon"}, "optimizer: Muon"),
        ({"precision": "amp"}, "precision: amp"),
        ({"quant": "nf4 (torchao)"}, "quant: nf4 (torchao)"),
        ({"strategy": "fsdp1 SHARD_GRAD_OP", "num_gpus": "8"}, "strategy: fsdp1 SHARD_GRAD_OP"),
        ({"method": "full", "quant": "nf4 (bnb)"}, "method: full, quant: nf4 (bnb)"),
        ({"method": "lora dpo", "fused_loss": "foak fused CE"}, "fused_loss: foak fused CE of dpo"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_refused_by_name(changed, reason):
    with pytest.raises(Unmodelled) as refused:
        case_of(row(**changed))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Llama-2 7B", "meta-llama/Llama-2-7b-hf"),
        ("LLAMA3_70B", "meta-llama/Meta-Llama-3-70B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("Qwen2.5 7B", "Qwen/Qwen2.5-7B"),
        ("Mistral 7B v0.3", "mistralai/Mistral-7B-v0.3"),
    ],
)
def test_spellings_of_a_model_are_one_model(written, name):
    assert architecture(written) == model(name).architecture


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("T4 16GB (14912 MiB)", "t4"), ("NVIDIA A100-SXM4-80GB", "a100-80gb"), ("a100_40gb", "a100-40gb"),
        ("V100-SXM2 16GB", "v100-16gb"), ("H100 80GB", "h100"), ("RTX 4090 24GB", "rtx-4090"), ("L4 24GB", "l4"),
    ],
)  # fmt: skip
def test_spellings_of_a_gpu_are_one_gpu(written, name):
    assert card_of(row(gpu=written)).name == name


def test_a_gpu_of_another_size_is_not_taken_for_it():
    with pytest.raises(Unmodelled):
        card_of(row(gpu="RTX 4090 48GB"))


def test_verdicts_are_those_of_the_named_file(tmp_path, capsys):
    rows = [ROW, {**ROW, "id": "own-2", "gpu": "T4 16GB", "mem_kind": "oom", "micro_batch": "64"}]
    (tmp_path / "own.csv").write_text("\n".join([",".join(ROW), *(_line(each) for each in rows)]))
    memory_accuracy.main([str(tmp_path / "own.csv")])
    said = capsys.readouterr().out
    assert "ran out of memory (1 run) | 1 | 0" in said and "ran (1 run) | 0 | 1" in said
    assert "Of 1 run 100% are of one source, own." in said


def _line(each: dict[str, str]) -> str:
    return ",".join(f'"{value}"' for value in each.values())
