"""Rows of similar length share a batch, in an order that a stopped and resumed training goes on with."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType, SimpleNamespace

import pytest
from compiling import BASES, good, texts
from emitted_modules import load
from tiny_models import ARGUMENTS, WORDS, save, tokenizer

from recipec.rules.loader import persistent_workers

pytestmark = pytest.mark.executes

LENGTHS = [3 + (17 * number) % 29 for number in range(41)]
STEPS_PER_EPOCH = 6  # 41 rows in batches of 4, two of them accumulated


@pytest.fixture
def emitted(tmp_path, monkeypatch) -> ModuleType:
    """The emitted similar_lengths.py."""
    script = tmp_path / "similar_lengths.py"
    script.write_text(texts(good(tmp_path / "recipe", BASES["lora-single"]))[script.name])
    return load(script, monkeypatch)


def sampler(emitted: ModuleType, lengths: list[int], epoch: float, seed: int = 1, ranks: int = 1):
    """Of a training that is in this epoch, in micro batches of 4."""
    args = SimpleNamespace(seed=seed, train_batch_size=4, gradient_accumulation_steps=1, world_size=ranks)
    trainer = SimpleNamespace(args=args, state=SimpleNamespace(epoch=epoch))
    return emitted.SimilarLengths(trainer, {"input_ids": [range(length) for length in lengths]})


def order(*args, **kwargs) -> list[int]:
    """The rows of an epoch."""
    return list(sampler(*args, **kwargs))


def test_every_epoch_has_every_row_in_an_order_of_its_own(emitted):
    epochs = [order(emitted, LENGTHS, epoch) for epoch in (0, 1, 2)]
    assert all(sorted(rows) == list(range(len(LENGTHS))) for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 3
    assert order(emitted, LENGTHS, 1.75) == epochs[1], "a resumed run is within its epoch"
    assert order(emitted, LENGTHS, 1, seed=2) != epochs[1]


@pytest.mark.parametrize("shape", [(8, 4, 1), (1, 1, 8), (2, 2, 4)])
def test_micro_steps_have_the_same_rows_whoever_takes_them(emitted, shape):
    """What all ranks take together decides, neither how they share it nor how many micro steps make a step."""
    size, accumulation, ranks = shape
    args = SimpleNamespace(seed=1, train_batch_size=size, gradient_accumulation_steps=accumulation, world_size=ranks)
    trainer = SimpleNamespace(args=args, state=SimpleNamespace(epoch=1))
    rows = list(emitted.SimilarLengths(trainer, {"input_ids": [range(length) for length in LENGTHS]}))
    assert rows == order(emitted, LENGTHS, 1, ranks=2)


def test_an_optimizer_step_mixes_lengths(emitted):
    """Tokens of a step share its weight: where all its rows are short, each weighs many times one of long rows."""
    lengths = [5 + (37 * number) % 301 for number in range(1536)]
    rows = order(emitted, lengths, 1)
    steps = [sum(lengths[row] for row in rows[start : start + 64]) for start in range(0, len(rows), 64)]
    assert max(steps) < 3 * min(steps)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("rows", [1, 4, 41, 400])
def test_the_first_batch_holds_the_longest_row_and_is_full(emitted, rows, ranks):
    lengths = [5 + number % 90 for number in range(rows - 1)] + [100]
    first = order(emitted, lengths, 0, ranks=ranks)[: 4 * ranks]
    assert len(first) == min(rows, 4 * ranks)
    assert rows - 1 in first


def test_batches_need_little_padding_and_do_not_go_from_long_to_short(emitted):
    lengths = [5 + (37 * number) % 301 for number in range(384)]
    rows = order(emitted, lengths, 1)
    longest = [max(lengths[row] for row in rows[start : start + 4]) for start in range(0, len(rows), 4)]
    assert 4 * sum(longest) < 1.1 * sum(lengths)
    rising = sum(now < after for now, after in pairwise(longest))
    assert 30 < rising < 66, "of 95 pairs of neighbors"


def test_ranks_do_not_wait_for_each_other(emitted):
    lengths = [5 + (37 * number) % 301 for number in range(384)]
    rows = order(emitted, lengths, 1, ranks=2)
    longest = [max(lengths[row] for row in rows[start : start + 4]) for start in range(0, len(rows), 4)]
    assert all(0 <= first - second < 30 for first, second in zip(longest[::2], longest[1::2], strict=True))


@pytest.mark.parametrize("skipped", [1, 4])
def test_ranks_share_the_rows_and_skip_those_before_a_resume(emitted, skipped):
    """As the Trainer hands them out: accelerate's batches of a rank, of which a resumed run skips the first."""
    from accelerate.data_loader import prepare_data_loader, skip_first_batches
    from torch.utils.data import DataLoader

    def loader(rank: int, epoch: float):
        rows = sampler(emitted, LENGTHS, epoch, ranks=2)
        plain = DataLoader(range(len(LENGTHS)), batch_size=4, sampler=rows)
        return prepare_data_loader(plain, num_processes=2, process_index=rank, put_on_device=False)

    whole = [[batch.tolist() for batch in loader(rank, 1)] for rank in (0, 1)]
    rest = [[batch.tolist() for batch in skip_first_batches(loader(rank, 1.3), skipped)] for rank in (0, 1)]
    assert rest == [batches[skipped:] for batches in whole]
    assert {row for batches in whole for batch in batches for row in batch} == set(range(len(LENGTHS)))


def trained(emitted, folder, model, resume=None, stop=None):
    """The weights after three epochs of SFT with a worker, or from a checkpoint on, or after step `stop`."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    class Stops(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == stop

    texts = [" ".join(f"w{3 + (row + place) % (WORDS - 3)}" for place in range(n)) for row, n in enumerate(LENGTHS)]
    saving = {"max_steps": -1, "num_train_epochs": 3, "save_strategy": "steps", "save_steps": 1}
    saving |= {"dataloader_num_workers": 1, "dataloader_persistent_workers": persistent_workers().value}
    config = SFTConfig(
        str(folder), **(ARGUMENTS | saving), gradient_accumulation_steps=2, train_sampling_strategy="group_by_length"
    )
    trainer = SFTTrainer(
        str(model), config, None, Dataset.from_dict({"text": texts}), processing_class=tokenizer(), callbacks=[Stops()]
    )
    trainer._get_train_sampler = lambda rows: emitted.SimilarLengths(trainer, rows)
    trainer.train(resume_from_checkpoint=resume)
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def test_a_stopped_training_goes_on_as_if_it_had_not_been(emitted, tmp_path):
    save(tmp_path / "model", seed=1, model_type="qwen2", vocab_size=WORDS, hidden_size=32, attention_dropout=0.1)
    whole = trained(emitted, tmp_path / "whole", tmp_path / "model")
    for step in (2, STEPS_PER_EPOCH, STEPS_PER_EPOCH + 3):
        trained(emitted, tmp_path / f"stopped-{step}", tmp_path / "model", stop=step)
        checkpoint = tmp_path / f"stopped-{step}" / f"checkpoint-{step}"
        resumed = trained(emitted, tmp_path / f"resumed-{step}", tmp_path / "model", resume=str(checkpoint))
        assert all(whole[name].equal(resumed[name]) for name in whole), f"stopped after step {step}"
