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
        "tensor parallelism that the model does not divide by",
        "a rank must get whole heads and key heads: a part of one cannot be reshaped in the attention's forward pass",
        "run on transformers 5.23: RuntimeError in LlamaAttention.forward; features may divide unevenly",
        "a tensor_parallel that divides num_attention_heads and num_key_value_heads",
        lambda f: f.tensor > 1 and not f.tensor_divides,
    ),
    BadCombination(
        "BAD-020",
        "tensor parallelism for a model without a plain tensor plan",
        "the architecture has no plan, one that gathers fused projections again, or experts that it does not split",
        "transformers 5.23 configuration classes; Mixtral: ValueError, no tp_plan (run)",
        "context_parallel, expert_parallel for a mixture of experts, or a larger group of shards",
        lambda f: f.tensor > 1 and f.model_type not in TENSOR_PLANS,
    ),
    BadCombination(
        "BAD-021",
        "layers spread over ranks with adapters",
        "PEFT's adapters on weights that are split at load were not run on this stack",
        "not run with the pinned PEFT 0.21 and transformers 5.23",
        'adaptation = "full", or LoRA under fsdp',
        lambda f: not f.adaptation.trains_all and max(f.tensor, f.context, f.expert) > 1,
    ),
    BadCombination(
        "BAD-022",
        "context parallelism with packing",
        "packed rows need position ids that restart, which the split sequence loses; SFTTrainer refuses it",
        "TRL 1.16 sft_trainer (ValueError at construction)",
        "packing = false",
        lambda f: f.context > 1 and f.packing,
    ),
    BadCombination(
        "BAD-023",
        "context parallelism of a length that does not divide",
        "each rank takes two pieces of a sequence, one from each end, so the length must divide by twice the ranks",
        "torch 2.13 distributed/tensor/experimental/_context_parallel/_load_balancer.py (_HeadTailLoadBalancer: "
        "AssertionError)",
        "a max_length that is a multiple of 2 x context_parallel",
        lambda f: f.context > 1 and not f.context_divides,
    ),
    BadCombination(
        "BAD-024",
        "context parallelism without PyTorch's fused attention",
        "only scaled_dot_product_attention is replaced by its ring",
        "transformers 5.23 Trainer._prepare_context_parallel_inputs (ValueError)",
        'attention = "sdpa"',
        lambda f: f.context > 1 and f.attention != "sdpa",
    ),
    BadCombination(
        "BAD-025",
        "context parallelism where whole sequences are compared",
        "the trainer scores them whole and knows nothing of ranks that hold a part of one",
        "TRL 1.16 dpo_trainer and kto_trainer (no context parallel code)",
        "a shorter max_length, or more shards",
        lambda f: f.context > 1 and not f.method.single_pass,
    ),
    BadCombination(
        "BAD-026",
        "expert parallelism that the experts do not divide by",
        "a dense model has no experts to share, and every rank must get the same number of them",
        "transformers 5.23 distributed/expert_parallel.py",
        "an expert_parallel that divides the number of experts, or 1 for a dense model",
        lambda f: f.expert > 1 and (not f.experts or f.experts % f.expert != 0),
    ),
    BadCombination(
        "BAD-027",
        "layers shared between ranks without FSDP",
        "only FSDP's meshes have these dimensions; DeepSpeed's AutoTP trains on a wrong loss with TRL, whose loss "
        "multiplies by the local part of lm_head alone",
        "run: loss 5.367 instead of 5.947 on the pinned stack",
        'strategy = "fsdp" or "hsdp"',
        lambda f: max(f.tensor, f.context, f.expert) > 1 and not f.fsdp,
    ),
)
