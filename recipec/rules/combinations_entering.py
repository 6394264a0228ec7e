"""What is known not to work, or was not run, where layers borrow keys and values of earlier ones, or where a second
embedding of tokens enters every layer."""

from __future__ import annotations

from recipec.axes.adaptations import PROMPTS
from recipec.axes.strategies import DEEPSPEED
from recipec.rules.combination import BadCombination

_MODEL = "transformers 5.23 models/gemma4/modeling_gemma4.py"
_OTHER_MODEL = "choose a model whose layers all have keys and values of their own"

ENTERING = (
    BadCombination(
        "BAD-145",
        "torch.compile of a model whose layers borrow keys and values",
        "the borrowed keys and values pass from layer to layer in a dictionary beside the states, and recipec has not "
        "compiled that",
        f"{_MODEL} (KVSharingDict); not run",
        "set `train.compile = false`",
        lambda f: f.borrows and f.compile,
    ),
    BadCombination(
        "BAD-146",
        "tensor or context parallelism of a model whose layers borrow keys and values",
        "recipec has run neither, and does not know what a rank holds of borrowed keys and values",
        f"{_MODEL} (shared_kv_states); not run",
        "set `train.tensor_parallel = 1` and `train.context_parallel = 1`, and lower `data.max_length` where memory is "
        "short",
        lambda f: f.borrows and (f.tensor > 1 or f.context > 1),
    ),
    BadCombination(
        "BAD-147",
        "FP8 in a model whose layers take slices of a second embedding",
        "the gates of the slices are small linear modules of the decoder, which would be multiplied in FP8 too, and "
        "recipec has not run that",
        f"{_MODEL} (per_layer_input_gate); not run",
        "leave `train.fp8` out",
        lambda f: f.slices and f.fp8,
    ),
    BadCombination(
        "BAD-150",
        "reentrant gradient checkpointing of layers that lend keys and values",
        "the first pass of a recomputed layer has no graph, so that no gradient comes back from the layers that borrow "
        "its keys and values: training goes on with wrong gradients, without an error",
        f"{_MODEL} (shared_kv_states); run in fp32 on six layers: gradients are off by 28% with `use_reentrant=True` "
        "and exact with `use_reentrant=False`",
        'set `train.activation_checkpointing = false`, `train.strategy = "zero2"` in place of ZeRO-3, or another base '
        "than one in 8 bits",
        lambda f: f.borrows and f.recomputes and f.strategy.reenters(f.adaptation),
    ),
    BadCombination(
        "BAD-151",
        "a soft prompt before a model whose layers take slices of a second embedding",
        "virtual tokens have no number that the second embedding could look up: the first step fails",
        "run with PEFT 0.21.2 and transformers 5.23 (`you tried to call forward from inputs_embeds without providing "
        "input_ids`)",
        'set `train.adaptation = "lora"`',
        lambda f: f.slices and f.adaptation.trains == PROMPTS,
    ),
    BadCombination(
        "BAD-152",
        "new tokens in a model whose layers take slices of a second embedding",
        "the second embedding needs rows for them, too, and recipec extends the first one alone",
        f"{_MODEL} (resize_token_embeddings); not run",
        "leave `model.new_tokens` out",
        lambda f: f.slices and f.new_tokens,
    ),
    BadCombination(
        "BAD-153",
        "ZeRO-3 with a model whose layers take slices of a second embedding",
        "the second embedding is up to half of all weights and is gathered as a whole on every GPU; recipec knows what "
        "memory that takes under FSDP, and has not measured or simulated it under ZeRO-3",
        f"{_MODEL} (embed_tokens_per_layer); not run with DeepSpeed 0.19.8",
        'set `train.strategy = "fsdp"`, `"ddp"` or `"zero2"`',
        lambda f: f.slices and f.strategy.shards_weights and f.strategy.engine == DEEPSPEED,
    ),
    BadCombination(
        "BAD-154",
        "answers written in training by a model whose layers borrow keys and values",
        "memory and time of its generation were not measured, and no run of it was verified",
        "not run with TRL 1.16 trainer/grpo_trainer.py",
        f"{_OTHER_MODEL}, or train on rows that have answers",
        lambda f: f.borrows and f.method.generates,
    ),
)
