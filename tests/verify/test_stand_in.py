"""The stand-in of every supported model type loads as the real class and has the real structure."""

from __future__ import annotations

from pathlib import Path

import pytest
from emitted import built, copy_of
from msgspec.structs import replace

from recipec.axes import METHODS, Pass
from recipec.catalog.configs import architecture_from_config
from recipec.catalog.model_types import MODEL_TYPES
from recipec.catalog.models import Model, model, model_names
from recipec.catalog.templates import templates
from recipec.verify.bundle import Bundle, read_bundle
from recipec.verify.data import place_data
from recipec.verify.stand_in import (
    NoStandIn,
    hub_folder,
    models_of,
    place_models,
    stand_in_tokenizer,
    template_text,
    write_stand_in,
)

TEXTS = ["the boat follows the castle", "certainly boat number 7"]
FAMILIES = sorted({found.template_family for name in model_names() if (found := model(name)) and found.template_family})


def real(model_type: str) -> Model:
    """A model of the type as large as real ones, with every optional part."""
    row = MODEL_TYPES[model_type]
    layers = 24
    config = {
        "model_type": model_type,
        "hidden_size": 2048,
        row.intermediate: 8192,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 8192,
        "sliding_window": 1024,
        "use_sliding_window": True,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "tie_word_embeddings": True,
    }
    if row.pattern and row.pattern.key:
        config |= {row.pattern.key: list(row.pattern.kinds) * (layers // len(row.pattern.kinds))}
    elif row.mixer:
        config |= {"layer_types": [row.mixer.layer_type, "full_attention"] * (layers // 2)}
    if row.chunks:
        del config["layer_types"]
    if row.whole:
        config |= {key.name: type(key.default)(0) for key in row.whole.unbuilt}
    if row.layer_inputs:
        config |= {row.layer_inputs.vocabulary.name: config["vocab_size"]}
    if row.moe:
        config |= {row.moe.count: 64, row.moe.per_token: 8, row.moe.intermediate: 512}
        config |= {row.moe.switch.name: True} if row.moe.switch else {}
        config |= {key: 1 for key in (row.moe.shared_count, row.moe.dense_first) if key}
        config |= {row.moe.shared: 1024} if row.moe.shared else {}
    return Model("org/name", "base", architecture_from_config(config), stop_tokens=("</s>",))


def llama(folder: Path, template: str | None = None) -> None:
    """A stand-in for a Llama in `folder`."""
    known = real("llama")
    write_stand_in(known, stand_in_tokenizer(known, TEXTS, template), folder)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_stand_in_has_the_structure_of_its_model(tmp_path: Path, model_type: str) -> None:
    from transformers import AutoModelForCausalLM

    known = real(model_type)
    write_stand_in(known, stand_in_tokenizer(known, TEXTS, None), tmp_path)
    network = AutoModelForCausalLM.from_pretrained(tmp_path)
    shape = known.architecture
    classes = {type(module).__name__ for module in network.modules()}
    assert shape.decoder_layer in classes
    assert shape.moe is None or shape.moe.block in classes
    assert network.config.tie_word_embeddings == shape.tie_embeddings
    assert network.num_parameters() < 1_000_000
    names = [name for name, _ in network.named_parameters()]
    attention = [name for name in names if "self_attn" in name or ".attention." in name]
    assert any(name.endswith("bias") for name in attention) == (shape.attention_bias or shape.output_bias)
    assert any("q_norm" in name or "q_layernorm" in name for name in names) == (shape.qk_norm not in (None, "unit"))


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "microsoft/phi-4"])
def test_a_catalog_model_keeps_its_ratios(tmp_path: Path, name: str) -> None:
    from transformers import AutoConfig

    known = model(name)
    assert known is not None
    write_stand_in(known, stand_in_tokenizer(known, TEXTS, None), tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    shape = known.architecture
    grouped = shape.num_kv_heads < shape.num_heads
    assert (config.num_key_value_heads < config.num_attention_heads) == grouped
    assert config.tie_word_embeddings == shape.tie_embeddings


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_renders_its_family_with_whole_markers(family: str) -> None:
    found = next(found for name in model_names() if (found := model(name)) and found.template_family == family)
    tokenizer = stand_in_tokenizer(found, TEXTS, template_text(family, "chat"))
    talk = [{"role": "user", "content": "the boat"}, {"role": "assistant", "content": "the castle"}]
    tokens = tokenizer.apply_chat_template(talk, return_dict=True)["input_ids"]
    assert tokenizer.chat_template == template_text(family, "chat")
    assert "the castle" in tokenizer.decode(tokens)
    assert tokenizer.eos_token == found.stop_tokens[0]
    assert tokenizer.convert_tokens_to_ids(templates()[family].end) in tokens, "a turn ends"


def test_a_base_model_has_no_template_and_its_family_s_leading_token() -> None:
    found = model("meta-llama/Llama-3.1-8B")
    assert found is not None
    tokenizer = stand_in_tokenizer(found, TEXTS, None)
    assert tokenizer.chat_template is None
    assert tokenizer("boat")["input_ids"][0] == tokenizer.bos_token_id


@pytest.mark.parametrize("revision", [None, "v1.0", "a" * 40])
def test_loaders_find_the_stand_in_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str | None
) -> None:
    from transformers import AutoConfig

    llama(hub_folder(tmp_path, "org/name", revision))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    config = AutoConfig.from_pretrained("org/name", revision=revision or "main", cache_dir=tmp_path)
    assert config.num_hidden_layers == 2


def local_bundle(folder: Path) -> Bundle:
    """A bundle whose recipe names the model ./own."""
    bundle = copy_of("sft-lora", folder)
    stage = replace(bundle.last, decisions=dict(bundle.last.decisions) | {"model": "./own"})
    return replace(bundle, stages=(stage,))


@pytest.mark.parametrize("tiny", [True, False])
def test_a_local_folder_is_used_when_tiny_and_else_stood_in_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: bool
) -> None:
    template = template_text("qwen3", "chat")
    llama(tmp_path / "real" / "own", template)
    if not tiny:
        with (tmp_path / "real" / "own" / "more.safetensors").open("wb") as file:
            file.truncate(65 * 2**20)
    monkeypatch.setenv("DATA_ROOT", str(tmp_path / "real"))
    said = place_models(local_bundle(tmp_path), tmp_path / "sandbox", TEXTS)
    assert said.startswith("itself" if tiny else "a random llama")
    assert (tmp_path / "sandbox/data/own/chat_template.jinja").read_text() == template


def test_a_stand_in_has_the_token_that_ends_turns_of_the_chosen_template() -> None:
    found = model("01-ai/Yi-6B")
    assert found is not None
    end = "<|im_end|>"
    for marks in ((), (end,)):
        tokenizer = stand_in_tokenizer(found, TEXTS, None, marks=marks)
        last = tokenizer(f"So.{end}", add_special_tokens=False)["input_ids"][-1]
        assert (tokenizer.decode(last) == end) is bool(marks)


def test_pretraining_finds_no_weights(tmp_path: Path) -> None:
    said = place_models(read_bundle(built("from-scratch")), tmp_path, TEXTS)
    assert said.startswith("the configuration and tokenizer of a random gpt_neox")
    (snapshot,) = (tmp_path / "hub").glob("models--*/snapshots/*")
    files = {path.name for path in snapshot.iterdir()}
    assert {"config.json", "tokenizer.json"} <= files
    assert not [name for name in files if name.endswith(".safetensors")]


def beside(monkeypatch: pytest.MonkeyPatch, role: str, gives: str, name: str) -> Bundle:
    """A bundle of a method with a further model."""
    part = Pass(model=role, sequences=1, gradient=False, gives=gives)
    made = built("sft-lora")  # before the row changes, which no longer agrees with its loss
    monkeypatch.setitem(METHODS, "sft", replace(METHODS["sft"], passes=(*METHODS["sft"].passes, part)))
    bundle = read_bundle(made)
    stage = replace(bundle.last, decisions={**bundle.last.decisions, role: name, f"{role}_revision": "v2"})
    return replace(bundle, stages=(stage,))


def snapshot(root: Path, name: str) -> Path:
    (folder,) = (root / "hub" / f"models--{name.replace('/', '--')}").glob("snapshots/*")
    return folder


def test_a_teacher_has_its_own_structure_and_the_student_s_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    bundle = beside(monkeypatch, "teacher", "tokens", "meta-llama/Llama-3.1-8B-Instruct")
    said = place_models(bundle, tmp_path, TEXTS)
    student, teacher = (snapshot(tmp_path, named.name) for named in models_of(bundle))
    assert "; as teacher a random llama" in said
    assert AutoModelForCausalLM.from_pretrained(teacher).config.model_type == "llama"
    tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in (student, teacher)]
    assert tokenizers[0].get_vocab() == tokenizers[1].get_vocab()
    assert (teacher.parents[1] / "refs" / "v2").is_file()


def test_a_reward_model_scores_and_has_its_own_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    bundle = beside(monkeypatch, "reward", "score", "meta-llama/Llama-3.1-8B-Instruct")
    place_models(bundle, tmp_path, TEXTS)
    policy, reward = (snapshot(tmp_path, named.name) for named in models_of(bundle))
    assert AutoModelForSequenceClassification.from_pretrained(reward).config.num_labels == 1
    assert AutoTokenizer.from_pretrained(policy).eos_token != AutoTokenizer.from_pretrained(reward).eos_token


def test_a_model_that_cannot_score_is_named(tmp_path: Path) -> None:
    known = real("granite")
    with pytest.raises(NoStandIn, match="AutoModelForSequenceClassification of granite"):
        write_stand_in(known, stand_in_tokenizer(known, TEXTS, None), tmp_path, scores=True)


def test_an_absent_local_folder_cannot_be_stood_in_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_ROOT", str(tmp_path))
    with pytest.raises(NoStandIn):
        place_models(local_bundle(tmp_path), tmp_path / "sandbox", TEXTS)


def test_data_is_placed_where_the_bundle_reads_it(tmp_path: Path) -> None:
    placed = place_data(read_bundle(built("sft-dpo")), tmp_path / "data", tmp_path / "hub", 20)
    assert {path.name for path in (tmp_path / "data" / "data").iterdir()} == {"chat.jsonl", "pairs.jsonl"}
    assert len(placed.texts) == 40
