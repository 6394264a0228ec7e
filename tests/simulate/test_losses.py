"""The losses of a simulated step: each kind that a method's row can name, and the router's share in them."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from compiling import BASES, good, texts, with_key

from recipec.axes import METHODS
from recipec.axes import method as rows

pytestmark = pytest.mark.executes


def test_every_loss_that_a_row_may_name_is_simulated():
    from recipec.simulate.losses import LOSSES

    assert set(rows.LOSSES) == set(LOSSES)


def test_the_routers_share_of_the_loss_is_what_a_bundle_asks_for(tmp_path):
    """A tenth or ten times of it is another training: experts collapse, or the balance is all that is learned."""
    import torch

    from recipec.simulate.run import Run

    recipe = with_key(with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B"), "hardware.gpu", "h200")
    emitted = re.search(r"router_aux_loss_coef=([0-9.e-]+)", texts(good(tmp_path, recipe))["train.py"])
    assert emitted
    loss, balance = torch.tensor(2.0), torch.tensor(8.0)
    for experts, expected in ((True, 2.0 + float(emitted[1]) * 8.0), (False, 2.0)):
        nothing = dict.fromkeys(("model", "reference", "distiller", "sites", "autocast", "reenters"))
        run = Run(method=METHODS["sft"], balanced=experts, precomputed=False, **nothing)
        assert float(run.with_router_loss(loss, SimpleNamespace(aux_loss=balance))) == pytest.approx(expected)


def test_the_routers_share_is_that_of_the_models_own_configuration():
    from transformers import AutoConfig

    from recipec.simulate.model import ROUTER_COEFFICIENT

    for kind in ("qwen3_moe", "mixtral"):
        assert AutoConfig.for_model(kind).router_aux_loss_coef == ROUTER_COEFFICIENT
