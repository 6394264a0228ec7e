"""Run by torchrun on two ranks: the emitted experts.py with its experts on one rank and on two; prints what it found.

torchrun --nproc_per_node 2 dispatched_experts.py FOLDER_OF_EXPERTS_PY OUTPUT_FOLDER
"""

import copy
import json
import math
import sys
from pathlib import Path

import deepspeed
import torch
from torch import distributed
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

sys.path.insert(0, sys.argv[1])
import experts

OUT, STEPS, EXPERTS, PER_TOKEN = Path(sys.argv[2]), 3, 4, 2
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
SHAPE |= {"vocab_size": 96, "num_experts": EXPERTS, "num_experts_per_tok": PER_TOKEN, "moe_intermediate_size": 48}
SHAPE |= {"norm_topk_prob": True, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
ENGINE = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 1.0}
ENGINE |= {"zero_optimization": {"stage": 1, "reduce_bucket_size": 1024}}


def tokens(seed: int) -> torch.Tensor:
    return torch.randint(0, 96, (2, 24), generator=torch.Generator().manual_seed(100 * distributed.get_rank() + seed))


def saved_bytes(layer: torch.nn.Module) -> float:
    """Bytes per token that the graph of a layer keeps, beside its weights and its input."""
    given = torch.randn(1, 512, SHAPE["hidden_size"], requires_grad=True)
    own = {tensor.untyped_storage().data_ptr() for tensor in (given, *layer.parameters())}
    kept = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # alive: another would get its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(given)
    return sum(size for size, _ in kept.values()) / given.shape[1]


def trained(ranks: int) -> dict:
    """A short training with the experts of a layer on so many ranks."""
    experts.RANKS = ranks
    torch.manual_seed(0)
    plain = AutoModelForCausalLM.from_config(Qwen3MoeConfig(**SHAPE), dtype=torch.float32)
    model = experts.spread_experts(copy.deepcopy(plain))
    optimizer = torch.optim.AdamW(experts.expert_groups([{"params": list(model.parameters())}]), lr=3e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=ENGINE)
    found = {"before": apart(engine, plain), "steps": [], "kept": saved_bytes(experts.mixtures(model.train())[0])}
    for step in range(STEPS):
        engine.train()
        routed = experts.unrouted(model)
        for part in range(2):
            engine.set_gradient_accumulation_boundary(part == 1)
            loss = engine(tokens(10 * step + part), labels=tokens(10 * step + part), use_cache=False).loss
            routed += experts.routing(model)
            whole = (loss + experts.BALANCE_LOSS * experts.balance_loss(model)) / 2
            engine.backward(whole, scale_wrt_gas=False)
        engine.step()
        distributed.all_reduce(routed)
        distributed.all_reduce(loss := loss.detach())
        found["steps"].append(
            [loss.item(), float(engine.get_global_grad_norm()), *experts.load_metrics(routed).values()]
        )
    weights = experts.whole_weights(model)
    if distributed.get_rank() == 0:
        model.save_pretrained(OUT / str(ranks), state_dict=weights)
    distributed.barrier()
    found["after"] = apart(engine, AutoModelForCausalLM.from_pretrained(OUT / str(ranks), dtype=torch.float32))
    return found


def evened(weight: float) -> list[float]:
    """The load of the fullest expert before and after a router that prefers one expert has trained with the loss."""
    experts.RANKS = 2
    torch.manual_seed(1)
    model = experts.spread_experts(AutoModelForCausalLM.from_config(Qwen3MoeConfig(**SHAPE), dtype=torch.float32))
    with torch.no_grad():
        for layer in experts.mixtures(model):
            layer.deepspeed_moe.gate.wg.weight.mul_(20)
    optimizer = torch.optim.AdamW(experts.expert_groups([{"params": list(model.parameters())}]), lr=1e-2)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=ENGINE)
    loads = []
    for step in range(30):
        engine.set_gradient_accumulation_boundary(True)
        loss = engine(tokens(step), labels=tokens(step), use_cache=False).loss
        loads.append(experts.load_metrics(experts.routing(model))["expert_load"])
        engine.backward(loss + weight * experts.balance_loss(model), scale_wrt_gas=False)
        engine.step()
    return [loads[0], sum(loads[-5:]) / 5]


def dropped(per_token: int) -> list[tuple[int, int]]:
    """Of each layer with half the room that its tokens need: what it says is dropped, and what is above the room."""
    experts.RANKS, experts.CAPACITY_FACTOR = 2, 0.5
    torch.manual_seed(2)
    config = Qwen3MoeConfig(**SHAPE | {"num_experts_per_tok": per_token})
    model = experts.spread_experts(AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    optimizer = torch.optim.AdamW(experts.expert_groups([{"params": list(model.parameters())}]))
    engine, *_ = deepspeed.initialize(model=model.train(), optimizer=optimizer, config=ENGINE)
    engine(tokens(0), use_cache=False)
    room = math.ceil(tokens(0).numel() / EXPERTS * experts.CAPACITY_FACTOR * per_token)
    layers = experts.mixtures(model)
    return [(layer.dropped.item(), (layer.wanted - room).clamp(min=0).sum().item()) for layer in layers]


def apart(engine: deepspeed.DeepSpeedEngine, plain: torch.nn.Module) -> float:
    """How far its logits are from those of transformers, with room for every token."""
    for layer in experts.mixtures(engine.module):
        layer.deepspeed_moe.gate.eval_capacity_factor = EXPERTS / PER_TOKEN
    engine.eval()
    with torch.no_grad():
        ours, theirs = (model(tokens(99), use_cache=False).logits for model in (engine, plain.eval()))
    return (ours - theirs).abs().max().item()


deepspeed.init_distributed()
found = {ranks: trained(ranks) for ranks in (1, 2)}
found["evened"] = {"with": evened(0.1), "without": evened(0.0)}
found["dropped"] = {per_token: dropped(per_token) for per_token in (1, 2, 3)}
if distributed.get_rank() == 0:
    (OUT / "found.json").write_text(json.dumps(found))
distributed.barrier()
distributed.destroy_process_group()
