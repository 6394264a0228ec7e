"""Layers without attention: what they save and issue on the real modules is what the formulas say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from estimate_shapes import layout

from recipec.catalog.configs import architecture_from_config
from recipec.catalog.models import model
from recipec.estimate.codepath import code_path
from recipec.estimate.kernels import launches, whole_layers
from recipec.estimate.mixers import state_bytes
from recipec.estimate.recurrence import (
    CHUNK_LAUNCHES,
    CHUNK_LAUNCHES_BACKWARD,
    SCAN_LAUNCHES,
    SCAN_LAUNCHES_BACKWARD,
    launched_forward,
    moved_backward,
    moved_forward,
    recurrent_flops,
)
from recipec.estimate.step import step_of
from recipec.estimate.workload import ALL_LINEAR, LoraShape, Workload

CONFIG = {
    "model_type": "qwen3_5_text",
    "hidden_size": 56,
    "intermediate_size": 104,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 24,
    "linear_value_head_dim": 40,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
CONVOLVING = {
    "model_type": "lfm2",
    "hidden_size": 56,
    "intermediate_size": 104,
    "block_auto_adjust_ff_dim": False,
    "num_hidden_layers": 2,
    "layer_types": ["conv", "full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
REMEMBERING = {
    "model_type": "granitemoehybrid",
    "hidden_size": 56,
    "shared_intermediate_size": 104,
    "num_local_experts": 0,
    "num_hidden_layers": 2,
    "layer_types": ["mamba", "attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_n_heads": 14,
    "mamba_d_state": 24,
    "mamba_chunk_size": 128,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
ALONE = {
    "model_type": "nemotron_h",
    "hidden_size": 56,
    "intermediate_size": 104,
    "layers_block_type": ["mamba", "attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "mamba_num_heads": 14,
    "mamba_head_dim": 8,
    "ssm_state_size": 24,
    "n_groups": 2,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
BESIDE = {
    "model_type": "falcon_h1",
    "hidden_size": 56,
    "intermediate_size": 104,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_d_ssm": 112,
    "mamba_n_heads": 14,
    "mamba_d_state": 24,
    "mamba_chunk_size": 128,
    "vocab_size": 50,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
}
KINDS = {"delta net": (CONFIG, "Qwen3_5DecoderLayer"), "convolution": (CONVOLVING, "Lfm2DecoderLayer")}
KINDS["state space"] = (REMEMBERING, "GraniteMoeHybridDecoderLayer")
KINDS["state space alone"] = (ALONE, "NemotronHBlock")
KINDS["state space beside attention"] = (BESIDE, "FalconH1DecoderLayer")
KINDS["state space beside attention, normed"] = (BESIDE | {"mamba_rms_norm": True}, "FalconH1DecoderLayer")
TOKENS = 2048
LORA = LoraShape(4)


@pytest.mark.executes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adapted", [True, False])
def test_a_mixer_saves_what_the_formula_says(adapted: bool, kind: str) -> None:
    shape = architecture_from_config(KINDS[kind][0])
    lora = LoraShape(LORA.rank, shape.named_linear or ALL_LINEAR)
    work = Workload(seq_len_tokens=TOKENS, lora=lora if adapted else None)
    fixed = step_of(shape, layout("lora" if adapted else "full"), work).fixed
    assert saved_by_first_layer(lora if adapted else None, *KINDS[kind]) / TOKENS == pytest.approx(
        fixed.kinds[-1].saved, rel=0.001
    )


def saved_by_first_layer(lora: LoraShape | None, config: dict[str, Any], decoder_layer: str) -> int:
    """Bytes of storages that the layer with the mixer hands to autograd, without weights and their casts."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    if lora:
        network = with_adapters(network.to(torch.bfloat16), lora)
    saved: dict[int, Any] = {}
    layer = next(m for m in network.modules() if type(m).__name__ == decoder_layer)
    running: list[bool] = []
    layer.register_forward_pre_hook(lambda *_: running.append(True))
    layer.register_forward_hook(lambda *_: running.clear())

    def pack(tensor: Any) -> Any:
        if running and tensor.numel() >= TOKENS:  # weights have less
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16):
        network(input_ids=torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False)
    weights = {parameter.shape.numel() for parameter in network.parameters()}
    return sum(t.untyped_storage().nbytes() for t in saved.values() if t.numel() not in weights)


def with_adapters(network: Any, lora: LoraShape) -> Any:
    from peft import LoraConfig, get_peft_model

    network.requires_grad_(False)
    network.enable_input_require_grads()
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    return get_peft_model(network, LoraConfig(r=lora.rank, target_modules=targets, task_type="CAUSAL_LM"))


@pytest.mark.executes
def test_a_chunk_issues_what_the_formula_says() -> None:
    short, long = (issued(chunks * 64) for chunks in (4, 8))
    forward, backward = ((after - before) / 4 for before, after in zip(short, long, strict=True))
    assert (forward, backward) == (CHUNK_LAUNCHES, CHUNK_LAUNCHES_BACKWARD)


def issued(tokens: int) -> tuple[int, int]:
    """Operations that are no views, forward and backward."""
    import torch
    from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule as rule

    heads = [torch.zeros(1, tokens, 2, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    decay, update = (torch.zeros(1, tokens, 2, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        forward, (output, _) = counted(lambda: rule(*heads, g=decay, beta=update))
    return forward, counted(output.sum().backward)[0]


def counted(run: Callable[[], Any]) -> tuple[int, Any]:
    """How many operations that are no views `run` issues, and what it gives."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.operations = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.operations += not function.is_view and function._schema.name != "aten::_unsafe_view"
            return result

    with Count() as count:
        result = run()
    return count.operations, result


@pytest.mark.executes
@pytest.mark.parametrize("tokens", [256, 512])
def test_a_scan_issues_what_the_formula_says_however_long_a_row_is(tokens: int) -> None:
    """Of a layer whose weights are frozen."""
    import torch
    from transformers import AutoConfig
    from transformers.models.granitemoehybrid.modeling_granitemoehybrid import GraniteMoeHybridMambaLayer

    layer = GraniteMoeHybridMambaLayer(AutoConfig.for_model(**REMEMBERING), 0).to(torch.bfloat16).requires_grad_(False)
    states = torch.zeros(1, tokens, 56, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        forward, output = counted(lambda: layer(states))
    assert (forward, counted(output.sum().backward)[0]) == (SCAN_LAUNCHES, SCAN_LAUNCHES_BACKWARD)


def test_a_scan_of_mamba_is_priced() -> None:
    """36 layers of 48 heads of 64 features with 128 numbers each, in chunks of 256 tokens."""
    shape = model("ibm-granite/granite-4.0-h-1b").architecture
    assert launched_forward(shape, 640) == launched_forward(shape, 64) == 36 * SCAN_LAUNCHES
    assert recurrent_flops(shape) == 36 * (2 * 256 * 48 * (128 + 64) + 4 * 48 * 64 * 128)
    assert moved_forward(shape) == 36 * 48 * (23 * 256 + 64 * 128 + 93 * 64)
    path = code_path(layout(), Workload(seq_len_tokens=1, lora=LORA))
    assert state_bytes(shape, path) == 36 * (4 * 48 * 64 * 128 + 2 * (48 * 64 + 2 * 128) * 4)


def test_a_convolution_sees_a_row_at_once() -> None:
    """It multiplies 3 tokens of each feature in 10 layers, and keeps 3 of them to go on from."""
    shape = model("LiquidAI/LFM2-1.2B").architecture
    assert (launched_forward(shape, 640), moved_backward(shape, 640)) == (0, 0)
    assert recurrent_flops(shape) == 10 * 2 * 3 * 2048
    assert state_bytes(shape, code_path(layout(), Workload(seq_len_tokens=1, lora=LORA))) == 10 * 2 * 3 * 2048


def test_longer_rows_issue_more_where_layers_have_a_mixer() -> None:
    hybrid, plain = (model(name).architecture for name in ("Qwen/Qwen3.5-4B", "Qwen/Qwen3-4B"))
    assert (launched_forward(hybrid, 640), launched_forward(plain, 640)) == (24 * 10 * CHUNK_LAUNCHES, 0)
    more = {name: all_launches(shape, 1024) - all_launches(shape, 512) for name, shape in (("h", hybrid), ("p", plain))}
    passes = 3 * CHUNK_LAUNCHES + (CHUNK_LAUNCHES_BACKWARD - CHUNK_LAUNCHES)  # forward, recomputed, backward
    assert more == {"h": 24 * 8 * passes, "p": 0}


def all_launches(shape: Any, tokens: int) -> float:
    work = Workload(seq_len_tokens=tokens, lora=LORA)
    return launches(shape, layout(), work, step_of(shape, layout(), work))


def test_a_sequence_of_a_hybrid_takes_its_states_however_short_it_is() -> None:
    """In each of 24 layers 32 heads of 128 x 128 in fp32, and 4 tokens of 8,192 channels."""
    hybrid, plain = (model(name).architecture for name in ("Qwen/Qwen3.5-4B", "Qwen/Qwen3-4B"))
    path = code_path(layout(), Workload(seq_len_tokens=1, lora=LORA))
    assert state_bytes(hybrid, path) == 24 * (4 * 32 * 128 * 128 + 2 * 8192 * 4)
    assert state_bytes(plain, path) == 0


def test_a_layer_of_one_part_issues_half_of_what_a_whole_one_does() -> None:
    """21 layers of Mamba 2 and 17 feed-forward blocks stand alone, and 4 of attention."""
    shape = model("nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16").architecture
    assert (whole_layers(shape), shape.mixed_layers, shape.attention_layers, shape.sparse_layers) == (21, 21, 4, 17)
    assert whole_layers(model("tiiuae/Falcon-H1-7B-Base").architecture) == 44
