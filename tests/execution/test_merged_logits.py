"""merge_adapter.py of every kind of adapter: the merged model answers as base and adapter do, or nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, Tables, good, texts, with_key
from emitted_modules import load
from tiny_models import SIZES, WORDS, save, tokenizer

from recipec.axes import LORA_VARIANTS

pytestmark = pytest.mark.executes
STORED: dict[str, dict[str, Any]] = {  # kind -> how its base is stored
    "lora-int8": {"load_in_8bit": True},
    "qlora": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
}
SMALL = {"qlora": (40, 1e-3), "lora-int8": (40, 1e-4)}  # steps and rate that move weights by less than rounding does
SHAPE = {"target_modules": "all-linear", "r": 8, "lora_alpha": 16, "task_type": "CAUSAL_LM"}


def adapted(folder: Path, kind: str, size: int = 0, steps: int = 3, rate: float = 0.05) -> tuple[Any, Any]:
    """A stand-in with an adapter that has learned for some steps, its result in `folder`; and its logits."""
    import torch
    from peft import IA3Config, LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    size = size or (64 if kind == "qlora" else 32)  # a block of 4-bit weights, which some processors take whole
    save(folder / "base", 0, model_type="llama", vocab_size=WORDS, hidden_size=size)
    stored = BitsAndBytesConfig(**STORED[kind]) if kind in STORED else None
    model = AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32, quantization_config=stored)
    scaled = {"target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"]}
    own = dict(LORA_VARIANTS[kind].arguments) if kind in LORA_VARIANTS else {}
    config = IA3Config(**scaled, task_type="CAUSAL_LM") if kind == "ia3" else LoraConfig(**SHAPE, **own)
    model, output = get_peft_model(model, config), folder / "outputs" / "sft"
    start = {"path_initial_model_for_weight_conversion": folder / "start"} if kind == "pissa" else {}
    model.save_pretrained(folder / "start")
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=rate)
    tokens = torch.arange(3, 67).view(4, 16)
    for _ in range(steps):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        found = model.eval()(input_ids=tokens).logits
    model.save_pretrained(output, **start)
    tokenizer().save_pretrained(output)
    (output / "finished.json").write_text("{}")
    return tokens, found


def followed_by_dpo(recipe: Tables) -> Tables:
    return with_key(with_key(recipe, "goal.task", "align"), "data.preferences", "pairs.jsonl")


def merging(folder: Path, monkeypatch: pytest.MonkeyPatch, base: str = "lora-single", followed: bool = False) -> Any:
    """The emitted script, whose bundle is `folder`; `followed`: of a stage that another goes on from."""
    script = folder / ("stages/1-sft" * followed) / "merge_adapter.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    (folder / "recipe").mkdir()
    recipe = followed_by_dpo(BASES[base]) if followed else BASES[base]
    script.write_text(texts(good(folder / "recipe", recipe))[script.relative_to(folder).as_posix()])
    module = load(script, monkeypatch)
    monkeypatch.setattr(module, "BASE", str(folder / "base"))
    monkeypatch.setattr(module, "PROBE", "w3 w9 w40 w41 w8 w77")  # the stand-in's tokenizer knows these words
    return module


@pytest.mark.parametrize("kind", ["standard", "rslora", "dora", "pissa", "ia3", "lora-int8", "qlora"])
def test_the_merged_model_answers_as_the_trained_one(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    tokens, trained = adapted(tmp_path, kind)
    merging(tmp_path, monkeypatch, kind if kind in BASES else "lora-single").main()
    assert "off those of base and adapter" in capsys.readouterr().out
    folders = (tmp_path / "outputs" / "sft" / "merged", tmp_path / "base")
    models = [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders]
    with torch.no_grad():
        merged, base = (model(input_ids=tokens).logits for model in models)
    learned = (trained - base).abs().mean()
    assert (merged - trained).abs().mean() < 0.2 * learned, "merged in bf16, which rounds each weight"


@pytest.mark.parametrize("kind", STORED)
def test_the_next_stage_starts_where_this_one_ended(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stores the merged model as this stage did its base: what was learned must not be rounded away."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    tokens, trained = adapted(tmp_path, kind, size=256, steps=SMALL[kind][0], rate=SMALL[kind][1])
    merging(tmp_path, monkeypatch, kind, followed=True).main()

    def loss(logits: Any) -> float:
        return float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()))

    def stored(folder: Path) -> float:
        options = {"dtype": torch.float32, "quantization_config": BitsAndBytesConfig(**STORED[kind])}
        with torch.no_grad():
            return loss(AutoModelForCausalLM.from_pretrained(folder, **options)(input_ids=tokens).logits)

    base, ended = stored(tmp_path / "base"), loss(trained)
    begins = stored(tmp_path / "outputs" / "sft" / "merged")
    assert base - begins > 0.75 * (base - ended), f"{base} before, {ended} after, {begins} where the next stage begins"


def test_a_merge_that_was_made_into_other_weights_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record of a merge has its way: the three scripts that read the merged model compare it."""
    adapted(tmp_path, "qlora")
    merge = merging(tmp_path, monkeypatch, "qlora", followed=True)
    bundle = texts(good(tmp_path / "recipe", followed_by_dpo(BASES["qlora"])))
    for name in ("stages/1-sft/evaluate.py", "stages/1-sft/rows.py", "stages/2-dpo/preflight.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(bundle[name])
    evaluate = load(tmp_path / "stages/1-sft/evaluate.py", monkeypatch)
    preflight = load(tmp_path / "stages/2-dpo/preflight.py", monkeypatch)
    script = (tmp_path / "stages/2-dpo/preflight.py").read_text()
    (asked,) = (line.strip() for line in script.splitlines() if "= merged_in(" in line)
    (merge.OUTPUT / "finished.json").write_text('{"result": "one"}')

    def start() -> str:
        return eval(asked.partition(" = ")[2], vars(preflight) | {"model": merge.MERGED})

    merge.main()
    assert start() == "one, merged into the unquantized base, in bfloat16"
    merge.main()
    assert "not merged again" in capsys.readouterr().out
    of_older = '{"result": "one"}', '{"result": "one", "merged_into": "the base dequantized from 4 bits, in bfloat16"}'
    for record in of_older:
        (merge.MERGED / "finished.json").write_text(record)
        for reads in (lambda: evaluate.marker("merged"), start):
            with pytest.raises(SystemExit, match=r"does not hold .* Run .*merge_adapter\.py"):
                reads()
        merge.main()
        assert "not merged again" not in capsys.readouterr().out
        assert evaluate.marker("merged") and start()


@pytest.mark.parametrize(("rate", "said"), [(0.05, "The adapter is not merged"), (1e-4, "has lost the adapter")])
def test_a_merge_that_loses_the_adapter_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float, said: str
) -> None:
    """Of a small update too, as preferences and rewards train: without it the outputs are off by less than 1%."""
    from peft import LoraModel

    adapted(tmp_path, "standard", rate=rate)
    monkeypatch.setattr(LoraModel, "merge_and_unload", LoraModel.unload)
    with pytest.raises(SystemExit, match=rf"{said}.* off those of base and adapter"):
        merging(tmp_path, monkeypatch).main()
    assert not (tmp_path / "outputs" / "sft" / "merged" / "config.json").exists()


@pytest.mark.parametrize(
    ("kind", "rate", "lost"), [("standard", 1e-4, True), ("ia3", 3e-4, True), ("dora", 0.01, False)]
)
def test_an_update_that_rounding_takes_away_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    rate: float,
    lost: bool,
) -> None:
    """Outputs in 16 bits differ by more than such an update changes, whether or not the merged weights hold it."""
    adapted(tmp_path, kind, size=256, rate=rate)
    merging(tmp_path, monkeypatch, kind if kind in BASES else "lora-single").main()
    said = capsys.readouterr().out
    assert "The adapter is merged into" in said
    assert ("of what the adapter adds to the weights. Serve the adapter" in said) is lost, said


def test_a_score_near_zero_is_no_reason_to_refuse_a_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounding is a large share of it, and reward models are trained to scores around 0."""
    import torch
    from peft import LoraConfig, LoraModel, get_peft_model
    from transformers import LlamaConfig, LlamaForSequenceClassification

    config = LlamaConfig(vocab_size=WORDS, hidden_size=32, num_labels=1, pad_token_id=0, **SIZES)
    LlamaForSequenceClassification(config).save_pretrained(tmp_path / "base")
    base = LlamaForSequenceClassification.from_pretrained(tmp_path / "base", dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(**SHAPE | {"task_type": "SEQ_CLS"}, modules_to_save=["score"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    module = merging(tmp_path, monkeypatch, "reward")
    words = tokenizer()
    tokens = words(module.PROBE, return_tensors="pt").input_ids
    with torch.no_grad():
        state = model(input_ids=tokens, output_hidden_states=True).hidden_states[-1][0, -1]
        head = model.base_model.model.score.modules_to_save["default"].weight
        head -= (head @ state) * state / state.dot(state)
    output = tmp_path / "outputs" / "reward"
    model.save_pretrained(output)
    words.save_pretrained(output)
    (output / "finished.json").write_text("{}")
    module.main()
    assert "off those of base and adapter" in capsys.readouterr().out
    (output / "finished.json").write_text('{"result": "another"}')
    whole = LoraModel.merge_and_unload

    def without_head(self: Any) -> Any:
        merged = whole(self)
        merged.score.weight.data.zero_()
        return merged

    monkeypatch.setattr(LoraModel, "merge_and_unload", without_head)
    with pytest.raises(SystemExit, match="the head of the merged model is not the trained one"):
        module.main()


@pytest.mark.parametrize("kind", STORED)
def test_a_quantized_base_is_merged_as_it_is_stored(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    adapted(tmp_path, kind)
    merging(tmp_path, monkeypatch, kind).main()

    def weight(folder: Path, **options: Any) -> Any:
        found = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
        return (found.dequantize(torch.float32) if options else found).model.layers[0].mlp.down_proj.weight

    stored_as = BitsAndBytesConfig(**STORED[kind])
    output, base = tmp_path / "outputs" / "sft", tmp_path / "base"
    with_adapter = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), output)
    learned = with_adapter.get_base_model().model.layers[0].mlp.down_proj.get_delta_weight("default")
    merged_into = weight(output / "merged") - learned
    stored, plain = weight(base, quantization_config=stored_as), weight(base)
    assert (merged_into - stored).abs().mean() < 0.5 * (merged_into - plain).abs().mean()
