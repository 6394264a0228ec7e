"""The meter against the CPU allocator: the same step on real tensors, counted by both, and on fake ones."""

from __future__ import annotations

import gc

import pytest

pytestmark = pytest.mark.executes

VOCABULARY, LENGTH, ROWS = 500, 64, 2


def tiny_llama():
    """Two layers, thirty thousand parameters a layer, built on whatever tensors the current mode makes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, vocab_size=VOCABULARY, **sizes))


def rig(checkpointing: bool):
    """(model, optimizer after a first step, tokens)."""
    import torch

    model = tiny_llama()
    if checkpointing:
        model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.train().parameters(), fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return model, optimizer, torch.zeros(ROWS, LENGTH, dtype=torch.long)


def step(model, optimizer, tokens) -> None:
    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def resident(model, optimizer, tokens) -> list:
    states = [value for state in optimizer.state.values() for value in state.values()]
    return [*model.parameters(), *model.buffers(), *states, tokens]


def metered(model, optimizer, tokens) -> tuple[int, int]:
    """(peak, what was there before) of one step."""
    from recipec.simulate.meter import Meter

    gc.collect()
    with Meter() as meter:
        for tensor in resident(model, optimizer, tokens):
            meter.count(tensor)
        before, meter.site = meter.total, "step"
        step(model, optimizer, tokens)
    return meter.peaks["step"].total, before


def allocated(model, optimizer, tokens) -> int:
    """Highest sum of the CPU allocator's own records of one step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(model, optimizer, tokens)
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    level, peak = 0, 0
    for event in sorted(records, key=lambda event: event.start_ns()):
        level += event.nbytes()
        peak = max(peak, level)
    return peak


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "checkpointed"])
def test_fake_tensors_count_what_the_real_allocator_gives(checkpointing, monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from transformers import masking_utils

    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda position_ids: None)  # reads values
    real = rig(checkpointing)
    peak, before = metered(*real)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert metered(*rig(checkpointing)) == (peak, before)
    assert before + allocated(*real) == pytest.approx(peak, rel=0.02)  # the meter rounds each tensor up to 512 bytes
