"""Combinations that are known not to work on the pinned stack, each with where that is known from."""

from __future__ import annotations

from recipec.axes import BASES
from recipec.axes.attention import MASK
from recipec.axes.bases import BLOCK, ROW
from recipec.rules.combination import BadCombination, Combination
from recipec.rules.combinations_attention import ATTENTION
from recipec.rules.combinations_bottlenecks import BEHIND_MODULES
from recipec.rules.combinations_chunks import CHUNKS
from recipec.rules.combinations_dispatch import DISPATCH
from recipec.rules.combinations_elastic import ELASTIC
from recipec.rules.combinations_entering import ENTERING
from recipec.rules.combinations_fp8 import FP8
from recipec.rules.combinations_hybrids import HYBRIDS
from recipec.rules.combinations_loops import LOOPS
from recipec.rules.combinations_lora import VARIANTS
from recipec.rules.combinations_online import ONLINE
from recipec.rules.combinations_order import ORDERS
from recipec.rules.combinations_parallel import PARALLEL
from recipec.rules.combinations_prompts import VIRTUAL_TOKENS
from recipec.rules.combinations_value_head import VALUE_HEADS
from recipec.rules.combinations_vocabulary import NEW_TOKENS
from recipec.rules.optimizers import BITSANDBYTES

_COUNTED = 2**31 - 1  # what 32 bits count with a sign
_IN_ADAMW = 'set `train.optimizer = "adamw"`'


def known_bad(combination: Combination) -> list[BadCombination]:
    """Return the known-bad combinations in a layout, refused ones first."""
    return [row for row in _REFUSED_FIRST if row.applies(combination)]


def first_refused(combination: Combination) -> BadCombination | None:
    """Return the first reason to refuse a combination: what `known_bad` begins with, if that is one."""
    return next((row for row in _REFUSED if row.applies(combination)), None)


COMBINATIONS = (
    BadCombination(
        "BAD-001",
        "full fine-tuning of a quantized base model",
        "quantized weights cannot be trained, and transformers refuses to train a quantized model without adapters",
        "transformers 5.23 trainer_utils.validate_quantization_for_training",
        'set `train.adaptation = "qlora"`, or `train.quantization = "none"`',
        lambda f: f.adaptation.trains_all and f.adaptation.quantized,
    ),
    BadCombination(
        "BAD-002",
        "4-bit base model under ZeRO-3",
        "every GPU loads the whole 4-bit base model before DeepSpeed shards it, since no model can be loaded into host "
        "memory under ZeRO-3; under FSDP2 each GPU loads its share alone",
        "run: transformers 5.23 modeling_utils.py (`DeepSpeed Zero-3 is not compatible with passing a device_map`); "
        "DeepSpeed 0.19.8 shards packed weights once they are loaded",
        'set `train.strategy = "fsdp"`, `"zero2"` or `"ddp"` with the 4-bit base model, or use LoRA on an unquantized '
        "base model",
        lambda f: _scaled_by(f, BLOCK) and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-003",
        "4-bit base model under FSDP that writes answers or gets a new head",
        "quantize.py writes the 4-bit base model once, without a new head, and a model with sharded packed weights "
        "was run with the losses of given answers alone",
        "run: supervised fine-tuning and preference optimization, torch 2.13 and bitsandbytes 0.50.2, two processes",
        'set `train.strategy = "ddp"` or `"zero2"` with the 4-bit base model, or use LoRA on an unquantized base model',
        lambda f: _scaled_by(f, BLOCK) and f.fsdp and (f.method.generates or bool(f.method.new_head)),
    ),
    BadCombination(
        "BAD-035",
        "8-bit base model under FSDP",
        "FSDP2 moves the model to the meta device before it shards it, and bitsandbytes' 8-bit weights cannot be moved "
        "there: training stops before the first step",
        "run: accelerate 1.15 utils/fsdp_utils.py (fsdp2_prepare_model) with bitsandbytes 0.50.2 nn/modules.py: "
        "`Creating a Parameter from an instance of type Int8Params requires that detach() returns an instance of the "
        "same type`",
        'set `train.strategy = "ddp"` with the 8-bit base model, or use LoRA on an unquantized base model',
        lambda f: _scaled_by(f, ROW) and f.fsdp,
    ),
    BadCombination(
        "BAD-046",
        "8-bit base model under DeepSpeed",
        "DeepSpeed's checkpoints hold the scales of 8-bit weights, and bitsandbytes refuses to read these into a model "
        "that has run: neither the best checkpoint nor one to resume from can be loaded",
        "run with ZeRO-1, ZeRO-2 and ZeRO-3: bitsandbytes 0.50.2 nn/modules.py (Linear8bitLt._load_from_state_dict: "
        "`Loading a quantized checkpoint into non-quantized Linear8bitLt is not supported`)",
        'set `train.strategy = "ddp"` with the 8-bit base model, or use LoRA on an unquantized base model',
        lambda f: _scaled_by(f, ROW) and f.deepspeed,
    ),
    BadCombination(
        "BAD-047",
        "8-bit base model on a GPU without 8-bit matrix units",
        "LLM.int8() multiplies 8-bit integers, which NVIDIA GPUs do from compute capability 7.5 on, such as a T4",
        "huggingface.co/docs/bitsandbytes/v0.50.0/installation (LLM.int8(): 7.5+; checked 2026-11-27)",
        'set `train.adaptation = "qlora"`, whose 4-bit base needs compute capability 6.0, or name a newer GPU',
        lambda f: _scaled_by(f, ROW) and not f.gpu_int8,
    ),
    BadCombination(
        "BAD-004",
        "8-bit, paged, Lion or Adafactor optimizer under FSDP",
        "optimizers of bitsandbytes and Adafactor do not support sharded tensors, and training fails at the first step",
        "run: torch 2.13 DTensor has no sharding strategy for bitsandbytes.optimizer_update_32bit; transformers "
        "5.23 Adafactor.step mixes Tensor and DTensor; bitsandbytes #1633 (FSDP2) and #89 (FSDP1)",
        'set `train.optimizer = "adamw"`, or `train.strategy = "zero2"` (not for Adafactor)',
        lambda f: (f.optimizer in BITSANDBYTES or f.optimizer == "adafactor") and f.fsdp,
    ),
    BadCombination(
        "BAD-217",
        "an optimizer of bitsandbytes for more weights at once than its kernels count",
        "they count in 32 bits, up to 2,147,483,647: a larger number wraps around, and the first step fails or updates "
        "a part of the weights alone. ZeRO-1 and ZeRO-2 hand over all weights of a rank at once, ZeRO-3 parts of them, "
        "and without DeepSpeed each matrix is updated by itself",
        "bitsandbytes 0.50.2 backends/cuda/ops.py (`ct.c_int32(g.numel())`); DeepSpeed 0.19.8 "
        "runtime/zero/stage_1_and_2.py (single_partition_of_fp32_groups); bitsandbytes #875 reports the failure with "
        "ZeRO-2",
        _IN_ADAMW,
        lambda f: f.optimizer in BITSANDBYTES and f.updated_at_once > _COUNTED and not f.gpu_is_cpu,
        then=lambda f: 'set `train.strategy = "zero3"`, or `train.optimizer = "adamw"`' if f.deepspeed else _IN_ADAMW,
    ),
    BadCombination(
        "BAD-005",
        "another optimizer than AdamW with CPU offload",
        "accelerate silently replaces the optimizer with DeepSpeed's 32-bit CPU Adam and, except for paged AdamW, "
        "turns decoupled weight decay off; with Lion training fails with a TypeError",
        "accelerate 1.15 utils/deepspeed.py (map_pytorch_optim_to_deepspeed; run); DeepSpeed #6666",
        'set `train.optimizer = "adamw"`, or `train.offload = "none"`',
        lambda f: f.optimizer != "adamw" and f.deepspeed and f.offloads,
    ),
    BadCombination(
        "BAD-006",
        "lm_head in modules_to_save under FSDP",
        "TRL multiplies by the weight of lm_head without calling the module, and each GPU keeps the gradient of its "
        "own rows: the loss is wrong from the second step on, without an error",
        "run on two ranks: second loss 5.9497, 5.9105 in one process; TRL 1.16 trainer/utils.py (full_tensor)",
        'set `train.strategy = "zero2"` or `"zero3"`',
        lambda f: "lm_head" in f.modules_to_save and not f.adaptation.trains_all and f.fsdp,
    ),
    BadCombination(
        "BAD-007",
        "mixture of experts under ZeRO-3 without leaf modules",
        "GPUs route tokens to different experts, gather different parameters and wait for each other forever",
        "LLaMA-Factory #1998 and #9222; ms-swift #5875; DeepSpeed #7461",
        "name the expert block in `zero_optimization.leaf_module`, as recipec does, or use FSDP",
        lambda f: f.moe and f.deepspeed and f.strategy.shards_weights and not f.leaf_modules,
    ),
    BadCombination(
        "BAD-008",
        "torch.compile under ZeRO-3",
        "the hooks that gather and release parameters break the compiled graph or fail to compile",
        "PyTorch #115484 (open) and #135410",
        'set `train.compile = false`, or a strategy that keeps weights whole (`"ddp"`, `"zero2"`)',
        lambda f: f.compile and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-009",
        "LoRA on lm_head",
        "SFTTrainer uses `lm_head.weight` directly, so an adapter on it would never be trained; it refuses to start",
        "TRL 1.16 trainer/sft_trainer.py (ValueError at construction)",
        'leave `lm_head` out of `train.lora.targets`, as "all-linear" does',
        lambda f: f.adapts_linear and not isinstance(f.lora_targets, str) and "lm_head" in f.lora_targets,
    ),
    BadCombination(
        "BAD-010",
        "LoRA dropout on fused experts",
        "the experts have adapters on their fused weights, and PEFT does not support dropout on them",
        "PEFT 0.21.2 lora.ParamWrapper (ValueError at construction)",
        'set `train.lora.dropout = 0`, or `train.lora.targets = "attention"`',
        lambda f: f.adapts_linear and bool(f.lora_experts) and f.lora_dropout > 0,
    ),
    BadCombination(
        "BAD-011",
        "FlashAttention 2 without its package",
        "flash-attn is not among the pinned versions, so loading the model ends in an ImportError",
        "transformers 5.23 with the pinned requirements",
        'set `train.attention = "torch_varlen"`, which packs with a kernel of PyTorch itself, or `"sdpa"`',
        lambda f: bool(f.attends.package),
    ),
    BadCombination(
        "BAD-012",
        "packing with eager attention",
        "eager attention stores all attention scores of the packed sequence, so memory grows with the square of "
        "its length",
        "TRL 1.16 documents packing for variable-length kernels; axolotl #3453 for a model that it broke",
        "set `train.packing = false`",
        lambda f: f.packs_examples and f.attends.keeps_scores and not f.leaks,  # of leaking models BAD-040 tells more
    ),
    BadCombination(
        "BAD-013",
        "packed examples with SDPA in micro batches of several rows",
        "TRL joins the rows of a micro batch into one, and the mask that keeps examples apart costs the square of its "
        "length: 4 rows took twice the time of one after the other",
        "TRL 1.16 trainer/sft_trainer.py (DataCollatorForLanguageModeling); run on a CPU: 1,000 tokens in 2.15 and "
        "1.08 s",
        "set `train.micro_batch_size = 1`",
        lambda f: f.packs_examples and f.attends.apart == MASK and not f.attends.keeps_scores and f.micro_batch > 1,
        refused=False,
    ),
    BadCombination(
        "BAD-014",
        "packing with a trainer that takes every example whole",
        "the trainer does not support packing and only warns about `padding_free`",
        "TRL 1.16 trainer/dpo_config.py (padding_free; only SFTConfig has packing)",
        "set `train.packing = false`",
        lambda f: f.packing and f.method.packs == "never",
    ),
    BadCombination(
        "BAD-015",
        "fp16 where the GPU has bf16",
        "fp16 overflows on some models and needs loss scaling; bf16 costs the same",
        "docs/rule-books/003.md, Anti-patterns; docs/rule-books/001.md, Anti-pattern 5",
        'set `train.precision = "bf16"`',
        lambda f: f.precision == "fp16" and f.gpu_bf16 and not f.gpu_is_cpu,
        refused=False,
    ),
    BadCombination(
        "BAD-016",
        "bf16 on a GPU without it",
        "the GPU has no bf16, and transformers refuses to start",
        "transformers 5.23 training_args.py (ValueError)",
        'set `train.precision = "fp16"`',
        lambda f: f.precision == "bf16" and not f.gpu_bf16 and not f.gpu_is_cpu,
        then=lambda f: f'set `train.precision = "{"fp32" if f.method.has_value_head else "fp16"}"`',
    ),
    BadCombination(
        "BAD-017",
        "saving that is not a multiple of evaluation",
        "the best evaluation must have a checkpoint, so transformers saves only at multiples of the evaluation "
        "interval",
        "transformers 5.23 training_args.py; docs/rule-books/001.md, Step 4 (500 against 200)",
        "set `train.save_every` to `train.eval_every` or a multiple of it",
        lambda f: f.asked_save_every > 0 and not _is_multiple(f.asked_save_every, f.eval_every),
    ),
    BadCombination(
        "BAD-018",
        "CPU offload without a sharding engine",
        "only a sharding engine moves optimizer states to host memory, so the setting would have no effect",
        "docs/rule-books/003.md, Distributed training; accelerate 1.15 configuration",
        'set `train.strategy = "zero2"` or `"zero3"`, or `train.offload = "none"`',
        lambda f: f.offloads and f.strategy.replicates,
    ),
    *PARALLEL,
    BadCombination(
        "BAD-028",
        "fp16 with Gemma 3",
        "activations and gradients of Gemma 3 exceed 65,504, the largest number of fp16, and become infinite",
        "unsloth.ai/blog/gemma3, Gemma 3 Training Fixes (2025-03-14, read 2026-11-21)",
        'set `train.precision = "bf16"` on a GPU that has it, or `"fp32"` on an older GPU',
        lambda f: f.precision == "fp16" and f.model_type.startswith("gemma3"),
        refused=False,
    ),
    BadCombination(
        "BAD-029",
        "sharding on a CPU",
        "FSDP and DeepSpeed shard between GPUs; on a CPU accelerate silently runs DDP instead",
        "accelerate 1.15 state.py (MULTI_CPU; run)",
        "remove `train.strategy`: on a CPU one process trains alone, and several under DDP",
        lambda f: f.gpu_is_cpu and not f.strategy.on_cpu,
    ),
    BadCombination(
        "BAD-030",
        "Adafactor under ZeRO",
        "DeepSpeed flattens the parameters, so Adafactor cannot factor its states: it needs more memory than "
        "AdamW, and its updates depend on the number of GPUs",
        "DeepSpeed 0.19 stage_1_and_2.py and stage3.py (flat fp32 partitions); transformers 5.23 Adafactor "
        "(factors from 2 dimensions on); run",
        'set `train.optimizer = "adamw"`, or `train.strategy = "ddp"` with Adafactor',
        lambda f: f.optimizer == "adafactor" and f.deepspeed,
    ),
    BadCombination(
        "BAD-031",
        "4-bit base model on a CPU",
        "on CPUs with AVX512-BF16, bitsandbytes repacks the 4-bit weights at the first evaluation, and no gradient "
        "passes them afterwards",
        "bitsandbytes 0.50.2 nn/modules.py (Linear4bit.forward; run: the gradient is None, a bias raises)",
        'set `train.adaptation = "lora"` and `train.quantization = "none"` on a CPU',
        lambda f: f.gpu_is_cpu and bool(BASES[f.adaptation.base].not_on_cpu),
    ),
    BadCombination(
        "BAD-032",
        "partial gradient checkpointing or activation offload beside a reference",
        "the trainer resets gradient checkpointing when it computes the reference, so from the second step on every "
        "layer is checkpointed on the GPU",
        "TRL 1.16 models/utils.py (disable_gradient_checkpointing; run)",
        "leave `train.recompute_every` and `train.activation_offload` out",
        lambda f: not f.method.keeps_recomputation and (f.recompute_every > 1 or f.activation_offload),
    ),
    BadCombination(
        "BAD-033",
        "torch.compile with SDPA",
        "a compiled model always gets an attention mask, and SDPA then runs a slower kernel that needs more "
        "memory; the plan counts that, but no speedup",
        "transformers 5.23 masking_utils.py (is_tracing; run: the captured graph calls SDPA with a mask)",
        "set `train.compile = false`",
        lambda f: f.compile and f.attention == "sdpa" and not f.fp8,  # which is compiled or nothing: BAD-191
        refused=False,
    ),
    BadCombination(
        "BAD-034",
        "fp32 where the GPU has bf16",
        "fp32 takes twice the memory of bf16 for weights and activations, and its matrix products are several times "
        "slower",
        "docs/rule-books/004.md, Anti-patterns",
        'set `train.precision = "bf16"`',
        lambda f: f.precision == "fp32" and f.gpu_bf16 and not f.gpu_is_cpu,
        refused=False,
    ),
    BadCombination(
        "BAD-036",
        "model type without a class that scores",
        "transformers has no sequence classification class for this model type, so no head for scores can be loaded",
        "transformers 5.23 models/auto/modeling_auto.py (MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)",
        "set `model.name` to a model of another family, such as `Qwen/Qwen3-4B`",
        lambda f: not f.has_class,
    ),
    BadCombination(
        "BAD-037",
        "reference computed before training for adapters under FSDP",
        "TRL computes it with the model of the adapter, which FSDP shards only when training begins: until then its "
        "weights are on no GPU",
        "TRL 1.16 trainer/dpo_trainer.py (_precompute_ref_logps: `self.ref_model or self.model`)",
        "set `alignment.precompute_reference = false`",
        lambda f: f.precomputes and f.fsdp and not f.adaptation.trains_all,
    ),
    BadCombination(
        "BAD-038",
        "reference computed before training under ZeRO-3",
        "TRL keeps the log-probabilities under a hash of the weights, and under ZeRO-3 every weight is empty outside "
        "its forward pass: a run on the same rows from another model would read the ones of the first",
        "TRL 1.16 trainer/utils.py (hash_module); DeepSpeed 0.19.8 partition_parameters.py (free_param)",
        'set `alignment.precompute_reference = false`, or `train.strategy = "fsdp"` or `"zero2"`',
        lambda f: f.precomputes and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-039",
        "reference computed before training on several nodes",
        "the first process writes the log-probabilities into the cache of Hugging Face Datasets, and every process "
        "reads them from there: the run stops where nodes do not share that folder",
        "TRL 1.16 trainer/dpo_trainer.py (_precompute_ref_logps: `is_main_process`, `Dataset.from_file`)",
        "set `alignment.precompute_reference = false`, or set `HF_DATASETS_CACHE` to a folder that all nodes share",
        lambda f: f.precomputes and f.several_nodes,
        refused=False,
    ),
    *ONLINE,
    *ATTENTION,
    *VARIANTS,
    *VIRTUAL_TOKENS,
    *BEHIND_MODULES,
    *NEW_TOKENS,
    *ORDERS,
    *ELASTIC,
    *FP8,
    *VALUE_HEADS,
    *LOOPS,
    *DISPATCH,
    *HYBRIDS,
    *ENTERING,
    *CHUNKS,
)
_REFUSED_FIRST = sorted(COMBINATIONS, key=lambda row: (not row.refused, row.id))
_REFUSED = [row for row in _REFUSED_FIRST if row.refused]


def _scaled_by(combination: Combination, what: str) -> bool:
    return BASES[combination.adaptation.base].scaled_by == what


def _is_multiple(save_every: float, eval_every: float) -> bool:
    return abs(save_every / eval_every - round(save_every / eval_every)) < 1e-6 and save_every >= eval_every
