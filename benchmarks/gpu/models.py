"""Models of real size with random weights, and a tokenizer that counts words, in a hub cache of their own."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.gpu.cases import SMALL_MOE
from recipec.catalog.models import model
from recipec.simulate.config import config_fields
from recipec.verify.stand_in import hub_folder

STOP = "<|endoftext|>"
_BLOCK = 1 << 24  # random numbers are drawn once and repeated: drawing 8 billion takes minutes
_MOE_LAYERS = 4  # 3.1 billion parameters: full fine-tuning fits one card


def place_model(name: str, hub: Path) -> None:
    """Make `name` with random bf16 weights in the hub cache at `hub`, or SMALL_MOE as a folder; others are deleted."""
    folder = hub / SMALL_MOE if name == SMALL_MOE else hub_folder(hub, name, None)
    if (folder / "config.json").is_file():
        return
    for other in hub.iterdir():
        if not folder.is_relative_to(other):
            shutil.rmtree(other)
    folder.mkdir(parents=True, exist_ok=True)
    word_tokenizer().save_pretrained(folder)
    _network(_fields(name)).save_pretrained(folder)


def write_config(name: str, folder: Path) -> None:
    """The config.json of `name` alone: enough to plan with."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(_fields(name)))


def word_tokenizer():
    """Every word of `words` with the space before it is a token, so a row has as many tokens as words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<pad>", STOP], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["".join(f" {word}" for word in words())] * 2, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token=STOP)
    made.chat_template = "{% for turn in messages %}{{ turn['content'] }}{{ eos_token }}{% endfor %}"
    return made


def words() -> list[str]:
    """Three letters each."""
    return ["".join(letters) for letters in product("bcdfghklmn", "aeiou", "prstvwxyzb")]


def _fields(name: str) -> dict[str, Any]:
    """The keys of config.json."""
    found = model("Qwen/Qwen3-30B-A3B" if name == SMALL_MOE else name)
    assert found is not None, name
    shape = replace(found.architecture, num_layers=_MOE_LAYERS) if name == SMALL_MOE else found.architecture
    return config_fields(shape) | {"eos_token_id": 1, "bos_token_id": None}


def _network(fields: dict[str, Any]):
    """The module in bf16 on the CPU: norms of ones, everything else from one block of small random numbers."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields), dtype=torch.bfloat16)
    network.to_empty(device="cpu")
    network.tie_weights()
    block = (torch.randn(_BLOCK) * 0.02).to(torch.bfloat16)
    for name, parameter in network.named_parameters():
        if "norm" in name:
            parameter.data.fill_(1.0)
            continue
        for part in parameter.data.view(-1).split(_BLOCK):
            part.copy_(block[: part.numel()])
    return network
