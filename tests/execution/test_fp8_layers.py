"""FP8 in a bundle: what train.py is given, which layers are replaced, and that a device without it stops the run.

torchao multiplies on a CPU where it is installed; else its stand-in rounds numbers as e4m3 does.
"""

from __future__ import annotations

import sys

import pytest
from compiling import BASES, good, texts, with_key
from emitted_modules import load
from tiny_models import WORDS, save

from recipec.verify.sandbox import SHIM

pytestmark = pytest.mark.executes


def bundle(folder) -> dict[str, str]:
    recipe = with_key(with_key(BASES["lora-single"], "train.adaptation", "full"), "hardware.gpu", "h100")
    return texts(good(folder, with_key(with_key(recipe, "model.name", "Qwen/Qwen2.5-0.5B"), "train.fp8", True)))


@pytest.fixture
def emitted(tmp_path, monkeypatch):
    """fp8_layers.py as a module, with what stands in for torchao's products here."""
    monkeypatch.syspath_prepend(str(SHIM))
    from cpu_stand_in.float8 import fp8

    monkeypatch.delitem(sys.modules, "torchao.float8", raising=False)
    fp8(None, True)
    monkeypatch.setitem(sys.modules, "torchao.float8", sys.modules.pop("torchao.float8"))
    (tmp_path / "fp8_layers.py").write_text(bundle(tmp_path / "recipe")["fp8_layers.py"])
    return load(tmp_path / "fp8_layers.py", monkeypatch)


@pytest.fixture
def model(tmp_path):
    from transformers import AutoModelForCausalLM

    save(tmp_path / "model", seed=1, model_type="qwen2", vocab_size=WORDS, hidden_size=32)
    return AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype="float32", attn_implementation="eager")


def test_train_py_compiles_pads_and_pins(tmp_path):
    files = bundle(tmp_path)
    for line in (
        "torch_compile=True,",
        "pad_to_multiple_of=16,",
        "multiply_in_fp8(trainer.model, trainer.args.device)",
    ):
        assert line in files["train.py"]
    assert "torchao==0.18.0" in files["requirements.txt"].splitlines()


def test_layers_of_the_decoder_are_replaced_and_learn(emitted, model, capsys):
    import torch

    names, head = [*model.state_dict()], type(model.lm_head)
    numbers = torch.Generator().manual_seed(3)
    ids, given = torch.randint(3, WORDS, (2, 16), generator=numbers), torch.randn(16, 32, generator=numbers)
    before = model.model.layers[0].mlp.up_proj(given)
    emitted.multiply_in_fp8(model, torch.device("cpu"))
    assert "14 of 14 linear layers" in capsys.readouterr().out
    assert [*model.state_dict()] == names and type(model.lm_head) is head
    layer = model.model.layers[0].mlp.up_proj
    assert type(layer) is not torch.nn.Linear
    far = (layer(given) - before).abs().max() / before.abs().max()
    assert 1e-3 < far < 0.15, "rounded, and not another layer"
    model(input_ids=ids, labels=ids).loss.backward()
    assert all(weight.grad.abs().max() > 0 for weight in model.parameters())


def test_layers_of_other_sizes_stay(emitted):
    from torch import nn

    assert emitted.fits(nn.Linear(32, 48))
    assert not emitted.fits(nn.Linear(32, 40)) and not emitted.fits(nn.Linear(24, 32)) and not emitted.fits(nn.ReLU())


@pytest.mark.parametrize(
    ("fault", "said"), [(RuntimeError("no kernel"), "does not multiply in FP8: no kernel"), (None, "is wrong by")]
)
def test_a_product_that_fails_or_is_wrong_stops_the_run(emitted, model, monkeypatch, fault, said):
    import torch

    class Wrong(torch.nn.Linear):
        def forward(self, given):
            if fault:
                raise fault
            return -super().forward(given)

    def converted(layer, **options):
        layer.__class__ = Wrong
        return layer

    monkeypatch.setattr(emitted, "convert_to_float8_training", converted)
    with pytest.raises(SystemExit, match=said):
        emitted.multiply_in_fp8(model, torch.device("cpu"))
