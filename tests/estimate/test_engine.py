"""What a generator with a copy of the weights takes: its terms by hand, its share of the GPU, its time."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key
from msgspec.structs import replace

from recipec.catalog.gpus import gpu
from recipec.catalog.models import model
from recipec.estimate.engine import engine_share, sent_bytes, served_at_once, server_share
from recipec.estimate.generation import _added_up, generation_terms, writing_seconds
from recipec.estimate.links import link_of
from recipec.estimate.step import step_of
from recipec.estimate.workload import Workload
from recipec.layout import Layout, Mesh
from recipec.rules.preference import FORMULAS

GIB = 1 << 30


def written_by(engine: str, tokens: int = 512, model: str = "Qwen/Qwen3-8B") -> Tables:
    recipe = with_key(BASES["grpo"], "alignment.generation", {"engine": engine, "max_new_tokens": tokens})
    return with_key(with_key(recipe, "model.name", model), "hardware.gpu", "h100-sxm")


def served(**more) -> Tables:
    recipe = with_key(written_by("vllm-server"), "hardware.gpus_per_node", 4)
    for key, value in more.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


def stage(folder: Path, recipe: Tables):
    return good(folder, recipe).plan.stages[0]


def test_the_copy_takes_the_models_weights_and_the_cache_of_all_answers(tmp_path: Path) -> None:
    short, long = (stage(tmp_path, written_by("vllm", tokens)) for tokens in (256, 512))
    engines = [each.memory.moments["generation"] for each in (short, long)]
    answers = short.layout.global_batch // short.layout.mesh.data_parallel * short.decisions["updates"].value
    each_token = 2 * 36 * 8 * 128 * 2  # keys and values of 36 layers with 8 heads of 128, in bf16
    assert engines[1] - engines[0] == pytest.approx(answers * 256 * each_token, rel=1e-6)
    share = short.decisions["generator_share"].value
    cache = answers * (256 + short.decisions["max_length"].value) * each_token
    assert share * 79.1 * GIB > 2 * 8.19e9 + cache


def test_train_py_reserves_what_the_plan_counts(tmp_path: Path) -> None:
    done = good(tmp_path, written_by("vllm"))
    share = done.plan.stages[0].decisions["generator_share"].value
    train = texts(done)["train.py"]
    assert f"vllm_gpu_memory_utilization={share}," in train and "use_vllm=True," in train
    assert "vllm==" in texts(done)["requirements.txt"]
    plain = texts(good(tmp_path, written_by("transformers")))
    assert "vllm" not in plain["train.py"] + plain["requirements.txt"] and "merged_weights.py" not in plain


def test_answers_come_sooner(tmp_path: Path) -> None:
    copied, in_place = (stage(tmp_path, written_by(name)).time.terms["generation"] for name in ("vllm", "transformers"))
    assert copied < in_place / 3


def test_the_share_is_rounded_up_to_hundredths() -> None:
    assert engine_share(8 * GIB, 80 * GIB) == 0.1 and engine_share(8.01 * GIB, 80 * GIB) == 0.11


def test_a_quantized_base_is_refused(tmp_path: Path) -> None:
    recipe = with_key(written_by("vllm"), "train.quantization", "nf4")
    found = compiled(tmp_path, recipe).diagnostics
    assert any("BAD-160" in str(finding) for finding in found), found


def test_the_allocator_leaves_the_generator_s_memory_pool_alone(tmp_path: Path) -> None:
    """vLLM's sleep mode refuses expandable segments."""
    copied, in_place = (texts(good(tmp_path, written_by(name)))["launch/local.sh"] for name in ("vllm", "transformers"))
    assert "expandable_segments" in in_place and "expandable_segments" not in copied


def test_a_server_has_gpus_of_its_own_and_takes_nothing_of_the_others(tmp_path: Path) -> None:
    beside = stage(tmp_path, served())
    assert beside.decisions["server_gpus"].value == beside.layout.served_by
    shared = stage(tmp_path, with_key(served(), "alignment.generation.engine", "vllm"))
    assert beside.layout.gpus == 4 == shared.layout.gpus
    assert shared.decisions["generator_share"].value < beside.decisions["generator_share"].value == 0.9
    copy_bytes = 2 * 8.19e9
    assert beside.memory.moments["generation"] < shared.memory.moments["generation"] - copy_bytes


def test_a_copy_of_more_than_half_of_a_gpu_takes_several(tmp_path: Path) -> None:
    large = served(model__name="Qwen/Qwen3-32B", hardware__gpus_per_node=8, train__global_batch_size=48)
    found = stage(tmp_path, large)
    assert found.decisions["server_gpus"].value == found.layout.served_by == 2
    assert found.layout.mesh.world_size == 6


@pytest.mark.parametrize(
    ("gpus", "batch", "serve"), [(2, 32, 1), (3, 32, 1), (4, 32, 2), (5, 32, 1), (8, 32, 4), (8, 48, 2)]
)
def test_no_gpu_of_the_node_is_idle_where_the_batch_divides(tmp_path: Path, gpus: int, batch: int, serve: int) -> None:
    found = stage(tmp_path, served(hardware__gpus_per_node=gpus, train__global_batch_size=batch))
    decision = found.decisions["server_gpus"]
    assert decision.value == serve and found.layout.gpus == gpus
    assert ("share the" in decision.because) is (serve > 1)


@pytest.mark.parametrize(
    ("name", "gpus", "heads"),
    [("microsoft/phi-4", 8, 40), ("Qwen/Qwen2.5-0.5B-Instruct", 8, 14), ("HuggingFaceTB/SmolLM2-135M-Instruct", 6, 9)],
)
def test_a_server_takes_gpus_that_share_the_heads(tmp_path: Path, name: str, gpus: int, heads: int) -> None:
    """Where none of these leaves a number of GPUs that divides the batch, the smallest with room."""
    assert model(name).architecture.num_heads == heads
    found = stage(tmp_path, served(model__name=name, hardware__gpus_per_node=gpus))
    assert found.decisions["server_gpus"].value == found.layout.served_by == 1


def test_a_copy_that_finds_no_room_is_not_said_to_find_it() -> None:
    split, whole = (FORMULAS["GPUs of copy"](32_000_000_000, "bf16", 39.6, 4, 32, at) for at in ((1, 2, 4, 8), (1,)))
    assert split.value == 2 and split.because.endswith("more of the node's GPUs would not train")
    assert whole.value == 1 and whole.because.endswith("more GPUs do not share its heads")


def test_a_server_leaves_room_for_weights_on_their_way() -> None:
    small, large = model("Qwen/Qwen3-0.6B").architecture, model("google/gemma-3-27b-it").architecture
    table = 4 * 262_208 * 5376  # the embedding, in fp32
    assert server_share(small, 80 * GIB) == server_share(large, 80 * GIB) == 0.9
    assert server_share(small, 16 * GIB) == pytest.approx(1 - 2.5 / 16, abs=0.01)
    assert server_share(large, 40 * GIB) == pytest.approx(1 - (1.5 * GIB + table) / (40 * GIB), abs=0.01)
    assert server_share(large, 4 * GIB) == 0


def test_weights_travel_as_they_are_kept() -> None:
    """In fp32 where all of them learn beside autocast, in chunks of 1 GiB of which two are on their way."""
    shape = model("Qwen/Qwen3-8B").architecture
    work = Workload(objective="grpo", own=(("generator", "vllm-server"),), seq_len_tokens=1024, written_tokens=512)
    lora = Layout("lora", "bf16", "ddp", Mesh(2), "none", 8, 1, False, "sdpa", False, "adamw", served_by=1)
    full = replace(lora, adaptation="full", strategy="fsdp", mesh=Mesh(shard=2))
    steps = [step_of(shape, layout, work) for layout in (lora, full)]
    assert [sent_bytes(step) / shape.params for step in steps] == [2, 4]
    held = [generation_terms(shape, layout, work, step) for layout, step in zip((lora, full), steps, strict=True)]
    table = shape.vocab_size * shape.hidden_size  # larger than a chunk
    assert [sum(terms.values()) for terms in held] == [2 * GIB + 2 * table, 2 * GIB + 4 * table]


def test_answers_without_room_wait_for_their_turn() -> None:
    """Every turn reads the weights and the cache for each token that it writes."""
    shape, card, link = model("Qwen/Qwen3-8B").architecture, gpu("h100-sxm"), link_of(gpu("h100-sxm"))
    work = Workload(objective="grpo", own=(("generator", "vllm-server"),), seq_len_tokens=1024, written_tokens=512)
    layout = Layout("lora", "bf16", "ddp", Mesh(1), "none", 8, 1, False, "sdpa", False, "adamw", served_by=1)
    step = step_of(shape, layout, work)
    room = round(served_at_once(shape, work, step, 1, card.memory_gib * GIB))
    one, two, four = (writing_seconds(shape, layout, work, step, card, link, turns * room) for turns in (1, 2, 4))
    read = 512 * (2 * shape.params + room * 512 * 2 * 36 * 8 * 128 * 2) / (card.bandwidth_gb_s * 1e9)
    assert four - two == pytest.approx(2 * (two - one), rel=0.02)
    assert two - one > read


def test_several_gpus_of_a_server_share_the_weights_and_hold_more_answers() -> None:
    shape, room = model("Qwen/Qwen3-8B").architecture, 80 * GIB
    work = Workload(objective="grpo", own=(("generator", "vllm-server"),), seq_len_tokens=1024, written_tokens=512)
    layout = Layout("lora", "bf16", "ddp", Mesh(3), "none", 8, 1, False, "sdpa", False, "adamw", served_by=1)
    one, two = (served_at_once(shape, work, step_of(shape, layout, work), gpus, room) for gpus in (1, 2))
    each = 1024 * 2 * 36 * 8 * 128 * 2  # bytes of an answer: keys and values of 36 layers with 8 heads of 128, in bf16
    weights = 2 * shape.params
    assert one == pytest.approx((0.9 * room - weights) / each, rel=0.05)
    assert two == pytest.approx((2 * 0.9 * room - weights) / each, rel=0.05)


def test_fewer_answers_at_once_take_as_much_longer(tmp_path: Path) -> None:
    """What finds no room waits, so that a smaller card writes the same answers in more turns."""
    one, two = (stage(tmp_path, served(alignment__generation__server_gpus=gpus)) for gpus in (1, 2))
    each = [found.time.terms["generation"] / found.layout.global_batch for found in (one, two)]
    assert each[1] < each[0] < 2.2 * each[1]


def test_the_bundle_starts_the_server_with_what_the_plan_counts(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, served(alignment__generation__server_gpus=2)))
    server, launch, train = bundle["serve_answers.py"], bundle["launch/local.sh"], bundle["train.py"]
    assert "SERVER_GPUS = 2" in server and "TRAINING_GPUS = 2" in server
    assert '"--gpu-memory-utilization": "0.9"' in server and '"--max-num-seqs": "128"' in server
    assert 'vllm_mode="server"' in train and "vllm_gpu_memory_utilization" not in train
    assert 'serve_answers.py" --training-gpus "$GRPO_PROCESSES" \\\n  accelerate launch' in launch
    assert "expandable_segments" in launch  # nothing sleeps in the memory of those that train


def test_gpus_that_do_not_divide_the_heads_are_refused(tmp_path: Path) -> None:
    found = compiled(tmp_path, served(alignment__generation__server_gpus=3)).diagnostics
    assert any("BAD-165" in str(finding) for finding in found), found


def test_gpus_that_do_not_hold_the_model_are_refused(tmp_path: Path) -> None:
    recipe = served(model__name="Qwen/Qwen3-32B", hardware__gpu="a100-40gb", alignment__generation__server_gpus=1)
    found = compiled(tmp_path, recipe).diagnostics
    assert any("BAD-166" in str(finding) for finding in found), found


def test_a_gpu_without_work_may_write_answers(tmp_path: Path) -> None:
    recipe = served(alignment__generation__server_gpus=1, train__global_batch_size=32)
    (idle,) = (each for each in good(tmp_path, recipe).diagnostics if each.code == "W0503")
    assert idle.title == "1 of 4 GPUs is idle"
    told = "set `alignment.generation.server_gpus = 2`: 2 GPUs then learn from what 2 write"
    assert any(line.startswith(told) for line in idle.help)


@pytest.mark.parametrize("serve", [1, 2])
def test_gpus_that_share_each_product_add_up_what_they_find(serve: int) -> None:
    """Over a slow link a token takes longer, where several GPUs write it."""
    shape, card = model("Qwen/Qwen3-8B").architecture, gpu("h100-sxm")
    layout = Layout("lora", "bf16", "ddp", Mesh(1), "none", 8, 1, False, "sdpa", False, "adamw", served_by=serve)

    def token_seconds(kind: str) -> float:
        long, short = (
            Workload(
                objective="grpo",
                own=(("generator", "vllm-server"),),
                seq_len_tokens=256 + tokens,
                written_tokens=tokens,
            )
            for tokens in (512, 256)
        )
        each = [
            writing_seconds(shape, layout, work, step_of(shape, layout, work), card, link_of(card, kind), 8)
            for work in (long, short)
        ]
        return (each[0] - each[1]) / 256

    moved = 2 * 36 * 2 * 2 * 8 * 4096  # bytes of a token of 8 answers: two sums in each of 36 layers, sent and received
    added = token_seconds("pcie") - token_seconds("nvlink")
    assert added > moved / 2 / 64e9 if serve > 1 else added == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("Qwen/Qwen3-8B", 36 * 2),
        ("Qwen/Qwen3-30B-A3B", 48 * 2),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 56),  # a layer has attention, a mixer or a feed-forward block
        ("tiiuae/Falcon-H1-7B-Base", 44 * 3),  # a layer has all three
    ],
)
@pytest.mark.parametrize("gpus", [2, 4])
def test_every_part_of_a_layer_is_added_up_over_the_gpus(name: str, sums: int, gpus: int) -> None:
    shape, link = model(name).architecture, link_of(gpu("h100-sxm"))
    layout = Layout("lora", "bf16", "ddp", Mesh(1), "none", 8, 1, False, "sdpa", False, "adamw", served_by=gpus)
    step = step_of(shape, layout, Workload(objective="grpo", seq_len_tokens=512, written_tokens=256))
    each = 2 * 2 * 8 * shape.hidden_size * (gpus - 1) / gpus  # bytes in bf16 of 8 tokens, sent once and received once
    moved, waited = each / (link.ring_gb_s * 1e9), link.latency_seconds(gpus - 1)
    assert _added_up(shape, step, 8, gpus, link) == pytest.approx(sums * (moved + waited))


def test_gpus_that_hold_the_model_and_no_answer_are_refused(tmp_path: Path) -> None:
    """The weights and the cache of an answer find room, beside the buffers of a pass not one; with a second GPU do."""
    large = served(model__name="microsoft/phi-4", hardware__gpu="rtx-5090", hardware__gpus_per_node=8)
    large = with_key(large, "train.global_batch_size", 336)
    one = compiled(tmp_path, with_key(large, "alignment.generation.server_gpus", 1))
    assert one.plan is None and any("BAD-166" in str(finding) for finding in one.diagnostics)
    (finding,) = (each for each in one.diagnostics if each.code == "E0405")
    assert finding.help[0].startswith("remove `alignment.generation.server_gpus`, which is then 2: ")
    assert stage(tmp_path, large).layout.served_by == 2


def test_no_advice_puts_a_server_beside_several_nodes(tmp_path: Path) -> None:
    """Full fine-tuning of a 70B needs more than a node, and a server works for one."""
    large = served(model__name="meta-llama/Llama-3.1-70B-Instruct", hardware__gpu="a100-80gb")
    large = with_key(with_key(large, "hardware.gpus_per_node", 8), "train", {"adaptation": "full"})
    (finding,) = (each for each in compiled(tmp_path, large).diagnostics if each.code == "E0402")
    assert finding.help and not any("hardware.nodes" in line for line in finding.help)
