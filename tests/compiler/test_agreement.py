"""Rows that contradict each other are refused by both names before anything is compiled."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, OF_METHOD, compiled, toml, with_key, write_data
from msgspec.structs import replace

from recipec.axes import ADAPTATIONS, KINDS, METHODS, NAMED_MODELS, ROW_FORMATS, SECTIONS, STRATEGIES, Pass
from recipec.axes.agreement import disagreements
from recipec.axes.attention import ATTENTIONS
from recipec.axes.bases import BASES as STORED
from recipec.axes.hyperparameters import READ_BY_FORMULAS, Default
from recipec.axes.method import HEADS
from recipec.axes.strategies import ENGINES
from recipec.catalog.stack import stack
from recipec.estimate.head import CODES
from recipec.rules import preference

TABLES: dict[str, dict[str, Any]] = {
    "method": METHODS,
    "adaptation": ADAPTATIONS,
    "strategy": STRATEGIES,
    "engine": ENGINES,
    "format": ROW_FORMATS,
    "kind": KINDS,
    "base": STORED,
    "section": SECTIONS,
    "model": NAMED_MODELS,
    "attention": ATTENTIONS,
}
DPO, SFT, KTO, DISTILL = METHODS["dpo"], METHODS["sft"], METHODS["kto"], METHODS["distill"]
LEARNED, SCORED = DPO.passes
TEACHER = DISTILL.passes[0]
CHAT, COMPLETION = ROW_FORMATS["chat"], ROW_FORMATS["prompt-completion"]
RATE = Default(1e-4, "made up", "made up", adaptations=("lora",))
BETA, RANK = DPO.own[0], DPO.lora_rank[-1]

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
    "unknown section": ("method", "dpo", {"section": "questions"}, "section names `questions`"),
    "unknown order": ("method", "dpo", {"preferred": ("full", "vera")}, "preferred names `vera`"),
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
    # methods: micro batches and passes
    "no example": ("method", "sft", {"least_micro_batch": 0}, "least_micro_batch is 0"),
    "no sequence": (
        "method",
        "dpo",
        {"passes": (LEARNED, replace(SCORED, sequences=0))},
        "method `dpo`: a pass of the `reference` is over 0 sequences",
    ),
    "reference of one of two answers": (
        "method",
        "dpo",
        {"passes": (LEARNED, replace(SCORED, sequences=1))},
        "the `reference` gives tokens for 1 sequences, and the `policy` it is compared with tokens for 2",
    ),
    "reference of one of two passes": (
        "method",
        "kto",
        {"passes": KTO.passes[:3]},
        "the `reference` gives tokens for 1 sequences, and the `policy` it is compared with tokens for 2",
    ),
    "teacher of half": (
        "method",
        "distill",
        {"passes": (TEACHER, replace(DISTILL.passes[1], sequences=2))},
        "the `teacher` gives tokens for 1 sequences, and the `policy` it is compared with tokens for 2",
    ),
    "reference that scores": (
        "method",
        "dpo",
        {"passes": (LEARNED, replace(SCORED, gives="score"))},
        "the `reference` gives score for 2 sequences",
    ),
    # methods: loss, head, and what is loaded
    "pairs without a reference": (
        "method",
        "dpo",
        {"passes": (LEARNED,)},
        "its loss `pairs` compares with the `reference`, and passes has none of it",
    ),
    "labels without a reference": (
        "method",
        "kto",
        {"passes": (KTO.passes[1],)},
        "its loss `unpaired` compares with the `reference`, and passes has none of it",
    ),
    "divergence from nothing": (
        "method",
        "distill",
        {"passes": SFT.passes},
        "its loss `divergence` compares with the `teacher`, and passes has none of it",
    ),
    "divergence from the start": (
        "method",
        "distill",
        {"passes": (replace(SCORED, sequences=1), *SFT.passes)},
        "its loss `divergence` compares with the `teacher`, and passes has none of it",
    ),
    "reference for nothing": (
        "method",
        "sft",
        {"passes": (*SFT.passes, replace(SCORED, sequences=1))},
        "passes has one of the `reference`, with which its loss `supervised` does not compare",
    ),
    "teacher for nothing": (
        "method",
        "sft",
        {"passes": (TEACHER, *SFT.passes)},
        "passes has one of the `teacher`, with which its loss `supervised` does not compare",
    ),
    "loss of another head": (
        "method",
        "reward",
        {"loss": "supervised"},
        "its loss `supervised` has the head `chunked`, which is for tokens, and its passes learn from score",
    ),
    "ranking by tokens": (
        "method",
        "dpo",
        {"loss": "ranking"},
        "its loss `ranking` has the head `scalar`, which is for score, and its passes learn from tokens",
    ),
    "a class that writes scores": (
        "method",
        "reward",
        {"auto_class": "AutoModelForCausalLM"},
        "its auto_class `AutoModelForCausalLM` gives tokens, and its passes learn from score",
    ),
    "a class of nothing": ("method", "sft", {"auto_class": "AutoModel"}, "auto_class names `AutoModel`"),
    "scores without a head": ("method", "reward", {"new_head": ""}, "learn from score, and its new_head is ``"),
    "a head for tokens": ("method", "sft", {"new_head": "score"}, "learn from tokens, and its new_head is `score`"),
    # methods: order
    "after itself": ("method", "dpo", {"after": ("dpo",)}, "method `dpo` runs after method `dpo`, which METHODS"),
    "after each other": ("method", "sft", {"after": ("dpo",)}, "method `sft` runs after method `dpo`, which METHODS"),
    "after one with the same rows": (
        "method",
        "dpo",
        {"section": "train"},
        "method `dpo` runs after method `sft`, and both learn from data.train",
    ),
    "preferred twice": ("method", "dpo", {"preferred": ("lora", "full", "lora")}, "preferred names `lora` 2 times"),
    "format twice": ("method", "sft", {"formats": (*SFT.formats, "chat")}, "formats names `chat` 2 times"),
    # methods: their own hyperparameters
    "no beta": (
        "method",
        "dpo",
        {"own": DPO.own[1:]},
        "own has nothing for the argument `beta`, which its loss `pairs` needs",
    ),
    "no loss": (
        "method",
        "kto",
        {"own": ()},
        "own has nothing for the argument `loss_type`, which its loss `unpaired` needs",
    ),
    "no temperature": ("method", "distill", {"own": DISTILL.own[:1]}, "own has nothing for the argument `temperature`"),
    "own twice": (
        "method",
        "dpo",
        {"own": (*DPO.own, BETA)},
        "own has DPO-001 and DPO-001 with the same id, `DPO-001`",
    ),
    "own key twice": (
        "method",
        "dpo",
        {"own": (*DPO.own, replace(BETA, id="DPO-009", name="other", argument="other"))},
        "own has DPO-001 and DPO-009 with the same key, `beta`",
    ),
    "own name twice": (
        "method",
        "dpo",
        {"own": (*DPO.own, replace(BETA, id="DPO-009", key="other", argument="other"))},
        "own has DPO-001 and DPO-009 with the same name, `beta`",
    ),
    "own argument twice": (
        "method",
        "dpo",
        {"own": (*DPO.own, replace(BETA, id="DPO-009", key="other", name="other"))},
        "own has DPO-001 and DPO-009 with the same argument, `beta`",
    ),
    "own without bounds": (
        "method",
        "dpo",
        {"own": (replace(BETA, most=None), DPO.own[1])},
        "DPO-001 is a number with the bounds above and most, or a name with values, and it is neither",
    ),
    "own with both": ("method", "dpo", {"own": (replace(BETA, values={"a": "b"}), DPO.own[1])}, "and it is neither"),
    "own key of two kinds": (
        "method",
        "dpo",
        {"own": (replace(DPO.own[1], key="beta"), replace(BETA, key="loss"))},
        "methods `dpo` and `kto` share the key `beta`, which is a number for one of DPO-002 and KTO-001",
    ),
    "own without a reason": ("method", "dpo", {"own": (replace(BETA, because=" "), DPO.own[1])}, "because is empty"),
    "own that changes what is no field": (
        "method",
        "kto",
        {"own": (KTO.own[0], replace(KTO.own[1], changes={"kto": {"pases": ()}}), *KTO.own[2:])},
        "method `kto`: KTO-002 changes, of `kto`, names `pases`, which is not in CHANGEABLE",
    ),
    "own that changes what is asked for without it": (
        "method",
        "kto",
        {"own": (KTO.own[0], replace(KTO.own[1], changes={"kto": {"sampling": "random"}}), *KTO.own[2:])},
        "method `kto`: KTO-002 changes, of `kto`, names `sampling`, which is not in CHANGEABLE",
    ),
    "own that brings a model": (
        "method",
        "kto",
        {"own": (KTO.own[0], replace(KTO.own[1], changes={"kto": {"passes": DISTILL.passes}}), *KTO.own[2:])},
        "KTO-002 changes passes, of `kto`, to those of a `teacher`, which the row does not have",
    ),
    "own of another": (
        "method",
        "dpo",
        {"own": (replace(BETA, id="KTO-001"), DPO.own[1])},
        "methods `dpo` and `kto` have different hyperparameters with the id KTO-001",
    ),
    "own name in an unknown tool": (
        "method",
        "dpo",
        {"own": (replace(BETA, elsewhere={"unsloth": ("beta",)}), DPO.own[1])},
        "DPO-001 elsewhere names `unsloth`, which is not in the tools (trl, axolotl, llama_factory, typed)",
    ),
    "own that is a model": (
        "method",
        "dpo",
        {"own": (replace(BETA, key="teacher"), DPO.own[1])},
        "DPO-001 has the key `teacher`, by which [alignment] names a model",
    ),
    "unknown formula": (
        "method",
        "dpo",
        {"own": (replace(BETA, formula="share"), DPO.own[1])},
        "DPO-001 formula names `share`",
    ),
    "formula before what it reads": (
        "method",
        "kto",
        {"own": (*KTO.own[:2], KTO.own[3], KTO.own[2])},
        "the formula `weight of wanted` of KTO-004 reads `undesirable_weight`, which own does not have before it",
    ),
    # methods: adapters
    "no rank": ("method", "dpo", {"lora_rank": ()}, "lora_rank has no value for adaptation `lora`"),
    "rank of nothing": (
        "method",
        "dpo",
        {"lora_rank": (replace(RANK, value=0, accepts=(0, 64)),)},
        "lora_rank 0 accepts 0 to 64: ranks of `lora`, `qlora`, `lora-int8` begin with 1",
    ),
    "rank between two": (
        "method",
        "dpo",
        {"lora_rank": (replace(RANK, value=16.5),)},
        "lora_rank 16.5 accepts 16 to 64: ranks of `lora`, `qlora`, `lora-int8` begin with 1",
    ),
    "rank without a range": (
        "method",
        "dpo",
        {"lora_rank": (replace(RANK, accepts=None),)},
        "lora_rank 16 does not say what it accepts",
    ),
    "no alpha": (
        "method",
        "dpo",
        {"lora_alpha_most": 0},
        "its lora_alpha_most is 0, and `lora`, `qlora`, `lora-int8` begins with 32",
    ),
    "alpha below its rank's": (
        "method",
        "dpo",
        {"lora_alpha_most": 63},
        "is 63, and `lora`, `qlora`, `lora-int8` begins with 64",
    ),
    "all dropped": (
        "method",
        "dpo",
        {"lora_dropout": (replace(DPO.lora_dropout[0], value=1.0),)},
        "lora_dropout 1 is no share",
    ),
    "rank of no adapter": (
        "method",
        "pretrain",
        {"lora_rank": (RANK,)},
        "it has lora_rank, and runs with no adaptation that reads it",
    ),
    "alpha of no adapter": ("method", "pretrain", {"lora_alpha_most": 16}, "it has lora_alpha_most, and runs with no"),
    # methods: names, reasons, proofs
    "same alignment": ("method", "kto", {"alignment": "dpo"}, "methods `dpo` and `kto` have the same alignment, `dpo`"),
    "no alignment beside another": (
        "method",
        "kto",
        {"alignment": ""},
        "methods `dpo` and `kto` both fulfil the task `align`, and `kto` has no alignment to be named by",
    ),
    "task of two": (
        "method",
        "distill",
        {"task": "instruct", "alignment": "distill"},
        "methods `sft` and `distill` both fulfil the task `instruct`, and SHARED_TASKS does not say",
    ),
    "adaptation left out": (
        "method",
        "sft",
        {"adaptations": tuple(name for name in ADAPTATIONS if name != "qlora")},
        "method `sft`: it leaves out adaptation `qlora`, and adaptations_because is empty",
    ),
    "reason for nothing": (
        "method",
        "sft",
        {"adaptations_because": "made up"},
        "adaptations_because explains what the row does not say: made up",
    ),
    "order without a reason": ("method", "dpo", {"preferred_because": " "}, "and preferred_because is empty"),
    "packing without a reason": (
        "method",
        "dpo",
        {"packs_because": ""},
        "it packs `never`, and packs_because is empty",
    ),
    "micro batch without a reason": (
        "method",
        "kto",
        {"least_micro_batch_because": ""},
        "its least_micro_batch is 2, and least_micro_batch_because is empty",
    ),
    "sampling without a reason": ("method", "sft", {"sampling_because": ""}, "`sft`: sampling_because is empty"),
    "no source": ("method", "sft", {"source": ""}, "method `sft`: source is empty"),
    "value without a source": (
        "method",
        "sft",
        {"weight_decay": (replace(SFT.weight_decay[0], source=""),)},
        "method `sft`: weight_decay 0.01: source is empty",
    ),
    "strategy without a reason": ("strategy", "ddp", {"because": ""}, "strategy `ddp`: because is empty"),
    "column without a reason": ("method", "reward", {"unread": {"margin": ""}}, "unread says nothing of `margin`"),
    "column that is read": (
        "method",
        "reward",
        {"unread": {"chosen": "made up"}},
        "unread has the column `chosen`, which a kind of row that its trainer reads has",
    ),
    "no adaptation": ("method", "sft", {"adaptations": (), "adaptations_because": "made up"}, "adaptations is empty"),
    "one adaptation of no order": (
        "method",
        "pretrain",
        {"preferred": (), "preferred_because": ""},
        "it runs with adaptation `full` alone, and preferred is empty",
    ),
    "outputs of a score": (
        "method",
        "reward",
        {"loss_outputs": ("log_probs",)},
        "has the head `scalar`, which gives scores, and loss_outputs asks for log_probs",
    ),
    "tokens without log-probabilities": (
        "method",
        "sft",
        {"loss_outputs": ("entropy",)},
        "is computed from `log_probs`, and loss_outputs does not ask for them",
    ),
    "no proof": ("method", "sft", {"proof": ()}, "method `sft`: proof is empty"),
    "proof of what is not logged": (
        "method",
        "sft",
        {"proof": ("margins_rise",)},
        "its proof `margins_rise` looks at `rewards/margins`, which its metrics do not have",
    ),
    "proof of another loss": (
        "method",
        "dpo",
        {"proof": ("divergence_falls",)},
        "its proof `divergence_falls` is of the `teacher`, with which its loss does not compare",
    ),
    # words of other tools
    "task meant twice": (
        "method",
        "kto",
        {"elsewhere": ("dpo",)},
        "method `kto`: elsewhere has `dpo`, which means method `dpo`",
    ),
    "another's name": (
        "strategy",
        "ddp",
        {"elsewhere": ("fsdp",)},
        "`ddp`: elsewhere has `fsdp`, which means strategy `fsdp`",
    ),
    "adaptation meant twice": (
        "adaptation",
        "full",
        {"elsewhere": ("peft",)},
        "`full`: elsewhere has `peft`, which means adaptation `lora`",
    ),
    "format meant twice": (
        "format",
        "text",
        {"elsewhere": ("alpaca",)},
        "`text`: elsewhere has `alpaca`, which means format `instruction`",
    ),
    "a word twice": ("format", "text", {"elsewhere": ("raw", "raw")}, "elsewhere names `raw` 2 times"),
    # adaptations
    "whole without adapter": (
        "adaptation",
        "full",
        {"reference": "adapter-off"},
        "adaptation `full` trains every weight, and its reference `adapter-off`",
    ),
    "whole on few bits": ("adaptation", "full", {"base": "nf4"}, "trains every weight, and base `nf4` is quantized"),
    "whole with a table": ("adaptation", "full", {"table": "lora"}, "trains every weight, and its table `lora`"),
    "whole with a config": ("adaptation", "full", {"config": "LoraConfig"}, "weight, and its config `LoraConfig`"),
    "adapter of no class": ("adaptation", "lora", {"config": ""}, "`lora` trains an adapter, and its config is empty"),
    "adapter of no table": ("adaptation", "qlora", {"table": ""}, "`qlora` trains matrices, and its table is ``"),
    "vectors of a table": ("adaptation", "ia3", {"table": "lora"}, "`ia3` trains scales, and its table is `lora`"),
    "prompt that merges": ("adaptation", "prompt-tuning", {"merges": True}, "trains prompts, and merges is True"),
    "unknown part": ("adaptation", "ia3", {"trains": "bias"}, "trains names `bias`"),
    "unknown tables": ("adaptation", "ia3", {"tables": "vera"}, "tables names `vera`"),
    "rate without a reason": ("adaptation", "ia3", {"rate_because": ""}, "its rate is 40 x another's"),
    "adapter of nobody": ("adaptation", "lora", {"packages": ()}, "trains an adapter, and its packages is empty"),
    "adapter that stays one": ("adaptation", "lora", {"merges": False}, "trains matrices, and merges is False"),
    "whole that is merged": ("adaptation", "full", {"merges": True}, "trains every weight, and merges is True"),
    "above itself": ("adaptation", "lora", {"above": "lora"}, "`lora`: above leads back to it, by way of lora"),
    "above each other": (
        "adaptation",
        "full",
        {"above": "lora"},
        "`full`: above leads back to it",
    ),
    # strategies
    "no strategy of one rank": ("strategy", "single", {"engine": "ddp"}, "no strategy is for one rank"),
    "groups of nothing": ("strategy", "hsdp", {"shards": frozenset()}, "hold all shards, and shards is empty"),
    "shards of one process": (
        "strategy",
        "zero1",
        {"engine": "none"},
        "strategy `zero1` shards optimizer, and engine `none` shards nothing",
    ),
    "shards of copies": (
        "strategy",
        "ddp",
        {"shards": frozenset({"optimizer", "gradients", "weights"})},
        "strategy `ddp` shards optimizer, gradients, weights, and engine `ddp` shards nothing",
    ),
    "shards of no stage": (
        "strategy",
        "zero1",
        {"shards": frozenset()},
        "engine `deepspeed` shards optimizer or optimizer, gradients or optimizer, gradients, weights",
    ),
    "part of FSDP": (
        "strategy",
        "fsdp",
        {"shards": frozenset({"optimizer"})},
        "strategy `fsdp` shards optimizer, and engine `fsdp` shards optimizer, gradients, weights",
    ),
    "weights alone": (
        "strategy",
        "fsdp",
        {"shards": frozenset({"weights"})},
        "strategy `fsdp` shards the weights and not the gradients",
    ),
    "gradients alone": (
        "strategy",
        "zero2",
        {"shards": frozenset({"gradients"})},
        "strategy `zero2` shards the gradients and not the optimizer",
    ),
    # kinds and formats
    "taught elsewhere": ("kind", "pairs", {"taught": ("answer",)}, "kind `pairs`: taught names `answer`"),
    "scored elsewhere": ("kind", "pairs", {"scored": "answer"}, "kind `pairs`: scored names `answer`"),
    "flag elsewhere": ("kind", "unpaired", {"flag": "vote"}, "kind `unpaired`: flag names `vote`"),
    "nothing taught": (
        "kind",
        "chat",
        {"taught": ()},
        "method `sft` reads the kind `chat`, which holds nothing that is",
    ),
    "no roles": ("format", "chat", {"roles": ()}, "format `chat`: no role is required"),
    "no required role": (
        "format",
        "chat",
        {"roles": (replace(CHAT.roles[0], required=False),)},
        "format `chat`: no role is required",
    ),
    "role of no column": (
        "format",
        "chat",
        {"roles": (replace(CHAT.roles[0], becomes="turns"),)},
        "format `chat`: roles names `turns`",
    ),
    "implicit of nothing": ("format", "preference", {"implicit": "system"}, "`preference`: implicit names `system`"),
    "learned part of nothing": ("format", "chat", {"loss_on": "user"}, "format `chat`: loss_on names `user`"),
    "fewer than no answers": ("format", "chat", {"answers": -1}, "format `chat`: answers is -1"),
    "one answer unrolled": ("format", "preference", {"answers": 1}, "unrolled is `unpaired`, and answers is 1"),
    "answers of nothing": ("format", "text", {"answers": 2}, "format `text`: unrolled is ``, and answers is 2"),
    "messages without turns": ("format", "prompt-completion", {"turns": False}, "turns says that no chat template"),
    "unrolled to itself": ("format", "preference", {"unrolled": "pairs"}, "unrolled is `pairs`, which is its kind"),
    "hidden by the same roles": (
        "format",
        "prompt-completion",
        {"roles": ROW_FORMATS["instruction"].roles},
        "format `prompt-completion`: all of its rows are of format `instruction` too",
    ),
    "hidden by fewer roles": (
        "format",
        "unpaired-preference",
        {"roles": (*COMPLETION.roles[:1],)},
        "format `prompt-completion`: all of its rows are of format `unpaired-preference` too",
    ),
    "column that no role fills": (
        "kind",
        "completion",
        {"columns": ("prompt", "completion", "system")},
        "kind `completion`: format `instruction` becomes it, and no role of that becomes its column `system`",
    ),
    "forbidden column of nobody": (
        "format",
        "prompt-completion",
        {"forbidden": ("vote",)},
        "it forbids the column `vote`, which no other format reads",
    ),
    "forbidden column of its own": (
        "format",
        "prompt-completion",
        {"forbidden": ("response",)},
        "it forbids the column `response`, which is one of its roles",
    ),
    "role twice": ("format", "text", {"roles": ROW_FORMATS["text"].roles * 2}, "roles names `text` 2 times"),
    "role of no column's name": (
        "format",
        "text",
        {"roles": (replace(ROW_FORMATS["text"].roles[0], aliases=()),)},
        "role `text` has no aliases",
    ),
    # what nobody asks for
    "format of nobody": ("method", "kto", {"formats": ("preference",)}, "format `unpaired-preference` is in its table"),
    "base of nobody": (
        "adaptation",
        "qlora",
        {"base": "none"},
        "base `nf4` is in its table, and no adaptation needs it",
    ),
    "apart by nothing": ("attention", "sdpa", {"apart": "hope"}, "attention `sdpa`: apart names `hope`"),
    "scores of examples that are apart": (
        "attention",
        "eager",
        {"apart": "boundaries"},
        "attention `eager`: keeps_scores and apart = `boundaries`",
    ),
    "brought and installed": (
        "attention",
        "torch_varlen",
        {"package": "flash-attn"},
        "attention `torch_varlen`: the bundle brings it, and the package flash-attn too",
    ),
    # names that no table has
    "unknown reference": ("adaptation", "lora", {"reference": "ghost"}, "adaptation `lora`: reference names `ghost`"),
    "unknown usual": ("format", "chat", {"usual": "ghost"}, "format `chat`: usual names `ghost`"),
    "rate of another adaptation": (
        "method",
        "dpo",
        {"learning_rate": (*DPO.learning_rate, replace(RATE, adaptations=("ghost",)))},
        "learning_rate names `ghost`",
    ),
    "epochs of another size": (
        "method",
        "dpo",
        {"epochs": (*DPO.epochs, replace(DPO.epochs[0], sizes=("few",)))},
        "epochs names `few`",
    ),
    "unknown format": ("method", "sft", {"formats": ("ghost",)}, "method `sft`: formats names `ghost`"),
    "unknown kind": ("method", "sft", {"kinds": (*SFT.kinds, "ghost")}, "method `sft`: kinds names `ghost`"),
    "after nothing": ("method", "dpo", {"after": ("ghost",)}, "method `dpo`: after names `ghost`"),
    "unknown packing": ("method", "sft", {"packs": "tightly"}, "method `sft`: packs names `tightly`"),
    "unknown order of rows": ("method", "sft", {"sampling": "backwards"}, "method `sft`: sampling names `backwards`"),
    "a pass that gives nothing": (
        "method",
        "dpo",
        {"passes": (LEARNED, replace(SCORED, gives="logits"))},
        "method `dpo`: passes names `logits`",
    ),
}


def test_the_rows_agree() -> None:
    assert list(disagreements()) == []


def test_a_model_that_no_method_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in [row for row in METHODS.values() if row.has_teacher]:
        monkeypatch.setitem(METHODS, row.name, replace(row, passes=SFT.passes))
    assert "model `teacher` is in its table, and no method needs it" in list(disagreements())


@pytest.mark.parametrize("case", CASES)
def test_a_contradiction_is_told_with_both_names(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    axis, name, changes, expected = CASES[case]
    monkeypatch.setitem(TABLES[axis], name, replace(TABLES[axis][name], **changes))
    found = list(disagreements())
    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize("axis", TABLES)
def test_a_row_under_another_name_is_told(axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key, row = list(TABLES[axis].items())[-1]
    monkeypatch.setitem(TABLES[axis], key, replace(row, name="mystery"))
    assert f"{axis} `mystery` is in its table as `{key}`" in list(disagreements())


def test_a_forbidden_column_tells_two_formats_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with marks, tried behind those without: where these refuse the mark, none is taken for one of them."""
    marked = replace(ROW_FORMATS["unpaired-preference"], name="marked")
    monkeypatch.setitem(ROW_FORMATS, "unpaired-preference", replace(COMPLETION, name="unpaired-preference"))
    monkeypatch.setitem(ROW_FORMATS, "marked", marked)
    hidden = "format `marked`: all of its rows are of format `unpaired-preference` too"
    assert not any(hidden in sentence for sentence in disagreements())
    open_row = replace(COMPLETION, name="unpaired-preference", forbidden=())
    monkeypatch.setitem(ROW_FORMATS, "unpaired-preference", open_row)
    assert any(hidden in sentence for sentence in disagreements())


def test_methods_may_share_a_hyperparameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "ipo", replace(DPO, name="ipo", alignment="ipo", elsewhere=()))
    assert list(disagreements()) == []


def test_runs_on_several_ranks_have_a_strategy() -> None:
    known = dict(STRATEGIES)
    try:
        for name in [name for name, row in known.items() if row.distributed]:
            del STRATEGIES[name]
        assert list(disagreements()) == ["no strategy is for several ranks (engine of single)"]
    finally:  # the order of the rows is their rank
        STRATEGIES.clear()
        STRATEGIES.update(known)


def test_what_an_adaptation_needs_is_pinned() -> None:
    assert {name for row in ADAPTATIONS.values() for name in row.packages} <= stack().keys()


def test_every_formula_reads_what_its_row_says() -> None:
    given = {"true_share"}  # by the data
    reads = {name: set(signature(code).parameters) - given for name, code in preference.FORMULAS.items()}
    assert reads == {name: set(needed) for name, needed in READ_BY_FORMULAS.items()}


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


@pytest.mark.parametrize(("loss", "refused"), [("kto", True), ("apo_zero_unpaired", False)])
def test_a_value_of_its_own_changes_the_row_for_the_planner(
    loss: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BAD-032 is about recomputation that a pass switches off and on again; a loss may do without that pass."""
    kept = KTO.own[1].changes["apo_zero_unpaired"] | {"keeps_recomputation": True}
    own = replace(KTO.own[1], changes={"apo_zero_unpaired": kept})
    monkeypatch.setitem(METHODS, "kto", replace(KTO, own=(KTO.own[0], own, *KTO.own[2:])))
    recipe = with_key(with_key(BASES["kto"], "alignment.loss", loss), "train.recompute_every", 2)
    found = compiled(tmp_path, recipe, only_plan=True)
    assert ("BAD-032" in str(found.diagnostics)) is refused
    assert (found.plan is None) is refused


# What is changed before anything but the rows is imported, and the row that the refusal names.
BROKEN = {
    "unknown formula": (
        'METHODS["dpo"] = replace(METHODS["dpo"], own=(replace(METHODS["dpo"].own[0], formula="share"),))',
        "method `dpo`: DPO-001 formula names `share`",
    ),
    "unknown field": (
        'own = METHODS["kto"].own\n'
        'METHODS["kto"] = replace(METHODS["kto"], own=(own[0], replace(own[1], changes={"kto": {"pases": ()}})))',
        "method `kto`: KTO-002 changes, of `kto`, names `pases`, which is not in CHANGEABLE",
    ),
    "method without a file": (
        'METHODS["unwritten"] = replace(METHODS["dpo"], name="unwritten", alignment="unwritten", elsewhere=())',
        "method `unwritten` has no file behind it: recipec/backends/methods/unwritten.py",
    ),
    "engine without a file": (
        'ENGINES["megatron"] = replace(ENGINES["fsdp"], name="megatron")',
        "engine `megatron` has no file behind it: recipec/backends/engines/megatron.py",
    ),
    "format without a template": (
        'ROW_FORMATS["dialog"] = replace(ROW_FORMATS["chat"], name="dialog", elsewhere=())',
        "format `dialog` has no file behind it: templates/data/formats/dialog.py.j2",
    ),
    "kind without a template": (
        'KINDS["pairs"] = replace(KINDS["pairs"], template="couples")',
        "has no file behind it: templates/rows/couples.py.j2",
    ),
    "what is made from the rows cannot be": (
        'ADAPTATIONS["qlora"] = replace(ADAPTATIONS["qlora"], base="none")',
        "adaptation `lora`: family `lora` and base `none` mean all of lora, qlora",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_row_that_breaks_what_is_imported_is_told(case: str, tmp_path: Path) -> None:
    """The command line says which row it is, and not that recipec has a bug."""
    change, expected = BROKEN[case]
    write_data(tmp_path)
    (tmp_path / "recipe.toml").write_text(toml(BASES["lora-single"]), encoding="utf-8")
    code = (
        "import sys\nfrom msgspec.structs import replace\nfrom recipec.axes import *\n"
        f"from recipec.axes.strategies import ENGINES\n{change}\nfrom recipec.cli import main\n"
        "sys.argv = ['recipec', 'check', 'recipe.toml']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and expected in " ".join(done.stderr.split()), done.stderr
    assert "E0801" in done.stderr and "bug" not in done.stderr


def test_nothing_is_compiled_with_rows_that_contradict_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADAPTATIONS, "lora", replace(ADAPTATIONS["lora"], reference="none"))
    found = compiled(tmp_path, BASES["lora-single"])
    assert {diagnostic.code for diagnostic in found.diagnostics} == {"E0801"}
    assert not found.files and found.plan is None
