"""rewards.py of a bundle stops functions that cannot judge, before a model is loaded, and names the rows."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import tokenizer

pytestmark = pytest.mark.executes
ROWS = [
    {"prompt": [{"role": "user", "content": f"Add {n} and 1."}], "judged_by": f'{{"sum": {n + 1}}}'} for n in range(4)
]


def emitted(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> ModuleType:
    """rewards.py of a bundle whose function is this one."""
    recipe = with_key(BASES["grpo"], "alignment.reward", "judge.py:is_right")
    files = texts(good(folder, recipe))
    bundle = folder / "bundle"
    (bundle / "functions").mkdir(parents=True)
    (bundle / "rewards.py").write_text(files["rewards.py"])
    (bundle / "functions" / "judge.py").write_text(f"import time\n\n\ndef is_right(completions, sum):\n    {body}\n")
    monkeypatch.syspath_prepend(str(bundle))
    for name in ("rewards", "functions", "functions.judge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import rewards

    monkeypatch.setattr(rewards, "SECONDS", 1)
    return rewards


def checked(module: ModuleType, needed: int = 2) -> None:
    from datasets import Dataset

    module.check_rewards(Dataset.from_list(ROWS), needed, Path("train.jsonl"))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return [1 / (int(sum[0]) - 3) for _ in completions]", "row 3 of train.jsonl: ZeroDivisionError"),
        (
            "return [float('nan') for _ in completions]",
            "row 1 of train.jsonl: ValueError: is_right, answer 1",
        ),
        ("return ['1.0' for _ in completions]", "'1.0' is no finite number"),
        ("return [1.0, 1.0]", "gave 2 rewards to 1 answers"),
        ("return [1.0]", "the first 4 rows of train.jsonl together: ValueError: is_right gave 1 rewards to 4 answers"),
        ("time.sleep(9)", "TimeoutError: is_right took longer than 1 s"),
        ("return [len(said) for said in completions[0].lower()]", "AttributeError"),
    ],
)
def test_a_function_that_cannot_judge_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    with pytest.raises(SystemExit, match="cannot judge") as stopped:
        checked(emitted(tmp_path, monkeypatch, body))
    assert told in str(stopped.value)


def test_too_few_prompts_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="4 prompts are left, and one generation answers 5"):
        checked(emitted(tmp_path, monkeypatch, "return [1.0 for _ in completions]"), needed=5)


def test_a_reward_is_clamped_and_none_leaves_an_answer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = emitted(tmp_path, monkeypatch, "return [1e30, None, True][: len(completions)]")
    (reward,) = module.REWARDS
    assert reward.__name__ == "is_right"
    assert reward([[]] * 3, judged_by=['{"sum": 2}'] * 3, length=[1] * 3) == [module.CLAMP, None, 1.0]


def test_a_function_is_given_the_values_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = emitted(tmp_path, monkeypatch, "return [float(one) for one in sum]")
    assert module.REWARDS[0]([[]] * 2, judged_by=['{"sum": 2}', '{"sum": 41}']) == [2.0, 41.0]


def test_a_reward_model_is_whole_where_the_trainer_shards_what_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaConfig, LlamaForSequenceClassification
    from transformers.integrations import HfDeepSpeedConfig
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

    recipe = BASES["rloo"]
    keys = {"strategy": "zero3", "adaptation": "full", "global_batch_size": 32}
    for key, value in {f"train.{name}": value for name, value in keys.items()}.items():
        recipe = with_key(recipe, key, value)
    recipe = with_key(recipe, "alignment.reward", {"model": "Skywork/Skywork-Reward", "like": "Qwen/Qwen3-0.6B"})
    (tmp_path / "judge.py").write_text(texts(good(tmp_path, with_key(recipe, "hardware.gpus_per_node", 4)))["judge.py"])
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=64, num_labels=1, pad_token_id=0, **sizes)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    judge = load(tmp_path / "judge.py", monkeypatch).Judge(str(tmp_path / "model"))
    configured = HfDeepSpeedConfig({"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1})
    assert is_deepspeed_zero3_enabled()
    assert all(weight.numel() for weight in judge.model.parameters())
    assert is_deepspeed_zero3_enabled() and configured.is_zero3(), "of the model that learns"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return [1.0 for _ in completions]", "1.0"),
        ("return [0.0 for _ in completions]", "0.0"),
        ("return [None for _ in completions]", "None"),
        ("return [float(one) for one in sum]", "1.0"),  # which differs between prompts alone
    ],
)
def test_a_function_that_gives_all_answers_one_value_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: str, value: str
) -> None:
    checked(emitted(tmp_path, monkeypatch, body))
    # three answers, and what the row holds, written in three ways
    said = f"Warning: is_right gives one value to all 6 answers that were tried for a prompt ({value} for the first"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("said", ["str(right)", 'f"<answer>{right}</answer>"', r'rf"\boxed{{{right}}}"'])
def test_a_function_that_pays_the_right_answer_alone_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    body = f'return [float(one[-1]["content"] == {said}) for one, right in zip(completions, sum)]'
    checked(emitted(tmp_path, monkeypatch, body))
    assert "Warning" not in capsys.readouterr().out


def judged_by_model(
    folder: Path,
    patched: pytest.MonkeyPatch,
    scores: str,
    beside: bool,
    body: str = "return [0.0 for _ in completions]",
) -> ModuleType:
    """rewards.py whose reward model does what `scores` says; `beside`: a function with this body judges too."""
    model = {"model": "Skywork/Skywork-Reward", "like": "Qwen/Qwen3-0.6B"}
    reward = ["judge.py:is_right", model] if beside else model
    files = texts(good(folder, with_key(BASES["grpo"], "alignment.reward", reward)))
    bundle = folder / "bundle"
    (bundle / "functions").mkdir(parents=True)
    judge = (
        f"def __init__(self, *source):\n        pass\n\n    def scores(self, prompts, completions):\n        {scores}\n"
    )
    (bundle / "judge.py").write_text(f"class Judge:\n    {judge}")
    (bundle / "rewards.py").write_text(files["rewards.py"])
    (bundle / "functions" / "judge.py").write_text(f"def is_right(completions, **given):\n    {body}\n")
    patched.syspath_prepend(str(bundle))
    for name in ("rewards", "judge", "functions", "functions.judge"):
        patched.delitem(sys.modules, name, raising=False)
    return importlib.import_module("rewards")


@pytest.mark.parametrize("beside", [False, True])
def test_a_model_that_gives_all_answers_one_score_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], beside: bool
) -> None:
    """A trained head never does; a function beside it may be right about none of the answers that are tried."""
    rewards = judged_by_model(tmp_path, monkeypatch, "return [0.5 for _ in completions]", beside)
    with pytest.raises(SystemExit, match=r"one value to all [36] .*0.5 .* whose score head is trained"):
        checked(rewards)
    assert ("Warning: is_right gives one value to all" in capsys.readouterr().out) is beside


@pytest.mark.parametrize("beside", [False, True])
def test_a_model_that_cannot_judge_is_not_laid_to_the_form_of_completions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    rewards = judged_by_model(tmp_path, monkeypatch, 'raise SystemExit("acme/judge has no head.")', beside)
    with pytest.raises(SystemExit) as stopped:
        checked(rewards)
    assert str(stopped.value).endswith("SystemExit: acme/judge has no head.")


def test_a_function_beside_a_model_is_told_the_form_of_completions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewards = judged_by_model(tmp_path, monkeypatch, "return [0.5]", True, body="return len(completions[0]) / 0")
    with pytest.raises(SystemExit, match=r"ZeroDivisionError: division by zero\. A completion is a list of messages"):
        checked(rewards)


@pytest.mark.parametrize("when", ["before", "after"])
def test_evaluate_tries_the_rewards_before_it_loads_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    from datasets import Dataset

    emitted(tmp_path, monkeypatch, "return [len(said) for said in completions[0].lower()]")
    files = texts(good(tmp_path, with_key(BASES["grpo"], "alignment.reward", "judge.py:is_right")))
    for name in ("evaluate.py", "rows.py"):
        (tmp_path / "bundle" / name).write_text(files[name])
    evaluate = load(tmp_path / "bundle" / "evaluate.py", monkeypatch)
    monkeypatch.setattr(evaluate, "prepared", lambda _: Dataset.from_list(ROWS))
    monkeypatch.setattr(evaluate, "load", lambda _: pytest.fail("a model is loaded"))
    for file in (evaluate.ROWS, evaluate.FINISHED):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    monkeypatch.setattr(sys, "argv", ["evaluate.py", when])
    with pytest.raises(SystemExit, match="cannot judge"):
        evaluate.main()
