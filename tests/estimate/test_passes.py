"""Methods with other passes, heads and models than supervised and preference training, before recipec builds them."""

from __future__ import annotations

import pytest
from estimate_shapes import GIB, LLAMA_8B, QWEN_HALF_B, layout
from msgspec.structs import replace

from recipec.axes import METHODS
from recipec.catalog.gpus import gpu
from recipec.estimate.flops import forward_flops, step_flops
from recipec.estimate.links import link_of
from recipec.estimate.memory import step_memory
from recipec.estimate.moments import moments
from recipec.estimate.step import step_of
from recipec.estimate.storage import host_memory, run_storage
from recipec.estimate.throughput import step_time
from recipec.estimate.traffic import exchanges
from recipec.estimate.workload import LoraShape, Workload

LORA = LoraShape(16)
LARGE = replace(LLAMA_8B, num_layers=80, hidden_size=8192, num_heads=64, intermediate_size=28672)
TEACHER = 2 * LARGE.params  # bytes


def flops(shape, work):
    return step_flops(LLAMA_8B, shape, work, step_of(LLAMA_8B, shape, work).fixed)


def weights_sent(shape, work) -> float:
    moved = exchanges(shape, step_of(LLAMA_8B, shape, work), LLAMA_8B.num_layers)
    return sum(exchange.per_micro_step for exchange in moved)


def test_every_pass_without_a_gradient_costs_a_forward():
    """KTO: three passes beside the one that is learned from, which has half of DPO's sequences."""
    shape, forward = layout("full", checkpointing=False), forward_flops(LLAMA_8B, 2048)
    sft, kto = (flops(shape, Workload(objective=name)) for name in ("sft", "kto"))
    assert kto.products - sft.products == pytest.approx(3 * (forward.layers + forward.head))
    assert kto.attention - sft.attention == pytest.approx(3 * forward.attention)
    tokens = [step_of(LLAMA_8B, shape, Workload(objective=name)).tokens for name in ("sft", "kto", "dpo")]
    assert tokens == [2048, 2048, 4096]


def test_every_pass_over_sharded_weights_gathers_them():
    shape = layout("full", 1, 8, "fsdp")
    sft, kto = (weights_sent(shape, Workload(objective=name)) for name in ("sft", "kto"))
    assert kto - sft == 3 * 2 * LLAMA_8B.params


def test_a_pass_before_the_learned_one_finds_nothing_waiting():
    work = Workload(objective="kto", lora=LORA)
    kept = step_memory(LLAMA_8B, layout(batch=4, checkpointing=False), work).moments
    recomputed = step_memory(LLAMA_8B, layout(batch=4), work).moments
    assert kept["policy"] == recomputed["policy"]
    assert kept["reference"] > kept["policy"] + 50 * GIB


def test_a_pass_over_fewer_sequences_needs_less(monkeypatch):
    learned, scored = METHODS["dpo"].passes
    one = replace(METHODS["dpo"], name="one", passes=(learned, replace(scored, sequences=1)))
    monkeypatch.setitem(METHODS, "one", one)
    both, half = (step_of(LLAMA_8B, layout(batch=4), Workload(objective=name, lora=LORA)) for name in ("dpo", "one"))
    assert [step.scorings[0].tokens for step in (both, half)] == [4 * 2 * 2048, 4 * 2048]
    assert half.scorings[0].layer == both.scorings[0].layer / 2
    times = [flops(layout(batch=4), Workload(objective=name, lora=LORA)).products for name in ("sft", "one", "dpo")]
    assert times[1] - times[0] == pytest.approx((times[2] - times[0]) / 2)


@pytest.mark.parametrize(
    ("strategy", "share"), [("single", 1), ("ddp", 1), ("fsdp", 1), ("zero2", 1), ("zero3", 1 / 8)]
)
def test_only_zero3_shards_a_teacher(strategy, share):
    ranks = 1 if strategy == "single" else 8
    shape = layout("full", 1, ranks, strategy)
    terms = step_memory(LLAMA_8B, shape, Workload(objective="distill", teacher=LARGE)).terms
    assert terms["teacher_model"] == pytest.approx(share * TEACHER)
    gathered = weights_sent(shape, Workload(objective="distill", teacher=LARGE)) - weights_sent(shape, Workload())
    assert gathered == (TEACHER if strategy == "zero3" else 0)


@pytest.mark.parametrize("strategy", ["fsdp", "zero2", "zero3"])
def test_only_a_teacher_that_is_sharded_is_gathered(strategy):
    teacher = step_of(
        LLAMA_8B, layout("full", 1, 8, strategy), Workload(objective="distill", teacher=LARGE)
    ).fixed.teacher
    sizes = (teacher.gathered_params, teacher.gathered_head, teacher.buffers.layers)
    assert [size > 0 for size in sizes] == [strategy == "zero3"] * 3


def test_zero3_offload_moves_the_other_models_too():
    """TRL hands their engines the policy's configuration, offload_param included."""
    for objective, teacher, term in (("dpo", None, "reference_model"), ("distill", LARGE, "teacher_model")):
        work = Workload(objective=objective, teacher=teacher)
        zero2, zero3 = (layout("full", 1, 8, strategy, offload="cpu") for strategy in ("zero2", "zero3"))
        kept, moved = (step_memory(LLAMA_8B, shape, work) for shape in (zero2, zero3))
        assert term in kept.terms and term not in moved.terms
        assert moved.host_bytes > step_memory(LLAMA_8B, layout("full", 1, 8, "zero3"), work).terms[term]


def test_a_teacher_costs_its_forward_and_its_disk():
    """Differentiated, the loss makes the probabilities of both models again, beside those of the labels."""
    shape, work = layout("full", 1, 8, "ddp"), Workload(objective="distill", teacher=LARGE)
    taught, alone = flops(shape, work), flops(shape, Workload())
    forward, again = forward_flops(LARGE, 2048), forward_flops(LLAMA_8B, 2048).head
    assert taught.products - alone.products == pytest.approx(forward.layers + 2 * forward.head + again)
    assert taught.taught == pytest.approx(forward.layers + 2 * forward.head)
    assert taught.attention - alone.attention == pytest.approx(forward.attention)
    assert taught.model - alone.model == pytest.approx(forward.layers + forward.head + forward.attention)
    disk = [run_storage(LLAMA_8B, shape, each, 3, 10**6).hub_cache_bytes for each in (work, Workload())]
    assert disk[0] - disk[1] == TEACHER
    host = [
        host_memory(LLAMA_8B, shape, each, 8, step_memory(LLAMA_8B, shape, each)).needed_bytes
        for each in (work, Workload())
    ]
    assert host[0] == host[1]  # it is read straight onto the devices


def test_what_a_teachers_layers_move_takes_time():
    """Norms on queries and keys: next to no weights, another 37 kB per token and layer."""
    card, shape = gpu("h100"), layout(batch=4)
    plain, normed = (
        step_time(LLAMA_8B, shape, Workload(objective="distill", lora=LORA, teacher=teacher), card, link_of(card))
        for teacher in (LARGE, replace(LARGE, qk_norm="full"))
    )
    assert normed.seconds_per_step > 1.002 * plain.seconds_per_step


def test_a_step_with_a_teacher_takes_longer_by_more_than_its_products():
    card = gpu("h100")
    shape, work = layout(batch=4), Workload(objective="distill", lora=LORA, teacher=LARGE)
    alone, taught = (step_time(LLAMA_8B, shape, each, card, link_of(card)) for each in (Workload(lora=LORA), work))
    products = forward_flops(LARGE, 2048).layers * 4 * 2048 / (card.bf16_tflops * 1e12)
    assert taught.seconds_per_step - alone.seconds_per_step > products


def test_a_divergence_holds_two_tiles_of_logits_and_the_states_of_both_models():
    """Tiles in fp32, 4,096 tokens by 32,768 words: less than half the logits of one model."""
    work = Workload(objective="distill", lora=LORA, teacher=LARGE)
    low, high = (step_of(LLAMA_8B, layout(batch=batch), work) for batch in (4, 8))
    tokens = 4 * 2048
    assert 2 * 4 * 4096 * 32768 < low.head.backward < 4 * LLAMA_8B.vocab_size * tokens / 2
    assert high.head.backward - low.head.backward == (2 + 4) * LLAMA_8B.hidden_size * tokens
    assert high.scorings[0].leaves - low.scorings[0].leaves == 2 * LARGE.hidden_size * tokens


def test_a_teacher_that_reads_written_answers_runs_beside_the_students_activations():
    """TRL runs the student first, all within one autocast; both models' states wait for the loss."""
    given, written = (
        step_memory(LLAMA_8B, layout("full"), Workload(objective=objective, teacher=LARGE, written_tokens=tokens))
        for objective, tokens in (("distill", 0), ("on-policy-distill", 512))
    )
    step = step_of(LLAMA_8B, layout("full"), Workload(objective="on-policy-distill", teacher=LARGE))
    (teacher,) = step.scorings
    assert not teacher.before and teacher.cast == 2 * step.fixed.sizes.cast_by_layers > 0
    assert moments(step)["loss"]["teacher_states"] == moments(step)["forward_end"]["teacher_states"] == teacher.leaves
    assert written.moments["teacher"] - given.moments["teacher"] > teacher.cast
    assert written.moments["loss"] == pytest.approx(given.moments["loss"], rel=0.01)
    assert "generation" in written.moments and "generation" not in given.moments
    assert written.moments["generation"] > TEACHER, "it stays where answers are written"


def test_a_scalar_head_has_no_matrix_of_the_vocabulary():
    pairs, ranked = Workload(objective="dpo"), Workload(objective="reward")
    terms = [step_memory(LLAMA_8B, layout("full"), work).terms["weights"] for work in (pairs, ranked)]
    assert terms[0] - terms[1] == 4 * LLAMA_8B.vocab_size * LLAMA_8B.hidden_size
    tied = [step_memory(QWEN_HALF_B, layout("full"), work).terms["weights"] for work in (pairs, ranked)]
    assert tied[0] == tied[1]
    head = forward_flops(LLAMA_8B, 2048).head
    difference = flops(layout("full"), replace(pairs, head="hf")).products - flops(layout("full"), ranked).products
    assert difference == pytest.approx(3 * head + forward_flops(LLAMA_8B, 2048).layers + head)  # and a reference


@pytest.mark.parametrize(
    ("objective", "teacher", "said"),
    [("distill", None, "distill needs a teacher"), ("sft", LARGE, "sft has no teacher")],
)
def test_a_teacher_goes_with_the_methods_that_have_one(objective, teacher, said):
    with pytest.raises(ValueError, match=said):
        Workload(objective=objective, teacher=teacher)


def test_a_method_that_no_row_has_is_refused():
    with pytest.raises(KeyError, match="unknown"):
        Workload(objective="unknown")
