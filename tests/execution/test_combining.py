"""combine.py merges as its words say: exactly where it says so, and by the definitions of TIES and DARE elsewhere."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, good, texts
from emitted_modules import load
from tiny_models import WORDS, save, tokenizer

pytestmark = pytest.mark.executes
TASKS = {"support": 8, "orders": 4}  # and the ranks of their adapters


@pytest.fixture
def combine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The emitted script in a bundle with two random adapters of different ranks, scaled as rsLoRA scales them."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    save(tmp_path / "base", 0, model_type="llama", vocab_size=WORDS, hidden_size=32)
    for seed, (task, rank) in enumerate(TASKS.items()):
        base = AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
        torch.manual_seed(seed)
        shape = {"target_modules": "all-linear", "use_rslora": True, "init_lora_weights": False}
        model = get_peft_model(base, LoraConfig(r=rank, lora_alpha=16, task_type="CAUSAL_LM", **shape))
        folder = tmp_path / "outputs" / task
        model.save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        (folder / "finished.json").write_text(json.dumps({"of": task}))
    script = tmp_path / "combine.py"
    script.write_text(texts(good(tmp_path / "recipe", BASES["adapters"]))[script.name])
    return load(script, monkeypatch)


def merge(combine: Any, output: Path, **options: Any) -> Path:
    given = {"weights": ["support=0.7", "orders=0.3"], "how": "linear", "scale": 1.0, "density": None}
    combine.merge(Namespace(**given | options, output=output))
    return output


def updates(folder: Path) -> dict[str, Any]:
    """Module -> what PEFT adds to its weight for the adapter in `folder`."""
    import torch
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer
    from transformers import AutoModelForCausalLM

    root = next(parent for parent in folder.parents if (parent / "base").is_dir())
    base = AutoModelForCausalLM.from_pretrained(root / "base", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, folder)
    found = {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}
    return {name: module.get_delta_weight("default").detach() for name, module in found.items()}


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_linear_merge_is_the_weighted_sum_of_the_updates(combine: Any, tmp_path: Path, scale: float) -> None:
    merged = updates(merge(combine, tmp_path / "merged", scale=scale))
    support, orders = (updates(tmp_path / "outputs" / task) for task in TASKS)
    assert len(merged) == 14
    for name, found in merged.items():
        wanted = scale * (0.7 * support[name] + 0.3 * orders[name])
        assert (found - wanted).norm() / wanted.norm() < 1e-6


def test_dropping_nothing_is_the_weighted_sum(combine: Any, tmp_path: Path) -> None:
    """An update of rank 12 has room in an adapter of rank 12."""
    wanted = updates(merge(combine, tmp_path / "sum"))
    found = updates(merge(combine, tmp_path / "dare", how="dare", density=1.0))
    assert all((found[name] - wanted[name]).norm() / wanted[name].norm() < 1e-4 for name in wanted)


def test_ties_trims_elects_signs_and_takes_the_mean_of_those_that_agree(combine: Any) -> None:
    import torch

    first, second = torch.tensor([[4.0, -3.0, 0.1, 2.0]]), torch.tensor([[2.0, 5.0, -3.0, 0.2]])
    weights = torch.tensor([0.5, 0.5])[:, None, None]
    found = combine.ties(torch.stack([first, second]), weights, 0.5)
    # Kept: 4 and -3 of the first, 5 and -3 of the second. Place 2 disagrees: 5 is stronger than -3.
    assert found.tolist() == [[4.0, 5.0, -3.0, 0.0]]


def test_ties_weighs_those_that_agree(combine: Any) -> None:
    import torch

    pair = torch.tensor([[[4.0, 1.0]], [[2.0, -8.0]]])
    found = combine.ties(pair, torch.tensor([1.5, 0.5])[:, None, None], 1.0)  # shares 0.75 and 0.25, scale 2
    assert found.tolist() == [[2 * (0.75 * 4 + 0.25 * 2), 2 * -8.0]]


def test_dare_keeps_the_mean(combine: Any) -> None:
    import torch

    torch.manual_seed(0)
    found = combine.dare(torch.ones(2, 200, 200), torch.tensor([0.7, 0.3])[:, None, None], 0.25)
    assert found.mean() == pytest.approx(1.0, abs=0.03)
    assert sorted({round(value, 3) for value in found.flatten().tolist()}) == [0.0, 1.2, 2.8, 4.0]


def test_a_pruned_merge_says_how_much_it_holds(
    combine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = updates(merge(combine, tmp_path / "ties", how="ties"))
    assert "an adapter of rank 12, which holds " in capsys.readouterr().out
    assert all(update.isfinite().all() and update.abs().sum() > 0 for update in found.values())


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (["support=0.7", "orders=0.4"], "not parts of a whole"),
        (["support=1.5", "orders=-0.5"], "not parts of a whole"),
        (["support=1"], "not parts of a whole"),
        (["support=0.5", "sales=0.5"], "sales=0.5: name each task once, of support, orders"),
        (["support=0.5", "support=0.5"], "name each task once"),
        (["support=half", "orders=0.5"], "write the share of support as a number"),
    ],
)
def test_shares_that_are_none_are_refused(combine: Any, tmp_path: Path, weights: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        merge(combine, tmp_path / "merged", weights=weights)
    assert not (tmp_path / "merged").exists()


def test_every_way_to_merge_has_a_folder_of_its_own(combine: Any) -> None:
    options = [{}, {"scale": 1.5}, {"how": "ties"}, {"how": "ties", "density": 0.2}, {"how": "ties", "density": 0.9}]
    shares = [{"support": 0.333, "orders": 0.667}, {"support": 0.334, "orders": 0.666}]
    plain = {"how": "linear", "scale": 1.0, "density": None}
    found = {combine.named(Namespace(**plain | option), share) for option in options for share in shares}
    assert len(found) == len(options) * len(shares)


@pytest.mark.parametrize(
    ("options", "output", "said"),
    [
        ({"density": 0.2}, "merged", "linear keeps all entries"),
        ({"how": "ties", "density": 1.5}, "merged", "above 0 and at most 1"),
        ({}, "support", "another column"),
    ],
)
def test_an_option_that_would_do_nothing_or_hide_a_task_is_refused(
    combine: Any, tmp_path: Path, options: dict[str, Any], output: str, said: str
) -> None:
    with pytest.raises(SystemExit, match=said):
        merge(combine, tmp_path / output, **options)


def test_an_update_that_is_zero_is_held_whole(combine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for task in TASKS:
        file = tmp_path / "outputs" / task / "adapter_model.safetensors"
        save_file({name: tensor * ("lora_A" in name) for name, tensor in load_file(file).items()}, file)
    merge(combine, tmp_path / "merged", how="ties")
    assert "which holds 100.0% of" in capsys.readouterr().out


def test_an_adapter_that_is_not_trained_is_named(combine: Any, tmp_path: Path) -> None:
    (tmp_path / "outputs" / "orders" / "finished.json").unlink()
    with pytest.raises(SystemExit, match="orders holds no finished adapter"):
        merge(combine, tmp_path / "merged")


def test_a_merge_of_an_earlier_training_is_not_compared(
    combine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(combine, tmp_path / "outputs" / "combined" / "old")
    (tmp_path / "outputs" / "orders" / "finished.json").write_text("trained anew")
    monkeypatch.setattr(combine, "load", lambda: (None, None))
    with pytest.raises(SystemExit, match="merged from adapters of an earlier training"):
        combine.compare(Namespace(rows=None))
