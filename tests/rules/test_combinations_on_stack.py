"""What the pinned stack itself says to the combinations that can be tried without a GPU."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tiers import quick_where

pytest.importorskip("trl")
torch = pytest.importorskip("torch")


def test_bad_001_a_quantised_model_without_adapters_is_refused():
    from transformers.trainer_utils import validate_quantization_for_training

    quantizer = SimpleNamespace(is_trainable=True, is_qat_trainable=False)
    with pytest.raises(ValueError, match="purely quantized"):
        validate_quantization_for_training(SimpleNamespace(is_quantized=True, hf_quantizer=quantizer))


def eight_bit_layer():
    from bitsandbytes.nn import Linear8bitLt

    return Linear8bitLt(16, 8, bias=False, has_fp16_weights=False, threshold=6.0).to("cpu")


def test_inputs_beyond_fp16_pass_an_8_bit_layer():
    """Why bf16 is not refused, although such layers cast their inputs to fp16."""
    layer = eight_bit_layer().eval()
    inputs = torch.ones(4, 16, dtype=torch.bfloat16)
    inputs[0, 3] = 2e5
    found = layer(inputs).float()
    weight = layer.state.CB.float() * layer.state.SCB[:, None] / 127
    assert (found - inputs.float() @ weight.T).abs().mean() < 0.01 * found.abs().mean()


def test_bad_035_8_bit_weights_cannot_be_moved_to_the_meta_device():
    with pytest.raises(RuntimeError, match="Int8Params"):
        eight_bit_layer().to(torch.device("meta"))


def test_bad_046_8_bit_weights_that_have_run_take_no_checkpoint_with_their_scales():
    layer = eight_bit_layer()
    saved = layer.state_dict()
    layer.load_state_dict(saved)
    layer(torch.ones(1, 16))
    with pytest.raises(RuntimeError, match="Loading a quantized checkpoint"):
        layer.load_state_dict({name: saved[name] for name in ("SCB", "weight_format")}, strict=False)


@pytest.mark.parametrize("read", [False, True])
def test_bad_061_8_bit_weights_that_were_read_lose_their_scales_when_they_are_placed(read):
    layer = eight_bit_layer().eval()
    if read:  # as DoRA does when it is made
        layer(torch.ones(1, 16))
    layer.weight = layer.weight.to("cpu")
    if not read:
        assert layer(torch.ones(1, 16)).isfinite().all()
        return
    with pytest.raises(AttributeError, match="NoneType"):
        layer.train()(torch.ones(1, 16))


@pytest.mark.parametrize(("targets", "dropout", "works"), [("all-linear", 0.05, False), (["q_proj"], 0.05, True)])
def test_bad_010_dropout_on_fused_experts_is_refused(targets, dropout, works):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, MixtralConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 32, "num_local_experts": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1}
    model = AutoModelForCausalLM.from_config(MixtralConfig(**sizes, **heads))
    config = LoraConfig(r=2, target_modules=targets, lora_dropout=dropout, task_type="CAUSAL_LM")
    if works:
        assert get_peft_model(model, config)
        return
    with pytest.raises(ValueError, match="lora_dropout"):
        get_peft_model(model, config)


def test_bad_011_flash_attention_is_not_installed_with_the_stack():
    assert importlib.util.find_spec("flash_attn") is None


@pytest.mark.parametrize(("save_steps", "works"), [(0.05, False), (0.06, True), (0.02, True)])
def test_bad_017_saving_must_be_a_multiple_of_evaluation(tmp_path, save_steps, works):
    from transformers import TrainingArguments

    fixed = {"eval_strategy": "steps", "eval_steps": 0.02, "load_best_model_at_end": True, "use_cpu": True}
    if works:
        assert TrainingArguments(output_dir=str(tmp_path), save_steps=save_steps, **fixed)
        return
    with pytest.raises(ValueError, match="multiple"):
        TrainingArguments(output_dir=str(tmp_path), save_steps=save_steps, **fixed)


def test_bad_038_a_hash_of_sharded_weights_is_that_of_every_model():
    """ZeRO-3 leaves an empty tensor of each weight: DeepSpeed 0.19.8 partition_parameters.py, free_param."""
    from trl.trainer.utils import hash_module

    models = [torch.nn.Linear(4, 4) for _ in range(2)]
    assert len({hash_module(model) for model in models}) == 2
    for weight in (weight for model in models for weight in model.parameters()):
        weight.data = torch.empty(0)
    assert len({hash_module(model) for model in models}) == 1


@pytest.mark.parametrize(("length", "works"), [(64, True), (60, False)])
def test_bad_023_each_rank_takes_two_pieces_of_a_sequence(length, works):
    from torch.distributed.tensor.experimental._context_parallel._load_balancer import _HeadTailLoadBalancer

    balancer = _HeadTailLoadBalancer(length, 4, "cpu")
    if works:
        assert balancer._generate_indices().numel() == length
        return
    with pytest.raises(AssertionError):
        balancer._generate_indices()


@pytest.mark.parametrize(("attention", "works"), [("sdpa", True), ("eager", False), ("flash_attention_2", False)])
def test_bad_024_context_parallelism_takes_pytorchs_attention_alone(attention, works):
    from transformers import Trainer

    parallel = SimpleNamespace(cp_enabled=True, cp_backend="torch")
    trainer = SimpleNamespace(accelerator=SimpleNamespace(parallelism_config=parallel, maybe_context_parallel=dict))
    model = SimpleNamespace(config=SimpleNamespace(_attn_implementation=attention))
    inputs = {"input_ids": torch.zeros(1, 8, dtype=torch.long), "labels": torch.zeros(1, 8, dtype=torch.long)}
    if works:
        assert "shift_labels" in Trainer._prepare_context_parallel_inputs(trainer, model, inputs)[1]
        return
    with pytest.raises(ValueError, match="SDPA"):
        Trainer._prepare_context_parallel_inputs(trainer, model, inputs)


def test_ckpt_001_a_multiple_may_still_miss_after_rounding():
    from transformers import TrainerState

    state = TrainerState()
    state.compute_steps(SimpleNamespace(logging_steps=10, eval_steps=0.05, save_steps=0.1), max_steps=330)
    assert (state.eval_steps, state.save_steps) == (17, 33)


STEPS = """
import sys
import torch
import torch.distributed as dist
from bitsandbytes.optim import AdamW, Lion
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers.optimization import Adafactor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(128, 128)
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
make = {
    "adafactor": lambda weights: Adafactor(weights, lr=1e-3, scale_parameter=False, relative_step=False),
    "lion": Lion,
    "lion-8bit": lambda weights: Lion(weights, optim_bits=8),
    "adamw-8bit": lambda weights: AdamW(weights, optim_bits=8),
    "paged-adamw": lambda weights: AdamW(weights, is_paged=True),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=1e-3, weight_decay=0.01),
}
optimizer = make[sys.argv[1]](model.parameters())
model(torch.ones(2, 128)).sum().backward()
optimizer.step()
"""
MIXED, UNKNOWN = "got mixed torch.Tensor and DTensor", "does not have a sharding strategy registered"


@pytest.mark.parametrize(
    ("optimizer", "error"),
    quick_where(
        {("adafactor", MIXED), ("lion", UNKNOWN), ("sgd", None)},
        [
            *(("adafactor", MIXED), ("adamw-8bit", MIXED), ("lion-8bit", MIXED)),
            *(("lion", UNKNOWN), ("paged-adamw", UNKNOWN), ("sgd", None)),
        ],
    ),
)
def test_bad_004_what_steps_on_shards_and_what_does_not(optimizer, error):
    done = subprocess.run([sys.executable, "-c", STEPS, optimizer], capture_output=True, text=True)
    assert (done.returncode == 0) is (error is None), done.stderr
    assert (error or "") in done.stderr


def test_bad_005_offload_makes_adam_of_other_optimizers(monkeypatch):
    import bitsandbytes
    import deepspeed.ops.adam
    import torch
    from accelerate.utils.deepspeed import map_pytorch_optim_to_deepspeed

    weights = [torch.nn.Parameter(torch.ones(4))]
    monkeypatch.setattr(deepspeed.ops.adam, "DeepSpeedCPUAdam", lambda weights, **options: options["adamw_mode"])
    assert map_pytorch_optim_to_deepspeed(torch.optim.SGD(weights, lr=1e-3)) is False
    assert map_pytorch_optim_to_deepspeed(bitsandbytes.optim.Lion(weights, optim_bits=8)) is False
    assert map_pytorch_optim_to_deepspeed(bitsandbytes.optim.AdamW(weights, is_paged=True)) is True
    with pytest.raises(TypeError, match="adamw_mode"):
        map_pytorch_optim_to_deepspeed(bitsandbytes.optim.Lion(weights))


def test_bad_030_adafactor_factors_matrices_and_no_flat_shards():
    import torch
    from transformers.optimization import Adafactor

    for shape, factored in (((4, 8), True), ((32,), False)):
        weight = torch.nn.Parameter(torch.ones(shape))
        weight.grad = torch.ones(shape)
        optimizer = Adafactor([weight], lr=1e-3, scale_parameter=False, relative_step=False)
        optimizer.step()
        assert ("exp_avg_sq_row" in optimizer.state[weight]) is factored


def test_bad_033_a_traced_forward_builds_the_mask():
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    model = AutoModelForCausalLM.from_config(LlamaConfig(**sizes, **heads), attn_implementation="sdpa").train()
    masks = []

    def captured(graph, example_inputs):
        masks.extend(node.kwargs["attn_mask"] for node in graph.graph.nodes if "scaled_dot" in str(node.target))
        return graph.forward

    tokens = torch.zeros(1, 8, dtype=torch.long)
    torch.compile(model, backend=captured)(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False)
    assert len(masks) == 1 and masks[0] is not None
