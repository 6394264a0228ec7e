"""Combinations with packed examples, and with kernels that keep them apart, that are known not to work."""

from __future__ import annotations

from recipec.axes.attention import BOUNDARIES, MASK
from recipec.rules.combination import BadCombination

_VARLEN = "torch 2.13 nn/attention/varlen.py"
_SDPA = 'set `train.attention = "sdpa"`'

ATTENTION = (
    BadCombination(
        "BAD-040",
        "packed examples that attend to each other",
        "the model builds its attention mask without the positions of packed examples, so each of them is also trained "
        "on its neighbors, without an error",
        "transformers 5.23 models/gpt_oss and models/granitemoehybrid (create_causal_mask without position_ids; run: "
        "logits differ by up to 12); transformers PR #39997",
        "set `train.packing = false`",
        lambda f: f.packs_examples and f.leaks and f.attends.apart == MASK,
    ),
    BadCombination(
        "BAD-041",
        "variable-length attention without packed examples",
        "the kernel computes packed examples; batches of padded rows, and text in full blocks, do not tell it where "
        "examples begin",
        f"{_VARLEN} (cu_seq_q); TRL 1.16 trainer/sft_trainer.py (DataCollatorForLanguageModeling)",
        f"{_SDPA}, or `train.packing = true` for supervised fine-tuning",
        lambda f: not f.attends.takes_padding and not f.packs_examples,
    ),
    BadCombination(
        "BAD-042",
        "variable-length attention on a GPU without its kernel",
        "the kernel is known for NVIDIA GPUs of compute capability 8.0 and later, such as an A100 or an RTX 3090",
        f"{_VARLEN}; pytorch RFC #171814",
        f"{_SDPA}; where the recipe has `hardware.vram_gib`, name the GPU in `hardware.gpu`",
        lambda f: f.attends.brought and not f.gpu_varlen,
    ),
    BadCombination(
        "BAD-043",
        "a flash kernel in fp32",
        "flash kernels compute in bf16 and fp16, and stop at the first step",
        f"{_VARLEN} (run: `FlashAttention only support fp16 and bf16 data type`)",
        f'{_SDPA}, or `train.precision = "bf16"`',
        lambda f: f.attends.half_only and f.precision == "fp32",
    ),
    BadCombination(
        "BAD-044",
        "a kernel that does not compute the model's attention",
        "the model caps its attention scores, has attention sinks, or has larger heads than the kernel takes; sinks "
        "would be left out without an error",
        f"{_VARLEN} (no softcap, no sinks); transformers 5.23 modeling_utils.py (_supports_sdpa) and "
        "modeling_flash_attention_utils.py (s_aux)",
        "leave `train.attention` out",
        lambda f: (
            (f.caps_scores and not f.attends.caps_scores)
            or (f.has_sinks and not f.attends.has_sinks)
            or f.head_features > f.attends.most_features
        ),
    ),
    BadCombination(
        "BAD-045",
        "torch.compile with variable-length attention",
        "rows have another number of examples at every step, and compiling the kernel was not run on a GPU",
        f"not run on a GPU with {_VARLEN}",
        "set `train.compile = false`",
        lambda f: f.compile and f.attends.apart == BOUNDARIES and not f.fp8,  # FP8 is refused there: BAD-198
        refused=False,
    ),
)
