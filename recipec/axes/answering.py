"""Hyperparameters of answers that a model writes itself: how long, how drawn, by what, with what results of tools."""

from recipec.axes.generators import GENERATORS, TRANSFORMERS
from recipec.axes.hyperparameters import Own

MAX_NEW_TOKENS = Own(
    id="RL-004",
    name="max_new_tokens",
    key="generation.max_new_tokens",
    argument="max_completion_length",
    of_trainer=False,
    elsewhere={"trl": ("max_completion_length",), "typed": ("max_completion_length", "max_new_tokens")},
    title="Maximum answer length",
    description="Maximum number of tokens per generated answer during training.",
    formula="",
    value=512,
    because="enough for an answer with a few steps of reasoning; a model that thinks before it answers needs more, or "
    '`data.reasoning = "off"`',
    source="TRL 1.16 trainer/grpo_config.py and rloo_config.py (max_completion_length)",
    accepts=None,
    above=8,
    closed=True,
    whole=True,
    most=131_072,
    values=None,
    changes={},
    watch="completions/clipped_ratio, completions/mean_length: few answers are cut; if most are, raise "
    "`alignment.generation.max_new_tokens`",
    page="Longest answer: how many tokens an answer has at most while the model learns.\n\n"
    "It is 512, TRL's default, which assumes an answer without a long thought. A model whose chat template has a mode "
    "for thinking (Qwen3) writes thousands of tokens first and would be cut in its thought: allow that many, or set "
    '`data.reasoning = "off"`, with which prompts end with an empty thought. W0525 tells where neither is set.\n\n'
    "Answers are written together, and all wait for the longest. Keys and values of every "
    "answer of a generation are in memory at once, so that this length decides what fits. Answers that are cut rarely "
    "earn a reward: where most are, the model learns nothing, or to stop early.",
)
TEMPERATURE = Own(
    id="RL-005",
    name="temperature",
    key="generation.temperature",
    argument="temperature",
    of_trainer=False,
    elsewhere={"trl": ("temperature",)},
    title="Temperature",
    description="Sampling temperature of generation: above 1, unlikely tokens are sampled more often.",
    formula="",
    value=1.0,
    because="answers are drawn from the probabilities that are learned; top-p, top-k and penalties are off for that, "
    "too",
    source="TRL 1.16 trainer/grpo_config.py and rloo_config.py (temperature); DAPO (arXiv 2503.14476, 2025)",
    accepts=(0.7, 1.2),
    above=0,
    closed=False,
    whole=False,
    most=2,
    values=None,
    changes={},
    watch="entropy, frac_reward_zero_std: entropy falls slowly; if answers to a prompt become all alike, raise "
    "`alignment.generation.temperature`",
    page="Temperature of generation: what the logits are divided by while answers are written.\n\n"
    "It is 1: answers are then drawn from the very probabilities that are learned. TRL scores answers at the same "
    "temperature, but without top-p, top-k, min-p and repetition penalties, so these are written out as off.",
)
ENGINE = Own(
    id="RL-020",
    name="generator",
    key="generation.engine",
    argument="",
    of_trainer=False,
    elsewhere={
        "trl": ("use_vllm", "vllm_mode"),
        "axolotl": ("vllm",),
        "typed": ("vllm", "vllm_colocate", "vllm_server"),
    },
    title="Engine of generation",
    description="Generation engine: the library that samples the answers during training.",
    formula="",
    value=TRANSFORMERS.name,
    because="it writes with the very weights that learn and needs no package; `vllm` and `vllm-server` write several "
    "times faster, but what recipec plans for them was never measured on a GPU",
    source="; ".join(row.source for row in GENERATORS.values()),
    accepts=None,
    above=None,
    closed=False,
    whole=False,
    most=None,
    values={row.name: row.means for row in GENERATORS.values()},
    changes={name: {"generator": name} for name in GENERATORS},
    watch="reward: as with transformers; with vLLM, sampling/sampling_logp_difference/mean is near 0, or its copy "
    "computes otherwise than the training",
    page="Engine of generation: what writes the answers that are learned from.\n\n"
    "| | transformers | vllm, vllm-server |\n|---|---|---|\n"
    "| weights | those that learn | a copy, sent anew before each generation |\n"
    "| keys and values | copied with every token, all answers at once | stay in place |\n"
    "| a batch ends | with its longest answer | an answer that ends makes room for the next |\n"
    "| each token | hundreds of launches of kernels | one launch of a recorded graph |\n"
    "| probabilities | those that are learned | its own; how far they differ is corrected |\n\n"
    "With `vllm`, train.py lets it run on the GPUs that train, where it sleeps while the model learns: its weights and "
    "its cache are given back (sleep level 2). The plan counts its copy of the weights, keys and values of all answers "
    "at their longest and the buffers of its first run, and train.py reserves that share of the GPU. Each token's "
    "weight in the loss is the ratio of the two probabilities, at most 2 (truncated importance sampling).\n\n"
    "Where a whole copy does not fit, several GPUs of a node share one "
    "(`alignment.generation.engine_tensor_parallel`).\n\n"
    "With LoRA, TRL merges the adapter into the base for every generation and subtracts it again, after which a base "
    "in bf16 is not what it was. `merged_weights.py` of the bundle sends the merged weights and leaves the base alone. "
    "A quantized base is refused (BAD-160), as vLLM would have to write with other weights than those that learn.\n\n"
    "As a server (`vllm-server`), vLLM runs on `alignment.generation.server_gpus` GPUs of the node that do not train. "
    "Nothing of it is in the memory of the others, which wait while it writes, as it waits while they learn: it pays "
    "where the copy finds no room beside the training, and where answers take most of a step. serve_answers.py "
    "runs both: the training gets the first of the visible GPUs and vLLM the last, on ports that are free. Where vLLM "
    "ends before the training, the training ends at once, with the last words of vLLM. A vLLM that does not end but "
    "no longer answers is waited for. A launch of a training that is finished starts vLLM for the seconds until "
    "train.py says so.\n\n"
    "What vLLM draws is in no checkpoint: a resumed training goes on with other answers than it would have had.\n\n"
    "Here vLLM itself was never run: verification trains with a stand-in that takes the weights which vLLM would get "
    "and writes the answers with them.",
)
SERVER_GPUS = Own(
    id="RL-021",
    name="server_gpus",
    key="generation.server_gpus",
    argument="",
    of_trainer=False,
    elsewhere={"trl": ("vllm_tensor_parallel_size",), "typed": ("server_gpus", "vllm_gpus", "inference_gpus")},
    title="GPUs of the server",
    description="GPUs of the node that serve the answers and do not train; each holds a part of every layer.",
    formula="GPUs of copy",
    value=1,
    because="",
    source="recipec's choice (half of the memory for keys and values); vLLM 0.30 (tensor parallelism divides the "
    "attention heads)",
    accepts=None,
    above=1,
    closed=True,
    whole=True,
    most=8,
    values=None,
    changes={},
    watch="tokens_per_second: near the plan; if the training waits for answers most of the time, raise "
    "`alignment.generation.server_gpus`",
    page="GPUs of the server: how many GPUs of the node write the answers that the others learn from.\n\n"
    "It is the smallest power of two that divides the attention heads of the model, as vLLM asks, at which a copy of "
    "the weights takes at most half of their memory, so that keys and values of many answers find room, and with which "
    "the global batch divides among the GPUs that are left: a GPU that neither writes nor trains is paid for all the "
    "same. Where the batch divides with none of them, it is the smallest with room. More of them write faster, and "
    "fewer are left to train. The server takes the last of the GPUs that the node shows.",
)

ENGINE_TENSOR_PARALLEL = Own(
    id="RL-022",
    name="engine_tensor_parallel",
    key="generation.engine_tensor_parallel",
    argument="vllm_tensor_parallel_size",
    of_trainer=False,
    elsewhere={
        "trl": ("vllm_tensor_parallel_size",),
        "typed": (
            *("rollout.tensor_model_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size"),
            *("rollout_tensor_parallel", "engine_tp", "vllm_tp"),
        ),
    },
    title="Tensor parallelism of the engine",
    description="Number of GPUs that share each copy of the weights which `vllm` writes with on the GPUs that train; "
    "each holds a part of every layer.",
    formula="",
    value=1,
    because="a whole copy of the weights fits on every GPU beside the training",
    source="TRL 1.16 generation/vllm_generation.py (tensor_parallel_size in colocate mode); vLLM 0.30 (tensor "
    "parallelism divides the attention heads); memory and time estimates of the planner",
    accepts=None,
    above=1,
    closed=True,
    whole=True,
    most=8,
    values=None,
    changes={},
    watch="tokens_per_second: near the plan; if answers are written far slower, compare with other values of "
    "`alignment.generation.engine_tensor_parallel`",
    page="Tensor parallelism of the engine: how many of the GPUs that train share one copy of vLLM's weights.\n\n"
    "It is the smallest of 1, 2, 4 and 8 with which the layout fits, so it is 1 wherever a whole copy finds room "
    "beside the training. The GPUs of a group are neighbors on one node. Their number must divide the GPUs of a node "
    "that train, and the attention heads of the model. Where the model has fewer key and value heads than a group has "
    "GPUs, several GPUs hold the same heads.\n\n"
    "| per GPU | with a group of N |\n|---|---|\n"
    "| weights of the copy | 1/N |\n"
    "| keys and values | as with 1: N times the answers, each with 1/N of the heads |\n"
    "| logits while a token is drawn | N times as many: every GPU has those of all answers of its group |\n"
    "| reads of the weights for a token | 1/N |\n"
    "| all-reduces for a token | two in most layers, over the link of the node |\n\n"
    "The ranks of a group gather their prompts, write all answers together, and each keeps its own. Rank and GPU of "
    "the training do not change. With `vllm-server`, `alignment.generation.server_gpus` is the number of GPUs that "
    "share the copy.\n\n"
    "recipec never ran vLLM on a GPU. Only a run shows that vLLM starts in groups beside the training, that all ranks "
    "of a group draw the same tokens, how long its all-reduces take, and what NCCL and recorded graphs of a group "
    "take of the memory. Verification runs the trainer's groups with a stand-in for vLLM.",
)

RESULT_TOKENS = Own(
    id="RL-007",
    name="result_tokens",
    key="generation.result_tokens",
    argument="",
    of_trainer=False,
    elsewhere={"typed": ("max_tool_response_length", "max_obs_length", "tool_response_tokens", "result_tokens")},
    title="Tokens of a tool result",
    description="Longest result of one tool call, in tokens of about 4 characters; longer results are cut. They are "
    "part of `max_new_tokens`, and no token of a result is trained.",
    formula="",
    value=128,
    because="a result of a few lines; four of them are as long as the shortest usual answer, so longer ones need a "
    "higher `alignment.generation.max_new_tokens`",
    source="recipec's choice; the scripts of Search-R1 (arXiv 2503.09516, 2025) cut a result at 500 tokens",
    accepts=(16, 2048),
    above=8,
    closed=True,
    whole=True,
    most=32_768,
    values=None,
    changes={},
    watch="completions/clipped_ratio, tools/call_frequency: answers go on after a call; if most end with one, their "
    "results found no room: raise `alignment.generation.max_new_tokens`",
    page="Tokens of a tool result: how long the text may be that a tool gives back to the model.\n\n"
    "It is 128. What a tool returns becomes part of the answer's tokens, is read again by every later turn and is "
    "never trained. A result that does not fit into `alignment.generation.max_new_tokens` is dropped by TRL: the "
    "answer then ends with the call, and no log says so. The bundle therefore cuts a result at 4 characters for each "
    "of these tokens, and marks the cut. The plan takes so many tokens for each call, and for what `reset` says.",
)
TOOL_ROUNDS = Own(
    id="RL-008",
    name="tool_rounds",
    key="generation.tool_rounds",
    argument="max_tool_calling_iterations",
    of_trainer=False,
    elsewhere={"typed": ("max_turns", "max_assistant_turns", "max_tool_calls", "tool_rounds")},
    title="Rounds of tool calls",
    description="How many times an answer may call tools and go on with their results; an answer ends after the last.",
    formula="rounds of results",
    value=4,
    because="",
    source="Search-R1 (arXiv 2503.09516, 2025; its scripts allow up to 4 turns); TRL 1.16 trainer/grpo_config.py "
    "(max_tool_calling_iterations), whose default is no limit",
    accepts=None,
    above=1,
    closed=True,
    whole=True,
    most=256,
    values=None,
    changes={},
    watch="tools/call_frequency, tools/failure_frequency: calls per answer stay below the limit; if they reach it "
    "and the reward stays level, raise `alignment.generation.tool_rounds`",
    page="Rounds of tool calls: after how many of them an answer ends.\n\n"
    "It is 4, and less where results of `alignment.generation.result_tokens` would fill more than half of "
    "`alignment.generation.max_new_tokens`: the other half is what the model writes itself. TRL has no limit of its "
    "own: a model that calls tools for ever ends when its tokens are used up. All answers of a generation wait for "
    "those that still call. Each round reads every answer again from its first token, so that time grows with it.",
)
