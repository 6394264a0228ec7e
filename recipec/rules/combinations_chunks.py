"""What is known not to work with models that attend within chunks of a sequence, whose other layers scale queries by
their place in the row, and with experts that all run for every token (Llama 4)."""

from __future__ import annotations

from recipec.axes.attention import BOUNDARIES
from recipec.rules.combination import BadCombination

_LLAMA4 = "transformers 5.23 models/llama4/modeling_llama4.py"

CHUNKS = (
    BadCombination(
        "BAD-140",
        "packed rows so long that the place of an example in its row counts",
        "layers without chunks scale queries by their place in the row, from `floor_scale` tokens on, and count the "
        "examples before it: an example that stands late in a row is computed otherwise than alone",
        f"{_LLAMA4} (attn_temperature_tuning: torch.arange over the row; run: logits differ by 1% of the largest)",
        "set `train.packing = false`, or lower `data.max_length` so that a packed row stays below `floor_scale`",
        lambda f: f.packs_examples and f.scales_late,
    ),
    BadCombination(
        "BAD-141",
        "variable-length attention of examples longer than a chunk",
        "the kernel is told where examples begin, not where chunks do, so the tokens of an example would attend across "
        "chunks, without an error",
        f"{_LLAMA4} (create_chunked_causal_mask: a mask alone has the chunks)",
        'set `train.attention = "sdpa"`, or lower `data.max_length` to `attention_chunk_size`',
        lambda f: f.beyond_chunk and f.attends.apart == BOUNDARIES,
    ),
    BadCombination(
        "BAD-142",
        "context parallelism of a model that attends within chunks",
        "context parallelism drops the mask that has the chunks, and every rank would count places from 0",
        f"{_LLAMA4} (attn_temperature_tuning); accelerate 1.15 (no mask under context parallelism)",
        "lower `data.max_length`, or shard over more GPUs",
        lambda f: f.chunked and f.context > 1,
    ),
    BadCombination(
        "BAD-144",
        "FSDP over more ranks than the model has experts",
        "FSDP2 cuts fused experts between experts: ranks beyond their number hold none, the others hold a whole one of "
        "every layer, and buffers are as large as if every rank had one",
        "torch 2.13 distributed/fsdp/_fully_shard/_fsdp_param.py (padded_sharded_param_size; simulated: 79 GiB where "
        "even shares give 49)",
        'set `train.strategy = "zero3"`, or `"hsdp"`, whose sharding groups are nodes',
        lambda f: f.all_run and f.fsdp and f.more_ranks_than_experts,
    ),
    BadCombination(
        "BAD-143",
        "a quantized base model whose experts all run for every token",
        "the quantizer leaves fused experts as they are, and these hold 97% of the weights or more: next to no memory "
        "is saved, and recipec has not trained on such a base",
        f"{_LLAMA4} (Llama4TextExperts), integrations/bitsandbytes.py (run: Linear4bit in attention and the shared "
        "expert alone)",
        'set `train.adaptation = "lora"` without a quantized base, or shard over more GPUs',
        lambda f: f.all_run and f.adaptation.quantized,
    ),
)
