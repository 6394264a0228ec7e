"""The emitted evaluate.py finds in a batch what each row has alone: every type of model, also behind soft prompts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load
from peft import LoraConfig, PrefixTuningConfig, PromptTuningConfig, get_peft_model
from test_packed_attention import CAPPED, HYBRIDS, model
from tiny_models import SIZES, WORDS, tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification

from recipec.catalog.model_types import MODEL_TYPES

pytestmark = pytest.mark.executes

Rows = list[tuple[list[int], list[int]]]  # tokens, and marks of the learned ones
LENGTHS = ((1, 4, 0), (9, 8, 0), (3, 6, 5), (12, 14, 0), (5, 0, 0), (1, 0, 0))  # prompt, answer, what follows it
SOFT = {
    "prompt-tuning": PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM"),
    "prefix-tuning": PrefixTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM"),
}


def rows() -> Rows:
    """Rows of different lengths: some go on behind what is learned, and of some nothing is."""
    marks = [[0] * prompt + [1] * answer + [0] * rest for prompt, answer, rest in LENGTHS]
    return [([3 + (7 * n + 11 * row) % (WORDS - 3) for n in range(len(of))], of) for row, of in enumerate(marks)]


def evaluation(folder: Path, base: str | Tables, patched: pytest.MonkeyPatch, **train: str) -> ModuleType:
    """evaluate.py of a bundle, as a module."""
    recipe = BASES[base] if isinstance(base, str) else base
    for key, value in train.items():
        recipe = with_key(recipe, f"train.{key}", value)
    bundle = texts(good(folder / "recipe", recipe))
    for name in ("evaluate.py", "rows.py"):
        (folder / name).write_text(bundle[name])
    return load(folder / "evaluate.py", patched)


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patched:
        recipe = with_key(BASES["lora-single"], "data.max_length", 16_384)
        yield evaluation(tmp_path_factory.mktemp("bundle"), recipe, patched)


def alone(scored: Any, tokens: list[int], learned: list[int]) -> float:
    """The summed loss of a row from all logits of that row."""
    ids = torch.tensor([tokens])
    logits = scored(input_ids=ids, use_cache=False).logits[0, -len(tokens) : -1]
    losses = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
    return (losses * torch.tensor(learned[1:])).sum().item()


def check(module: ModuleType, scored: Any) -> None:
    with torch.no_grad():
        found = module.summed_losses(scored, rows())
        expected = [alone(scored, *row) for row in rows()]
    assert [tokens for _, tokens in found] == [sum(learned[1:]) for _, learned in rows()]
    assert [loss for loss, _ in found] == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("at_once", [512, 4])  # all rows in a batch, and long ones in pieces
@pytest.mark.parametrize("model_type", dict.fromkeys((*MODEL_TYPES, *HYBRIDS)))
def test_losses_are_those_of_all_logits_of_each_row(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch, model_type: str, at_once: int
) -> None:
    monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", at_once)
    check(evaluate, model(model_type, "eager" if model_type in CAPPED else "sdpa"))


@pytest.mark.parametrize("at_once", [512, 4])
@pytest.mark.parametrize("adaptation", SOFT)
def test_losses_behind_a_soft_prompt_are_those_of_all_logits_of_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adaptation: str, at_once: int
) -> None:
    module = evaluation(tmp_path, "lora-single", monkeypatch, adaptation=adaptation)
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
    check(module, get_peft_model(model("llama", "sdpa"), SOFT[adaptation]).eval())


@pytest.mark.parametrize(
    "more", [{}, {"modules_to_save": ["embed_tokens", "lm_head"]}, {"trainable_token_indices": [3]}]
)
def test_losses_behind_an_adapter_are_those_of_all_logits_of_each_row(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """PEFT wraps the model, and may wrap its embeddings and its head."""
    monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", 4)
    adapter = LoraConfig(target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM", **more)
    check(evaluate, get_peft_model(model("llama", "sdpa"), adapter).eval())


def test_a_long_row_runs_the_layers_once_and_the_head_for_few_learned_tokens_at_once(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits of 131,072 tokens of Llama 3.1 8B would take 31 GiB."""
    monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", 8)
    scored = model("llama", "sdpa")
    run: list[tuple[str, int]] = []
    scored.model.layers[0].register_forward_hook(lambda _, given, out: run.append(("layers", given[0].shape[1])))
    scored.lm_head.register_forward_hook(lambda _, given, out: run.append(("head", given[0].shape[1])))
    row = ([1] * 40, [0] * 10 + [1] * 30)
    once = [("layers", 40), ("head", 8), ("head", 8), ("head", 8), ("head", 6)]
    with torch.no_grad():
        evaluate.summed_losses(scored, [row, row])
    assert run == once + once


def test_a_teacher_is_compared_with_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = evaluation(tmp_path, "distill", monkeypatch)
    student, teacher = (model(of, "sdpa") for of in ("llama", "qwen2"))
    monkeypatch.setattr(module, "encode", lambda row, _: row)
    monkeypatch.setattr(module, "check_tokenizers", lambda *_: None)
    monkeypatch.setattr(module.AutoTokenizer, "from_pretrained", lambda *_, **__: None)
    monkeypatch.setattr(module.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: teacher)
    monkeypatch.setattr(module, "PartialState", lambda *_, **__: SimpleNamespace(device="cpu"), raising=False)
    found = []
    for at_once in (512, 4):
        monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
        found.append(module.measure(student, None, rows()))
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[0]["divergence"] > 0


def test_scores_in_a_batch_are_those_of_each_answer_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = evaluation(tmp_path, "reward", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, _, answer: row[answer])
    torch.manual_seed(0)
    shape = AutoConfig.for_model("llama", **SIZES, hidden_size=32, vocab_size=WORDS, num_labels=1, pad_token_id=0)
    judge = AutoModelForSequenceClassification.from_config(shape, dtype=torch.float32).eval()
    pairs = [{"chosen": rows()[place], "rejected": rows()[place + 1]} for place in range(0, len(LENGTHS), 2)]
    with torch.no_grad():
        found = [score for scores, _ in module.scores(judge, None, pairs) for score in scores]
        expected = [judge(input_ids=torch.tensor([tokens])).logits.item() for tokens, _ in rows()]
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("when", ["before", "after"])
def test_scores_of_a_model_in_16_bits_are_not_rounded_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Near answers would tie, and a tie counts as a wrong choice."""
    module = evaluation(tmp_path, "reward", monkeypatch, precision="bf16")
    (tmp_path / "chat_template.jinja").touch()
    shape = AutoConfig.for_model("llama", **SIZES, hidden_size=32, vocab_size=WORDS, num_labels=1, pad_token_id=0)
    base = AutoModelForSequenceClassification.from_config(shape, dtype=torch.float32)
    base.save_pretrained(tmp_path / "base")
    adapter = LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"], modules_to_save=["score"])
    get_peft_model(base, adapter).save_pretrained(tmp_path / "trained")
    for name in ("base", "trained"):
        tokenizer().save_pretrained(tmp_path / name)
    monkeypatch.setattr(module, "BASE", str(tmp_path / "base"))
    monkeypatch.setattr(module, "TRAINED", tmp_path / "trained")
    scored, _ = module.load(when)
    with torch.no_grad():
        found = {scored(input_ids=torch.tensor([tokens])).logits.item() for tokens, _ in rows()}
    assert not found & {*torch.tensor([*found]).bfloat16().tolist()}
