"""What is known not to work, or was not run, with models whose layers differ: hybrids, whose layers are not all layers
of attention, heads of two sizes, and mixtures of experts without a loss for their balance or with other routers."""

from __future__ import annotations

from recipec.axes.adaptations import BEHIND, SCALES
from recipec.rules.combination import BadCombination

_DELTA_RULE = "transformers 5.23 models/qwen3_5/modeling_qwen3_5.py"
_CONVOLUTION = "models/lfm2/modeling_lfm2.py"
_STATE_SPACE = "models/granitemoehybrid/modeling_granitemoehybrid.py, also nemotron_h and falcon_h1"

HYBRIDS = (
    BadCombination(
        "BAD-100",
        "packed examples in a model with recurrent or convolutional layers",
        "such layers carry what they read in one example into the next one, and without `causal_conv1d` "
        "transformers stops at the first step where it is told the boundaries",
        f"{_DELTA_RULE}, {_CONVOLUTION}, {_STATE_SPACE} (causal_conv1d_fn; run with TRL's packed rows: ValueError)",
        "set `train.packing = false`; batches of rows of similar length have little padding",
        lambda f: f.hybrid and f.packs_examples,
    ),
    BadCombination(
        "BAD-101",
        "DoRA, IA3 or bottleneck adapters on a model with recurrent or convolutional layers",
        "what DoRA and bottleneck adapters keep in such layers is not in the plan's memory, and IA3 scales nothing in "
        "them",
        "not simulated with PEFT 0.21.2",
        'set `train.adaptation = "lora"`, and leave `train.lora.variant` out',
        lambda f: f.hybrid and (f.variant.magnitudes or f.adaptation.trains in (SCALES, *BEHIND)),
    ),
    BadCombination(
        "BAD-102",
        "context parallelism of a model with recurrent or convolutional layers",
        "a rank would begin its part of a sequence with an empty state, without an error",
        f"{_DELTA_RULE} (the state is handed on within a rank only)",
        "lower `data.max_length`, or shard over more GPUs",
        lambda f: f.hybrid and f.context > 1,
    ),
    BadCombination(
        "BAD-103",
        "torch.compile of a model with recurrent or convolutional layers",
        "a recurrence is a loop over the chunks of a sequence, which is unrolled and compiled again for every length, "
        "and recipec has compiled no convolution over tokens",
        f"{_DELTA_RULE} (torch_chunk_gated_delta_rule); not run",
        "set `train.compile = false`",
        lambda f: f.hybrid and f.compile,
    ),
    BadCombination(
        "BAD-104",
        "answers written in training by a model with recurrent or convolutional layers",
        "memory and time of its generation were not measured, and no run of it was verified",
        "not run with TRL 1.16 trainer/grpo_trainer.py",
        "choose a model of attention alone, or train on rows that have answers",
        lambda f: f.hybrid and f.method.generates,
    ),
    BadCombination(
        "BAD-105",
        "recurrent or convolutional layers without their kernels",
        "the pinned requirements have no kernels for these layers, so transformers runs them in PyTorch's own "
        "operations: right, slower, and with more memory, which is what the plan counts",
        f"{_DELTA_RULE}, {_STATE_SPACE} (use_kernel_func_from_hub_with_fallback)",
        "to train faster, also install `causal-conv1d` where you train, and `flash-linear-attention` for gated delta "
        "nets or, where the base model is not quantized, `mamba-ssm` for Mamba 2: transformers takes them by itself; "
        "recipec has not measured or verified that",
        lambda f: f.lacks_kernels,
        refused=False,
    ),
    BadCombination(
        "BAD-107",
        "DoRA, IA3 or bottleneck adapters on a model whose layers attend in heads of two sizes",
        "what DoRA and bottleneck adapters keep in such layers is not in the plan's memory, and some of them have no "
        "value projection that IA3 could scale",
        "transformers 5.23 models/gemma4/modeling_gemma4.py (attention_k_eq_v); not simulated with PEFT 0.21.2",
        'set `train.adaptation = "lora"`, and leave `train.lora.variant` out',
        lambda f: f.two_heads and (f.variant.magnitudes or f.adaptation.trains in (SCALES, *BEHIND)),
    ),
    BadCombination(
        "BAD-106",
        "full fine-tuning of a mixture of experts that has no balance loss",
        "the router trains, and transformers and TRL run no loss for this type that keeps the load of its experts "
        "balanced; where a bias balanced it in pretraining, that is a buffer that no gradient moves",
        "transformers 5.23 models/glm4_moe/modeling_glm4_moe.py (e_score_correction_bias); TRL 1.16 trainer/utils.py "
        "(num_experts of a GraniteMoeHybridConfig: AttributeError)",
        'set `train.adaptation = "lora"`, which leaves the router as it is, or keep the learning rate low',
        lambda f: f.moe and not f.balanced and f.adaptation.trains_all,
        refused=False,
    ),
    BadCombination(
        "BAD-108",
        "a quantized base model whose router is a linear module",
        "the quantizer would round the router's weights with those of the other linear modules, and the experts, which "
        "hold most weights, would stay as they are",
        "transformers 5.23 models/gemma4/modeling_gemma4.py (Gemma4TextRouter.proj), integrations/bitsandbytes.py",
        'set `train.adaptation = "lora"` without a quantized base, or shard over more GPUs',
        lambda f: f.linear_router and f.adaptation.quantized,
    ),
    BadCombination(
        "BAD-109",
        "experts of this model type spread over ranks",
        "transformers has a plan for it, which also cuts the plain block beside the experts or leaves the router out; "
        "recipec has not run or measured it",
        "transformers 5.23 base_model_ep_plan of gemma4, granitemoehybrid and nemotron_h; not run",
        "set `train.expert_parallel = 1`, and shard over more GPUs",
        lambda f: f.expert > 1 and not f.spread,
    ),
)
