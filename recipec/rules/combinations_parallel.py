"""What is known not to work where ranks share a layer: tensor, context and expert parallelism."""

from __future__ import annotations

from recipec.rules.combination import BadCombination

# Model types of the catalog whose tensor plan splits by columns and rows alone: transformers 5.23 configuration classes
TENSOR_PLANS = frozenset(
    (
        *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"),
        *("granite", "smollm3", "starcoder2", "gpt_neox"),
    )
)

PARALLEL = (
    BadCombination(
        "BAD-019",
        "tensor parallelism that does not divide the attention heads",
        "every GPU needs whole query heads and key-value heads; a part of a head cannot be reshaped in the forward "
        "pass",
        "run on transformers 5.23: RuntimeError in LlamaAttention.forward (features may divide unevenly)",
        "set a `train.tensor_parallel` that divides `num_attention_heads` and `num_key_value_heads`",
        lambda f: f.tensor > 1 and not f.tensor_divides,
    ),
    BadCombination(
        "BAD-020",
        "tensor parallelism for a model without a plain tensor plan",
        "transformers has no tensor parallel plan for the architecture that splits by columns and rows alone",
        "transformers 5.23 configuration classes; Mixtral: ValueError, no tp_plan (run)",
        "use `train.context_parallel`, `train.expert_parallel` for a mixture of experts, or a larger sharding group",
        lambda f: f.tensor > 1 and f.model_type not in TENSOR_PLANS,
    ),
    BadCombination(
        "BAD-021",
        "adapters with tensor, context or expert parallelism",
        "adapters on weights that are split at load were not tested with the pinned PEFT and transformers",
        "not run with the pinned PEFT 0.21 and transformers 5.23",
        'set `train.adaptation = "full"`, or use LoRA with FSDP',
        lambda f: not f.adaptation.trains_all and max(f.tensor, f.context, f.expert) > 1,
    ),
    BadCombination(
        "BAD-022",
        "context parallelism with packing",
        "packed sequences need position ids that restart, which context parallelism does not keep; SFTTrainer "
        "refuses to start",
        "TRL 1.16 trainer/sft_trainer.py (ValueError at construction)",
        "set `train.packing = false`",
        lambda f: f.context > 1 and f.packing,
    ),
    BadCombination(
        "BAD-023",
        "context parallelism of a length that does not divide",
        "each rank takes two pieces of a sequence, one from each end, so the length must divide by twice the ranks",
        "torch 2.13 distributed/tensor/experimental/_context_parallel/_load_balancer.py (_HeadTailLoadBalancer: "
        "AssertionError)",
        "set a `data.max_length` that is a multiple of 2 x `train.context_parallel`",
        lambda f: f.context > 1 and not f.context_divides,
    ),
    BadCombination(
        "BAD-024",
        "context parallelism without PyTorch's fused attention",
        "context parallelism replaces `scaled_dot_product_attention` only",
        "transformers 5.23 trainer.py (_prepare_context_parallel_inputs: ValueError)",
        'set `train.attention = "sdpa"`',
        lambda f: f.context > 1 and f.attention != "sdpa",
    ),
    BadCombination(
        "BAD-025",
        "context parallelism where whole sequences are compared",
        "the trainer scores whole sequences and does not support ranks that hold a part of a sequence",
        "TRL 1.16 trainer/dpo_trainer.py, kto_trainer.py (no context parallel code)",
        "lower `data.max_length`, or shard over more GPUs",
        lambda f: f.context > 1 and not f.method.single_pass,
    ),
    BadCombination(
        "BAD-026",
        "expert parallelism that does not divide the experts",
        "every rank must get the same number of experts, and a dense model has none",
        "transformers 5.23 distributed/expert_parallel.py",
        "set a `train.expert_parallel` that divides the number of experts, or 1 for a dense model",
        lambda f: f.expert > 1 and (not f.experts or f.experts % f.expert != 0),
    ),
    BadCombination(
        "BAD-027",
        "tensor, context or expert parallelism without FSDP",
        "only FSDP has these kinds of ranks; DeepSpeed's tensor parallelism trains on a wrong loss with TRL, which "
        "multiplies by the local part of `lm_head` alone. Experts are also spread by DeepSpeed-MoE, in pretraining "
        "with a loop on DeepSpeed's engine",
        "run with the pinned versions: loss 5.367 instead of 5.947",
        'set `train.strategy = "fsdp"` or `"hsdp"`, or pretrain a mixture with `train.loop = "deepspeed"`',
        lambda f: max(f.tensor, f.context, 1 if f.dispatches else f.expert) > 1 and not f.fsdp,
    ),
)
