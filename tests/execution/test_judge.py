"""judge.py scores every answer as its model does alone, whatever fills up a batch, and tells near answers apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from test_packed_attention import OTHERWISE, TINY
from tiny_models import tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from recipec.catalog.model_types import MODEL_TYPES

pytestmark = pytest.mark.executes

TEMPLATE = "{% for message in messages %}{{ message.content }} {{ eos_token or '<end>' }} {% endfor %}"
PROMPTS = [[{"role": "user", "content": text}] for text in ("w3", "w4 w5 w6 w7", "w8 w9")]
ANSWERS = [[{"role": "assistant", "content": text}] for text in ("w10 w11", "w12", "w13 <pad> w14 <pad>")]
END = 2


def emitted(folder: Path, patched: pytest.MonkeyPatch, precision: str) -> ModuleType:
    """judge.py of a bundle, which reads two answers in one pass."""
    recipe = with_key(BASES["grpo"], "alignment.reward", {"model": "acme/judge", "like": "Qwen/Qwen3-0.6B"})
    recipe = with_key(with_key(recipe, "hardware", {"gpu": "h100"}), "train.precision", precision)
    (folder / "judge.py").write_text(texts(good(folder / "recipe", recipe))["judge.py"])
    module = load(folder / "judge.py", patched)
    patched.setattr(module, "AT_ONCE", 2)
    return module


@pytest.fixture(scope="module")
def in_fp32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patched:
        yield emitted(tmp_path_factory.mktemp("judge"), patched, "fp32")


def saved(folder: Path, model_type: str, pad: int | None, filler: str | None) -> str:
    """A reward model whose configuration names the padding `pad`, and whose tokenizer names `filler`."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(model_type, **TINY | OTHERWISE.get(model_type, {}) | {"num_labels": 1})
    config.get_text_config().pad_token_id = pad
    AutoModelForSequenceClassification.from_config(config).float().save_pretrained(folder)
    words = type(tokenizer())(tokenizer_object=tokenizer()._tokenizer, eos_token="<end>", pad_token=filler)
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    return str(folder)


def alone(source: str) -> list[float]:
    """The score of each conversation in a pass of its own, where nothing is filled up."""
    model = AutoModelForSequenceClassification.from_pretrained(source, dtype=torch.float32).eval()
    words = AutoTokenizer.from_pretrained(source)
    conversations = [[*prompt, *answer] for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)]
    rows = [words.apply_chat_template(each, return_dict=True, return_tensors="pt") for each in conversations]
    with torch.no_grad():
        return [model(input_ids=row["input_ids"]).logits[0, 0].item() for row in rows]


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
@pytest.mark.parametrize("filler", [None, "<end>", "<pad>"])
@pytest.mark.parametrize("pad", [None, END, 0], ids=["no pad", "pad is end", "own pad"])
def test_an_answer_has_the_score_that_it_has_alone(
    tmp_path: Path, in_fp32: ModuleType, model_type: str, filler: str | None, pad: int | None
) -> None:
    source = saved(tmp_path, model_type, pad, filler)
    found = in_fp32.Judge(source).scores(PROMPTS, ANSWERS)
    assert found == pytest.approx(alone(source), rel=1e-5, abs=1e-6)
    assert len({*found}) == len(found)


@pytest.mark.parametrize("model_type", [name for name, row in MODEL_TYPES.items() if row.scores])
def test_every_type_that_may_judge_is_scored_as_alone(tmp_path: Path, in_fp32: ModuleType, model_type: str) -> None:
    source = saved(tmp_path, model_type, None, None)
    assert in_fp32.Judge(source).scores(PROMPTS, ANSWERS) == pytest.approx(alone(source), rel=1e-5, abs=1e-6)


def test_a_model_that_has_another_head_stops_the_run(tmp_path: Path, in_fp32: ModuleType) -> None:
    sizes = {"vocab_size": 96, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "num_labels": 1}
    config = AutoConfig.for_model("bert", intermediate_size=16, **sizes)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(SystemExit, match="is a BertForSequenceClassification"):
        _ = in_fp32.Judge(str(tmp_path)).model


def test_scores_of_a_model_in_16_bits_are_not_rounded_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 16 to 32, numbers of bf16 are an eighth apart."""
    judge = emitted(tmp_path, monkeypatch, "bf16").Judge(saved(tmp_path / "model", "llama", 0, "<pad>"))
    found = judge.scores(PROMPTS, ANSWERS)
    assert judge.model.dtype == torch.bfloat16
    assert not {*found} & {*torch.tensor(found).bfloat16().tolist()}
