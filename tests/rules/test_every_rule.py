"""What holds for every rule: its metadata, its page, its reasons, and that it agrees with itself."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from math import prod

import pytest
from compiling import METRICS
from wording import faults_of_a_reason

from recipec.axes import ADAPTATIONS, BASES, LORA_VARIANTS, METHODS, ROW_FORMATS, STRATEGIES
from recipec.axes.variants import VARIANTS
from recipec.rules import RULES
from recipec.rules.combinations import COMBINATIONS
from recipec.rules.core import Choice
from recipec.rules.metrics import watched
from recipec.rules.model import ModelRow
from recipec.rules.pages import explain_rule
from recipec.rules.unbuilt import UNBUILT

ROW = ModelRow("a", "a", 1.0, 8_000_000_000, True, False, 4_096)
EXAMPLES = (1, 999, 1_000, 9_999, 10_000, 100_000, 100_001)
VALUES = {  # parameter name -> values that cross every threshold
    "stage": tuple(METHODS),
    "task": tuple({method.task: None for method in METHODS.values()}),
    "priority": (None, "quality", "speed", "memory"),
    "new_domain": (False, True),
    "first_time": (False, True),
    "examples": EXAMPLES,
    "source_rows": EXAMPLES,
    "tokens_per_example": (None, 1, 600),
    "tokens_p99": (None, 100, 1_500),
    "max_position": (None, 1_024, 131_072),
    "total_vram_gb": (8, 15.9, 16, 48, 160, 160.1),
    "gpu_is_cpu": (False, True),
    "gpu_bf16": (False, True),
    "params": (100_000_000, 500_000_000, 7_000_000_000, 70_000_000_000, 405_000_000_000),
    "max_length": (512, 4_096),
    "adaptation": tuple(ADAPTATIONS),
    "strategy": tuple(STRATEGIES),
    "world_size": (1, 8, 16),
    "gpus_per_node": (8,),
    "head_splits": ((1,), (1, 2, 4, 8)),
    "quantization": tuple(BASES),
    "optimizer": ("adamw", "adamw-8bit", "paged-adamw", "adafactor", "lion", "lion-8bit", "sgd"),
    "data_format": tuple(ROW_FORMATS),
    "data_sections": ((), ("train",), ("train", "domain_text"), ("domain_text", "preferences")),
    "train_format": (None, "text", "chat", "preference"),
    "alignment_method": ("none", *(method.alignment for method in METHODS.values() if method.alignment)),
    "kl_control": ("low", "high"),
    "preference_format": (None, "preference"),
    "model_kind": ("base", "chat"),
    "has_template": (False, True),
    "template": ("model", "plain", "chatml", "none"),
    "template_end": ("", "<|im_end|>", "</s>"),
    "has_turn_end": (None, False, True),
    "stop_tokens": ((), ("</s>",), ("<|endoftext|>",)),
    "template_has_mask": (False, True),
    "answers_apart": (False, True),
    "has_sdpa": (False, True),
    "has_reward": (False, True),
    "attention": ("sdpa", "flash_attention_2", "eager"),
    "packing": (False, True),
    "packing_strategy": ("none", "bfd", "wrapped"),
    "moe": (False, True),
    "variant": tuple(VARIANTS),
    "lora_rank": (1, 8, 16, 32, 64),
    "lora_variant": tuple(LORA_VARIANTS),
    "lora_experts": ((), ("experts.gate_up_proj", "experts.down_proj")),
    "experts_per_token": (1, 2, 8),
    "has_eval_file": (False, True),
    "has_test_file": (False, True),
    "eval_fraction": (0.0, 0.1, 0.95),
    "test_fraction": (0.0, 0.1, 0.95),
    "total_steps": (1, 99, 100, 249, 250, 10_000, 10**7),
    "training_seconds": (0.0, 600.0, 1e7),
    "checkpoint_seconds": (0.01, 100.0),
    "evaluation_seconds": (0.0, 60.0),
    "eval_every": (0.01, 0.2),
    "save_every": (0.2, 1.0),
    "decay_share": (0.0, 0.1),
    "updates": (1, 4),
    "answer_passes": (1, 4),
    "cores_per_gpu": (None, 1, 3, 4, 8, 64),
    "host_cores": (None, 2, 88),
    "starts_from_adapter": (False, True),
    "true_share": (None, 0.01, 0.3, 0.45, 0.5, 0.571, 0.572, 0.9),
    "undesirable_weight": (0.5, 1.0, 7.7),
    "families": (None, ("qwen",)),
    "policy_licenses": (None, ("apache-2.0",)),
    "stated_max_length": (None, 4_096),
    "fastest": tuple(STRATEGIES),
    "compared": ("", "fsdp across nodes takes 1.4x the time"),
    "example": ("sequence", "pair"),
    "peak": ("21.1 of 23.6 GiB",),
    "least": ("none", "cpu"),
    "host_gib": (12.0,),
    "size": (1, 4),
    "rows": (1, 8),
    "micro_batch": (1, 8),
    "steps": (1, 8),
    "global_batch_size": (32,),
    "max_new_tokens": (256, 2_048),
    "result_tokens": (48, 128, 700),
    "passes": (0.1, 1.99, 2.0, 10),
    "ranks": (1, 8),
    "every": (0, 1, 2),
    "on_host": (False, True),
    "required": ("", "8.2B parameters are more than 7B"),
    "gpus": (1, 8),
    "served_by": (0, 1, 2),
    "vram_gib": (23.6, 79.1),
    "precision": ("bf16", "fp16", "fp32"),
    "ewc_rows": (0, 64, 2_000),
    "micro_batches": (1, 64),
    "added_in": ("", "bf16"),
    "noun": ("GPU", "device"),
    "models": ((), (ROW,), (ROW, ROW._replace(name="b", generation=2.0))),
}
PREFIXES = (
    "GOAL",
    "ADPT",
    "LORA",
    "EWC",
    "MOE",
    "REPLAY",
    "OPT",
    "SCHED",
    "BATCH",
    "PREC",
    "DATA",
    "EVAL",
    "CKPT",
    "LOAD",
    "LOOP",
    "TRACK",
    "DPO",
    "MODEL",
    "STRAT",
    *dict.fromkeys(own.id.partition("-")[0] for method in METHODS.values() for own in method.own),
)


def parameters(rule) -> tuple[str, ...]:
    code = rule.function.__code__
    return code.co_varnames[: code.co_argcount]


def answers(rule, every: int = 1):
    """Yield the rule's answer for every combination of values that a stage can have, or for one of so many."""
    names = parameters(rule)
    for values in itertools.islice(itertools.product(*(taken(rule, name) for name in names)), 0, None, every):
        if can_run(rule, dict(zip(names, values, strict=True))):
            yield values, rule(*values)


def share(rule) -> int:
    """One combination of so many is looked at with every commit: a prime that divides no number of values."""
    return 97 if prod(len(taken(rule, name)) for name in parameters(rule)) > 1_000_000 else 1


def taken(rule, name) -> list:
    """The values that the rule takes for a parameter: None only where its signature has it."""
    optional = rule.function.__annotations__.get(name) != "int"
    return [value for value in VALUES[name] if value is not None or optional]


def can_run(rule, given) -> bool:
    """Whether the method can run with the adaptation, or with any adapter where the rule shapes one."""
    if "stage" not in given:
        return True
    possible = METHODS[given["stage"]].adaptations
    if rule.key.startswith("train.lora."):
        return any(ADAPTATIONS[name].table for name in possible)
    return given.get("adaptation", possible[0]) in possible


every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


@every_rule
def test_metadata_is_complete(rule):
    assert re.fullmatch(rf"({'|'.join(PREFIXES)})-\d{{3}}", rule.id)
    assert rule.decides and rule.source
    assert not rule.key or re.fullmatch(r"[a-z0-9_.]+", rule.key)


@every_rule
def test_watch_names_only_metrics_that_a_bundle_logs(rule):
    assert ":" in rule.watch, "say what to see"
    assert watched(rule.watch)
    assert set(watched(rule.watch)) <= METRICS


@every_rule
def test_docstring_is_an_explanation(rule):
    lines = (rule.function.__doc__ or "").strip().splitlines()
    assert len(lines) >= 3
    assert not lines[0].startswith("Decides "), "the list of rules has a column for it"
    assert lines[0].endswith(".")


@every_rule
def test_every_answer_has_a_plain_reason_and_lies_in_its_own_range(rule):
    _assert_plain(answers(rule, share(rule)))


@pytest.mark.matrix
@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if share(rule) > 1], ids=lambda rule: rule.id)
def test_so_does_every_one_of_millions(rule):
    _assert_plain(answers(rule))


def _assert_plain(found):
    for values, choice in found:
        assert isinstance(choice, Choice)
        assert len(choice.because.split()) >= 3, (values, choice.because)
        assert not faults_of_a_reason(choice.value, choice.because), (values, choice.because)
        if choice.accepts:
            low, high = choice.accepts
            assert low <= choice.value <= high, (values, choice)


@every_rule
def test_answers_depend_on_nothing_but_the_inputs(rule):
    assert list(answers(rule, share(rule))) == list(answers(rule, share(rule)))


def test_every_parameter_of_every_rule_is_in_the_vocabulary():
    assert {name for rule in RULES.values() for name in parameters(rule)} == set(VALUES)


def test_a_decision_is_decided_by_one_rule():
    own = {own.id for method in METHODS.values() for own in method.keys}  # methods share names; one of them runs
    decided = [rule.decides for rule in RULES.values() if rule.id not in own]
    assert len(decided) == len(set(decided))


def test_a_key_overrides_one_decision():
    own = {own.id for method in METHODS.values() for own in method.keys}  # methods share keys; one of them runs
    keys = [rule.key for rule in RULES.values() if rule.key and rule.id not in own]
    twice = {key for key in keys if keys.count(key) > 1}
    assert not twice


@pytest.mark.parametrize("id", [*RULES, *(row.id for row in (*COMBINATIONS, *UNBUILT))])
def test_every_id_has_a_page(id):
    page = explain_rule(id.lower())
    assert page.startswith(f"# {id}: ")
    assert "- Sources: " in page
    assert "  - " not in page and "\n    " not in page, "the docstring's indentation is gone"


def test_a_page_says_whether_the_combination_can_be_built():
    for row in COMBINATIONS:
        warned = "Allowed with a warning" in explain_rule(row.id)
        assert warned != row.refused and ("Not supported" in explain_rule(row.id)) == row.refused


def test_pages_that_a_page_names_exist():
    for id in RULES:
        for named in re.findall(r"\b(?:BAD|NOT)-\d{3}\b", explain_rule(id)):
            assert explain_rule(named), f"{id} names {named}"


def test_an_unknown_id_has_no_page():
    assert explain_rule("OPT-999") is None


def test_importing_the_rules_pulls_in_nothing_heavy():
    heavy = ("pydantic", "jinja2", "click", "torch", "logging", "json", "subprocess", "importlib.metadata")
    code = f"import sys, recipec.rules; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
