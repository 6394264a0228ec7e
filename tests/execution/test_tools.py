"""tools.py of a bundle: what it stops before a model is loaded, what of a played answer is learned, and what wins."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, SHOP, compiled, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, save

from recipec.catalog.models import model
from recipec.verify.stand_in import stand_in_tokenizer, template_text

pytestmark = pytest.mark.executes
ONE_ENVIRONMENT = with_key(with_key(BASES["tools"], "alignment.tools", None), "alignment.reward", None)
ROWS = [
    {"prompt": [{"role": "user", "content": f"Add {n} and 1."}], "judged_by": f'{{"sum": {n + 1}}}'} for n in range(4)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(good(tmp_path_factory.mktemp("recipe"), ONE_ENVIRONMENT))


def emitted(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], shop: str, name: str) -> ModuleType:
    """A script of the bundle with this file shop.py."""
    (folder / "functions").mkdir(parents=True)
    for path in ("tools.py", "rows.py", "evaluate.py"):
        (folder / path).write_text(files[path])
    (folder / "functions" / "shop.py").write_text(shop)
    for loaded in ("functions", "functions.shop", "tools"):
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    return load(folder / f"{name}.py", monkeypatch)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "self.wanted, self.sold = sum, 0",
            "self.wanted, self.sold = sum, 0 // (sum - 3)",
            "with row 3 of train.jsonl: ZeroDivisionError",
        ),
        ("self.wanted, self.sold = sum, 0", "import time; time.sleep(9)", "TimeoutError: Shop.reset took longer"),
        ("self.sold += amount", "import time; time.sleep(9)", "TimeoutError: Shop.buy took longer than 1 s"),
        ('return f"{self.sold} sold."', "pass", "TypeError: Shop.buy returned None. A tool returns text"),
        ("return float(self.sold == self.wanted)", "return 'yes'", "'yes' is no finite number"),
        ("self.wanted, self.sold = sum, 0", "self.wanted = sum", "AttributeError"),
        (
            "self.wanted, self.sold = sum, 0",
            "self.wanted, self.sold = sum, getattr(self, 'sold', 0)",
            "Shop.reset does not clear sold (row 1 of train.jsonl): set it there.",
        ),
        ("self.wanted, self.sold = sum, 0", "raise SystemExit(3)", "with row 1 of train.jsonl: SystemExit: 3"),
        ("amount: int", "amount: 'Amount'", "The tool buy cannot be described to the model"),
    ],
)
def test_what_cannot_be_played_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], old: str, new: str, told: str
) -> None:
    assert old in SHOP
    module = emitted(tmp_path, monkeypatch, files, SHOP.replace(old, new, 1), "tools")
    monkeypatch.setattr(module, "SECONDS", 1)
    with pytest.raises(SystemExit) as stopped:
        checked(module)
    assert told in str(stopped.value)


def checked(module: ModuleType) -> None:
    from datasets import Dataset

    module.check_tools(Dataset.from_list(ROWS), 2, Path("train.jsonl"))


def test_tools_that_can_be_played_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    by_chance = SHOP.replace("self.sold = sum, 0", "self.sold, self.price = sum, 0, __import__('random').random()")
    module = emitted(tmp_path, monkeypatch, files, by_chance, "tools")
    checked(module)
    assert '"name": "buy"' in capsys.readouterr().out
    shop = module.Shop()
    shop.reset(**ROWS[0])
    with pytest.raises(RuntimeError, match="TypeError"):
        shop.buy("three")
    assert module.text_of("x" * 9999, "buy").endswith(module.CUT) and len(module.text_of("x" * 9999, "buy")) == 512
    assert module.text_of({"left": 2}, "buy") == '{"left": 2}'
    with pytest.raises(SystemExit, match="4 prompts are left, and one generation answers 5"):
        from datasets import Dataset

        module.check_tools(Dataset.from_list(ROWS), 5, Path("train.jsonl"))


def test_methods_of_an_environment_call_each_other_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    """Not by way of what the model calls, whose results are texts."""
    whole = SHOP.replace('f"{self.sold} sold."', "self.sold").replace("float(self.sold ==", "float(self.buy(0) ==")
    shop = emitted(tmp_path, monkeypatch, files, whole, "tools").Shop()
    shop.reset(**ROWS[0])
    assert shop.get_reward() == 0.0
    assert shop.buy(1) == "1" and shop.get_reward() == 1.0


def test_a_call_that_tries_again_and_again_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    import time

    module = emitted(tmp_path, monkeypatch, files, SHOP, "tools")
    began = time.monotonic()

    def stubborn() -> str:
        while time.monotonic() - began < 20:
            with suppress(Exception):
                time.sleep(0.05)
        return "done"

    monkeypatch.setattr(module, "SECONDS", 1)
    with pytest.raises(TimeoutError, match=r"stubborn took longer than 1 s\."):
        module.bounded(stubborn, "stubborn")()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("name", ["buy", "str", "len", "json", "__init__", "of_episode"])
def test_a_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = tmp_path / "recipe"
    recipe = with_key(ONE_ENVIRONMENT, "alignment.environment", f"own/{name}.py:Shop")
    compiled(folder, recipe)  # writes the data
    (folder / "own").mkdir()
    (folder / "own" / f"{name}.py").write_text(SHOP)
    bundle = texts(good(folder, recipe))
    for path in [path for path in bundle if path.startswith("functions/") or path in ("tools.py", "rows.py")]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(bundle[path])
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] in ("functions", "tools")]:
        monkeypatch.delitem(sys.modules, loaded)
    checked(load(tmp_path / "tools.py", monkeypatch))


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> Any:
    """GRPO of a random model in the bundle's environment, whose first token says how much it buys."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    module = emitted(tmp_path, monkeypatch, files, SHOP, "tools")
    known = model("Qwen/Qwen3-0.6B")
    tokenizer = stand_in_tokenizer(known, [row["prompt"][0]["content"] for row in ROWS], template_text("qwen3", "chat"))
    sizes = {"model_type": "qwen3", "vocab_size": len(tokenizer), "hidden_size": 32, "head_dim": 16}
    save(tmp_path / "model", seed=1, **sizes, max_position_embeddings=2048)
    own = {"num_generations": 8, "per_device_train_batch_size": 32, "max_completion_length": 128, "max_steps": 16}
    own |= {"beta": 0.0, "max_tool_calling_iterations": 2, "chat_template_kwargs": {"enable_thinking": False}}
    trainer = GRPOTrainer(
        model=str(tmp_path / "model"),
        args=GRPOConfig(output_dir=str(tmp_path / "out"), **(ARGUMENTS | own)),
        train_dataset=Dataset.from_list(ROWS),
        processing_class=tokenizer,
        environment_factory=module.Shop,
    )
    acted(trainer)
    return trainer


CALL = '<tool_call>\n{"name": "buy", "arguments": {"amount": %d}}\n</tool_call><|im_end|>'


def acted(trainer: Any) -> None:
    """Of a first turn one token is the model's: an even one buys what is wanted, an odd one nothing; then it ends."""
    import torch

    write, turns = trainer._generate_single_turn, {"first": True}
    trainer.generation_config.max_new_tokens = trainer.generation_config.min_new_tokens = 1

    def single_turn(prompt_ids: list[list[int]], *others: Any, **told: Any) -> Any:
        found, logprobs = write(prompt_ids, *others, **told)
        first, turns["first"] = turns["first"], not turns["first"]
        encode = trainer._tokenizer.encode
        if not first:
            return [[*ids[:1], *encode("<|im_end|>", add_special_tokens=False)] for ids in found], logprobs
        amounts = [
            0 if ids[0] % 2 else episode.played.wanted for ids, episode in zip(found, trainer.environments, strict=True)
        ]
        calls = [encode(CALL % amount, add_special_tokens=False) for amount in amounts]
        return [[ids[0], *call] for ids, call in zip(found, calls, strict=True)], logprobs

    torch.manual_seed(0)
    trainer._generate_single_turn = single_turn


def test_the_share_of_answers_that_succeed_rises(trainer: Any) -> None:
    trainer.train()
    rewards = [entry["rewards/Shop/mean"] for entry in trainer.state.log_history if "rewards/Shop/mean" in entry]
    assert 0.2 < rewards[0] < 0.8 and min(rewards[-3:]) > 0.9, rewards
    assert {entry["tools/call_frequency"] for entry in trainer.state.log_history if "reward" in entry} == {1.0}
    assert {entry["tools/failure_frequency"] for entry in trainer.state.log_history if "reward" in entry} == {0.0}


def learned(trainer: Any, monkeypatch: pytest.MonkeyPatch, *, unmasked: bool) -> tuple[float, float]:
    """The largest gradient of the log-probability of a token that a tool said, and of one that the model wrote."""
    score, kept = trainer._get_per_token_logps_and_entropies, {}

    def scored(*given: Any, **told: Any) -> Any:
        found = score(*given, **told)
        if found[0].requires_grad:
            found[0].retain_grad()
            kept["logps"] = found[0]
        return found

    monkeypatch.setattr(trainer, "_get_per_token_logps_and_entropies", scored)
    batch = trainer._prepare_inputs([row for row in ROWS for _ in range(8)])
    if unmasked:
        batch.pop("tool_mask")
    trainer._compute_loss(trainer.model, batch).backward()
    said = [said_by_tools(trainer, ids.tolist()) for ids in batch["completion_ids"]]
    assert any(map(any, said))
    gradient = kept["logps"].grad.abs()
    of_tools = max(float(gradient[row, place]) for row, marks in enumerate(said) for place in marks)
    present = batch["completion_mask"].bool()
    for row, marks in enumerate(said):
        present[row, list(marks)] = False
    return of_tools, float(gradient[present].max())


def said_by_tools(trainer: Any, ids: list[int]) -> set[int]:
    """The places of a result and of what the chat template writes around it, found by their text alone."""
    places: set[int] = set()
    for sold in range(6):
        result = trainer._get_tool_suffix_ids([{"role": "tool", "name": "buy", "content": f"{sold} sold."}])
        for start in range(len(ids) - len(result) + 1):
            if ids[start : start + len(result)] == result:
                places |= {*range(start, start + len(result))}
    return places


def test_nothing_that_a_tool_said_is_learned(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of_tools, of_model = learned(trainer, monkeypatch, unmasked=False)
    assert of_tools == 0.0 and of_model > 0.0


def test_a_loss_that_learned_it_would_be_seen(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of_tools, _ = learned(trainer, monkeypatch, unmasked=True)
    assert of_tools > 0.0


@pytest.mark.parametrize("end", ["<|im_end|>", ""])
def test_an_evaluation_plays_with_the_same_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], trainer: Any, end: str
) -> None:
    """The answers are given: two calls, the second with too few arguments, then an end or none, or no call at all."""
    from datasets import Dataset

    module = emitted(tmp_path / "scripts", monkeypatch, files, SHOP, "evaluate")
    tokenizer = trainer._tokenizer
    turns = [[CALL % 1, "No.<|im_end|>"], [CALL.replace('"amount": %d', "")], [f"Done.{end}"]]
    asked: list[list[str]] = []

    def answers(model: Any, tokenizer: Any, questions: list[list[int]]) -> list[list[int]]:
        asked.append([tokenizer.decode(question) for question in questions])
        return [tokenizer.encode(said, add_special_tokens=False) for said in turns[len(asked) - 1]]

    monkeypatch.setattr(module, "answers", answers)
    ends = SimpleNamespace(eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
    model = SimpleNamespace(generation_config=ends)
    found = module.played(model, tokenizer, Dataset.from_list(ROWS[:2]))
    assert [answer["rewards"] for answer in found] == [{"Shop": 1.0}, {"Shop": 0.0}]
    assert [(answer["calls"], answer["failed"], answer["cut"]) for answer in found] == [(2, 1, not end), (0, 0, False)]
    assert [message["role"] for message in found[0]["messages"]] == ["assistant", "tool"] * 2 + ["assistant"]
    assert "Buy what was asked." in asked[0][0] and '"name": "buy"' in asked[0][0]
    assert "1 sold." in asked[1][0] and "missing 1 required" in asked[2][0] and asked[1][0].startswith(asked[0][0])
