"""The trainer that bundles of PPO bring: its arithmetic against tables worked by hand, a problem with a known best."""

from __future__ import annotations

import math
import sys
from itertools import product

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, save, tokenizer

pytestmark = pytest.mark.executes

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
END, TOKENS, LONGEST, BETA, OPEN = 2, 6, 2, 0.3, 1.5  # of the problem that is solved by enumeration
FILES = "ppo_trainer.py", "critic.py", "advantages.py", "rows.py"


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """Loads the files of a bundle of PPO, of full fine-tuning or of adapters."""

    def make(adaptation="full"):
        emitted = texts(good(tmp_path / "recipe", with_key(BASES["ppo"], "train.adaptation", adaptation)))
        for name in FILES:
            (tmp_path / name).write_text(emitted[name])
        return lambda name: load(tmp_path / f"{name}.py", monkeypatch)

    return make


def _tensors(*rows):
    import torch

    return [torch.tensor(row) for row in rows]


REWARDS = [[-0.1, -0.2, 1.0, 9.0], [0.5, 7.0, 7.0, 7.0]]  # behind the last token there is junk
VALUES = [[0.5, 0.4, 0.3, 8.0], [0.2, 9.0, 9.0, 9.0]]
MASK = [[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("smoothing", "first"),
    [(0.95, [0.14675, 0.365, 0.7, 0.0]), (0.0, [-0.2, -0.3, 0.7, 0.0]), (1.0, [0.2, 0.4, 0.7, 0.0])],
)
def test_advantages_are_those_worked_by_hand(bundle, smoothing, first):
    found, returns = bundle()("advantages").advantages_of(*_tensors(REWARDS, VALUES, MASK), smoothing)
    assert found.tolist() == [pytest.approx(first), pytest.approx([0.3, 0.0, 0.0, 0.0])]
    sums = [gained + value for gained, value in zip(first[:3], VALUES[0], strict=False)]
    assert returns.tolist() == [pytest.approx([*sums, 0.0]), pytest.approx([0.5, 0.0, 0.0, 0.0])]


def test_an_answer_is_masked_behind_its_first_end(bundle):
    answers, ends = _tensors([[5, 2, 0, 0], [5, 6, 7, 8], [2, 2, 2, 2]], [2, 9])
    found = bundle()("advantages").answer_mask(answers, ends)
    assert found.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]


def test_the_score_is_earned_by_the_last_token_and_the_kl_costs_with_its_sign(bundle):
    scores, divergences, mask = _tensors([1.0, 5.0], [[0.5, -0.5, 9.0], [1.0, 1.0, 1.0]], [[1.0, 1.0, 0.0], [0.0] * 3])
    found = bundle()("advantages").token_rewards(scores, divergences, mask, 0.1)
    assert found.tolist() == [pytest.approx([-0.05, 1.05, 0.0]), pytest.approx([0.0, 0.0, 0.0])]


def test_no_change_beyond_the_range_pays(bundle):
    """Both signs of an advantage, inside and outside of the range, and values that moved too far."""
    arithmetic = bundle()("advantages")
    ratio, values, old, returns, gained = _tensors(
        [[1.5, 0.5, 1.5, 0.5]], [[0.9, 0.1, 0.5, 0.5]], [[0.5] * 4], [[1.0, 1.0, 1.0, 0.0]], [[1.0, 1.0, -1.0, -1.0]]
    )
    answers = arithmetic.Answers(ratio, ratio, ratio, ratio, old, gained, returns)
    policy, value = arithmetic.clipped_losses(ratio, values, answers, 0.2, 0.2)
    assert policy.tolist() == [pytest.approx([-1.2, -0.5, 1.5, 0.8])]
    assert value.tolist() == [pytest.approx([0.5 * 0.3**2, 0.5 * 0.9**2, 0.5 * 0.5**2, 0.5 * 0.5**2])]


def test_the_weight_of_the_kl_follows_its_target(bundle):
    adapted = bundle()("advantages").adapted
    assert adapted(0.1, 12.0, 6.0) == pytest.approx(0.1 * 1.02)  # error 1, answered to as 0.2
    assert adapted(0.1, 5.4, 6.0) == pytest.approx(0.1 * 0.99)
    assert adapted(0.1, 6.0, 6.0) == 0.1


@pytest.mark.parametrize("beta", [0.01, 0.05, 0.25])
def test_a_weight_that_is_five_times_off_reaches_the_target_in_a_short_run(bundle, beta):
    """Of a policy whose KL is inverse to its weight; a run of 30,000 prompts has 232 generations of 128 answers."""
    adapted, target = bundle()("advantages").adapted, 6.0
    for _ in range(232):
        beta = adapted(beta, 0.05 * target / beta, target)
    assert beta == pytest.approx(0.05, rel=0.05)


def test_distinct_pairs_are_counted_over_all_answers(bundle):
    assert bundle()("advantages").distinct_pairs([[3, 4, 3, 4], [3, 4], [7]]) == 0.5
    assert bundle()("advantages").distinct_pairs([[7]]) == 1.0


def _score(answer):
    """Token 3 pays, ending pays, an open end costs."""
    return answer.count(3) / LONGEST + 0.5 - OPEN * (answer[-1] != END)


@pytest.fixture
def trainer(tmp_path, bundle):
    """Makes a trainer for a tiny model and the problem, with one prompt again and again."""
    from datasets import Dataset

    def make(adaptation="full", seed=0, shape=None, **changed):
        emitted, words = bundle(adaptation)("ppo_trainer"), tokenizer()
        words.chat_template = TEMPLATE
        save(
            tmp_path / "model",
            seed + 1,
            **({"model_type": "llama", "vocab_size": TOKENS, "hidden_size": 32} | (shape or {})),
        )
        rows = Dataset.from_list([{"prompt": [{"role": "user", "content": "w4"}]}] * 64)
        batch = {"per_device_train_batch_size": 64, "num_train_epochs": 1000, "answer_passes": 4}
        answers = {"max_completion_length": LONGEST, "beta": BETA, "missing_eos_penalty": OPEN, "reward_weights": [1.0]}
        asked = ARGUMENTS | batch | answers | {"learning_rate": 5e-3, "seed": seed}
        more = {}
        if adaptation == "lora":
            from peft import LoraConfig

            more["peft_config"] = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
        return emitted.PPOTrainer(
            model=str(tmp_path / "model"),
            args=emitted.PPOConfig(output_dir=str(tmp_path / "out"), **(asked | changed)),
            train_dataset=rows,
            eval_dataset=rows.select(range(4)),
            processing_class=words,
            reward_funcs=[_reward],
            **more,
        )

    return make


def _reward(completions, completion_ids, **_):
    """The score without the penalty of an open end, which is the trainer's."""
    return [_score(ids) + OPEN * (ids[-1] != END) for ids in completion_ids]


def _exact(policy, reference):
    """E[score] - BETA * KL of all answers to the prompt, its best, and E[score], from whole softmaxes."""
    import torch

    answers = [
        answer
        for length in range(1, LONGEST + 1)
        for answer in product(range(TOKENS), repeat=length)
        if END not in answer[:-1] and (answer[-1] == END or length == LONGEST)
    ]

    def likely(model, answer):
        logits = model(input_ids=torch.tensor([[4, *answer]])).logits[0].double()
        return sum(float(logits[place].log_softmax(-1)[token]) for place, token in enumerate(answer))

    with torch.no_grad():
        both = [(likely(policy, answer), likely(reference, answer), _score(answer)) for answer in answers]
    assert sum(math.exp(mine) for mine, _, _ in both) == pytest.approx(1, abs=1e-4)
    earned = sum(math.exp(mine) * score for mine, _, score in both)
    kl = sum(math.exp(mine) * (mine - theirs) for mine, theirs, _ in both)
    best = BETA * math.log(sum(math.exp(theirs + score / BETA) for _, theirs, score in both))
    return earned - BETA * kl, best, kl


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_comes_near_the_best_that_is_known(trainer, seed):
    found = trainer(seed=seed, max_steps=160)
    before, best, kl = _exact(found.model, found.reference)
    assert kl == pytest.approx(0, abs=1e-6)
    found.train()
    found.model.eval()
    after, again, kl = _exact(found.model, found.reference)
    assert again == pytest.approx(best)  # the reference did not move
    assert after > best - 0.1 * (best - before)


def test_a_first_look_evaluates_before_it_and_at_its_end(trainer):
    """Evaluations stand between generations, so that a whole training has 8 steps from one to the next."""
    found = trainer("lora", max_steps=4, eval_strategy="steps", eval_steps=8, eval_on_start=True)
    found.train()
    assert [logs["step"] for logs in found.state.log_history if "eval_objective" in logs] == [0, 4]


def test_checkpoints_are_judged_by_what_training_raises(trainer):
    """An answer less likely to end, and further from the reference: both cost, with the weights of training."""
    import torch
    from datasets import Dataset

    found = trainer(per_device_eval_batch_size=500)
    found.eval_dataset = Dataset.from_list([found.train_dataset[0]] * 4000)
    with torch.no_grad():
        head = found.model.get_output_embeddings().weight
        head += 0.15 * torch.randn(head.shape, generator=torch.Generator().manual_seed(3))
    found.beta = 100.0  # a target would have changed it since the start
    state = torch.get_rng_state()
    metrics = found.evaluate()
    assert torch.get_rng_state().equal(state), "training goes on as it would without evaluations"
    assert found.evaluate() == metrics, "the same answers to the same prompts"
    expected, _, kl = _exact(found.model, found.reference)
    assert kl > 0.1 and metrics["eval_clipped_ratio"] > 0.1
    assert metrics["eval_kl"] == pytest.approx(kl, rel=0.1)
    assert metrics["eval_objective"] == pytest.approx(expected, abs=0.05)
    costs = BETA * metrics["eval_kl"] + OPEN * metrics["eval_clipped_ratio"]
    assert metrics["eval_objective"] == pytest.approx(metrics["eval_reward"] - costs)
    assert metrics["eval_loss"] == -metrics["eval_objective"]


def test_what_reward_functions_log_is_logged_apart_for_training_and_evaluation(trainer):
    found = trainer(max_steps=4, logging_steps=4, eval_strategy="steps", eval_steps=4, report_to="none")
    found.reward_funcs = [lambda completions, log_metric, **_: log_metric("said", len(completions)) or [1.0] * 64]
    found.args.per_device_eval_batch_size, found.eval_dataset = 64, found.train_dataset.select([0] * 64)
    found.train()
    logged = [logs for logs in found.state.log_history if "said" in logs or "eval_said" in logs]
    assert [(logs.get("said"), logs.get("eval_said")) for logs in logged] == [(64, None), (None, 64)]


def test_what_a_reward_function_logs_takes_no_metric_of_the_trainer(trainer):
    """Not the objective, by which the best checkpoint is chosen, either."""
    found = trainer(max_steps=2, logging_steps=2, eval_strategy="steps", eval_steps=2, report_to="none")
    names = ("objective", "reward", "kl", "loss")

    def one(completions, log_metric, **_):
        for name in names:
            log_metric(name, 7.0)
        return [1.0] * 64

    found.reward_funcs = [one]
    found.args.per_device_eval_batch_size, found.eval_dataset = 64, found.train_dataset.select([0] * 64)
    found.train()
    logged = {name: value for logs in found.state.log_history for name, value in logs.items()}
    assert logged["reward"] == logged["eval_reward"] == 1 and logged["eval_loss"] == -logged["eval_objective"]
    assert [logged[f"eval_rewards/{name}"] for name in names] == [7.0] * 4
    assert [logged[f"rewards/{name}"] for name in names[1:]] == [7.0] * 3


def test_a_rank_without_a_prompt_to_evaluate_adds_nothing(trainer, monkeypatch):
    found = trainer()
    found.eval_dataset = found.train_dataset.select([0])
    for name, number in (("world_size", 2), ("process_index", 1)):
        monkeypatch.setattr(type(found.args), name, property(lambda _, number=number: number))
    assert found.evaluate()["eval_reward"] == 0


def test_one_rank_writes_what_is_saved(trainer, monkeypatch, tmp_path):
    found = trainer()
    monkeypatch.setattr(type(found.args), "should_save", property(lambda _: False))
    found.save_model(str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


DROPS = {"llama": ("attention_dropout",), "phi3": ("attention_dropout", "resid_pdrop", "embd_pdrop")}


@pytest.mark.parametrize("kind", DROPS)
def test_dropout_of_the_model_is_no_change_of_the_policy(trainer, kind):
    """The first step learns from the very probabilities that scored the answers, whatever config.json says."""
    found = trainer("lora", shape={"model_type": kind} | dict.fromkeys(DROPS[kind], 0.5), max_steps=1, logging_steps=1)
    found.train()
    first = next(logs for logs in found.state.log_history if "clip_fraction" in logs)
    assert first["clip_fraction"] == 0
    assert first["approx_kl"] == pytest.approx(0, abs=1e-6)


def _noted(trainer, answers, scores, divergences, mask):
    """What is logged of a generation of these answers with these scores, and the weight of the KL behind it."""
    import torch

    trainer.written = lambda rows: (answers, torch.ones(4, 3).long(), mask)
    trainer.rewards = lambda rows, answers: [[score] for score in scores]
    each = {"log_probs": divergences, "entropy": divergences, "estimates": 0 * divergences}
    told = iter((each, {name: 0 * value for name, value in each.items()}))
    module = sys.modules[type(trainer).__module__]
    module.estimated_by_parts = lambda *_: next(told)
    trainer.generation([{}] * 4)
    return {name: float(values[0]) for name, values in trainer.noted.items()}, trainer.beta


def test_answers_that_no_function_judged_count_nowhere(trainer):
    """Of four answers two are judged: 1 and 3, each 2 nats away from the reference; the others are 9 nats away.

    The judged ones are one text that ends. The others are two texts that do not.
    """
    made = trainer("lora", target_kl=2.0)
    end = int(made.ends[0])
    answers, mask = _tensors([[0, 3, end], [0, 5, 6], [0, 3, end], [0, 7, 8]], [[1.0, 1.0]] * 4)
    (divergences,) = _tensors([[1.0, 1.0], [4.0, 5.0], [1.0, 1.0], [4.0, 5.0]])
    found, beta = _noted(made, answers, [1.0, math.nan, 3.0, math.nan], divergences, mask)
    assert (found["reward"], found["reward_std"], found["kl"]) == (2.0, 1.0, 2.0)
    assert found["completions/mean_length"] == 2.0
    assert (found["completions/clipped_ratio"], found["distinct_2"]) == (0.0, 0.5)
    assert beta == pytest.approx(BETA), "the KL is at its target"


@pytest.mark.parametrize("target", [0.0, 0.5])
def test_a_resumed_run_ends_with_the_same_weights(trainer, tmp_path, target):
    """Saved between two generations, with the value head and the weight of the KL that was adapted to a target."""
    asked = {"max_steps": 8, "save_strategy": "steps", "save_steps": 4, "target_kl": target}
    whole = trainer("lora", **asked)
    whole.train()
    resumed = trainer("lora", **asked)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-4"))
    there, here = whole.model.state_dict(), resumed.model.state_dict()
    assert [name for name in there if not there[name].equal(here[name])] == []
    assert resumed.beta == pytest.approx(whole.beta)
    assert (whole.beta != BETA) == bool(target)
