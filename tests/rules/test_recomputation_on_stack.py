"""What the pinned stack does with recomputed layers: why emitted scripts leave it to the Trainer, under FSDP too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("trl")
torch = pytest.importorskip("torch")

LAYERS, RANKS = 4, 4
OPTIONS = {"use_reentrant": False}


def tiny() -> torch.nn.Module:
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 32, "num_hidden_layers": LAYERS}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    return AutoModelForCausalLM.from_config(LlamaConfig(**sizes, **heads)).train()


def wrapped(layers: torch.nn.ModuleList) -> None:
    """What accelerate's fsdp_activation_checkpointing does to each layer."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for index, layer in enumerate(layers):
        layers[index] = checkpoint_wrapper(layer, preserve_rng_state=False)


@pytest.fixture
def mesh() -> Iterator[object]:
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield init_device_mesh("cpu", (RANKS,))
    distributed.destroy_process_group()


@pytest.mark.parametrize("reentrant", [True, False])
def test_only_the_reentrant_checkpoint_drops_the_inputs_of_8_bit_layers(reentrant, monkeypatch):
    """bitsandbytes 0.50 hangs them on the node of the graph, on a GPU and on a CPU."""
    import weakref

    from bitsandbytes.autograd import _functions as products
    from bitsandbytes.nn import Linear8bitLt
    from torch.utils.checkpoint import checkpoint

    inputs = []
    forward = products.MatMul8bitFp.forward
    noted = staticmethod(lambda ctx, given, *more: (inputs.append(weakref.ref(given)), forward(ctx, given, *more))[1])
    monkeypatch.setattr(products.MatMul8bitFp, "forward", noted)
    layer = Linear8bitLt(16, 16, bias=False, has_fp16_weights=False, threshold=6.0).to("cpu")
    start = torch.ones(2, 16, requires_grad=True)
    result = checkpoint(lambda given: layer(given * 2), start, use_reentrant=reentrant)
    assert [each() is None for each in inputs] == [reentrant]
    result.sum().backward()
    assert start.grad is not None


@pytest.mark.parametrize("how", ["nothing", "wrappers", "trainer", "every second layer"])
def test_fsdp2_gathers_as_often_whoever_recomputes(how, mesh, monkeypatch):
    """The warning of transformers 5.23, that its own recomputation gathers once more, holds for FSDP1."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group as group

    gathers = []
    gather = group.foreach_all_gather
    monkeypatch.setattr(group, "foreach_all_gather", lambda *given: (gathers.append(1), gather(*given))[1])
    model = tiny()
    if how == "wrappers":
        wrapped(model.model.layers)
    elif how != "nothing":
        model.activation_checkpointing_enable(OPTIONS, every_n_layers=1 if how == "trainer" else 2)
    for part in (*model.model.layers, model):
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    tokens = torch.zeros(1, 8, dtype=torch.long)
    model(input_ids=tokens, labels=tokens).loss.backward()
    assert len(gathers) == 2 * (LAYERS + 1)


@pytest.mark.parametrize("hidden", [False, True])
def test_wrappers_hide_adapters_from_a_save(hidden):
    """PEFT 0.21 looks for the names of its modules, which have the wrapper in them, among keys that do not."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

    model = get_peft_model(tiny(), LoraConfig(r=2, target_modules=["q_proj"]))
    if hidden:
        wrapped(model.base_model.model.model.layers)
    else:
        model.base_model.model.activation_checkpointing_enable(OPTIONS)
    assert len(get_peft_model_state_dict(model)) == (0 if hidden else 2 * LAYERS)


def test_bad_032_a_reference_pass_forgets_which_layers_are_recomputed():
    from transformers.modeling_layers import GradientCheckpointingLayer
    from trl.models.utils import disable_gradient_checkpointing

    def recomputed() -> int:
        return sum(layer.gradient_checkpointing for layer in layers)

    model = tiny()
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    model.activation_checkpointing_enable(OPTIONS, every_n_layers=2)
    before = recomputed()
    with disable_gradient_checkpointing(model, OPTIONS):
        during = recomputed()
    assert (before, during, recomputed()) == (LAYERS // 2, 0, LAYERS)
