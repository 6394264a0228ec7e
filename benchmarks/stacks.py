"""How each source's code trains, row by row: its loss, kernels and dtypes in our terms."""

from __future__ import annotations

from benchmarks.names import architecture
from benchmarks.published import Case, Row, Unmodelled, fused, number
from benchmarks.transformers_run import transformers_run
from recipec.catalog.architecture import Architecture
from recipec.estimate.workload import LoraShape, Workload
from recipec.layout import Layout, Mesh

_METHODS = {
    "full": "full",
    "lora": "lora",
    "qlora": "qlora",
    "pretrain": "full",
}


def case_of(row: Row) -> Case:
    """A published run in our terms; raises Unmodelled with the feature's name."""
    _refuse(row)
    source = row["source_repo_or_doc"]
    if source.startswith("foundation-model-stack"):
        return _fms(row)
    if source == "Lightning-AI/litgpt":
        return _litgpt(row)
    if source == "modelscope/ms-swift":
        return _swift(row)
    if source == "pytorch/torchtune":
        return _torchtune(row)
    if source == "mosaicml/llm-foundry":
        return _llm_foundry(row)
    return transformers_run(row)


def _refuse(row: Row) -> None:
    """Features that no part of the estimates covers."""
    refused = {
        "method": ("adapter", "adapter_v2", "full grpo", "full ppo", "adalora", "llamapro", "full KTO", "full ORPO"),
        "strategy": (
            "low-level zero2",
            "megatron",
            "device_map",
            "paddle",
            "sequence parallel",
            "tp 2",
            "tp 4",
            "tp 8",
            "ep ",
        ),
        "grad_checkpointing": ("selective", "Selective", "unsloth", "select"),
        "offload": ("activation", "unsloth"),
        "optimizer": ("in_bwd", "galore", "Lion", "lion"),
        "compile": ("yes",),
        "quant": ("gptq", "torchao", "unsloth", "int8", "fp8"),
        "precision": ("float8", "mxfp8", "fp8"),
    }
    for column, words in refused.items():
        value = row[column]
        if (column == "method" and value in words) or (column != "method" and any(word in value for word in words)):
            raise Unmodelled(f"{column}: {value}")


def layout(row: Row, strategy: str, optimizer: str = "adamw", checkpointing: bool | None = None) -> Layout:
    """The layout that a row states."""
    ranks = number(row, "num_gpus")
    method = row["method"]
    if method not in _METHODS:
        raise Unmodelled(f"method: {method or '(not stated)'}")
    if not row["grad_checkpointing"] and checkpointing is None:
        raise Unmodelled("not stated: grad_checkpointing")
    sharded = strategy in ("fsdp", "zero1", "zero2", "zero3")
    mesh = Mesh(shard=ranks) if sharded else Mesh(replicate=ranks)
    return Layout(
        adaptation=_METHODS[method],
        precision=_precision(row),
        strategy=strategy if ranks > 1 else "single",
        mesh=mesh,
        offload="cpu" if "optimizer" in row["offload"] else "none",
        micro_batch=number(row, "micro_batch"),
        accumulation=int(row["grad_accum"] or 1),
        checkpointing=row["grad_checkpointing"].startswith("full") if checkpointing is None else checkpointing,
        attention="flash_attention_2" if row["packing"] == "yes" else "sdpa",  # no mask between packed examples
        packing=row["packing"] == "yes",
        optimizer=optimizer,
    )


def _precision(row: Row) -> str:
    return "fp16" if row["precision"].startswith(("float16", "fp16")) else "bf16"


def _targets(row: Row) -> str | tuple[str, ...]:
    text = row["lora_targets"].strip()
    if not text or text in ("all linear", "DEFAULT", "c_attn (DEFAULT)"):
        return "all-linear"
    return tuple(name.strip() for name in text.split(","))


def _fms(row: Row) -> Case:
    """HF Trainer through fms-hf-tuning, 2024: reentrant checkpointing, packed, flash attention, foreach AdamW."""
    shape = architecture(row["model"])
    if shape.moe and row["method"] == "qlora":
        raise Unmodelled("4-bit experts")
    foak = "foak" in row["notes"].partition(";")[0]
    autocast = "no autocast" not in row["precision"]
    ranks = number(row, "num_gpus")
    plain = "hf" if shape.model_type == "granite" else "hf-fp32-copy"  # granite scales its logits into a new tensor
    head = {"none": plain, "foak fused CE": "inplace", "liger fused linear CE": "fused"}[row["fused_loss"]]
    lora = LoraShape(number(row, "lora_rank"), _targets(row)) if row["method"] != "full" else None
    work = Workload(
        seq_len_tokens=number(row, "seq_len"),
        lora=lora,
        head=head,
        foreach=True,
        full_weights="fp32" if autocast and ranks > 1 else "bf16",
        autocast=autocast,
        adapters="fp32" if autocast else "bf16",
        kbit_fp32_residual="baseline-peft-bnb" in row["notes"] and ranks == 1,
        reentrant=True,
        fused_kernels=foak,
        repeated_kv=shape.model_type == "mistral",
        fsdp=1,
    )
    return Case(shape, layout(row, "fsdp"), work)


_LITGPT = {"query": "qkv", "key": "qkv", "value": "qkv", "projection": "proj", "mlp": "mlp", "head": "head"}


def _litgpt(row: Row) -> Case:
    """LitGPT: bf16 throughout, one projection for query, key and value, cross-entropy over chunks of 128 tokens."""
    if row["strategy"].startswith("fsdp"):
        raise Unmodelled("strategy: Lightning Fabric's FSDP")
    shape = fused(architecture(row["model"]))
    parts = [part.strip() for part in row["lora_targets"].split(",") if part.strip()]
    if "head" in parts:
        raise Unmodelled("LoRA on the head")
    names = tuple({_LITGPT[part] for part in parts})
    work = Workload(
        seq_len_tokens=number(row, "seq_len"),
        lora=LoraShape(number(row, "lora_rank"), names, dropout=True) if parts else None,
        head="litgpt",
        full_weights="bf16",
        adapters="bf16",
        autocast=False,
        placed_features=_placed(shape, parts),
        double_quant="double" in row["quant"],
        saves_4bit_inputs=2 if _long_rows_meet(row) else 1,
        foreach="Paged" not in row["optimizer"],
        repeated_kv=True,
        fsdp=1,
    )
    return Case(shape, layout(row, "fsdp", "paged-adamw-8bit" if "8bit" in row["optimizer"] else "adamw"), work)


def _long_rows_meet(row: Row) -> bool:
    """LitGPT's loop holds a loss until the next one is computed, and with it the inputs that bitsandbytes 0.42 keeps
    (ended by bitsandbytes pull request 1270).

    config_hub cuts rows at 512 tokens, so long ones follow each other; the other tables begin with their one longest.
    Found in the code after two rows of the table were 13 % off: in-sample.
    """
    return "config_hub" in row["source_path_or_url"]


def _placed(shape: Architecture, parts: list[str]) -> int:
    """LitGPT's LoRAQKVLinear makes one output for those of query, key and value that it adapts, and copies it."""
    sizes = {"query": shape.query_size, "key": shape.kv_size, "value": shape.kv_size}
    adapted = [sizes[part] for part in parts if part in sizes]
    return sum(adapted) if len(adapted) < len(sizes) else 0


def _swift(row: Row) -> Case:
    """ms-swift 1.x on remote model code of 2023: fp32 copy of the logits, fp32 adapters under autocast."""
    shape = architecture(row["model"])
    lora = None
    if row["method"] != "full":
        targets = shape.modules.qkv if "all" not in row["lora_targets"] else "all-linear"
        lora = LoraShape(number(row, "lora_rank"), targets, dropout=True)
    work = Workload(
        seq_len_tokens=number(row, "seq_len"),
        lora=lora,
        head="hf-fp32-copy",
        foreach=True,
        full_weights="bf16",
        kbit_fp32_residual=row["method"] == "qlora",
        reentrant=True,
    )
    return Case(shape, layout(row, "ddp"), work)


def _torchtune(row: Row) -> Case:
    if "optimizer_in_bwd" in row["notes"]:
        raise Unmodelled("optimizer: a step in the backward pass")
    work = Workload(
        seq_len_tokens=number(row, "seq_len"),
        lora=LoraShape(number(row, "lora_rank"), _targets(row)) if row["method"] != "full" else None,
        head="hf" if row["fused_loss"] == "none" else "torchtune",
        full_weights="bf16",
        adapters="bf16",
        autocast=False,
        foreach=True,
        fsdp=2,
    )
    return Case(architecture(row["model"]), layout(row, "fsdp"), work)


def _llm_foundry(row: Row) -> Case:
    """LLM Foundry on Composer's FSDP: fused cross-entropy; MP mode DEFAULT reduces gradients in fp32.

    Attention is FlashAttention's first version in Triton (the default of submit_benchmarks.py at b2a43a147 of 2023-10),
    and in the large runs of 7b and 70b flash-attn 2.4.2 (sweep.py at 5e85bd62d of 2024-01).
    """
    if "SHARD_GRAD_OP" in row["strategy"]:
        raise Unmodelled(f"strategy: {row['strategy']}")
    work = Workload(
        objective="pretrain",
        seq_len_tokens=number(row, "seq_len"),
        head="inplace",
        foreach=True,
        sync_each_batch=True,
        reduces_in_fp32="MP mode DEFAULT" in row["notes"],
        first_flash="Large Scale" not in row["notes"] or row["model"] not in ("MPT-7b", "MPT-70b"),
        fsdp=1,
    )
    return Case(architecture(row["model"]), layout(row, "fsdp"), work)
