"""Combinations that are known not to work on the pinned stack, each with where that is known from."""

from __future__ import annotations

from recipec.rules.combination import BadCombination, Combination
from recipec.rules.combinations_parallel import PARALLEL
from recipec.rules.optimizers import BITSANDBYTES


def known_bad(combination: Combination) -> list[BadCombination]:
    """Return the known-bad combinations in a layout, refused ones first."""
    return sorted((row for row in COMBINATIONS if row.applies(combination)), key=lambda row: (not row.refused, row.id))


COMBINATIONS = (
    BadCombination(
        "BAD-001",
        "full fine-tuning of a quantised base",
        "4-bit weights are integers without gradients; transformers raises on a quantised model without adapters",
        "transformers 5.23 trainer_utils.validate_quantization_for_training",
        'adaptation = "lora" on the quantised base, or quantization = "none"',
        lambda f: f.adaptation.trains_all and f.adaptation.quantized,
    ),
    BadCombination(
        "BAD-002",
        "4-bit base under ZeRO-3",
        "transformers skips zero.Init for quantised models, so every rank loads the whole base and nothing is sharded; "
        "adapters were saved without weights",
        "transformers 5.23 modeling_utils (needs_zero3_init); peft #2016; DeepSpeed #3620",
        'strategy = "zero2" or "ddp" with the 4-bit base, or LoRA on an unquantised base under ZeRO-3',
        lambda f: f.adaptation.quantized and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-003",
        "4-bit base under FSDP",
        "accelerate's FSDP2 leaves 4-bit weights in their default integer storage unsharded, a whole copy per rank; "
        "with a bf16 storage the forward pass is wrong",
        "accelerate 1.15 fsdp_utils, accelerate #3983 and #3987; bitsandbytes #1945",
        'strategy = "ddp" with the 4-bit base, or LoRA on an unquantised base under FSDP',
        lambda f: f.adaptation.quantized and f.fsdp,
    ),
    BadCombination(
        "BAD-004",
        "8-bit, paged, Lion or Adafactor optimizer under FSDP",
        "bitsandbytes' kernels and Adafactor's factors are not made for sharded tensors: the first step raises",
        "run on the pinned stack: torch 2.13 DTensor has no sharding strategy for bitsandbytes.optimizer_update_32bit; "
        "transformers 5.23 Adafactor.step mixes Tensor and DTensor; bitsandbytes #1633 (FSDP2), #89 (FSDP1)",
        'optimizer = "adamw", whose states FSDP shards; or strategy = "zero2", which runs all of these but Adafactor',
        lambda f: (f.optimizer in BITSANDBYTES or f.optimizer == "adafactor") and f.fsdp,
    ),
    BadCombination(
        "BAD-005",
        "another optimizer than AdamW with ZeRO offload",
        "accelerate replaces it by DeepSpeedCPUAdam without a word, 32 bits wide and, but for paged AdamW, with "
        "adamw_mode off, so that weight decay changes its meaning too; for Lion it raises a TypeError",
        "accelerate 1.15 utils/deepspeed.map_pytorch_optim_to_deepspeed (run); DeepSpeed #6666",
        'optimizer = "adamw" with offload, or the other optimizer without offload',
        lambda f: f.optimizer != "adamw" and f.deepspeed and f.offload != "none",
    ),
    BadCombination(
        "BAD-006",
        "modules_to_save under FSDP",
        "training steps run, and the first checkpoint hangs",
        "ms-swift #9313",
        'strategy = "zero2" or "zero3", or no modules_to_save',
        lambda f: bool(f.modules_to_save) and not f.adaptation.trains_all and f.fsdp,
    ),
    BadCombination(
        "BAD-007",
        "mixture of experts under ZeRO-3 without leaf modules",
        "ranks route to different experts, gather different parameters and wait for each other for ever",
        "LLaMA-Factory #1998 and #9222; ms-swift #5875; DeepSpeed #7461",
        "name the expert block in zero_optimization.leaf_module, as the compiler does, or use FSDP",
        lambda f: f.moe and f.deepspeed and f.strategy.shards_weights and not f.leaf_modules,
    ),
    BadCombination(
        "BAD-008",
        "torch.compile under ZeRO-3",
        "the hooks that gather and release parameters break the graph or fail to compile",
        "pytorch #115484 (open) and #135410",
        "compile = false, or a strategy that keeps parameters whole (ddp, zero2)",
        lambda f: f.compile and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-009",
        "LoRA on lm_head",
        "the trainer multiplies by lm_head.weight directly, the adapter would never be trained; SFTTrainer refuses it",
        "TRL 1.16 sft_trainer (ValueError at construction)",
        'leave lm_head out of lora.targets ("all-linear" does)',
        lambda f: f.adapts_linear and not isinstance(f.lora_targets, str) and "lm_head" in f.lora_targets,
    ),
    BadCombination(
        "BAD-010",
        "LoRA dropout on fused experts",
        '"all-linear" reaches the experts, which are one parameter and not layers; PEFT raises when dropout is not 0',
        "PEFT 0.21.2 lora.ParamWrapper (ValueError at construction)",
        'lora.targets = ["q_proj", "k_proj", "v_proj", "o_proj"], or lora.dropout = 0',
        lambda f: f.moe and f.adapts_linear and f.lora_targets == "all-linear" and f.lora_dropout > 0,
    ),
    BadCombination(
        "BAD-011",
        "flash_attention_2 without its package",
        "flash-attn is not in the pinned stack: ImportError when the model is loaded",
        "transformers 5.23 with the pinned requirements",
        'attention = "sdpa"',
        lambda f: f.attention == "flash_attention_2",
    ),
    BadCombination(
        "BAD-012",
        "packing with eager attention",
        "eager attention keeps heads x length x length scores of the packed sequence: memory grows with the square of "
        "the packed length",
        "TRL 1.16 packing is documented for variable-length kernels; axolotl #3453 for a model it broke",
        "packing = false",
        lambda f: f.packs_examples and f.attention == "eager",
    ),
    BadCombination(
        "BAD-013",
        "packed examples without a variable-length kernel",
        "the documents are kept apart, but through a dense mask over the packed sequence: no padding is saved that the "
        "mask does not cost again",
        "TRL 1.16 with sdpa: logits equal to 6e-6, and a block-diagonal mask is built",
        "packing = false",
        lambda f: f.packs_examples and f.attention == "sdpa",
        refused=False,
    ),
    BadCombination(
        "BAD-014",
        "packing with a trainer that takes every example whole",
        "it has no packing, and of padding_free it only warns",
        "TRL 1.16: of its configuration classes only SFTConfig has packing; DPOConfig.padding_free",
        "packing = false",
        lambda f: f.packing and f.method.packs == "never",
    ),
    BadCombination(
        "BAD-015",
        "fp16 where the GPU has bf16",
        "fp16 needs loss scaling and overflows on some models; bf16 costs the same",
        "rule book 003, Anti-Patterns; 001, Anti-Pattern 5",
        'precision = "bf16"',
        lambda f: f.precision == "fp16" and f.gpu_bf16 and not f.gpu_is_cpu,
        refused=False,
    ),
    BadCombination(
        "BAD-016",
        "bf16 on a GPU without it",
        'TrainingArguments raises "Your setup doesn\'t support bf16/gpu"',
        "transformers 5.23 TrainingArguments",
        'precision = "fp16"',
        lambda f: f.precision == "bf16" and not f.gpu_bf16 and not f.gpu_is_cpu,
    ),
    BadCombination(
        "BAD-017",
        "saving that is not a multiple of evaluation",
        "load_best_model_at_end needs a checkpoint for the evaluation it chooses; TrainingArguments refuses others",
        "transformers 5.23 TrainingArguments; rule book 001, Step 4 (500 against 200)",
        "save_every equal to eval_every",
        lambda f: not _is_multiple(f.save_every, f.eval_every),
    ),
    BadCombination(
        "BAD-018",
        "offload without DeepSpeed or FSDP",
        "only a sharding engine moves states to the host; the setting would have no effect",
        "rule book 003, Distributed training; accelerate 1.15 configuration",
        'strategy = "zero2" or "zero3", or offload = "none"',
        lambda f: f.offload != "none" and f.strategy.replicates,
    ),
    *PARALLEL,
    BadCombination(
        "BAD-028",
        "fp16 with Gemma 3",
        "activations and gradients of Gemma 3 exceed 65504, the largest number of fp16, and become infinite",
        "unsloth.ai/blog/gemma3, Gemma 3 Training Fixes (2025-03-14, read 2026-11-21)",
        'precision = "bf16" on a GPU that has it, precision = "fp32" on an older one',
        lambda f: f.precision == "fp16" and f.model_type.startswith("gemma3"),
        refused=False,
    ),
    BadCombination(
        "BAD-029",
        "sharding on a CPU",
        "FSDP and DeepSpeed shard between GPUs; accelerate runs plain DDP on a CPU instead, without a word",
        "accelerate 1.15 state.py (MULTI_CPU; run)",
        'strategy = "single" or "ddp" on a CPU',
        lambda f: f.gpu_is_cpu and not f.strategy.on_cpu,
    ),
    BadCombination(
        "BAD-030",
        "Adafactor under ZeRO",
        "DeepSpeed hands each rank's share over as one flat vector: nothing is factored, the step needs more memory "
        "than AdamW's states, and the update is clipped by shares, so that it depends on the number of GPUs",
        "DeepSpeed 0.19 stage_1_and_2.py and stage3.py (flat fp32 partitions); transformers 5.23 Adafactor (factors "
        "from 2 dimensions on); run",
        'optimizer = "adamw", whose states ZeRO shards, or Adafactor with strategy = "ddp"',
        lambda f: f.optimizer == "adafactor" and f.deepspeed,
    ),
    BadCombination(
        "BAD-031",
        "4-bit base on a CPU",
        "a CPU with AVX512-BF16 packs the 4-bit weights at the first evaluation, and no gradient passes them after it",
        "bitsandbytes 0.50.2 nn/modules.py (Linear4bit.forward; run: the gradient is None, a bias raises)",
        'adaptation = "lora" on a CPU',
        lambda f: f.gpu_is_cpu and f.adaptation.quantized,
    ),
    BadCombination(
        "BAD-032",
        "every n-th layer recomputed, or activations in host memory, beside a reference",
        "the reference's pass switches recomputation off and on again for every layer and on the GPU, without a word: "
        "from the second step on the recipe's choice is gone",
        "TRL 1.16 models/utils.py (disable_gradient_checkpointing; run)",
        "recompute every layer and keep its input on the GPU",
        lambda f: not f.method.keeps_recomputation and (f.recompute_every > 1 or f.activation_offload),
    ),
    BadCombination(
        "BAD-033",
        "torch.compile with SDPA",
        "a forward that is traced always builds the mask, which SDPA keeps and computes whole squares of the length "
        "for; the estimates count this, and nothing else of the compiled step",
        "transformers 5.23 masking_utils.py (is_tracing; run: the captured graph calls SDPA with a mask)",
        'attention = "flash_attention_2" with the flash-attn package, or compile = false',
        lambda f: f.compile and f.attention == "sdpa",
        refused=False,
    ),
)


def _is_multiple(save_every: float, eval_every: float) -> bool:
    return abs(save_every / eval_every - round(save_every / eval_every)) < 1e-6 and save_every >= eval_every
