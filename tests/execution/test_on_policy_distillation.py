"""The trainer that bundles of on-policy distillation bring: its loss against the plain one, its types, its mean."""

from __future__ import annotations

import math

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import ARGUMENTS, LOADED, WORDS, first_batch, gradients, save, tokenizer

from recipec.verify.learn_checks import logged

pytestmark = pytest.mark.executes

PADDING = 8  # rows that only the teacher's matrix has
STUDENTS = {  # model type -> what it does to its logits
    "qwen2": {},
    "gemma2": {"final_logit_softcapping": 2.0, "head_dim": 16},
    "granite": {"logits_scaling": 4.0},
}
ANSWERS = ([5, 6, 7, 8, 9, 2], [11, 2], [12, 13, 14, 2], [15, 16, 17])  # the last is cut
PROMPTS = ("w3 w4 w5", "w6", "w7 w8", "w9 w10 w11 w12")


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """Makes a trainer of the bundle for random models, in fp32 on this CPU."""
    from datasets import Dataset
    from trl import DistillationConfig

    def make(kind="qwen2", peft_config=None, teacher_words=WORDS + PADDING, **options):
        adaptation = "lora" if peft_config else "full"
        bundle = texts(good(tmp_path / "recipe", with_key(BASES["on-policy-distill"], "train.adaptation", adaptation)))
        (tmp_path / "on_policy.py").write_text(bundle["on_policy.py"])
        emitted = load(tmp_path / "on_policy.py", monkeypatch)
        folders = [tmp_path / "student", tmp_path / "teacher"]
        save(folders[0], seed=1, model_type=kind, vocab_size=WORDS, hidden_size=32, **STUDENTS[kind])
        save(folders[1], seed=2, model_type="qwen2", vocab_size=teacher_words, hidden_size=48)
        rows = Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS])
        usual = {"max_completion_length": 6, "disable_dropout": True, "beta": 1.0, "temperature": 1.0}
        return emitted.OnPolicyDistillationTrainer(
            model=str(folders[0]),
            args=DistillationConfig(output_dir=str(tmp_path / "out"), **(ARGUMENTS | usual | options)),
            train_dataset=rows,
            eval_dataset=rows,
            processing_class=tokenizer(),
            peft_config=peft_config,
            teacher=str(folders[1]),
            teacher_options=LOADED,
        )

    return make


def _answering(trainer):
    """The trainer, whose student always says the same to a prompt."""
    known = {len(tokenizer()(prompt)["input_ids"]): answer for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)}
    trainer._generate_single_turn = lambda prompts, *_: [known[len(ids)] for ids in prompts]
    return trainer


def _plain(trainer, batch, beta, temperature):
    """The mean loss of the answers' tokens from the whole softmaxes of both models, written out term by term."""
    import torch

    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    present = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    written = torch.cat([torch.zeros_like(batch["prompt_mask"]), batch["completion_mask"]], 1)[:, 1:].bool()
    given = {"input_ids": ids, "attention_mask": present}
    student = trainer.model(**given).logits[:, :-1][written].double()
    wanted = trainer.teacher_model(**given).logits[:, :-1][written][:, : student.shape[1]].double()
    p, q = (torch.softmax(logits / temperature, -1) for logits in (wanted, student))  # of the teacher, of the student
    mixture = beta * p + (1 - beta) * q

    def kl(one, other):
        return (one * (one.log() - other.log())).sum(-1)

    ends = {0.0: lambda: kl(p, q), 1.0: lambda: kl(q, p)}
    return ends.get(beta, lambda: beta * kl(p, mixture) + (1 - beta) * kl(q, mixture))().mean()


@pytest.mark.parametrize(
    ("kind", "beta", "temperature"),
    [
        *(("qwen2", beta, temperature) for beta, temperature in ((1.0, 1.0), (0.0, 1.0), (0.3, 1.0), (1.0, 0.7))),
        *((kind, 1.0, 1.0) for kind in ("gemma2", "granite")),
    ],
)
def test_the_loss_and_its_gradients_are_those_of_the_whole_softmax(trainers, kind, beta, temperature):
    trainer = _answering(trainers(kind, beta=beta, temperature=temperature))
    batch = first_batch(trainer)
    assert batch["completion_mask"].sum() == sum(map(len, ANSWERS)), "prompts and padding are not learned"
    loss, plain = trainer.compute_loss(trainer.model, dict(batch)), _plain(trainer, batch, beta, temperature)
    assert plain.item() > 0.01
    assert loss.item() == pytest.approx(plain.item(), rel=1e-5)
    ours, theirs = gradients(trainer, loss), gradients(trainer, plain)
    for name, gradient in theirs.items():
        assert (ours[name] - gradient).abs().max() <= 1e-5 * max(1.0, gradient.abs().max()), name


def test_an_adapter_gets_the_same_loss(trainers):
    from peft import LoraConfig

    trainer = _answering(trainers(peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")))
    batch = first_batch(trainer)
    plain = _plain(trainer, batch, 1.0, 1.0)
    assert trainer.compute_loss(trainer.model, dict(batch)).item() == pytest.approx(plain.item(), rel=1e-5)


def test_weights_in_fp32_are_multiplied_in_the_planned_type(trainers, monkeypatch):
    """TRL computes the loss in place of the forward that accelerate wraps, so that its own trainer casts nothing."""
    import torch
    from trl import DistillationTrainer

    def products(trainer):
        found = set()
        trainer.accelerator.prepare(trainer.model)  # as train() does: it wraps the forward
        handle = trainer.model.model.layers[0].mlp.up_proj.register_forward_hook(lambda *call: found.add(call[2].dtype))
        trainer.compute_loss(trainer.model, dict(first_batch(trainer))).backward()
        handle.remove()
        return found

    assert products(_answering(trainers(bf16=True))) == {torch.bfloat16}
    trainer = _answering(trainers(bf16=True))
    trainer._compute_loss = lambda *given: DistillationTrainer._compute_loss(trainer, *given)
    assert products(trainer) == {torch.float32}, "TRL casts now: on_policy.py need not"


def test_the_mean_is_over_the_tokens_of_all_micro_steps(trainers):
    """Answers of different lengths: one micro step of 4 answers changes the weights as 4 of one answer do."""
    results = []
    for micro in (4, 1):
        trainer = _answering(
            trainers(per_device_train_batch_size=micro, gradient_accumulation_steps=4 // micro, optim="sgd")
        )
        trainer.train()
        results.append({name: weight.detach().clone() for name, weight in trainer.model.named_parameters()})
    once, apart = results
    for name, weight in once.items():
        assert (weight - apart[name]).abs().max() < 1e-5, name


def test_a_student_comes_nearer_to_its_teacher_and_writes_the_answers_itself(trainers):
    trainer = trainers(max_steps=60, eval_strategy="steps", eval_steps=60, learning_rate=3e-2)
    frozen = [weight.clone() for weight in trainer.teacher_model.parameters()]
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    losses = logged(trainer.state.log_history, "loss")
    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) / 5 < 0.6 * losses[0]
    assert logged(trainer.state.log_history, "eval_loss")[-1] < 0.6 * first
    assert logged(trainer.state.log_history, "completions/mean_length")[0] > 1
    assert all((old == new).all() for old, new in zip(frozen, trainer.teacher_model.parameters(), strict=True))
    assert not [name for name, _ in trainer.model.named_parameters() if "teacher" in name], "it is not saved"


def test_a_teacher_without_probabilities_for_all_tokens_is_refused(trainers):
    with pytest.raises(SystemExit, match="Choose another teacher"):
        trainers(teacher_words=WORDS - 1)


def test_trl_refuses_a_teacher_with_more_rows_of_padding(trainers, tmp_path):
    """Why the teacher is not handed to DistillationTrainer."""
    from trl import DistillationTrainer

    trainer = trainers()
    with pytest.raises(ValueError, match="vocab_size"):
        DistillationTrainer(
            model=str(tmp_path / "student"),
            teacher_model=str(tmp_path / "teacher"),
            args=trainer.args,
            train_dataset=trainer.train_dataset,
            processing_class=tokenizer(),
        )


U, A = {"role": "user", "content": "w3"}, {"role": "assistant", "content": "w4"}
CHATS = [([U], [U]), ([U, A], [U]), ([U, A, U, A], [U, A, U]), ([U, A, A], [U]), ([A], None), ([A, A], None)]


@pytest.mark.parametrize(("messages", "prompt"), CHATS)
def test_answers_at_the_end_of_a_conversation_are_left_out(tmp_path, monkeypatch, messages, prompt):
    """When the recipe is compiled as when the rows are prepared; other methods refuse such rows."""
    from recipec.dataset import BadContent, DataShape, RowReading, converted

    source = {"path": "chat.jsonl", "format": "prompts", "columns": {"prompt": "messages"}}
    bundle = texts(good(tmp_path, with_key(BASES["on-policy-distill"], "data.prompts", source)))
    (tmp_path / "prepare_data.py").write_text(bundle["prepare_data.py"])
    prepared = load(tmp_path / "prepare_data.py", monkeypatch).from_prompts
    shape = DataShape("prompts", {"prompt": "messages"}, "messages", "")
    if prompt is None:
        with pytest.raises(ValueError, match="ends with an answer"):
            prepared({"messages": messages})
        with pytest.raises(BadContent, match="ends with an answer"):
            converted({"messages": messages}, shape, RowReading(answers_anew=True))
        return
    assert prepared({"messages": messages})["prompt"] == prompt
    assert converted({"messages": messages}, shape, RowReading(answers_anew=True))["prompt"] == prompt
    if messages[-1] == A:
        with pytest.raises(BadContent, match="ends with an answer"):
            converted({"messages": messages}, shape, RowReading())
