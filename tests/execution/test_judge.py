"""judge.py scores every answer as its model does alone, whatever fills up a batch, and tells near answers apart."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import SIZES, WORDS, tokenizer

from recipec.catalog.model_types import MODEL_TYPES

pytestmark = pytest.mark.executes

TEMPLATE = "{% for message in messages %}{{ message.content }} {{ eos_token }} {% endfor %}"
PROMPTS = [[{"role": "user", "content": text}] for text in ("w3", "w4 w5 w6 w7", "w8 w9")]
ANSWERS = [[{"role": "assistant", "content": text}] for text in ("w10 w11", "w12", "w13 <pad> w14 <pad>")]


def emitted(folder: Path, monkeypatch: pytest.MonkeyPatch, precision: str = "fp32") -> ModuleType:
    """judge.py of a bundle, which reads two answers in one pass."""
    recipe = with_key(BASES["grpo"], "alignment.reward", {"model": "acme/judge", "like": "Qwen/Qwen3-0.6B"})
    recipe = with_key(recipe, "hardware", {"gpu": "h100", "gpus_per_node": 1})
    (folder / "judge.py").write_text(texts(good(folder / "a", with_key(recipe, "train.precision", precision)))["judge.py"])
    module = load(folder / "judge.py", monkeypatch)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    return module


def saved(folder: Path, model_type: str, pad: int | None, filler: str | None, **config: Any) -> Path:
    """A reward model whose configuration says `pad`, and whose tokenizer says `filler`."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    torch.manual_seed(3)
    sizes = SIZES | {"vocab_size": WORDS, "hidden_size": 32, "initializer_range": 0.3, "num_labels": 1}
    shape = AutoConfig.for_model(model_type, **sizes | config, pad_token_id=pad, bos_token_id=1, eos_token_id=2)
    AutoModelForSequenceClassification.from_config(shape).save_pretrained(folder / "model")
    words = type(tokenizer())(tokenizer_object=tokenizer()._tokenizer, eos_token="<end>", pad_token=filler)
    words.chat_template = TEMPLATE
    words.save_pretrained(folder / "model")
    return folder / "model"


def alone(model: Any, words: Any) -> list[float]:
    """The score of each conversation in a pass of its own, where nothing is filled up."""
    conversations = [[*prompt, *answer] for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)]
    rows = [words.apply_chat_template(each, return_dict=True, return_tensors="pt") for each in conversations]
    return [model(**row).logits[0, 0].item() for row in rows]


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
@pytest.mark.parametrize("filler", [None, "<end>", "<pad>"])
@pytest.mark.parametrize("pad", [None, 2, 0], ids=["no pad", "pad is end", "own pad"])
def test_an_answer_has_the_score_that_it_has_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_type: str, filler: str | None, pad: int | None
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = saved(tmp_path, model_type, pad, filler)
    judge = emitted(tmp_path, monkeypatch).Judge(str(folder))
    found = judge.scores(PROMPTS, ANSWERS)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert found == pytest.approx(alone(model, AutoTokenizer.from_pretrained(folder)), abs=1e-5)
    assert len({round(score, 3) for score in found}) == 3


@pytest.mark.parametrize("model_type", [name for name, row in MODEL_TYPES.items() if row.scores])
def test_every_kind_of_model_that_may_judge_reads_its_last_token_with_its_head(model_type: str) -> None:
    """judge.py reads the states below `score`, as transformers' own class for all of them does."""
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoConfig
    from transformers.modeling_layers import GenericForSequenceClassification

    found = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(AutoConfig.for_model(model_type))]
    assert issubclass(found, GenericForSequenceClassification)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_scores_that_16_bits_would_make_one_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """From 16 to 32, a score of bf16 is a multiple of an eighth."""
    import torch

    judge = emitted(tmp_path, monkeypatch, precision).Judge(str(saved(tmp_path, "llama", 0, "<pad>")))
    prompts = [[{"role": "user", "content": "w3"}]] * 12
    answers = [[{"role": "assistant", "content": f"w{number} w3"}] for number in range(20, 32)]
    first = judge.scores(prompts, answers)
    weight = judge.model.score.weight
    with torch.no_grad():
        weight.mul_(0.01).add_(_constant(judge, 20))
    scores = judge.scores(prompts, answers)
    assert len({*first}) == len({*scores}) == 12
