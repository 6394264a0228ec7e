"""Every known-bad combination is found, and its nearest good neighbours are not."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, LORA_VARIANTS, METHODS, STRATEGIES
from recipec.axes.loops import LOOPS
from recipec.catalog.models import models
from recipec.planner.advice.mending import DECIDES
from recipec.planner.search.known_bad import Refusal, _of_model
from recipec.rules.combination import PLAIN, Combination, ModelTraits
from recipec.rules.combinations import COMBINATIONS, known_bad
from recipec.rules.pages import explain_rule
from recipec.rules.row_pages import explain_row

# Compiled, and with attention that no warning is about.
EIGHT = {"fp8": True, "adaptation": "full", "compile": True, "attention": "eager"}
HELD = {"elastic": True, "adaptation": "full"}
FULL_FSDP = {"adaptation": "full", "strategy": "fsdp"}
VLLM = {"method": "grpo with vllm"}
VARLEN = {"attention": "torch_varlen", "packing": True}
CASES = {  # id: (what is bad, changes that each mend it)
    "BAD-001": ({"adaptation": "full on 4 bits"}, [{"adaptation": "qlora"}, {"adaptation": "full"}]),
    "BAD-002": (
        {"adaptation": "qlora", "strategy": "zero3"},
        [{"strategy": "zero2"}, {"strategy": "ddp"}, {"adaptation": "lora"}],
    ),
    "BAD-003": (
        {"adaptation": "qlora", "strategy": "fsdp", "method": "reward"},
        [{"strategy": "ddp"}, {"adaptation": "lora"}, {"method": "sft"}],
    ),
    "BAD-035": ({"adaptation": "lora-int8", "strategy": "fsdp"}, [{"strategy": "ddp"}, {"adaptation": "lora"}]),
    "BAD-046": (
        {"adaptation": "lora-int8", "strategy": "zero1"},
        [{"strategy": "ddp"}, {"adaptation": "lora"}, {"adaptation": "qlora"}],
    ),
    "BAD-047": ({"adaptation": "lora-int8", "gpu_int8": False}, [{"gpu_int8": True}, {"adaptation": "qlora"}]),
    "BAD-004": ({"optimizer": "adamw-8bit", "strategy": "fsdp"}, [{"optimizer": "adamw"}, {"strategy": "zero2"}]),
    "BAD-217": (
        {"optimizer": "adamw-8bit", "strategy": "zero2", "adaptation": "full", "updated_at_once": 2**31},
        [{"optimizer": "adamw"}, {"optimizer": "adafactor"}, {"updated_at_once": 2**31 - 1}, {"gpu_is_cpu": True}],
    ),
    "BAD-005": (
        {"optimizer": "paged-adamw-8bit", "strategy": "zero2", "offload": "cpu"},
        [{"optimizer": "adamw"}, {"offload": "none"}, {"strategy": "fsdp"}],
    ),
    "BAD-006": (
        {"modules_to_save": ("lm_head",), "strategy": "fsdp"},
        [{"modules_to_save": ("score",)}, {"modules_to_save": ()}, {"strategy": "zero3"}, {"adaptation": "full"}],
    ),
    "BAD-007": ({"moe": True, "strategy": "zero3"}, [{"leaf_modules": True}, {"strategy": "fsdp"}, {"moe": False}]),
    "BAD-008": (
        {"compile": True, "strategy": "zero3", "attention": "eager"},
        [{"compile": False}, {"strategy": "zero2"}],
    ),
    "BAD-009": (
        {"lora_targets": ("q_proj", "lm_head")},
        [{"lora_targets": ("q_proj",)}, {"lora_targets": "all-linear"}],
    ),
    "BAD-010": (
        {"lora_experts": ("experts.down_proj",), "lora_dropout": 0.05},
        [{"lora_dropout": 0.0}, {"lora_experts": ()}],
    ),
    "BAD-011": ({"attention": "flash_attention_2"}, [{"attention": "sdpa"}, {"attention": "eager"}]),
    "BAD-012": (
        {"packing": True, "attention": "eager"},
        [{"packing": False}, {"method": "continue-pretrain"}, {"attention": "sdpa"}],
    ),
    "BAD-013": (
        {"packing": True, "micro_batch": 2},
        [{"packing": False}, {"method": "continue-pretrain"}, {"micro_batch": 1}, {"attention": "torch_varlen"}],
    ),
    "BAD-014": ({"packing": True, "method": "dpo"}, [{"packing": False}]),
    "BAD-015": ({"precision": "fp16"}, [{"precision": "bf16"}, {"gpu_bf16": False}, {"gpu_is_cpu": True}]),
    "BAD-016": ({"gpu_bf16": False}, [{"precision": "fp16"}, {"gpu_is_cpu": True}]),
    "BAD-017": ({"eval_every": 0.02, "asked_save_every": 0.05}, [{"asked_save_every": 0.06}, {"eval_every": 0.05}]),
    "BAD-018": ({"offload": "cpu"}, [{"offload": "none"}, {"strategy": "zero2"}, {"strategy": "fsdp"}]),
    "BAD-019": ({**FULL_FSDP, "tensor": 3, "tensor_divides": False}, [{"tensor_divides": True}, {"tensor": 1}]),
    "BAD-020": (
        {**FULL_FSDP, "tensor": 2, "model_type": "gpt_oss"},
        [{"model_type": "llama"}, {"tensor": 1}],
    ),
    "BAD-021": ({"strategy": "hsdp", "tensor": 2}, [{"adaptation": "full"}, {"tensor": 1}]),
    "BAD-022": ({**FULL_FSDP, "context": 2, "packing": True, "method": "continue-pretrain"}, [{"packing": False}]),
    "BAD-023": ({**FULL_FSDP, "context": 2, "context_divides": False}, [{"context_divides": True}, {"context": 1}]),
    "BAD-024": ({**FULL_FSDP, "context": 2, "attention": "eager"}, [{"attention": "sdpa"}, {"context": 1}]),
    "BAD-025": ({**FULL_FSDP, "context": 2, "method": "dpo"}, [{"method": "sft"}, {"context": 1}]),
    "BAD-026": ({**FULL_FSDP, "expert": 3, "experts": 8}, [{"expert": 4}, {"experts": 9}]),
    "BAD-027": (
        {"adaptation": "full", "strategy": "zero3", "tensor": 2},
        [{"strategy": "hsdp"}, {"strategy": "fsdp"}, {"tensor": 1}],
    ),
    "BAD-028": (
        {"precision": "fp16", "model_type": "gemma3_text", "gpu_bf16": False},
        [{"precision": "bf16"}, {"precision": "fp32"}, {"model_type": "gemma2"}],
    ),
    "BAD-029": ({"gpu_is_cpu": True, "strategy": "fsdp"}, [{"strategy": "ddp"}, {"gpu_is_cpu": False}]),
    "BAD-030": ({"optimizer": "adafactor", "strategy": "zero2"}, [{"optimizer": "sgd"}, {"strategy": "ddp"}]),
    "BAD-031": ({"gpu_is_cpu": True, "adaptation": "qlora"}, [{"adaptation": "lora"}, {"gpu_is_cpu": False}]),
    "BAD-032": (
        {"recompute_every": 2, "strategy": "fsdp", "method": "dpo"},
        [{"recompute_every": 1}, {"method": "sft"}],
    ),
    "BAD-033": ({"compile": True}, [{"compile": False}, {"attention": "flash_attention_2"}]),
    "BAD-034": ({"precision": "fp32"}, [{"precision": "bf16"}, {"gpu_bf16": False}, {"gpu_is_cpu": True}]),
    "BAD-036": ({"has_class": False}, [{"has_class": True}]),
    "BAD-037": (
        {"precomputes": True, "strategy": "fsdp"},
        [{"precomputes": False}, {"strategy": "ddp"}, {"adaptation": "full"}],
    ),
    "BAD-038": (
        {"precomputes": True, "strategy": "zero3", "adaptation": "full"},
        [{"precomputes": False}, {"strategy": "zero2"}, {"strategy": "fsdp"}],
    ),
    "BAD-039": ({"precomputes": True, "several_nodes": True}, [{"precomputes": False}, {"several_nodes": False}]),
    "BAD-050": ({"method": "grpo", "cuts_groups": True}, [{"cuts_groups": False}]),
    "BAD-051": (
        {"method": "grpo", "adaptation": "full", "strategy": "fsdp", "tensor": 2},
        [{"tensor": 1}, {"method": "continue-pretrain"}],
    ),
    "BAD-052": ({"method": "grpo", "lora_dropout": 0.1}, [{"lora_dropout": 0.0}, {"method": "sft"}]),
    "BAD-053": ({"method": "grpo", "strategy": "fsdp"}, [{"strategy": "zero2"}, {"method": "sft"}]),
    "BAD-054": (
        {"method": "on-policy-distill", "moe": True},
        [{"moe": False}, {"method": "grpo"}, {"method": "distill"}],
    ),
    "BAD-055": ({"acts": True, "method": "grpo", "strategy": "zero3"}, [{"strategy": "zero2"}, {"acts": False}]),
    "BAD-160": (VLLM | {"adaptation": "qlora"}, [{"adaptation": "lora"}, {"method": "grpo"}]),
    "BAD-161": (VLLM | {"strategy": "zero3"}, [{"strategy": "zero2"}, {"adaptation": "full"}, {"method": "grpo"}]),
    "BAD-162": (VLLM | {"variant": "dora"}, [{"variant": "rslora"}, {"method": "grpo"}]),
    "BAD-163": (VLLM | {"gpu_cuda": False}, [{"gpu_cuda": True}, {"method": "grpo"}]),
    "BAD-164": (VLLM | {"acts": True}, [{"acts": False}, {"method": "grpo"}]),
    "BAD-165": (VLLM | {"served_whole": False}, [{"served_whole": True}]),
    "BAD-166": (VLLM | {"served_fits": False}, [{"served_fits": True}]),
    "BAD-167": (VLLM | {"moe": True}, [{"moe": False}, {"method": "grpo"}]),
    "BAD-168": (VLLM | {"serves_nodes": True}, [{"serves_nodes": False}]),
    "BAD-169": (VLLM | {"copy_whole": False}, [{"copy_whole": True}]),
    "BAD-174": (VLLM | {"copy_divides": False}, [{"copy_divides": True}]),
    "BAD-040": (
        {"packing": True, "leaks": True},
        [{"packing": False}, {"method": "continue-pretrain"}, {"leaks": False}, {"attention": "torch_varlen"}],
    ),
    "BAD-041": ({"attention": "torch_varlen"}, [{"packing": True}, {"attention": "sdpa"}]),
    "BAD-042": ({**VARLEN, "gpu_varlen": False}, [{"gpu_varlen": True}, {"attention": "sdpa"}]),
    "BAD-043": (
        {**VARLEN, "precision": "fp32", "gpu_bf16": False},
        [{"precision": "fp16"}, {"attention": "sdpa"}],
    ),
    "BAD-044": ({**VARLEN, "caps_scores": True}, [{"caps_scores": False}, {"attention": "eager"}]),
    "BAD-045": ({**VARLEN, "compile": True}, [{"compile": False}, {"attention": "sdpa"}]),
    "BAD-060": ({"variant": "pissa", "method": "dpo"}, [{"variant": "dora"}, {"method": "sft"}, {"method": "orpo"}]),
    "BAD-061": ({"variant": "pissa", "adaptation": "qlora"}, [{"variant": "rslora"}, {"adaptation": "lora"}]),
    "BAD-062": (
        {"variant": "rslora", "lora_experts": ("experts.down_proj",)},
        [{"variant": "standard"}, {"lora_experts": ()}],
    ),
    "BAD-063": ({"variant": "dora", "lora_dropout": 0.05}, [{"lora_dropout": 0.0}, {"variant": "lora-plus"}]),
    "BAD-064": (
        {"variant": "pissa", "strategy": "fsdp"},
        [{"strategy": "ddp"}, {"strategy": "zero2"}, {"variant": "dora"}],
    ),
    "BAD-065": (
        {"variant": "lora-plus", "strategy": "zero2", "offload": "cpu"},
        [{"offload": "none"}, {"variant": "rslora"}],
    ),
    "BAD-066": ({"variant": "dora", "adaptation": "qlora"}, [{"adaptation": "lora"}, {"variant": "rslora"}]),
    "BAD-067": (
        {"variant": "dora", "strategy": "fsdp", "precision": "bf16"},
        [{"strategy": "zero3"}, {"variant": "rslora"}, {"precision": "fp32"}],
    ),
    "BAD-080": ({"continues": True, "method": "dpo"}, [{"method": "sft"}, {"method": "continue-pretrain"}]),
    "BAD-081": ({"continues": True, "strategy": "fsdp"}, [{"strategy": "ddp"}, {"strategy": "single"}]),
    "BAD-216": (
        {"in_mxfp4": True, "adaptation": "qlora"},
        [{"adaptation": "lora"}, {"in_mxfp4": False}, {"begins": False}, {"new_tokens": True}],
    ),
    "BAD-110": (
        {"adaptation": "prompt-tuning", "packing": True},
        [{"packing": False}, {"adaptation": "lora"}],
    ),
    "BAD-111": (
        {"adaptation": "prefix-tuning", "strategy": "zero3"},
        [{"strategy": "ddp"}, {"strategy": "zero2"}, {"adaptation": "ia3"}],
    ),
    "BAD-112": ({"adaptation": "prompt-tuning", "followed": True}, [{"followed": False}, {"adaptation": "lora"}]),
    "BAD-113": (
        {"adaptation": "prefix-tuning", "beyond_positions": True},
        [{"beyond_positions": False}, {"adaptation": "lora"}],
    ),
    "BAD-114": ({"adaptation": "p-tuning", "hybrid": True}, [{"hybrid": False}, {"adaptation": "lora"}]),
    "BAD-115": ({"adaptation": "prefix-tuning", "hybrid": True}, [{"hybrid": False}, {"adaptation": "lora"}]),
    "BAD-116": (
        {"adaptation": "prefix-tuning", "recomputes": True},
        [{"recomputes": False}, {"adaptation": "p-tuning"}, {"adaptation": "lora"}],
    ),
    "BAD-117": (
        {"adaptation": "prefix-tuning", "moe": True},
        [{"moe": False}, {"balanced": False}, {"adaptation": "p-tuning"}],
    ),
    "BAD-118": ({"adaptation": "prefix-tuning", "two_heads": True}, [{"two_heads": False}, {"adaptation": "lora"}]),
    "BAD-170": ({"adaptation": "bottleneck", "moe": True}, [{"adaptation": "lora"}, {"moe": False}]),
    "BAD-171": ({"adaptation": "bottleneck", "followed": True}, [{"adaptation": "ia3"}, {"followed": False}]),
    "BAD-172": (
        {"adaptation": "fusion", "strategy": "fsdp"},
        [{"adaptation": "bottleneck"}, {"strategy": "ddp"}, {"strategy": "single"}],
    ),
    "BAD-173": (
        {"adaptation": "fusion", "precision": "fp16", "gpu_bf16": False},
        [{"adaptation": "bottleneck"}, {"precision": "bf16"}],
    ),
    "BAD-130": (
        {"new_tokens": True, "method": "dpo"},
        [{"method": "sft"}, {"method": "continue-pretrain"}, {"begins": False}, {"new_tokens": False}],
    ),
    "BAD-131": (
        {"new_tokens": True, "adaptation": "ia3"},
        [{"adaptation": "lora"}, {"adaptation": "qlora"}, {"adaptation": "full"}, {"new_tokens": False}],
    ),
    "BAD-132": (
        {"new_tokens": True, "adaptation": "lora", "strategy": "fsdp"},
        [
            {"strategy": "ddp"},
            {"strategy": "zero2"},
            {"adaptation": "full"},
            {"new_tokens": False},
            {"method": "dpo", "begins": False},
        ],
    ),
    "BAD-133": ({"new_tokens": True, "continues": True}, [{"continues": False}, {"new_tokens": False}]),
    "BAD-134": (
        {"new_tokens": True, "adaptation": "lora", "variant": "lora-plus"},
        [{"variant": "rslora"}, {"variant": "dora"}, {"new_tokens": False}],
    ),
    "BAD-135": ({"new_tokens": True, "loop": "torch"}, [{"loop": "trainer"}, {"new_tokens": False}]),
    "BAD-120": (
        {"ordered": True, "packing": True},
        [{"packing": False}, {"ordered": False}, {"method": "continue-pretrain"}],
    ),
    "BAD-121": ({"ordered": True, "method": "grpo"}, [{"ordered": False}, {"method": "dpo"}]),
    "BAD-122": ({"ordered": True, "loop": "torch"}, [{"ordered": False}, {"loop": "trainer"}]),
    "BAD-123": ({"ordered": True, "asked_sampling": "random"}, [{"ordered": False}, {"asked_sampling": ""}]),
    "BAD-124": (
        {"method": "dpo", "asked_sampling": "similar-lengths"},
        [{"method": "sft"}, {"asked_sampling": "random"}, {"asked_sampling": ""}],
    ),
    "BAD-125": ({"method": "kto", "asked_sampling": "random"}, [{"method": "dpo"}, {"asked_sampling": ""}]),
    "BAD-180": ({"elastic": True}, [{"elastic": False}, {"adaptation": "full"}]),
    "BAD-181": ({**HELD, "strategy": "zero2"}, [{"elastic": False}, {"strategy": "ddp"}, {"strategy": "single"}]),
    "BAD-182": (
        {**HELD, "method": "dpo"},
        [{"elastic": False}, {"method": "sft"}, {"method": "continue-pretrain"}],
    ),
    "BAD-183": ({**HELD, "loop": "torch"}, [{"elastic": False}, {"loop": "trainer"}]),
    "BAD-184": (
        {**HELD, "precision": "fp16", "gpu_bf16": False},
        [{"elastic": False}, {"precision": "bf16"}, {"precision": "fp32"}],
    ),
    "BAD-185": ({**HELD, "has_general": False}, [{"elastic": False}, {"has_general": True}]),
    "BAD-186": ({**HELD, "new_tokens": True}, [{"elastic": False}, {"new_tokens": False}]),
    "BAD-190": ({**EIGHT, "gpu_fp8": False}, [{"fp8": False}, {"gpu_fp8": True}]),
    "BAD-191": ({**EIGHT, "compile": False}, [{"fp8": False}, {"compile": True}]),
    "BAD-192": ({**EIGHT, "adaptation": "lora"}, [{"fp8": False}, {"adaptation": "full"}]),
    "BAD-193": ({**EIGHT, "strategy": "fsdp"}, [{"fp8": False}, {"strategy": "ddp"}, {"strategy": "single"}]),
    "BAD-194": ({**EIGHT, "precision": "fp16", "gpu_bf16": False}, [{"fp8": False}, {"precision": "bf16"}]),
    "BAD-195": ({**EIGHT, "method": "dpo"}, [{"fp8": False}, {"method": "sft"}, {"method": "pretrain"}]),
    "BAD-196": ({**EIGHT, "moe": True}, [{"fp8": False}, {"moe": False}]),
    "BAD-197": ({**EIGHT, "fp8_sizes": False}, [{"fp8": False}, {"fp8_sizes": True}]),
    "BAD-198": (
        {**EIGHT, **VARLEN, "packing": True},
        [{"fp8": False}, {"packing": False}, {"method": "pretrain"}],
    ),
    "BAD-199": ({**EIGHT, "elastic": True}, [{"fp8": False}, {"elastic": False}]),
    "BAD-070": (
        {"method": "ppo", "strategy": "zero2"},
        [{"strategy": "ddp"}, {"strategy": "single"}, {"method": "grpo"}],
    ),
    "BAD-071": ({"method": "ppo", "precision": "fp16", "gpu_bf16": False}, [{"precision": "bf16"}, {"method": "grpo"}]),
    "BAD-072": ({"method": "ppo", "lora_dropout": 0.1}, [{"lora_dropout": 0.0}, {"method": "sft"}]),
    "BAD-073": ({"method": "ppo", "moe": True}, [{"moe": False}, {"method": "grpo"}]),
}


DISPATCHED = {"method": "pretrain", "adaptation": "full", "strategy": "zero2", "loop": "deepspeed", "moe": True}
DISPATCHED |= {"dispatched": True, "experts": 8, "per_token": 2}
CASES |= {
    "BAD-090": ({"loop": "accelerate", "method": "dpo"}, [{"loop": "trainer"}, {"method": "pretrain"}]),
    "BAD-091": (
        {"loop": "torch", "strategy": "ddp"},
        [{"loop": "accelerate"}, {"strategy": "single"}, {"loop": "trainer"}],
    ),
    "BAD-092": ({"loop": "torch", "adaptation": "qlora"}, [{"adaptation": "lora"}, {"loop": "trainer"}]),
    "BAD-156": ({"loop": "torch", "adaptation": "ia3"}, [{"adaptation": "lora"}, {"loop": "trainer"}]),
    "BAD-093": ({"loop": "torch", "optimizer": "lion"}, [{"optimizer": "sgd"}, {"loop": "trainer"}]),
    "BAD-094": (
        {"loop": "torch", "packing": True},
        [{"packing": False}, {"method": "continue-pretrain"}, {"loop": "trainer"}],
    ),
    "BAD-095": ({"loop": "torch", "moe": True}, [{"moe": False}, {"loop": "trainer"}]),
    "BAD-096": ({"loop": "torch", "variant": "pissa"}, [{"variant": "dora"}, {"loop": "trainer"}]),
    "BAD-097": ({"loop": "torch", "recompute_every": 2}, [{"recompute_every": 1}, {"loop": "trainer"}]),
    "BAD-098": ({"loop": "torch", "compile": True, "attention": "eager"}, [{"compile": False}, {"loop": "trainer"}]),
    "BAD-099": ({"loop": "torch", "continues": True}, [{"continues": False}, {"loop": "trainer"}]),
    "BAD-155": (
        {"loop": "deepspeed", "strategy": "zero3", "offload": "optimizer"},
        [{"offload": "none"}, {"loop": "trainer"}],
    ),
    "BAD-210": (
        {**DISPATCHED, "has_capacity": True, "loop": "trainer"},
        [{"loop": "deepspeed"}, {"has_capacity": False}],
    ),
    "BAD-211": ({**DISPATCHED, "strategy": "zero3", "leaf_modules": True}, [{"strategy": "zero2"}, {"moe": False}]),
    "BAD-212": ({**DISPATCHED, "dispatched": False}, [{"dispatched": True}, {"moe": False}]),
    "BAD-213": ({**DISPATCHED, "normalizes": False}, [{"normalizes": True}, {"per_token": 1}]),
    "BAD-214": ({**DISPATCHED, "several_nodes": True}, [{"several_nodes": False}, {"moe": False}]),
    "BAD-215": ({**DISPATCHED, "precision": "fp16", "gpu_bf16": False}, [{"precision": "bf16"}, {"moe": False}]),
    "BAD-100": ({"hybrid": True, "packing": True}, [{"packing": False}, {"hybrid": False}, {"method": "pretrain"}]),
    "BAD-101": ({"hybrid": True, "variant": "dora"}, [{"variant": "rslora"}, {"hybrid": False}]),
    "BAD-102": ({**FULL_FSDP, "hybrid": True, "context": 2}, [{"context": 1}, {"hybrid": False}]),
    "BAD-103": ({"hybrid": True, "compile": True, "attention": "eager"}, [{"compile": False}, {"hybrid": False}]),
    "BAD-104": ({"hybrid": True, "method": "grpo"}, [{"method": "dpo"}, {"hybrid": False}]),
    "BAD-105": ({"hybrid": True, "lacks_kernels": True}, [{"lacks_kernels": False}]),
    "BAD-107": ({"two_heads": True, "variant": "dora"}, [{"variant": "rslora"}, {"two_heads": False}]),
    "BAD-106": ({"moe": True, "balanced": False, "adaptation": "full"}, [{"balanced": True}, {"adaptation": "lora"}]),
    "BAD-108": (
        {"linear_router": True, "adaptation": "qlora"},
        [{"adaptation": "lora"}, {"linear_router": False}],
    ),
    "BAD-109": (
        {**FULL_FSDP, "moe": True, "experts": 4, "expert": 2, "spread": False},
        [{"expert": 1}, {"spread": True}],
    ),
    "BAD-145": ({"borrows": True, "compile": True, "attention": "eager"}, [{"compile": False}, {"borrows": False}]),
    "BAD-146": ({**FULL_FSDP, "borrows": True, "context": 2}, [{"context": 1}, {"borrows": False}]),
    "BAD-147": ({**EIGHT, "slices": True}, [{"fp8": False}, {"slices": False}]),
    "BAD-150": (
        {"borrows": True, "recomputes": True, "strategy": "zero3", "adaptation": "lora"},
        [{"strategy": "zero2"}, {"recomputes": False}, {"adaptation": "full"}, {"borrows": False}],
    ),
    "BAD-151": ({"slices": True, "adaptation": "prompt-tuning"}, [{"adaptation": "lora"}, {"slices": False}]),
    "BAD-152": ({"slices": True, "new_tokens": True}, [{"new_tokens": False}, {"slices": False}]),
    "BAD-153": (
        {"adaptation": "full", "strategy": "zero3", "slices": True},
        [{"strategy": "fsdp"}, {"strategy": "zero2"}, {"slices": False}],
    ),
    "BAD-154": ({"borrows": True, "method": "grpo"}, [{"method": "dpo"}, {"borrows": False}]),
    "BAD-140": (
        {"packing": True, "scales_late": True},
        [{"packing": False}, {"scales_late": False}, {"method": "continue-pretrain"}],
    ),
    "BAD-141": ({**VARLEN, "beyond_chunk": True}, [{"attention": "sdpa"}, {"beyond_chunk": False}]),
    "BAD-142": ({**FULL_FSDP, "chunked": True, "context": 2}, [{"context": 1}, {"chunked": False}]),
    "BAD-144": (
        {**FULL_FSDP, "all_run": True, "more_ranks_than_experts": True},
        [{"strategy": "zero3"}, {"more_ranks_than_experts": False}, {"all_run": False}],
    ),
    "BAD-143": ({"all_run": True, "adaptation": "qlora"}, [{"adaptation": "lora"}, {"all_run": False}]),
}


ROWS = {
    "method": METHODS | {"grpo with vllm": METHODS["grpo"].under({"generator": "vllm"})},
    "strategy": STRATEGIES,
    "adaptation": dict(ADAPTATIONS),
    "variant": LORA_VARIANTS,
    "loop": LOOPS,
}
ROWS["adaptation"]["full on 4 bits"] = replace(ADAPTATIONS["full"], base="nf4")  # no row is this, and none may be


def combination(**values: object) -> Combination:
    """A combination whose rows are given by name."""
    plain = {"method": METHODS["sft"], "adaptation": ADAPTATIONS["lora"], "strategy": STRATEGIES["single"], **PLAIN}
    return Combination(**plain | {"precision": "bf16", "generator": None} | rows(values))


def rows(values: dict[str, object]) -> dict[str, object]:
    found = {name: ROWS[name][value] if name in ROWS else value for name, value in values.items()}
    if method := found.get("method"):
        found["generator"] = method.written_by if method.generates else None
    return found


def found(given: Combination) -> set[str]:
    return {row.id for row in known_bad(given)}


def test_every_row_has_a_case():
    assert [row.id for row in COMBINATIONS] == list(CASES)


def test_a_plain_run_is_not_bad():
    assert known_bad(combination()) == []


@pytest.mark.parametrize(("id", "bad", "mends"), [(id, *case) for id, case in CASES.items()], ids=CASES)
def test_found_and_mended(id, bad, mends):
    facts = combination(**bad)
    assert found(facts) == {id}
    for mend in mends:
        assert id not in found(replace(facts, **rows(mend))), mend


@pytest.mark.parametrize("optimizer", ["paged-adamw", "paged-adamw-8bit", "lion", "lion-8bit", "adafactor", "sgd"])
def test_what_another_optimizer_than_adamw_runs_with(optimizer):
    sharded = {"fsdp": set() if optimizer == "sgd" else {"BAD-004"}}
    sharded["zero2"] = {"BAD-030"} if optimizer == "adafactor" else set()
    for strategy in ("single", "ddp", "fsdp", "zero2"):
        assert found(combination(optimizer=optimizer, strategy=strategy)) == sharded.get(strategy, set())
    assert "BAD-005" in found(combination(optimizer=optimizer, strategy="zero2", offload="cpu"))


@pytest.mark.parametrize(
    ("attention", "model", "id"),
    [
        *(("sdpa", {"caps_scores": True}, "BAD-044"), ("sdpa", {"has_sinks": True}, "BAD-044")),
        *(("torch_varlen", {"has_sinks": True}, "BAD-044"), ("torch_varlen", {"head_features": 257}, "BAD-044")),
        *(("torch_varlen", {"head_features": 256}, None), ("sdpa", {"head_features": 512}, None)),
        *(("eager", {"caps_scores": True, "has_sinks": True}, None), ("torch_varlen", {"leaks": True}, None)),
    ],
)
def test_which_attention_computes_which_model(attention, model, id):
    packing = attention == "torch_varlen"
    assert found(combination(attention=attention, packing=packing, **model)) == ({id} if id else set())


def test_a_leaking_model_is_told_of_the_leak_and_not_of_memory():
    assert found(combination(packing=True, attention="eager", leaks=True)) == {"BAD-040"}


def test_an_8_bit_base_trains_on_a_cpu_and_with_the_variants_that_do_not_read_it():
    for fine in ({"gpu_is_cpu": True}, {"strategy": "ddp"}, {"variant": "rslora"}, {"variant": "lora-plus"}):
        assert found(combination(adaptation="lora-int8", **fine)) == set()
    assert found(combination(adaptation="lora-int8", strategy="zero3")) == {"BAD-046"}
    assert "BAD-061" in found(combination(adaptation="lora-int8", variant="dora"))


def test_refused_rows_come_first():
    rows = known_bad(combination(packing=True, micro_batch=2, precision="fp16", strategy="zero3", adaptation="qlora"))
    assert [(row.id, row.refused) for row in rows] == [("BAD-002", True), ("BAD-013", False), ("BAD-015", False)]


@pytest.mark.parametrize("row", COMBINATIONS, ids=lambda row: row.id)
def test_every_row_says_why_where_from_and_what_instead(row):
    assert row.title and row.why and row.instead
    assert any(character.isdigit() for character in row.citation), "a version, thread or rule book"


@pytest.mark.parametrize(
    ("part", "pages"),
    [("variant", [*map(explain_row, LORA_VARIANTS), explain_rule("LORA-006")]), ("loop", [explain_rule("LOOP-001")])],
)
def test_pages_list_every_row_that_another_variant_or_loop_mends(part, pages):
    mended = {
        id
        for id, (bad, _) in CASES.items()
        if any(id not in found(replace(combination(**bad), **{part: other})) for other in ROWS[part].values())
    }
    for page in pages:
        listed = re.findall(r"BAD-\d{3}", page)
        assert mended <= {*listed} and listed == sorted({*listed})
        assert not {"BAD-001", "BAD-080", "BAD-081"} & {*listed}, "nothing that depends on something else"


@pytest.fixture(scope="module")
def traits():
    """What the planner reads from a model, by name."""
    model = next(model for model in models() if model.architecture.model_type == "llama")
    given = {"model_type": "llama", "gpu_is_cpu": False, "moe": False, "max_length": 1024, "max_position": 8192}
    return {*_of_model(METHODS["sft"], given, model.architecture)}


def test_the_traits_of_a_model_are_those_that_the_planner_reads_from_it(traits):
    assert traits == {*ModelTraits.__struct_fields__}


@pytest.mark.parametrize("row", COMBINATIONS, ids=lambda row: row.id)
def test_a_row_that_a_trait_of_the_model_mends_leads_to_the_model(row, traits):
    facts = combination(**CASES[row.id][0])
    mended = [name for name in traits if not row.applies(replace(facts, **{name: PLAIN[name]}))]
    assert not mended or Refusal(row, facts, None).mended_by(*DECIDES["model.name"]), mended


@pytest.mark.parametrize("save_every", [0.01, 0.04, 0.051])
def test_saving_less_often_than_a_multiple_is_found(save_every):
    assert "BAD-017" in found(combination(eval_every=0.05, asked_save_every=save_every))
