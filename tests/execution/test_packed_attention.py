"""Examples that share a row: which models keep them apart, with which attention, and what a bundle does to show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from compiling import BASES, good, texts, with_key
from datasets import Dataset
from emitted_modules import load
from tiny_models import ARGUMENTS, WORDS, tokenizer

from recipec.catalog.model_types import MODEL_TYPES
from recipec.verify.sandbox import SHIM

pytestmark = pytest.mark.executes

TINY: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "shared_intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "max_position_embeddings": 256,
    "initializer_range": 0.25,
    "sliding_window": 8,
    "num_experts_per_tok": 2,
    "num_experts": 4,
    "num_local_experts": 4,
    "moe_intermediate_size": 48,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "shared_expert_intermediate_size": 48,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TWO_HEADS = {
    "layer_types": ["sliding_attention", "full_attention"],
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0,
}
BORROWS = "gemma4_text that borrows"
WITH_MAMBA = "granitemoehybrid with mamba"
OTHERWISE: dict[str, dict[str, Any]] = {
    "gpt_neox": {"num_key_value_heads": 4},
    "qwen3_5_text": {"full_attention_interval": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "llama4_text": {"intermediate_size_mlp": 96, "no_rope_layer_interval": 2},
    "gemma4_text": TWO_HEADS,
    "gemma4_unified_text": TWO_HEADS,
    BORROWS: {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_hidden_layers": 4,
        "global_head_dim": 32,
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": WORDS,
    },
    "granitemoehybrid": {"layer_types": ["attention"] * 2, "num_local_experts": 0, "mamba_n_heads": 4},
    "nemotron_h": {
        "layers_block_type": ["mamba", "moe", "attention", "mlp"],
        "num_hidden_layers": 4,
        "mamba_num_heads": 4,
        "mamba_head_dim": 32,
        "ssm_state_size": 8,
        "n_groups": 2,
        "moe_shared_expert_intermediate_size": 48,
    },
    WITH_MAMBA: {"layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_state": 8},
}
CAPPED = [name for name, row in MODEL_TYPES.items() if row.softcap or row.sinks]
HYBRIDS = [*(name for name, row in MODEL_TYPES.items() if row.mixer and not row.mixer.optional), WITH_MAMBA]
LENGTHS = (5, 17, 9, 26)
LEAK, ROUNDING = 0.1, 1e-4  # shares of the largest logit


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The files of a bundle that packs with PyTorch's kernel, and the kernel's stand-in, which here takes fp32 too."""
    folder = tmp_path_factory.mktemp("bundle")
    bundle = texts(good(folder, with_key(BASES["lora-single"], "train.attention", "torch_varlen")))
    for name in ("preflight.py", "rows.py", "packed_attention.py"):
        (folder / name).write_text(bundle[name])
    with pytest.MonkeyPatch.context() as patched:
        modules = {name: load(folder / f"{name}.py", patched) for name in ("preflight", "packed_attention")}
        patched.syspath_prepend(str(SHIM))
        patched.setattr(_stand_in(), "HALF", ("torch.float16", "torch.bfloat16", "torch.float32"))
        modules["packed_attention"].register_varlen()
        yield SimpleNamespace(**modules)


def _stand_in() -> ModuleType:
    from cpu_stand_in import attention
    from torch.nn.attention import varlen

    attention.varlen_kernel(varlen, True)
    return attention


def model(model_type: str, attention: str) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type.split()[0], **TINY | OTHERWISE.get(model_type, {}))
    made = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    for name, weight in made.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(weight)
    return made.eval()


def examples() -> list[list[int]]:
    return [[3 + (7 * place + 11 * number) % (WORDS - 3) for place in range(n)] for number, n in enumerate(LENGTHS)]


def collator() -> Any:
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    return DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)


def apart(model_type: str, attention: str) -> float:
    """How far logits of examples in one row are from those of each alone, in shares of the largest."""
    import torch

    packed, alone = model(model_type, attention), model(model_type, "eager")
    row = collator()([{"input_ids": ids} for ids in examples()])
    del row["labels"]
    with torch.no_grad():
        together = packed(**row, use_cache=False).logits[0]
        each = torch.cat([alone(input_ids=torch.tensor([ids]), use_cache=False).logits[0] for ids in examples()])
    return ((together - each).abs().max() / each.abs().max()).item()


@pytest.mark.parametrize("model_type", [*(name for name in MODEL_TYPES if name not in HYBRIDS), BORROWS])
def test_the_models_that_leak_are_those_that_the_catalog_names(model_type: str) -> None:
    attention = "eager" if model_type in CAPPED else "sdpa"
    moved = apart(model_type, attention)
    assert moved > LEAK if MODEL_TYPES[model_type.split()[0]].leaks else moved < ROUNDING


@pytest.mark.parametrize(("keys", "kept"), [({"attention_chunk_size": 8}, True), ({"floor_scale": 16}, False)])
def test_chunks_begin_with_an_example_and_places_do_not(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], kept: bool
) -> None:
    """So packed rows of Llama 4 are kept below its `floor_scale` (BAD-140)."""
    monkeypatch.setitem(OTHERWISE, "llama4_text", OTHERWISE["llama4_text"] | keys)
    moved = apart("llama4_text", "sdpa")
    assert moved < ROUNDING if kept else moved > 10 * ROUNDING


@pytest.mark.parametrize("model_type", [name for name in MODEL_TYPES if name not in (*CAPPED, *HYBRIDS)])
def test_the_kernel_keeps_the_examples_of_every_other_model_apart(emitted: SimpleNamespace, model_type: str) -> None:
    assert apart(model_type, "torch_varlen") < ROUNDING


@pytest.mark.parametrize("model_type", HYBRIDS)
@pytest.mark.parametrize("attention", ["sdpa", "torch_varlen"])
def test_a_hybrid_does_not_run_packed_examples(emitted: SimpleNamespace, model_type: str, attention: str) -> None:
    with pytest.raises(ValueError, match="can't keep packed sequences apart without `causal_conv1d`"):
        apart(model_type, attention)


@pytest.mark.parametrize("model_type", CAPPED)
def test_a_model_that_the_kernel_does_not_compute_is_refused(emitted: SimpleNamespace, model_type: str) -> None:
    with pytest.raises(ValueError, match="no soft-capped scores and no attention sinks"):
        apart(model_type, "torch_varlen")


def test_a_row_that_does_not_say_where_examples_begin_is_refused(emitted: SimpleNamespace) -> None:
    import torch

    with pytest.raises(ValueError, match="where its examples begin"):
        model("llama", "torch_varlen")(input_ids=torch.tensor([[3, 4, 5]]))


def trained(folder: Path, model_type: str, attention: str, packing: bool) -> Any:
    """A trainer after steps over all rows, each of them one step."""
    from trl import SFTConfig, SFTTrainer

    model(model_type, "eager").save_pretrained(folder / "model")
    rows = Dataset.from_list([{"input_ids": ids, "labels": [-100, *ids[1:]]} for ids in examples() * 2])
    arguments = ARGUMENTS | {"max_steps": 3, "per_device_train_batch_size": 8, "max_length": 32, "packing": packing}
    arguments["model_init_kwargs"] = {"dtype": "float32", "attn_implementation": attention}
    config = SFTConfig(output_dir=str(folder / "out"), logging_strategy="steps", **arguments)
    trainer = SFTTrainer(str(folder / "model"), config, train_dataset=rows, processing_class=tokenizer())
    trainer.train()
    return trainer


def losses(trainer: Any) -> list[float]:
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "qwen3_moe"])
def test_packed_training_has_the_losses_of_padded_training(
    emitted: SimpleNamespace, tmp_path: Path, model_type: str
) -> None:
    padded = losses(trained(tmp_path / "padded", model_type, "eager", packing=False))
    assert len(padded) == 3 and padded[-1] < padded[0] - 0.1
    for attention in ("torch_varlen", "sdpa"):
        packed = trained(tmp_path / attention, model_type, attention, packing=True)
        assert len(packed.train_dataset) < len(LENGTHS) * 2
        assert losses(packed) == pytest.approx(padded, abs=1e-4)


@pytest.mark.parametrize(("model_type", "attention"), [("llama", "sdpa"), ("llama", "torch_varlen")])
def test_a_run_that_keeps_examples_apart_begins(
    emitted: SimpleNamespace, tmp_path: Path, model_type: str, attention: str
) -> None:
    emitted.preflight.check_apart(trained(tmp_path, model_type, attention, packing=True))


def test_a_model_that_leaks_is_stopped_before_step_one(emitted: SimpleNamespace, tmp_path: Path) -> None:
    trainer = trained(tmp_path, "gpt_oss", "eager", packing=True)
    with pytest.raises(SystemExit, match="attend to each other"):
        emitted.preflight.check_apart(trainer)


def test_a_kernel_that_passes_over_boundaries_is_stopped(
    emitted: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    trainer, kernel = trained(tmp_path, "llama", "torch_varlen", packing=True), emitted.packed_attention.varlen_attn

    def whole_row(query, key, value, *, cu_seq_q, cu_seq_k, max_q, max_k, **options):
        row = torch.tensor([0, len(query)], dtype=torch.int32)
        whole = {"cu_seq_q": row, "cu_seq_k": row, "max_q": len(query), "max_k": len(query)}
        return kernel(query, key, value, **whole, **options)

    monkeypatch.setattr(emitted.packed_attention, "varlen_attn", whole_row)
    with pytest.raises(SystemExit, match="attend to each other"):
        emitted.preflight.check_apart(trainer)
