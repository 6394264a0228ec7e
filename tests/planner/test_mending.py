"""What an error proposes was planned: applied, the recipe compiles. What is wrong shows in one run."""

from __future__ import annotations

import re
import shutil
import tomllib
from math import inf
from pathlib import Path

import pytest
from compiling import BASES, codes, compiled, toml, with_key

from recipec.compiler import compile_recipe
from recipec.planner.advice import ways_out
from recipec.units import usd

ERRORS = Path(__file__).parent.parent / "errors"
MENDED = [
    *("E0405", "E0405-bf16", "E0405-experts", "E0405-groups", "E0405-leak", "E0405-recompute", "E0405-save-every"),
    *("E0405-varlen", "W0504", "W0504-packed"),
]
LARGE = {
    "recipe": {"name": "case"},
    "goal": {"task": "instruct"},
    "model": {"name": "meta-llama/Llama-3.1-70B-Instruct"},
    "data": {"train": "chat.jsonl", "examples": 20, "tokens_per_example": 300},
    "hardware": {"gpu": "rtx-4090"},
    "train": {"eval_every": 0.2, "save_every": 0.5, "max_steps": 1},
    "budget": {"max_hours": 0.2},
}


def applied(recipe: dict, help: str) -> dict:
    """The recipe after "remove `a.b` and `a.c`: ..." or "set `a.b = 1`: ..."."""
    for part in re.findall("`([^`]+)`", help.partition(": ")[0]):
        key, _, value = part.partition(" = ")
        recipe = with_key(recipe, key, tomllib.loads(f"it = {value}")["it"] if value else None)
    return recipe


@pytest.mark.parametrize("folder", MENDED)
def test_every_change_that_is_proposed_mends(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ERRORS / folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    recipe, code = tomllib.loads((tmp_path / "recipe.toml").read_text()), folder[:5]
    (problem,) = [found for found in compile_recipe(Path("recipe.toml")).diagnostics if found.code == code]
    assert problem.help
    for help in problem.help:
        assert help.startswith(("remove `", "set `"))
        Path("changed.toml").write_text(toml(applied(recipe, help)))
        left = [found.code for found in compile_recipe(Path("changed.toml")).diagnostics]
        assert code not in left and not [each for each in left if each.startswith("E")], help


@pytest.mark.parametrize(
    ("train", "often", "now"),
    [
        (
            {"save_every": 0.1, "eval_every": 0.2},
            "set `train.eval_every = 0.1`",
            "checkpoints are every 0.1 of the steps",
        ),
        ({"save_every": 0.5, "eval_every": 0.2}, "set `train.eval_every = 0.125`", "evaluations every 0.2 of them"),
    ],
)
def test_saves_between_evaluations_name_both_intervals(tmp_path: Path, train: dict, often: str, now: str) -> None:
    recipe = with_key(BASES["lora-single"], "train", train)
    recipe["data"] = {"train": "chat.jsonl", "examples": 600, "tokens_per_example": 300}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert problem.help[0].startswith(f"{often}: ") and now in problem.notes[0]
    assert problem.help[1].startswith("remove `train.save_every`: ")
    assert not [code for code in codes(compiled(tmp_path, applied(recipe, problem.help[0]))) if code.startswith("E")]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.5])
def test_what_a_recipe_says_of_checkpoints_alone_decides_the_evaluations(tmp_path: Path, share: float) -> None:
    found = compiled(tmp_path, with_key(BASES["lora-single"], "train.save_every", share))
    assert not [code for code in codes(found) if code.startswith("E")]
    decisions = found.plan.stages[0].decisions
    times = share / decisions["eval_every"].value
    assert times == pytest.approx(round(times)) and "must meet an evaluation" in decisions["eval_every"].because
    (train,) = (file.text for file in found.files if file.path == "train.py")
    steps = re.findall(r"save_steps=([\d.]+) if", train)[0]
    total = decisions["total_steps"].value
    assert (float(steps) if "." in steps else int(steps) / total) == pytest.approx(
        share, abs=0.5 / times / total + 0.01
    )


@pytest.mark.parametrize("model", ["google/gemma-4-E2B", "Qwen/Qwen3.5-4B"])
def test_a_model_that_is_the_cause_is_what_the_error_points_at(tmp_path: Path, model: str) -> None:
    found = compiled(tmp_path, with_key(BASES["grpo"], "model.name", model)).diagnostics
    (place,) = (label.place for problem in found if problem.code == "E0405" for label in problem.labels)
    assert place.text.splitlines()[place.span.line - 1][place.span.col - 1 : place.span.end_col - 1] == f'"{model}"'


@pytest.mark.parametrize("variant", ["dora", "pissa", "rslora"])
def test_variants_on_experts_are_mended_by_what_fits(tmp_path: Path, variant: str) -> None:
    recipe = {**LARGE, "model": {"name": "Qwen/Qwen3-30B-A3B"}, "hardware": {"gpu": "h200"}, "budget": {}}
    recipe |= {"data": {**LARGE["data"], "examples": 2000}, "train": {"lora": {"variant": variant}}}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [help.partition(":")[0] for help in problem.help] == [
        "remove `train.lora.variant`, which is then standard",
        'set `train.lora.targets = "attention"`',
    ]
    for help in problem.help:
        assert not [code for code in codes(compiled(tmp_path, applied(recipe, help))) if code.startswith("E")]


def test_reasons_of_layouts_that_nobody_asked_for_are_left_out(tmp_path: Path) -> None:
    """QLoRA on two GPUs is known to fail under ZeRO-3 and FSDP; the recipe asks for neither."""
    lora = {"lora": {"dropout": 0.1, "variant": "dora"}, "quantization": "nf4"}
    recipe = {**BASES["lora-single"], "hardware": {"gpu": "a100-80gb", "gpus_per_node": 2}, "train": lora}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [note[note.index("(BAD") + 1 :][:7] for note in problem.notes] == ["BAD-063"]


def test_a_change_that_is_warned_about_again_is_not_proposed(tmp_path: Path) -> None:
    """Without the attention that it names, the recipe gets the same one."""
    recipe = {**BASES["lora-single"], "train": {"compile": True, "attention": "sdpa"}}
    (problem,) = [found for found in compiled(tmp_path, recipe, only_plan=True).diagnostics if found.code == "W0504"]
    assert [help.partition(",")[0] for help in problem.help] == ["remove `train.compile`"]


def test_one_word_that_fixes_two_values_is_removed_with_both(tmp_path: Path) -> None:
    lora = {"adaptation": "qlora", "strategy": "zero3"}
    recipe = {**BASES["lora-single"], "hardware": {"gpu": "h100", "gpus_per_node": 2}, "train": lora}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [help.partition("`:")[0].partition("`,")[0] for help in problem.help] == [
        "remove `train.strategy",
        "remove `train.adaptation",
    ]


def test_what_is_wrong_shows_at_once(tmp_path: Path) -> None:
    found = compiled(tmp_path, LARGE)
    assert codes(found) == ["E0402", "E0405", "E0411"]
    over = [help for help in found.diagnostics[0].help if "; over budget: the plan takes" in help]
    assert over and len(over) < len(found.diagnostics[0].help), "the smaller model keeps to it"


def test_what_does_not_fit_either_is_told_with_what_is_refused(tmp_path: Path) -> None:
    recipe = {
        **LARGE,
        "train": {"precision": "bf16", "optimizer": "adamw"},
        "hardware": {"gpu": "v100-32gb"},
        "budget": {},
    }
    assert codes(compiled(tmp_path, with_key(recipe, "data.examples", 2000))) == ["E0405", "E0402"]


def test_what_the_data_show_hides_nothing_of_the_plan(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, with_key(LARGE, "data.ignore", ["absent"]))) == ["E0401", "E0402", "E0405", "E0411"]


def test_a_missing_price_needs_no_plan(tmp_path: Path) -> None:
    recipe = with_key(with_key(LARGE, "budget.max_cost_usd", 5), "hardware", {"vram_gib": 20})
    assert "E0403" in codes(compiled(tmp_path, recipe))


def test_targets_that_leave_experts_out_are_not_proposed_beside_a_rank_of_experts(tmp_path: Path) -> None:
    """With attention alone, `expert_rank` would have no effect, which is refused in turn."""
    recipe = {**LARGE, "model": {"name": "Qwen/Qwen3-30B-A3B"}, "hardware": {"gpu": "h200"}, "budget": {}}
    recipe |= {
        "data": {**LARGE["data"], "examples": 2000},
        "train": {"lora": {"variant": "rslora", "expert_rank": 1}},
    }
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    assert [help.partition(":")[0] for help in problem.help] == [
        "remove `train.lora.variant`, which is then standard",
    ]


@pytest.mark.parametrize("known", [True, False])
def test_more_nodes_are_proposed_with_the_network_that_they_need(tmp_path: Path, known: bool) -> None:
    hardware = {"vram_gib": 8, "gpus_per_node": 8} | ({"network_gbps": 100} if known else {})
    recipe = {**BASES["lora-single"], "model": {"name": "meta-llama/Llama-3.3-70B-Instruct"}, "hardware": hardware}
    recipe = with_key(recipe, "train.adaptation", "lora")
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402"]
    nodes = [help for help in problem.help if "hardware.nodes" in help]
    assert nodes and all(("need `hardware.network_gbps`" in help) is not known for help in nodes)


def test_a_warmup_is_named_under_its_stage_where_there_are_several(tmp_path: Path) -> None:
    recipe = {**BASES["sft-dpo"], "train": {"sft": {"max_steps": 1}}}
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0411"]
    assert problem.help[-1] == "or set `train.sft.warmup = 0`"
    mended = {**recipe, "train": {"sft": {"max_steps": 1, "warmup": 0}}}
    assert "E0411" not in codes(compiled(tmp_path, mended))


@pytest.mark.parametrize("more", [{"train.adaptation": "qlora"}, {"hardware.gpu": "cpu", "train.adaptation": "lora"}])
def test_the_engine_of_generation_is_named_where_it_is_part_of_what_fails(tmp_path: Path, more: dict[str, str]) -> None:
    engine = "alignment.generation.engine"
    recipe = with_key(BASES["grpo"], engine, "vllm")
    for key, value in more.items():
        recipe = with_key(recipe, key, value)
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0405"]
    line = next(at for at, text in enumerate(toml(recipe).splitlines(), 1) if "engine" in text)
    assert line in {label.place.span.line for label in problem.labels}
    table = engine.rpartition(".")[0]  # which may not be left empty
    assert any(f"remove `{table}`" in help or f"set `{engine} = " in help for help in problem.help)
    assert "E0401" not in codes(compiled(tmp_path, with_key(recipe, table, None)))
    assert "E0405" not in codes(compiled(tmp_path, with_key(recipe, engine, None)))


def test_an_engine_whose_copy_of_the_weights_finds_no_room_is_a_way_out(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["grpo"], "alignment.generation.engine", "vllm"), "hardware.gpu", "a100-40gb")
    lengths = {"data.max_length": 256, "data.tokens_per_example": 60, "alignment.generation.max_new_tokens": 256}
    for key, value in {"model.name": "Qwen/Qwen3-14B", **lengths}.items():
        recipe = with_key(recipe, key, value)
    (problem,) = compiled(tmp_path, recipe).diagnostics
    assert problem.code == "E0402"
    assert any(line.startswith("remove `alignment.generation.engine`") for line in problem.help)
    assert compiled(tmp_path, applied(recipe, problem.help[0])).plan


def test_a_stage_that_does_not_have_the_adaptation_of_all_is_named(tmp_path: Path) -> None:
    (problem,) = compiled(tmp_path, with_key(BASES["text-sft"], "train.adaptation", "prompt-tuning")).diagnostics
    assert problem.title == "stage continue-pretrain does not have the adaptation prompt-tuning"
    assert "or train each stage in a recipe of its own" in problem.help[0]
    (key,) = re.findall('`train.adaptation = "(.*?)"`', problem.help[0])
    assert compiled(tmp_path, with_key(BASES["text-sft"], "train.adaptation", key)).plan


ONLINE = with_key(with_key(BASES["grpo"], "hardware", {"gpu": "h100", "gpus_per_node": 8}), "data.examples", 20_000)


@pytest.mark.parametrize(("model", "some"), [("Qwen/Qwen3-32B", True), ("Qwen/Qwen3-30B-A3B", False)])
def test_a_strategy_is_advised_for_answers_only_where_it_fits(tmp_path: Path, model: str, some: bool) -> None:
    recipe = with_key(with_key(ONLINE, "model.name", model), "train", {"adaptation": "lora", "global_batch_size": 128})
    recipe = recipe if some else with_key(recipe, "alignment.generation", {"max_new_tokens": 4096})
    recipe = recipe if some else with_key(recipe, "data.max_length", 4096)
    (advice,) = [found for found in compiled(tmp_path, recipe, only_plan=True).diagnostics if found.code == "W0504"]
    assert advice.title == "answers written under FSDP"
    assert some or advice.help == ("no change of one key that fits avoids it",)
    for line in advice.help if some else ():
        then = compiled(tmp_path, applied(recipe, line), only_plan=True)
        assert then.plan is not None and "W0504" not in codes(then), line
        assert f" {then.plan.stages[0].memory.peak_allocated_bytes / 2**30:.1f} GiB per GPU" in line


def test_a_server_of_answers_on_one_node_is_a_way_out_of_an_engine_beside_training(tmp_path: Path) -> None:
    recipe = with_key(with_key(ONLINE, "model.name", "Qwen/Qwen3-32B"), "hardware.nodes", 2)
    written = {"max_new_tokens": 8192, "engine": "vllm", "engine_tensor_parallel": 1}
    recipe = with_key(recipe, "alignment.generation", written)
    (problem,) = [found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402"]
    for way in ("remove `alignment.generation.engine_tensor_parallel`: ", 'set `alignment.generation.engine = "vllm-s'):
        (line,) = [line for line in problem.help if line.startswith(way)]
        then = compiled(tmp_path, applied(recipe, line), only_plan=True).plan
        assert then is not None and usd(then.cost_usd) in line
    assert "and `hardware.nodes = 1`" in line
    *layouts, limit = problem.notes
    assert all("with a global batch of 128 answers: needs" in note for note in layouts) and "BAD-168" in limit


@pytest.mark.parametrize("precision", [None, "fp16", "bf16"])
@pytest.mark.parametrize("gpu", ["t4", "v100-16gb", "a10g"])
def test_ppo_without_bf16_is_told_to_take_fp32(tmp_path: Path, gpu: str, precision: str | None) -> None:
    """bf16 is refused on such a GPU, and fp16 with a value head; on two of them fp32 fits, and on one it is said that
    it does not."""
    recipe = with_key(with_key(BASES["ppo"], "hardware", {"gpu": gpu}), "train.precision", precision)
    for gpus in (1, 2):
        used = with_key(recipe, "hardware.gpus_per_node", gpus)
        for finding in (each for each in compiled(tmp_path, used).diagnostics if each.code == "E0405"):
            (help,) = finding.help
            assert ("bf16" in help) is (gpu == "a10g") and "fp16" not in help
            if "then fits" in help:
                assert not {*codes(compiled(tmp_path, applied(used, help)))} & {"E0402", "E0405"}
            else:
                assert gpus == 1 and "E0402" in codes(compiled(tmp_path, with_key(used, "train.precision", "fp32")))


@pytest.mark.parametrize("reward", [None, "judge.py:is_right"])
def test_a_level_of_kl_control_without_pairs_is_replaced_by_its_method(tmp_path: Path, reward: str | None) -> None:
    """The two keys exclude each other, so that the method is not written beside the level."""
    recipe = with_key(BASES["grpo"], "alignment", {"kl_control": "high"} | ({"reward": reward} if reward else {}))
    (finding,) = (found for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0401")
    assert 'replace `alignment.kl_control` by `alignment.method = "ppo"`' in finding.help[1]
    assert ("set `alignment.reward`" in finding.help[1]) is (reward is None)
    changed = with_key(recipe, "alignment", {"method": "ppo", "reward": "judge.py:is_right"})
    assert not [code for code in codes(compiled(tmp_path, changed)) if code.startswith("E")]


EXPERTS = with_key(BASES["lora-single"], "model.name", "Qwen/Qwen3-30B-A3B")


def problem_of(folder: Path, recipe: dict, code: str):
    (found,) = (each for each in compiled(folder, recipe, only_plan=True).diagnostics if each.code == code)
    return found


@pytest.mark.parametrize("adaptation", [None, "bottleneck"])
def test_a_refused_adapter_is_left_without_its_table(tmp_path: Path, adaptation: str | None) -> None:
    train = {"adaptation": adaptation} if adaptation else {}
    recipe = with_key(with_key(EXPERTS, "train", {**train, "bottleneck": {"after": "mlp"}}), "hardware.gpu", "h200")
    help = problem_of(tmp_path, recipe, "E0405").help
    assert help and "`train.bottleneck`: LoRA" in help[0]
    for line in help:
        left = codes(compiled(tmp_path, applied(recipe, line), only_plan=True))
        assert not [code for code in left if code.startswith("E")], line


def test_a_fix_that_nothing_fits_with_leads_to_no_contradiction(tmp_path: Path) -> None:
    recipe = with_key(with_key(EXPERTS, "train", {"bottleneck": {"after": "mlp"}}), "hardware.gpu", "rtx-4090")
    (line,) = problem_of(tmp_path, recipe, "E0405").help
    assert line.startswith('remove `train.bottleneck` and set `train.adaptation = "lora"`, which')
    assert codes(compiled(tmp_path, applied(recipe, line.partition(", which")[0]), only_plan=True)) == ["E0402"]


def test_a_base_is_named_by_the_key_that_names_it(tmp_path: Path) -> None:
    """`train.quantization = "none"` beside "lora-int8" would contradict it."""
    recipe = with_key(with_key(BASES["copied"], "train", {"adaptation": "lora-int8"}), "hardware", {"gpu": "rtx-4090"})
    recipe = with_key(recipe, "model.name", "microsoft/phi-4")
    (line,) = problem_of(tmp_path, recipe, "E0405").help
    assert line.startswith('set `train.adaptation = "lora"`, or') and "quantization" not in line


def test_a_stage_without_the_adaptation_names_the_table_that_asks_for_it(tmp_path: Path) -> None:
    recipe = with_key(BASES["text-sft"], "train.prompt", {"virtual_tokens": 20})
    found = problem_of(tmp_path, recipe, "E0405")
    assert found.help[0].startswith('remove `train.prompt` and set `train.adaptation = "lora"` for all stages')
    assert found.labels[0].place.span.line > 1
    then = with_key(with_key(recipe, "train.prompt", None), "train.adaptation", "lora")
    assert not [code for code in codes(compiled(tmp_path, then, only_plan=True)) if code.startswith("E")]


def test_no_change_of_the_adaptation_is_proposed_beside_fusion(tmp_path: Path) -> None:
    """[fusion] asks for its adapters, whatever else the recipe says."""
    recipe = with_key(with_key(BASES["fusion"], "model.name", "microsoft/phi-4"), "train.bottleneck", {"after": "mlp"})
    recipe = with_key(with_key(recipe, "hardware", {"gpu": "rtx-4090", "gpus_per_node": 2}), "data.max_length", 1_024)
    help = problem_of(tmp_path, recipe, "E0402").help
    assert help and not [line for line in help if "train.bottleneck" in line or "train.adaptation" in line]


@pytest.mark.parametrize("stage", ["sft", "dpo"])
def test_what_is_refused_all_the_same_is_told_with_a_change(tmp_path: Path, stage: str) -> None:
    """Of the stage that does not fit, and of the one behind it, which does."""
    large, uneven = {"micro_batch_size": 64, "global_batch_size": 512}, {"save_every": 0.15, "eval_every": 0.1}
    train = {"sft": {**large, **uneven}} if stage == "sft" else {"sft": large, "dpo": uneven}
    recipe = with_key(with_key(BASES["sft-dpo"], "train", train), "hardware", {"gpu": "rtx-3060-12gb"})
    recipe = with_key(with_key(recipe, "model.name", "Qwen/Qwen2.5-1.5B-Instruct"), "data.max_length", 1_024)
    for line in problem_of(tmp_path, recipe, "E0402").help:
        then = compiled(tmp_path, applied(recipe, line), only_plan=True).diagnostics
        (title,) = (each.title for each in then if each.code.startswith("E"))
        assert line.endswith(f"fix E0405 of stage {stage}, too: {title}")


@pytest.mark.parametrize("shared", [{"tensor_parallel": 2}, {"tensor_parallel": 2, "context_parallel": 2}])
def test_without_the_keys_that_are_named_a_shared_model_is_built(tmp_path: Path, shared: dict[str, int]) -> None:
    """One of two keys that share layers leaves a model that cannot be built either."""
    recipe = with_key(BASES["full-fsdp"], "train", shared)
    (found,) = (each for each in compiled(tmp_path, recipe).diagnostics if each.code == "E0410")
    assert compiled(tmp_path, applied(recipe, found.help[0])).files


def test_no_way_out_lasts_longer_than_anybody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes of small cards hold a large policy, and write its answers for decades."""
    recipe = with_key(with_key(BASES["rloo"], "model.name", "Qwen/Qwen3-32B"), "data.examples", 20_000)
    recipe = with_key(recipe, "alignment.generation", {"max_new_tokens": 2048})
    recipe = with_key(recipe, "hardware", {"gpu": "rtx-3060-12gb", "gpus_per_node": 8, "network_gbps": 10})

    def helps() -> list[str]:
        return [
            line for found in compiled(tmp_path, recipe).diagnostics if found.code == "E0402" for line in found.help
        ]

    offered = helps()
    assert offered and not [line for line in offered if "hardware.nodes" in line]
    monkeypatch.setattr(ways_out, "LONGEST", inf)
    assert [line for line in helps() if "hardware.nodes" in line], "the case shows nothing"
