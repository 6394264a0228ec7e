"""The trainer that bundles of distillation bring: its loss against the plain one, that it teaches, and on two ranks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from fork_server.start import forking
from tiny_models import ARGUMENTS, LOADED, WORDS, first_batch, gradients, save, tokenizer

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.learn_checks import logged
from recipec.verify.report import VerifyReport
from recipec.verify.run import log_history, prepare_launch, run_bundle
from recipec.verify.sandbox import make_sandbox

pytestmark = pytest.mark.executes

BUNDLE = Path(__file__).parents[2] / "generated-examples" / "distill"
RECIPE = Path(__file__).parent / "recipes" / "distill-fsdp.toml"
PADDING = 8  # rows that only the teacher's matrix has
STUDENTS = {  # model type -> what it does to its logits
    "qwen2": {},
    "gemma2": {"final_logit_softcapping": 2.0, "head_dim": 16},
    "granite": {"logits_scaling": 4.0},
    "falcon_h1": {"lm_head_multiplier": 0.25, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16},
}
# beta, temperature, label_weight
LOSSES = [(0.0, 1.0, 0.0), (1.0, 1.0, 0.0), (0.3, 1.0, 0.0), (0.0, 2.0, 0.0), (0.7, 0.5, 0.0), (0.0, 2.0, 0.4)]


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Makes a trainer of the bundle for random models, in fp32 on this CPU."""

    from trl import SFTConfig

    def make(kind="qwen2", peft_config=None, teacher_words=WORDS + PADDING, **options):
        adaptation = "lora" if peft_config else "full"
        bundle = texts(good(tmp_path / "recipe", with_key(BASES["distill"], "train.adaptation", adaptation)))
        (tmp_path / "distillation.py").write_text(bundle["distillation.py"])
        emitted = load(tmp_path / "distillation.py", monkeypatch)
        folders = [tmp_path / "student", tmp_path / "teacher"]
        save(folders[0], seed=1, model_type=kind, vocab_size=WORDS, hidden_size=32, **STUDENTS[kind])
        save(folders[1], seed=2, model_type="qwen2", vocab_size=teacher_words, hidden_size=48)
        return emitted.SupervisedDistillationTrainer(
            model=str(folders[0]),
            args=SFTConfig(output_dir=str(tmp_path / "out"), **(ARGUMENTS | options.pop("args", {}))),
            train_dataset=_rows(),
            eval_dataset=_rows(),
            processing_class=tokenizer(),
            peft_config=peft_config,
            teacher=str(folders[1]),
            teacher_options=LOADED,
            **({"beta": 0.0, "temperature": 1.0, "label_weight": 0.0} | options),
        )

    return make


def _rows():
    """Token ids of different lengths, whose second half is learned."""
    import torch
    from datasets import Dataset

    made = torch.Generator().manual_seed(3)
    rows = [torch.randint(3, WORDS, (length,), generator=made).tolist() for length in (9, 14, 6, 11)]
    masks = [[int(place >= len(row) // 2) for place in range(len(row))] for row in rows]
    return Dataset.from_list(
        [{"input_ids": row, "completion_mask": mask} for row, mask in zip(rows, masks, strict=True)]
    )


def _plain(trainer, batch, beta, temperature, label_weight):
    """The mean loss of the learned tokens from the whole softmaxes of both models, written out term by term."""
    import torch
    from transformers import AutoModelForCausalLM

    teacher = AutoModelForCausalLM.from_pretrained(trainer.teacher_config._name_or_path, dtype=torch.float32)
    given = {name: batch[name] for name in ("input_ids", "attention_mask")}
    learned, labels = batch["labels"][:, 1:] != -100, batch["labels"][:, 1:]
    student = trainer.model(**given).logits[:, :-1][learned].double()
    wanted = teacher(**given).logits[:, :-1][learned][:, : student.shape[1]].double()
    p, q = (torch.softmax(logits / temperature, -1) for logits in (wanted, student))  # of the teacher, of the student
    mixture = beta * p + (1 - beta) * q

    def kl(one, other):
        return (one * (one.log() - other.log())).sum(-1)

    ends = {0.0: lambda: kl(p, q), 1.0: lambda: kl(q, p)}
    divergence = ends.get(beta, lambda: beta * kl(p, mixture) + (1 - beta) * kl(q, mixture))()
    cross_entropy = -torch.log_softmax(student, -1).gather(1, labels[learned][:, None])[:, 0]
    return ((1 - label_weight) * temperature**2 * divergence + label_weight * cross_entropy).mean()


@pytest.mark.parametrize(
    ("kind", "beta", "temperature", "label_weight"),
    [("qwen2", *loss) for loss in LOSSES] + [(kind, 0.0, 2.0, 0.0) for kind in ("gemma2", "granite", "falcon_h1")],
)
def test_the_loss_and_its_gradients_are_those_of_the_whole_softmax(trainers, kind, beta, temperature, label_weight):
    trainer = trainers(kind, beta=beta, temperature=temperature, label_weight=label_weight)
    trainer.model.eval()
    batch = first_batch(trainer)
    loss, plain = (
        trainer.compute_loss(trainer.model, dict(batch)),
        _plain(trainer, batch, beta, temperature, label_weight),
    )
    assert plain.item() > 0.01
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    ours, theirs = gradients(trainer, loss), gradients(trainer, plain)
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() <= 1e-5 * max(1.0, gradient.abs().max()), name


def test_an_adapter_gets_the_same_loss(trainers):
    from peft import LoraConfig

    trainer = trainers(peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    trainer.model.eval()
    batch = first_batch(trainer)
    plain = _plain(trainer, batch, 0.0, 1.0, 0.0)
    assert trainer.compute_loss(trainer.model, dict(batch)).item() == pytest.approx(plain.item(), rel=1e-5)


def test_the_mean_is_over_the_tokens_of_all_micro_steps(trainers):
    """As in SFTTrainer: num_items_in_batch counts the learned tokens of the whole step."""
    trainer = trainers()
    batch = first_batch(trainer)
    tokens = (batch["labels"][:, 1:] != -100).sum()
    once = trainer.compute_loss(trainer.model, dict(batch))
    twice = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=2 * tokens)
    assert twice.item() == pytest.approx(once.item() / 2, rel=1e-5)


def test_a_batch_without_a_learned_token_is_a_zero_that_can_be_differentiated(trainers):
    trainer = trainers()
    batch = first_batch(trainer)
    loss = trainer.compute_loss(trainer.model, batch | {"labels": batch["labels"].fill_(-100)})
    loss.backward()
    assert loss.item() == 0.0


def test_a_student_comes_nearer_to_its_teacher(trainers):
    trainer = trainers(args={"max_steps": 60, "eval_strategy": "steps", "eval_steps": 30})
    frozen = [weight.clone() for weight in trainer.teacher.parameters()]
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    losses = logged(trainer.state.log_history, "loss")
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < 0.2 * losses[0]
    assert logged(trainer.state.log_history, "eval_loss")[-1] < 0.2 * first
    assert all((old == new).all() for old, new in zip(frozen, trainer.teacher.parameters(), strict=True))
    assert not [name for name, _ in trainer.model.named_parameters() if "teacher" in name], "it is not saved"


def test_a_teacher_without_probabilities_for_all_tokens_is_refused(trainers):
    with pytest.raises(SystemExit, match="Choose another teacher"):
        trainers(teacher_words=WORDS - 1)


def _speaking(words, cut=str.split):
    """A tokenizer as far as it is compared."""

    def encode(text, add_special_tokens):
        assert not add_special_tokens, "a token before every text is no difference in what the tokens mean"
        return {"input_ids": cut(text)}

    encode.get_vocab = lambda: words
    return encode


@pytest.mark.parametrize(
    ("teacher", "refusal"),
    [
        (_speaking({"a": 0, "b": 1}), None),
        (_speaking({"a": 0, "b": 1, "only the teacher's": 2}), None),
        (_speaking({"a": 1, "b": 0}), "2 of the student's tokens are not the teacher's"),
        (_speaking({"a": 0}), "1 of the student's tokens"),
        (_speaking({"a": 0, "b": 1}, cut=list), "cuts text unlike the student"),
    ],
)
def test_tokenizers_that_differ_are_refused(monkeypatch, teacher, refusal):
    check = load(BUNDLE / "rows.py", monkeypatch).check_tokenizers
    student = _speaking({"a": 0, "b": 1})
    if refusal is None:
        check(student, teacher)
    else:
        with pytest.raises(SystemExit, match=refusal):
            check(student, teacher)


@pytest.fixture(scope="module")
def alone(tmp_path_factory, forking_python):
    """What one process logs."""
    with forking(forking_python):
        return _trained(tmp_path_factory.mktemp("alone"), "single", 1)


@pytest.mark.parametrize(
    "strategy", ["fsdp", *(pytest.param(name, marks=pytest.mark.matrix) for name in ("ddp", "zero3"))]
)
def test_two_ranks_take_the_steps_of_one(tmp_path, strategy, alone, forked):
    """The same rows, in fp32: the same losses, and a result as near to the teacher."""
    together = _trained(tmp_path, strategy, 2)
    assert len(alone.losses) == 6 and alone.losses[-1] != alone.losses[0]
    assert together.losses == pytest.approx(alone.losses, rel=1e-3)
    assert together.after == pytest.approx(alone.after, rel=1e-3)


def _trained(folder, strategy, ranks):
    """Losses and final evaluation of the recipe as it runs with a strategy; both batches stay the same."""
    recipe, text = folder / "recipe.toml", RECIPE.read_text()
    changes = {'"fsdp"': f'"{strategy}"', "gpus_per_node = 2": f"gpus_per_node = {ranks}", '"bf16"': '"fp32"'}
    changes["micro_batch_size = 4"] = f"micro_batch_size = {8 // ranks}"
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    recipe.write_text(text)
    (folder / "data").symlink_to(RECIPE.parent / "data")
    done = compile_recipe(recipe)
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    sandbox, report = make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 40), VerifyReport("run")
    assert run_bundle(prepare_launch(sandbox, ranks, False, report), report), report.document()
    after = (sandbox.outputs / "evaluation" / "distill" / "quick" / "after.json").read_text()
    return SimpleNamespace(
        losses=logged(log_history(sandbox.outputs / "distill"), "loss"), after=json.loads(after)["metrics"]
    )
