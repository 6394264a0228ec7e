"""The emitted evaluate.py compares only what can be compared, tried function by function."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from accelerate import infer_auto_device_map
from compiling import BASES, good, texts, with_key
from datasets import Dataset
from emitted_modules import load
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, set_seed

pytestmark = pytest.mark.executes

METRICS = {"eval_loss": 2.5, "perplexity": 12.2}


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """evaluate.py of a bundle that brings its chat template, with prepared rows and a baseline of them."""
    bundle = texts(good(tmp_path / "recipe", BASES["lora-ddp"]))
    for name in ("evaluate.py", "rows.py", "chat_template.jinja"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    for folder in (module.ROWS.parent, module.RESULTS):
        folder.mkdir(parents=True)
    module.ROWS.write_text("{}\n")
    result = {"metrics": METRICS, "samples": [], "digest": module.digest()}
    (module.RESULTS / "before.json").write_text(json.dumps(result))
    return module


def test_a_baseline_of_the_same_rows_is_used(evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert evaluate.earlier(evaluate.RESULTS / "before.json", evaluate.digest())["metrics"] == METRICS
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "before"])
    evaluate.main()
    assert "not measured again" in capsys.readouterr().out


@pytest.mark.parametrize("changed", ["data/sft/test.jsonl", "evaluate.py", "rows.py", "chat_template.jinja"])
def test_a_baseline_of_something_else_is_not_used(evaluate: ModuleType, tmp_path: Path, changed: str, capsys) -> None:
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert evaluate.earlier(evaluate.RESULTS / "before.json", evaluate.digest()) == {}
    assert "before.json is not used" in capsys.readouterr().out


@pytest.mark.parametrize("left", ["", '{"metrics": {'])
def test_a_result_that_was_cut_off_is_measured_again(evaluate: ModuleType, left: str) -> None:
    """As a full disk leaves it: the launch script runs evaluate.py before training, and would end there each time."""
    (evaluate.RESULTS / "before.json").write_text(left)
    assert evaluate.earlier(evaluate.RESULTS / "before.json", evaluate.digest()) == {}


class Judge:
    """A reward model that likes the token 7, or long answers; it has no device to be on."""

    device = "cpu"
    config = SimpleNamespace(pad_token_id=0)

    def __init__(self, by_length: bool) -> None:
        self.by_length = by_length

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, use_cache: bool) -> SimpleNamespace:
        liked = attention_mask.sum(1) if self.by_length else (input_ids == 7).sum(1)
        return SimpleNamespace(logits=liked[:, None].float())


def pair_loss(margins: tuple[float, ...]) -> float:
    return -torch.nn.functional.logsigmoid(torch.tensor(margins, dtype=torch.float64)).mean().item()


RATED_BY_TOKEN = {"accuracy": 0.75, "margin": 0.5, "mean_reward": 0.5, "longer_is_chosen": 0.25}
RATED_BY_LENGTH = {"accuracy": 0.25, "margin": -0.5, "mean_reward": 2.25, "longer_is_chosen": 0.25}


@pytest.mark.parametrize(
    ("by_length", "expected"),
    [
        (False, RATED_BY_TOKEN | {"loss": pair_loss((1, 1, 1, -1))}),
        (True, RATED_BY_LENGTH | {"loss": pair_loss((-2, 0, 1, -1))}),
    ],
)
def test_scores_are_compared_and_held_against_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_length: bool, expected: dict[str, float]
) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["reward"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, tokenizer, answer: (row[answer], [1] * len(row[answer])))
    pairs = [([7], [1, 2, 3]), ([7, 1], [2, 2]), ([7, 1, 1], [2, 2]), ([1, 2], [7, 2, 2])]
    rows = [{"chosen": chosen, "rejected": rejected} for chosen, rejected in pairs]
    found = module.measure(Judge(by_length), None, rows)
    related = found.pop("length_correlation")
    assert found == pytest.approx(expected)
    assert related == pytest.approx(1.0) if by_length else related < 0.5


def test_an_answer_that_ends_with_its_last_token_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["grpo"]))
    for name in ("evaluate.py", "rows.py", "rewards.py", "functions/judge.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    said = iter([[5, 6, 0], [5, 6, 7], [5, 7], [5, 5, 5]])  # at most three tokens, which 0 or 7 ends
    stand_ins = {
        "NEW_TOKENS": 3,
        "ANSWERS_AT_ONCE": 3,
        "opening": lambda row, tokenizer: [1],
        "encode": lambda row, tokenizer: [1],
        "answers": lambda model, tokenizer, questions: [next(said) for _ in questions],
        "summed_losses": lambda model, encoded: [(1.0, 2)] * len(encoded),
        "rewards_of": lambda rows, texts, tokens: [(1.0,) * len(module.REWARDS)] * len(texts),
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(module, name, value)
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=[0]))
    spoken = SimpleNamespace(eos_token_id=7, decode=lambda tokens, skip_special_tokens: str(tokens))
    metrics, _ = module.measure(model, spoken, Dataset.from_list([{"prompt": str(n)} for n in range(4)]))
    assert metrics["cut_share"] == 0.25 and metrics["mean_length"] == 2.75


def test_scores_that_never_vary_have_no_correlation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["reward"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, tokenizer, answer: (row[answer], [1] * len(row[answer])))
    found = module.measure(Judge(False), None, [{"chosen": [1], "rejected": [2, 3]}])
    assert (found["length_correlation"], found["accuracy"]) == (0.0, 0.0)


def test_without_a_baseline_nothing_is_compared(evaluate: ModuleType) -> None:
    (evaluate.RESULTS / "before.json").unlink()
    assert evaluate.earlier(evaluate.RESULTS / "before.json", evaluate.digest()) == {}


def test_a_result_is_measured_once_and_again_when_it_or_its_baseline_is_another(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "after"])
    monkeypatch.setattr(evaluate, "load", lambda when: (measured.append(when), None))
    monkeypatch.setattr(evaluate, "prepared", lambda _: Dataset.from_list([{}]))
    monkeypatch.setattr(evaluate, "measure", lambda *_: METRICS)
    monkeypatch.setattr(evaluate, "show", lambda *_: [])
    with pytest.raises(SystemExit, match="no finished result"):
        evaluate.main()
    evaluate.FINISHED.parent.mkdir(parents=True)
    for result, times in (("one", 1), ("one", 1), ("another", 2)):
        evaluate.FINISHED.write_text(result)
        evaluate.main()
        assert len(measured) == times
    baseline = json.loads((evaluate.RESULTS / "before.json").read_text())
    (evaluate.RESULTS / "before.json").write_text(json.dumps(baseline | {"samples": [1]}))
    evaluate.main()
    assert len(measured) == 3


def test_what_answers_gained_is_told_apart_from_their_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All chosen answers are longer, and so less likely; two of three gained on the rejected ones."""
    bundle = texts(good(tmp_path / "recipe", BASES["dpo-full"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    start = [{"chosen": -9.0, "rejected": -2.0, "tokens": 3} for _ in range(3)]
    pairs = [(-6.0, -3.0), (-8.0, -2.0), (-10.0, -2.0)]
    after = [{"chosen": chosen, "rejected": rejected, "tokens": 3} for chosen, rejected in pairs]
    found = module.measure(after, start)
    assert found == pytest.approx(
        {"preference_accuracy": 0.0, "chosen_loss": 24 / 9, "reward_accuracy": 2 / 3, "reward_margin": (4 + 1 - 1) / 3}
    )
    assert "reward_accuracy" not in module.measure(after, None)


@pytest.mark.parametrize(("base", "accuracy"), [("orpo", 0.5), ("simpo", 0.5), ("cpo", 1.0)])
def test_answers_are_compared_as_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, accuracy: float
) -> None:
    """Per token, or as sums; a pair without a token of one answer counts in neither."""
    bundle = texts(good(tmp_path / "recipe", BASES[base]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, tokenizer, answer: row[answer])
    monkeypatch.setattr(module, "summed_losses", lambda model, encoded: encoded)
    pairs = [((2.0, 1), (3.0, 3)), ((1.0, 1), (4.0, 1)), ((5.0, 5), (0.0, 0))]
    found = module.measure(None, None, [{"chosen": chosen, "rejected": rejected} for chosen, rejected in pairs])
    assert found == pytest.approx({"preference_accuracy": accuracy, "chosen_loss": 8 / 7})


LOSSES = {"a": (2.0, 2), "b": (6.0, 3), "c": (9.0, 3), "d": (2.0, 1), "cut": (0.0, 0)}  # summed, tokens


@pytest.mark.parametrize(
    ("rows", "metrics"),
    [
        ({"a": True, "b": True, "c": False, "d": False}, (8 / 5, 11 / 4, 3.5 / 4)),  # b and d are as likely
        ({"c": True, "a": False, "cut": False}, (3.0, 1.0, 0.0)),
        ({"a": True, "b": True}, (8 / 5, None, None)),
    ],
)
def test_labeled_answers_are_measured_apart_and_against_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, bool], metrics: tuple[float | None, ...]
) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["kto"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda row, _: (row["name"], None))
    monkeypatch.setattr(module, "summed_losses", lambda _, encoded: [LOSSES[name] for name, _ in encoded])
    judged = module.judge(None, None, [{"name": name, "label": label} for name, label in rows.items()])
    found = module.measure(judged, None)
    names = ("desirable_loss", "undesirable_loss", "label_auc")
    assert found == pytest.approx(
        {name: value for name, value in zip(names, metrics, strict=True) if value is not None}
    )


def test_rows_without_a_learned_token_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = texts(good(tmp_path / "recipe", BASES["kto"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "encode", lambda *_: ([], []))
    monkeypatch.setattr(module, "summed_losses", lambda _, encoded: [(0.0, 0) for _ in encoded])
    with pytest.raises(SystemExit, match=r"No row of .* has a trained token"):
        module.measure(module.judge(None, None, [{"label": True}]), None)


def test_labeled_answers_are_also_compared_by_what_they_gained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The good answers have hard prompts and gain, the bad ones easy prompts and lose: likelihood sees the reverse."""
    bundle = texts(good(tmp_path / "recipe", BASES["kto"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)

    def judged(*losses: float) -> list[dict[str, float]]:
        labels = (True, True, False, False, False)
        return [{"label": label, "loss": loss, "tokens": 2} for label, loss in zip(labels, losses, strict=True)]

    start, after = judged(9.0, 8.0, 2.0, 1.0, 3.0), judged(7.0, 8.5, 3.0, 1.5, 2.0)
    found = module.measure(after, start)
    assert (found["label_auc"], found["gain_auc"]) == (0.0, 4.5 / 6)
    assert "gain_auc" not in module.measure(after, None)


GAINED = {"before": {"eval_loss": 2.0}, "after": {"eval_loss": 1.5}}


@pytest.mark.parametrize(
    ("known", "merged", "stops"),
    [
        (GAINED, 1.549, False),  # a tenth of what training gained
        (GAINED, 1.551, True),
        (GAINED, 1.2, False),
        ({"after": {"eval_loss": 1.5}}, 1.509, False),  # without a baseline: what rounding may cost
        ({"after": {"eval_loss": 1.5}}, 1.511, True),
        ({"before": {"eval_loss": 1.0}, "after": {"eval_loss": 1.5}}, 1.511, True),  # nothing was gained
        ({"before": {"eval_loss": 2.0}}, 9.0, False),  # there is nothing to compare it with
    ],
)
def test_a_merge_that_loses_what_was_trained_stops_the_launch(
    evaluate: ModuleType, known: dict[str, dict[str, float]], merged: float, stops: bool, capsys
) -> None:
    metrics = known | {"merged": {"eval_loss": merged}}
    if stops:
        with pytest.raises(SystemExit, match="Serve the adapter on the base"):
            evaluate.compare(metrics, "merged")
    else:
        evaluate.compare(metrics, "merged")
    said = capsys.readouterr().out
    assert f"{merged:.4f} merged" in said
    assert ("not compared" in said) is ("after" not in known)


def test_only_the_merged_model_of_this_result_is_evaluated(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "merged"])
    evaluate.MERGED.mkdir(parents=True)
    evaluate.FINISHED.write_text('{"result": "this"}')
    for other in (None, '{"result": "another"}'):
        if other:
            (evaluate.MERGED / "finished.json").write_text(other)
        with pytest.raises(SystemExit, match=r"Run merge_adapter\.py first"):
            evaluate.main()


@pytest.fixture
def spreading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """evaluate.py of a model that no GPU of its node holds whole, on two GPUs with 8 MB beside a batch."""
    large = with_key(BASES["full-fsdp"], "model.name", "meta-llama/Llama-3.1-70B")
    bundle = texts(
        good(tmp_path / "recipe", with_key(large, "hardware", {"gpu": "h100", "gpus_per_node": 8, "nodes": 8}))
    )
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    free = int(module.BATCH_GIB * 2**30) + 8_000_000
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "get_memory_info", lambda gpu: (free, 2 * free))
    return module


@pytest.mark.parametrize(("layers", "fits"), [(2, True), (40, False)])
def test_layers_never_wait_in_host_memory_unsaid(
    spreading: ModuleType, monkeypatch: pytest.MonkeyPatch, layers: int, fits: bool
) -> None:
    sizes = {"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 2}
    with torch.device("meta"):
        shape = AutoConfig.for_model("llama", num_hidden_layers=layers, **sizes)
        model = AutoModelForCausalLM.from_config(shape, dtype=torch.float32)
    rooms = spreading.spread()["max_memory"]
    model.hf_device_map = infer_auto_device_map(model, rooms, no_split_module_classes=["LlamaDecoderLayer"])
    assert set(rooms) == {0, 1}
    if fits:
        spreading.refuse_host_memory(model)
        return
    with pytest.raises(SystemExit, match="with --offload"):
        spreading.refuse_host_memory(model)
    monkeypatch.setattr(spreading, "OFFLOAD", True)
    spreading.refuse_host_memory(model)
    assert spreading.spread() == {"device_map": "auto"}


def test_without_gpus_there_is_nothing_to_spread(spreading: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    assert spreading.spread() == {"device_map": "auto"}


def tiny() -> PreTrainedModel:
    """A model of two small layers in fp32."""
    set_seed(3)
    shape = AutoConfig.for_model(
        "llama", vocab_size=97, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    return AutoModelForCausalLM.from_config(shape, dtype=torch.float32).eval()


def test_batches_change_no_loss(evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences of every length, cut at the limit, with and without learned tokens: as if each were alone."""
    model, drawn = tiny(), random.Random(5)
    monkeypatch.setattr(evaluate, "MAX_LENGTH", 40)
    lengths = [*range(1, 60, 3), 5, 5, 5]
    encoded = [([drawn.randrange(97) for _ in range(n)], [drawn.randrange(2) for _ in range(n)]) for n in lengths]
    with torch.no_grad():
        alone = [evaluate.summed_losses(model, [sequence])[0] for sequence in encoded]
        for at_once in (1, 64, 10_000):
            monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", at_once)
            together = evaluate.summed_losses(model, encoded)
            assert [tokens for _, tokens in together] == [tokens for _, tokens in alone]
            assert [loss for loss, _ in together] == pytest.approx([loss for loss, _ in alone], rel=1e-5, abs=1e-6)
    tokens, learned = encoded[4]
    losses = torch.nn.functional.cross_entropy(
        model(torch.tensor([tokens])).logits[0, :-1], torch.tensor(tokens[1:]), reduction="none"
    )
    assert alone[4][0] == pytest.approx((losses * torch.tensor(learned[1:])).sum().item(), rel=1e-5)


def test_batches_are_full_and_lose_nothing(evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", 10)
    sequences = [[0] * n for n in (3, 12, 5, 5, 1, 4, 2)]
    found = list(evaluate.batches(sequences))
    assert found == [[1], [2, 3], [5, 0], [6, 4]]


@pytest.mark.parametrize("own", [None, 7])
@pytest.mark.parametrize("stop", [None, 0, 11, [11, 12]])
def test_answers_in_a_batch_are_those_of_each_question_alone(
    evaluate: ModuleType, monkeypatch: pytest.MonkeyPatch, stop: int | list[int] | None, own: int | None
) -> None:
    """Each ends at a token of the model's settings or of the tokenizer: an adapter's base may have another."""
    model = tiny()
    model.generation_config.eos_token_id = stop
    spoken = SimpleNamespace(decode=lambda tokens: " ".join(map(str, tokens)), eos_token_id=own)
    monkeypatch.setattr(evaluate, "opening", lambda row, _: row["question"])
    monkeypatch.setattr(evaluate, "NEW_TOKENS", 12)
    rows = Dataset.from_list([{"question": list(range(1, 2 + 3 * n))} for n in range(5)])
    monkeypatch.setattr(evaluate, "ANSWERS_AT_ONCE", 3)
    together = evaluate.show(model, spoken, rows)
    assert together == [evaluate.show(model, spoken, rows.select([place]))[0] for place in range(5)]
    stops = {str(token) for token in (*([stop] if isinstance(stop, int) else stop or []), own)}
    assert all(not stops & set(row["answer"].split()[:-1]) for row in together)


class Words(torch.nn.Module):
    """A tokenizer that counts characters, and a model that finds all tokens as hard."""

    device, eos_token = "cpu", "."

    def forward(
        self,
        text: str = "",
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        logits_to_keep: list[int] | None = None,
        use_cache: bool = False,
    ) -> dict[str, list[int]] | SimpleNamespace:
        if input_ids is None:
            return {"input_ids": list(range(len(text)))}
        assert attention_mask is not None
        self.seen += [row[: present.sum()].tolist() for row, present in zip(input_ids, attention_mask, strict=True)]
        return SimpleNamespace(logits=torch.zeros(len(input_ids), len(logits_to_keep or []), 5000))

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = torch.nn.Embedding(1, 1)
        self.seen: list[list[int]] = []

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embeddings


@pytest.fixture
def of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    bundle = texts(good(tmp_path / "recipe", BASES["text"]))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / name).write_text(bundle[name])
    module = load(tmp_path / "evaluate.py", monkeypatch)
    monkeypatch.setattr(module, "MAX_LENGTH", 100)
    return module


@pytest.mark.parametrize("characters", [1, 2, 98, 99, 100, 197, 198, 1000])
def test_every_token_of_a_long_text_is_scored_once(of_texts: ModuleType, characters: int, capsys) -> None:
    words = Words()
    metrics = of_texts.measure(words, words, [{"text": "a" * characters}])
    assert sorted(token for part in words.seen for token in part[1:]) == list(range(1, characters + 1))
    assert max(map(len, words.seen)) <= 100
    assert metrics["eval_loss"] == pytest.approx(8.517, abs=1e-3)  # ln 5000
    assert capsys.readouterr().out == f"scored {characters:,} of {characters:,} tokens of the texts\n"


def test_of_many_long_texts_windows_spread_over_each_are_scored(of_texts: ModuleType, capsys) -> None:
    words = Words()
    of_texts.measure(words, words, [{"text": "a" * 990}, {"text": "a" * 990}], most=4)
    assert [part[0] for part in words.seen] == [0, 495, 0, 495]
    assert "scored 396 of 1,980 tokens of the texts" in capsys.readouterr().out


@pytest.mark.parametrize(("characters", "prompted"), [(1, 1), (10, 5), (511, 256), (100_000, 256)])
def test_a_text_is_prompted_with_a_bounded_beginning(of_texts: ModuleType, characters: int, prompted: int) -> None:
    assert of_texts.opening({"text": "a" * characters}, Words()) == list(range(prompted))
