"""Adapters on a quantized base train in fp32: TRL casts them to bf16, in which small steps round to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

CAST = "        parameter.data = parameter.data.float()\n"


@pytest.mark.parametrize(
    ("train", "casts"),
    [
        ({"adaptation": "qlora"}, True),
        ({"adaptation": "qlora", "strategy": "ddp"}, True),
        ({"adaptation": "qlora", "strategy": "zero2"}, False),  # DeepSpeed keeps fp32 masters
        ({"adaptation": "lora-int8"}, True),
        ({"adaptation": "lora"}, False),  # PEFT makes them fp32
    ],
    ids=str,
)
def test_it_is_cast_where_nothing_else_keeps_fp32(tmp_path: Path, train: dict[str, str], casts: bool) -> None:
    recipe = with_key(BASES["lora-single"], "hardware", {"gpu": "h100", "gpus_per_node": 1 + ("strategy" in train)})
    text = texts(good(tmp_path, with_key(recipe, "train", train)))["train.py"]
    assert (CAST in text) is casts
    if casts:
        assert text.index("trainer = ") < text.index(CAST) < text.index("trainer.train(")


@pytest.mark.parametrize(("dtype", "moved"), [("bfloat16", False), ("float32", True)])
def test_small_steps_need_fp32(dtype: str, moved: bool) -> None:
    """Twelve steps of fused AdamW at 1e-5 on weights of the size that PEFT gives to lora_A."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    start = torch.empty(16, 1024).uniform_(-0.03, 0.03)  # kaiming_uniform_ for 1,024 inputs
    weight = torch.nn.Parameter(start.to(getattr(torch, dtype)))
    optimizer = torch.optim.AdamW([weight], lr=1e-5, weight_decay=0.0, fused=True)
    before = weight.detach().clone()
    for _ in range(12):
        weight.grad = torch.randn_like(weight)
        optimizer.step()
    share = (weight.detach() != before).float().mean().item()
    assert share > 0.99 if moved else share < 0.5
