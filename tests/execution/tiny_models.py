"""Random models of a few thousand weights in fp32, and a tokenizer of words, for the trainers that bundles bring."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

WORDS = 96  # tokens
SIZES = {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
LOADED: dict[str, Any] = {"dtype": "float32", "attn_implementation": "eager"}
ARGUMENTS: dict[str, Any] = {  # of a trainer's configuration class, for one step on this CPU
    "max_steps": 1,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "lr_scheduler_type": "constant",
    "logging_steps": 1,
    "bf16": False,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "dataloader_pin_memory": False,
    "activation_checkpointing": False,
    "model_init_kwargs": LOADED,
}


def save(folder: Path, seed: int, **config: Any) -> None:
    """Write a model of these sizes whose logits differ enough to be told apart."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    sizes = SIZES | {"tie_word_embeddings": False, "initializer_range": 0.3}
    shape = AutoConfig.for_model(**{**sizes, **config}, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    AutoModelForCausalLM.from_config(shape).float().save_pretrained(folder)


@cache
def tokenizer() -> Any:
    """`w3` is token 3, and so on."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<start>", "<end>", *(f"w{number}" for number in range(3, WORDS))]
    inner = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", bos_token="<start>", eos_token="<end>")


def pairs() -> Any:
    """Pairs of different lengths; the answers of the last are alike."""
    from datasets import Dataset

    def words(first: int, number: int) -> str:
        return " ".join(f"w{3 + (first + 7 * place) % (WORDS - 3)}" for place in range(number))

    lengths = [(4, 9, 3), (8, 2, 11), (3, 6, 6), (5, 1, 4)]
    rows = [(words(n, p), words(n + 1, c), words(n + 2, r)) for n, (p, c, r) in enumerate(lengths)]
    rows.append((rows[0][0], rows[0][1], rows[0][1]))
    return Dataset.from_list([dict(zip(("prompt", "chosen", "rejected"), row, strict=True)) for row in rows])


def first_batch(trainer: Any) -> dict[str, Any]:
    """The first micro batch that a trainer takes."""
    return trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))


def gradients(trainer: Any, loss: Any) -> dict[str, Any]:
    """Of every weight that trains, from one loss."""
    trainer.model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in trainer.model.named_parameters() if weight.requires_grad}
