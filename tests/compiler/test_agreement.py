"""Rows that contradict each other are refused by both names before anything is compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, OF_METHOD, compiled, with_key

from recipec.axes import ADAPTATIONS, METHODS, ROW_FORMATS, STRATEGIES, Pass
from recipec.axes.agreement import disagreements
from recipec.axes.method import HEADS, Default
from recipec.estimate.head import CODES

TABLES: dict[str, dict[str, Any]] = {
    "method": METHODS,
    "adaptation": ADAPTATIONS,
    "strategy": STRATEGIES,
    "format": ROW_FORMATS,
}
DPO, SFT = METHODS["dpo"], METHODS["sft"]
RATE = Default(1e-4, "made up", "made up", adaptations=("lora",))
BETA = DPO.own[0]

# axis, row, what is changed in it -> what the refusal says
CASES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "no reference": (
        "adaptation",
        "lora",
        {"reference": "none"},
        "method `dpo` compares with the model as it was at the start, and adaptation `lora`",
    ),
    "frozen random weights": (
        "method",
        "pretrain",
        {"adaptations": ("lora",)},
        "which adaptation `lora` leaves frozen",
    ),
    "unknown adaptation": ("method", "sft", {"adaptations": ("lora", "mystery")}, "adaptations names `mystery`"),
    "rate of no adaptation": ("method", "dpo", {"learning_rate": (replace(RATE, adaptations=()),)}, "does not say for"),
    "no rate": ("method", "dpo", {"learning_rate": (RATE,)}, "learning_rate has no value for adaptation `full`"),
    "no epochs": (
        "method",
        "sft",
        {"epochs": SFT.epochs[2:]},
        "epochs has no value for adaptation `lora` with <1K rows",
    ),
    "no batch": ("method", "sft", {"global_batch": ()}, "global_batch has no value for adaptation `full`"),
    "only small models": (
        "method",
        "dpo",
        {"learning_rate": (*DPO.learning_rate[:1], replace(DPO.learning_rate[1], params_below=1e9))},
        "learning_rate has no value for adaptation `full`",
    ),
    "unread condition": (
        "method",
        "sft",
        {"warmup": (RATE,)},
        "condition `adaptations`, which its rule does not look at",
    ),
    "value outside": ("method", "dpo", {"warmup": (Default(0.5, "", "", (0.0, 0.1)),)}, "warmup 0.5 is outside"),
    "unknown model of a pass": (
        "method",
        "dpo",
        {"passes": (*DPO.passes, Pass(model="critic", sequences=1, gradient=False, gives="tokens"))},
        "method `dpo`: passes names `critic`",
    ),
    "two models learn": ("method", "dpo", {"passes": DPO.passes[:1] * 2}, "from exactly one"),
    "unread kind": (
        "method",
        "dpo",
        {"kinds": ("text",)},
        "format `preference`, and its trainer does not read its kind",
    ),
    "blocks of whole rows": ("method", "sft", {"packs": "blocks"}, "packs `blocks`, and its block_tokens are None"),
    "unknown section": ("method", "dpo", {"section": "prompts"}, "section names `prompts`"),
    "unknown order": ("method", "dpo", {"preferred": ("full", "ia3")}, "preferred names `ia3`"),
    "unknown head": ("method", "dpo", {"head": "chunkd"}, "method `dpo`: head names `chunkd`"),
    "unknown loss": ("method", "dpo", {"loss": "odd"}, "method `dpo`: loss names `odd`"),
    "unknown output": ("method", "dpo", {"loss_outputs": ("logps",)}, "loss_outputs names `logps`"),
    "unknown proof": ("method", "dpo", {"proof": ("margin_rises",)}, "proof names `margin_rises`"),
    "own value": ("method", "dpo", {"own": (replace(BETA, value=50),)}, "DPO-001 has the value 50"),
    "own range": ("method", "dpo", {"own": (replace(BETA, accepts=(0.0, 50.0)),)}, "DPO-001 accepts (0.0, 50.0)"),
    "own change": (
        "method",
        "kto",
        {"own": (replace(METHODS["kto"].own[1], changes={"mystery": {}}),)},
        "KTO-002 changes names `mystery`",
    ),
    "unknown base": ("adaptation", "qlora", {"base": "nf3"}, "adaptation `qlora`: base names `nf3`"),
    "same base": ("adaptation", "qlora", {"base": "none"}, "mean all of lora, qlora"),
    "nothing above": ("adaptation", "lora", {"above": "dora"}, "adaptation `lora`: above names `dora`"),
    "unknown engine": ("strategy", "fsdp", {"engine": "megatron"}, "strategy `fsdp`: engine names `megatron`"),
    "unknown shard": (
        "strategy",
        "zero3",
        {"shards": frozenset({"weight"})},
        "strategy `zero3`: shards names `weight`",
    ),
    "unknown offload": ("strategy", "zero2", {"offloads": ("nvme",)}, "strategy `zero2`: offloads names `nvme`"),
    "format of no kind": ("format", "chat", {"kind": "talks"}, "format `chat`: kind names `talks`"),
    "usual for another": ("format", "chat", {"usual": "dpo"}, "usual for method `dpo`, which does not take it"),
}


def test_the_rows_agree() -> None:
    assert list(disagreements()) == []


@pytest.mark.parametrize("case", CASES)
def test_a_contradiction_is_told_with_both_names(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    axis, name, changes, expected = CASES[case]
    monkeypatch.setitem(TABLES[axis], name, replace(TABLES[axis][name], **changes))
    found = list(disagreements())
    assert any(expected in sentence for sentence in found), found


def test_every_method_has_a_recipe_in_the_tests() -> None:
    assert OF_METHOD.keys() == METHODS.keys()


def test_every_name_of_a_code_is_that_of_a_code() -> None:
    """Heads are read by the estimates; losses and proofs run torch: tests/simulate, tests/verify."""
    assert set(HEADS) <= CODES.keys()


def test_named_rows_without_a_reader_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that nothing runs before leaves rows of another kind to nobody."""
    monkeypatch.setitem(METHODS, "dpo", replace(DPO, after=()))
    both = with_key(BASES["sft-dpo"], "alignment.method", "dpo")
    found = compiled(tmp_path, both, only_plan=True)
    assert {diagnostic.code for diagnostic in found.diagnostics} == {"E0401"}
    assert "has no stage that reads them" in str(found.diagnostics)


def test_a_value_of_its_own_may_not_make_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    kto = METHODS["kto"]
    loss = replace(kto.own[1], changes={"apo_zero_unpaired": {"passes": ()}})
    monkeypatch.setitem(METHODS, "kto", replace(kto, own=(kto.own[0], loss, *kto.own[2:])))
    assert any("method `kto` learns from the passes of []" in sentence for sentence in disagreements())


def test_nothing_is_compiled_with_rows_that_contradict_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADAPTATIONS, "lora", replace(ADAPTATIONS["lora"], reference="none"))
    found = compiled(tmp_path, BASES["lora-single"])
    assert {diagnostic.code for diagnostic in found.diagnostics} == {"E0801"}
    assert not found.files and found.plan is None
