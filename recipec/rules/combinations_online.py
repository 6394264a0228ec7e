"""What is known not to work where the model writes the answers that it learns from."""

from __future__ import annotations

from recipec.rules.combination import BadCombination

# What a refusal says beside its reason; in TRL 1.16 `vllm_server_host` may be the address of any node.
ONE_NODE = (
    "a vLLM server for a training on several nodes is a limit of recipec, not of TRL or vLLM: recipec's launch scripts "
    "start the server only on the one node that trains (BAD-168)"
)

ONLINE = (
    BadCombination(
        "BAD-050",
        "a global batch that cuts a group of answers",
        "the answers to a prompt are compared with each other, so that the answers of a generation, which all ranks "
        "write together, must be whole groups",
        "TRL 1.16 trainer/grpo_config.py and rloo_config.py (generation_batch_size must be divisible by "
        "num_generations: ValueError)",
        "set a `train.global_batch_size` that is a multiple of `alignment.generation.per_prompt`, and that the ranks "
        "can share equally",
        lambda f: f.cuts_groups,
    ),
    BadCombination(
        "BAD-051",
        "ranks that share a layer while answers are written",
        "the trainer makes its inputs itself, after generation, where they cannot be cut for context parallelism, and "
        "generation by several ranks that hold a part of each layer was not run",
        "TRL 1.16 trainer/grpo_config.py (parallelism_config: ValueError)",
        "shard over more GPUs in place of `train.tensor_parallel`, `train.context_parallel` and "
        "`train.expert_parallel`",
        lambda f: f.method.generates and max(f.tensor, f.context, f.expert) > 1,
    ),
    BadCombination(
        "BAD-052",
        "dropout of adapters while answers are written",
        "the model stays in training mode while it writes and scores answers, so that dropout counts as a change of "
        "the policy: a share of the answers is clipped that nothing has changed",
        "run with TRL 1.16: clip_ratio/region_mean 0.031 in place of 0 with lora_dropout 0.1 and a learning rate of 0",
        "set `train.lora = { dropout = 0.0 }`",
        lambda f: f.method.generates and f.lora_dropout > 0 and not f.method.has_value_head,
        refused=False,
    ),
    BadCombination(
        "BAD-053",
        "answers written under FSDP",
        "every layer is gathered again for every token that is written: correct, and many times slower",
        "run with two ranks: 0.2 s in place of 0.02 s; TRL 1.16 trainer/grpo_config.py has "
        "ds3_gather_for_generation for ZeRO-3 alone",
        'set `train.strategy = "ddp"` or `"zero2"`, or `"zero3"` where the model fits no GPU',
        lambda f: f.in_place and f.fsdp and max(f.tensor, f.context, f.expert) == 1,
        refused=False,
    ),
    BadCombination(
        "BAD-054",
        "on-policy distillation of a mixture of experts",
        "the loss has no part that keeps the load of the experts balanced, and answers that the model writes itself "
        "unbalance it",
        "TRL 1.16 trainer/distillation_trainer.py (_compute_loss; DistillationConfig has no router_aux_loss_coef)",
        "choose a dense model as `model.name`; the teacher may have experts",
        lambda f: f.method.generates and f.method.has_teacher and f.moe,
    ),
    BadCombination(
        "BAD-055",
        "tools where ranks share the weights",
        "each rank writes on for as many rounds as its own answers call tools; a rank that is done no longer takes "
        "part in gathering the weights, and the others wait for it until the run is stopped",
        "TRL 1.16 trainer/grpo_trainer.py (_tool_call_loop calls _generate_single_turn, which gathers the weights, a "
        "number of times that depends on the rank's own answers)",
        'set `train.strategy = "ddp"` or `"zero2"`, which keep the weights whole on every rank',
        lambda f: f.acts and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-160",
        "vLLM beside a base that is quantized",
        "vLLM cannot take 8-bit layers, and of a 4-bit base it would write with a merge that is quantized anew, which "
        "is another model than the one that learns",
        "TRL 1.16 generation/vllm_generation.py (ValueError for Linear8bitLt); run: a merge into a 4-bit base moves "
        "its logits by 0.97 where their spread is 0.16",
        'set `train.quantization = "none"`, or `alignment.generation.engine = "transformers"`',
        lambda f: f.copied and f.adaptation.quantized,
    ),
    BadCombination(
        "BAD-161",
        "vLLM beside an adapter whose base ZeRO-3 shards",
        "every weight of the base would have to be gathered for each generation, which was not run",
        "TRL #5766 (open: the whole model is gathered on every rank)",
        'set `train.strategy = "ddp"`, `"zero2"` or `"fsdp"`, or `alignment.generation.engine = "transformers"`',
        lambda f: f.copied and not f.adaptation.trains_all and f.deepspeed and f.strategy.shards_weights,
    ),
    BadCombination(
        "BAD-162",
        "vLLM beside an adapter that is not a product of two matrices",
        "merged_weights.py adds the product of LoRA's two matrices to each weight; a magnitude, and adapters on fused "
        "experts, change weights in other ways",
        "PEFT 0.21.2 tuners/lora (DoRA, ParamWrapper)",
        'leave `train.lora.variant` out, set `train.lora.targets = "attention"` on a mixture of experts, or set '
        '`alignment.generation.engine = "transformers"`',
        lambda f: f.copied and (f.variant.magnitudes or bool(f.lora_experts)),
    ),
    BadCombination(
        "BAD-163",
        "vLLM on a device that is no NVIDIA GPU of compute capability 7.5 or later",
        "the packages that requirements.txt pins are for these; other builds of vLLM were not run beside a training",
        "vLLM 0.30 (its wheels need CUDA, with the torch of PyPI); torch 2.13 cuda/__init__.py "
        "(PYTORCH_RELEASES_CODE_CC: no build for CUDA 12.9 or later has kernels below 7.5)",
        'set `alignment.generation.engine = "transformers"`, which is the default',
        lambda f: f.copied and not f.gpu_cuda,
    ),
    BadCombination(
        "BAD-164",
        "vLLM beside tools",
        "an answer with tools is written in rounds, each of which asks vLLM again; the two were not run together",
        "TRL 1.16 trainer/grpo_trainer.py (_tool_call_loop: max_model_len)",
        'set `alignment.generation.engine = "transformers"`',
        lambda f: f.copied and f.acts,
    ),
    BadCombination(
        "BAD-165",
        "a server whose GPUs do not divide the attention heads",
        "each GPU of the server computes whole heads of every layer",
        "vLLM 0.30 (tensor parallelism: total number of attention heads must be divisible by tensor parallel size)",
        "set `alignment.generation.server_gpus = 1`, or another number that divides the heads",
        lambda f: not f.served_whole,
    ),
    BadCombination(
        "BAD-166",
        "a server whose GPUs do not hold the model",
        "a copy of the weights, the buffers of a pass and the keys and values of one answer of full length need more "
        "memory than the server reserves",
        "vLLM 0.30 (gpu_memory_utilization: weights, activations and the KV cache)",
        "raise `alignment.generation.server_gpus`, use GPUs with more memory, or set "
        '`alignment.generation.engine = "transformers"`',
        lambda f: not f.served_fits,
    ),
    BadCombination(
        "BAD-167",
        "vLLM beside a model whose weights have other names in memory than in its checkpoint",
        "the trainer sends each weight by its name in memory, which vLLM looks for among the names of checkpoints; "
        "fused experts are one of them",
        "TRL 1.16 generation/vllm_generation.py (_iter_named_params has no renaming); verl #6896 (2026-06: experts "
        "that transformers 5 fuses are sent by names that vLLM's Qwen3-MoE does not read)",
        'set `alignment.generation.engine = "transformers"`, or choose a dense model as `model.name`',
        lambda f: f.copied and (f.renamed or f.moe),
    ),
    BadCombination(
        "BAD-168",
        "a server of answers beside a training on several nodes",
        "the launch script starts the server on the one node of the training, and sending weights to it from several "
        "nodes was not run",
        "TRL 1.16 trainer/grpo_config.py (vllm_server_host: the server is one address for all ranks)",
        'use `hardware.nodes = 1`, or set `alignment.generation.engine = "vllm"`',
        lambda f: f.serves_nodes,
    ),
    BadCombination(
        "BAD-169",
        "a copy of vLLM whose GPUs do not divide the attention heads",
        "each GPU that shares the copy computes whole heads of every layer",
        "vLLM 0.30 (tensor parallelism: total number of attention heads must be divisible by tensor parallel size)",
        "leave `alignment.generation.engine_tensor_parallel` out: recipec takes the smallest number that fits",
        lambda f: not f.copy_whole,
    ),
    BadCombination(
        "BAD-174",
        "a copy of vLLM whose GPUs do not divide the GPUs of a node that train",
        "the trainer makes equal groups of neighboring ranks, and a group that spans nodes would add up every layer "
        "over the network",
        "TRL 1.16 generation/vllm_generation.py (tensor_parallel_size must divide world size evenly: ValueError)",
        "leave `alignment.generation.engine_tensor_parallel` out: recipec takes the smallest number that fits",
        lambda f: not f.copy_divides,
    ),
)
