"""A run of transformers' own loop: every fact that its row states is described in our terms, or the row refused.

What a row leaves open is what the library does by itself: SDPA, its own loss, one bf16 copy of the weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.names import architecture
from benchmarks.published import Case, Row, Unmodelled, number
from recipec.axes import METHODS
from recipec.catalog.architecture import Architecture
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload
from recipec.layout import Layout, Mesh

_ADAPTATIONS = {"full": "full", "pretrain": "full", "lora": "lora", "qlora": "qlora"}
_HEADS = {
    "": "hf",
    "none": "hf",
    "liger fused linear ce": "fused",
    "foak fused ce": "inplace",
    "chunked ce (cewithchunkedoutputloss)": "torchtune",
    "chunked ce (lm_head chunk 128)": "litgpt",
}
_ATTENTION = {"": "sdpa", "sdpa": "sdpa", "sdpa flash": "sdpa", "sdpa flash v2": "sdpa", "eager": "eager"}
_FLASH = re.compile(r"flash[ _-]?(attn|attention)[ _-]?[0-9.]*")
_OPTIMIZERS = {
    "": "adamw",
    "adam": "adamw",
    "adamw": "adamw",
    "adamw_hf": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_8bit": "adamw-8bit",
    "adamw_bnb_8bit": "adamw-8bit",
    "adamw8bit": "adamw-8bit",
    "paged_adamw": "paged-adamw",
    "paged_adamw_32bit": "paged-adamw",
    "paged_adamw_8bit": "paged-adamw-8bit",
    "pagedadamw": "paged-adamw",
    "adafactor": "adafactor",
    "sgd": "sgd",
    "lion": "lion",
    "lion_8bit": "lion-8bit",
}
_QUANT = {"": "", "none": "", **dict.fromkeys(("nf4 (bnb)", "bnb nf4", "nf4", "bnb 4bit", "4bit", "bnb int4"), "nf4")}
_QUANT |= dict.fromkeys(("nf4 double-quant (bnb)", "bnb nf4 double-quant"), "nf4")
_CHECKPOINTING = {**dict.fromkeys(("full", "full (hf)", "yes", "true"), True), **dict.fromkeys(("no", "false"), False)}
_STRATEGIES = {
    **dict.fromkeys(("", "single", "ddp"), "ddp"),
    **{f"zero{stage}": f"zero{stage}" for stage in (1, 2, 3)},
    **dict.fromkeys(("fsdp", "fsdp1", "fsdp2", "fsdp full_shard", "fsdp1 full_shard"), "fsdp"),
}
_OFFLOADED = {
    **dict.fromkeys(("", "none"), "none"),
    **dict.fromkeys(("optimizer", "cpu", "optimizer+grad cpu", "optimizer+grad cpu (zero2_cpu)"), "cpu"),
}


def transformers_run(row: Row) -> Case:
    """The run in our terms; raises Unmodelled with the fact that is not described."""
    adaptation, objective = _method(row)
    shape, ranks, text = architecture(row["model"]), number(row, "num_gpus"), row["precision"].lower()
    strategy = _strategy(row)
    work = Workload(
        objective=objective,
        seq_len_tokens=number(row, "seq_len"),
        lora=_lora(row, shape) if adaptation != "full" else None,
        head=_head(row, objective),
        full_weights="fp32" if "mixed" in text or text == "fp32" else "bf16",
        autocast=not any(word in text for word in ("true", "pure", "no autocast")),
        foreach="fused" not in row["optimizer"],
        padded=_low(row, "packing").startswith("no (padded"),
        double_quant="double" in row["quant"] or not row["quant"],
        kbit_fp32_residual=adaptation == "qlora" and "prepare_model_for_kbit_training" in row["notes"],
        fsdp=2 if "fsdp2" in _low(row, "strategy") else 1,
    )
    return Case(shape, _layout(row, adaptation, strategy, ranks), work)


def _strategy(row: Row) -> str:
    """Our name of a strategy: "deepspeed zero3", "ZeRO-3" and "zero3 (8)" are one."""
    wanted = re.sub(r"^deepspeed |(?<=zero)[ _-](?=\d)| \(?\d+\)?$", "", _low(row, "strategy"))
    return _named(_STRATEGIES, row, "strategy", wanted)


def _method(row: Row) -> tuple[str, str]:
    """The adaptation and the objective: "lora dpo", "full SFT"; bare names are supervised fine-tuning."""
    words = _low(row, "method").split()
    adaptation = _ADAPTATIONS.get(words[0]) if words else None
    objective = words[1] if len(words) == 2 else "sft"
    quantized = _named(_QUANT, row, "quant") == "nf4"
    if adaptation is None or len(words) > 2 or objective not in METHODS or METHODS[objective].generates:
        raise Unmodelled(f"method: {row['method'] or '(not stated)'}")
    if METHODS[objective].has_teacher or (quantized and adaptation == "full"):
        raise Unmodelled(f"method: {row['method']}, quant: {row['quant'] or '(not stated)'}")
    return ("qlora" if quantized else adaptation), objective


def _head(row: Row, objective: str) -> str:
    """The code that computes the loss: of methods that compare answers, the one that their own row names."""
    head = _named(_HEADS, row, "fused_loss")
    if METHODS[objective].sequences_per_example == 1:
        return head
    if head != "hf":
        raise Unmodelled(f"fused_loss: {row['fused_loss']} of {objective}")
    return ""


def _lora(row: Row, shape: Architecture) -> LoraShape:
    text = row["lora_targets"].strip()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if "lm_head" in names or "embed_tokens" in names:
        raise Unmodelled("LoRA on the head")
    if "expert" in text or "[" in text or ("all linear (" in text and "language)" not in text):
        raise Unmodelled(f"lora_targets: {text}")
    whole = not text or text.startswith("all linear") or text.upper() == "DEFAULT" or set(names) >= set(_linear(shape))
    return LoraShape(number(row, "lora_rank"), ALL_LINEAR if whole else names)


def _linear(shape: Architecture) -> tuple[str, ...]:
    return (*shape.modules.qkv, shape.modules.output, *shape.modules.mlp_in, shape.modules.mlp_out)


def _layout(row: Row, adaptation: str, strategy: str, ranks: int) -> Layout:
    if "liger" in row["notes"].lower() and "liger" not in _low(row, "fused_loss"):
        raise Unmodelled("kernels of layers: Liger")
    packed = _low(row, "packing") == "yes"
    return Layout(
        adaptation=adaptation,
        precision=_precision(row),
        strategy=strategy if ranks > 1 else "single",
        mesh=Mesh(replicate=ranks) if strategy == "ddp" else Mesh(shard=ranks),
        offload=_named(_OFFLOADED, row, "offload"),
        micro_batch=number(row, "micro_batch"),
        accumulation=int(row["grad_accum"] or 1),
        checkpointing=_named(_CHECKPOINTING, row, "grad_checkpointing"),
        attention=_attention(_low(row, "attention_impl"), packed),
        packing=packed,
        optimizer=_named(
            _OPTIMIZERS, row, "optimizer", re.sub(r"\s*\(.*|^bnb\.|,? fused$", "", _low(row, "optimizer"))
        ),
    )


def _bare_optimizer(row: Row) -> str:
    """Its name without remarks: "AdamW (HF Trainer default)", "bnb.PagedAdamW", "bnb AdamW8bit", "AdamW fused"."""
    return re.sub(r"\s*\(.*|^bnb[. ]|,? fused$", "", _low(row, "optimizer"))


def _attention(stated: str, packed: bool) -> str:
    """Packed examples whose kernel is not stated are taken to share the variable-length kernel, which needs no mask."""
    if packed and not stated:
        return "flash_attention_2"
    found = "flash_attention_2" if _FLASH.fullmatch(stated) else _ATTENTION.get(stated)
    if found is None:
        raise Unmodelled(f"attention_impl: {stated}")
    return found


def _precision(row: Row) -> str:
    stated = _low(row, "precision")
    if stated in ("fp32", "float32"):
        return "fp32"
    if stated.startswith(("float16", "fp16")):
        return "fp16"
    if not stated or "bf16" in stated or "bfloat16" in stated or (stated == "amp" and "bf16" in row["notes"]):
        return "bf16"
    raise Unmodelled(f"precision: {stated}")


def _named(table: Mapping[str, Any], row: Row, column: str, text: str | None = None) -> Any:
    """Our name of what a column says; raises Unmodelled where there is none."""
    found = table.get(_low(row, column) if text is None else text.strip())
    if found is None:
        raise Unmodelled(f"{column}: {row[column]}" if row[column] else f"not stated: {column}")
    return found


def _low(row: Row, column: str) -> str:
    return row[column].strip().lower()
