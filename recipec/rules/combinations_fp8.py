"""What FP8 products in the linear layers do not go with."""

from __future__ import annotations

from recipec.axes.strategies import ONE_PROCESS, TORCH_DDP
from recipec.rules.combination import BadCombination

_LEAVE = "leave `train.fp8` out: bf16 runs everywhere that FP8 does"

FP8 = (
    BadCombination(
        "BAD-190",
        "FP8 on a GPU without the FP8 units that torchao trains with",
        "its products with a scale for each row run on NVIDIA GPUs of compute capability 9.0 and later, such as H100, "
        "H200 and B200",
        "torchao 0.18 float8/config.py (recipe rowwise)",
        f'set `hardware.gpu = "h100"`, or {_LEAVE}',
        lambda f: f.fp8 and not f.gpu_fp8,
    ),
    BadCombination(
        "BAD-191",
        "FP8 without torch.compile",
        "each rounding and scaling is then a kernel of its own, and the layers are slower than in bf16",
        "torchao 0.18 float8 training (with torch.compile on)",
        "leave `train.compile` out: it is on with FP8",
        lambda f: f.fp8 and not f.compile,
    ),
    BadCombination(
        "BAD-192",
        "FP8 with an adapter or a quantized base",
        "torchao replaces linear layers, which PEFT has wrapped or bitsandbytes has replaced before",
        "torchao 0.18 float8/float8_linear_utils.py (swap_linear_layers)",
        f'set `train.adaptation = "full"`, or {_LEAVE}',
        lambda f: f.fp8 and not f.adaptation.trains_all,
    ),
    BadCombination(
        "BAD-193",
        "FP8 of sharded weights or optimizer states",
        "only bundles on one device and with DDP convert layers; under FSDP2 torchao would gather weights in FP8 with "
        "one scale for a whole matrix, and DeepSpeed keeps flat copies of the weights",
        "torchao 0.18 float8/config.py (enable_fsdp_float8_all_gather)",
        f'set `train.strategy = "ddp"` where the model fits, or {_LEAVE}',
        lambda f: f.fp8 and f.strategy.engine not in (ONE_PROCESS, TORCH_DDP),
    ),
    BadCombination(
        "BAD-194",
        "FP8 beside another number format than bf16",
        "what is not multiplied in FP8 is computed in the number format of the run, and only bf16 has the range of the "
        "scales",
        "torchao 0.18 float8/float8_linear.py (forward, autocast)",
        'leave `train.precision` out, or set it to "bf16"',
        lambda f: f.fp8 and f.precision != "bf16",
    ),
    BadCombination(
        "BAD-195",
        "FP8 for a method that is not supervised, or in a loop of its own",
        "the products need a multiple of 16 tokens, and only batches of SFTTrainer are padded to that",
        "TRL 1.16 trainer/sft_config.py (pad_to_multiple_of)",
        _LEAVE,
        lambda f: f.fp8 and (f.method.loss != "supervised" or f.loop.own),
    ),
    BadCombination(
        "BAD-196",
        "FP8 for a mixture of experts or layers without attention",
        "torchao's float8 training replaces linear modules: fused experts are none, and kernels of layers without "
        "attention read the weights of theirs past the module",
        "torchao 0.18 float8/float8_linear_utils.py (swap_linear_layers); transformers 5.23 integrations/moe.py",
        _LEAVE,
        lambda f: f.fp8 and (f.moe or f.hybrid),
    ),
    BadCombination(
        "BAD-197",
        "FP8 for layers whose sizes are no multiples of 16",
        "FP8 products need sizes that are multiples of 16, and padding every product costs more than FP8 gains",
        "torchao 0.18 float8/config.py (pad_inner_dim); torch 2.13 (torch._scaled_mm)",
        _LEAVE,
        lambda f: f.fp8 and not f.fp8_sizes,
    ),
    BadCombination(
        "BAD-198",
        "FP8 with packed examples",
        "packed examples come without padding, in any number of tokens, and FP8 products need a multiple of 16",
        "TRL 1.16 trainer/sft_trainer.py (padding_free); torch 2.13 (torch._scaled_mm)",
        f'set `train.packing = false` and `train.attention = "sdpa"`, or {_LEAVE}',
        lambda f: f.fp8 and f.packs_examples,
    ),
    BadCombination(
        "BAD-199",
        "FP8 with elastic weight consolidation",
        "the Fisher information is squared gradients, of which those of FP8 have the rounding squared, too",
        "arXiv 1612.00796; no run of both was made",
        "leave `train.fp8` or `train.ewc` out",
        lambda f: f.fp8 and f.elastic,
    ),
)
