"""What judges the answers of a method that writes them: a stage that is trained before, or models of the recipe."""

from __future__ import annotations

from pathlib import Path

from compiling import BASES, codes, compiled, good, texts, with_key, without

from recipec.catalog.models import model

STAGES = with_key(without(BASES["ppo"], "alignment.reward"), "data.preferences", "pairs.jsonl")
JUDGE = "Qwen/Qwen2.5-1.5B-Instruct"


def test_without_a_reward_a_reward_model_is_trained_first_and_starts_where_ppo_does(tmp_path: Path) -> None:
    alone = good(tmp_path / "a", STAGES).plan.stages
    assert [(one.stage.name, one.stage.starts_from, one.stage.judge) for one in alone] == [
        ("reward", None, ""),
        ("ppo", None, "reward"),
    ]
    assert [one.work.published for one in alone] == [True, True]
    tuned = good(tmp_path / "b", with_key(STAGES, "data.train", "chat.jsonl")).plan.stages
    assert [(one.stage.name, one.stage.starts_from, one.stage.judge) for one in tuned] == [
        ("sft", None, ""),
        ("reward", "sft", ""),
        ("ppo", "sft", "reward"),
    ]
    assert [one.work.published for one in tuned] == [True, False, False]


def test_a_reward_model_is_read_downloaded_and_beside_what_is_evaluated(tmp_path: Path) -> None:
    before = good(tmp_path / "a", BASES["ppo"]).plan.stages[-1]
    judged = good(tmp_path / "b", with_key(BASES["ppo"], "alignment.reward", {"model": JUDGE})).plan.stages[-1]
    weights = 2 * model(JUDGE).architecture.params
    added = {name: getattr(judged.needs, name) - getattr(before.needs, name) for name in ("read_bytes",)}
    added["disk"] = judged.needs.storage.hub_cache_bytes - before.needs.storage.hub_cache_bytes
    added["evaluation"] = judged.needs.evaluation.trained.bytes - before.needs.evaluation.trained.bytes
    assert all(0.9 * weights < size < 1.1 * weights for size in added.values()), added
    text = texts(good(tmp_path / "c", with_key(BASES["ppo"], "alignment.reward", {"model": JUDGE})))["judge.py"]
    assert 'device_map={"": PartialState().device}' in text  # never whole in host memory


def test_the_policy_holds_for_reward_models(tmp_path: Path) -> None:
    own = with_key(BASES["ppo"], "alignment.reward", {"model": "acme/judge", "like": JUDGE})
    known = with_key(BASES["ppo"], "alignment.reward", {"model": JUDGE})
    for limit in ('models = ["Qwen/*"]', 'licenses = ["apache-2.0"]'):
        for number, (recipe, found) in enumerate([(own, ["E0404"]), (known, [])]):
            folder = tmp_path / f"{limit[:6]}-{number}"
            folder.mkdir()
            (folder / "team.toml").write_text(f"[policy]\n{limit}\n")
            told = codes(compiled(folder, with_key(recipe, "recipe.extends", "team.toml")))
            assert [code for code in told if code != "W0516"] == found


def test_the_judge_is_in_the_memory_and_the_time_of_the_stage(tmp_path: Path) -> None:
    before = good(tmp_path / "a", BASES["ppo"]).plan.stages[-1]
    judged = good(tmp_path / "b", with_key(BASES["ppo"], "alignment.reward", {"model": JUDGE})).plan.stages[-1]
    assert "reward_models" not in before.memory.terms
    assert judged.memory.terms["reward_models"] >= 2 * 0.95 * model(JUDGE).architecture.params  # in bf16
    assert "judging" in judged.memory.moments
    same = judged.layout == before.layout
    assert not same or judged.time.seconds_per_step > before.time.seconds_per_step


def test_the_bundle_judges_by_the_result_of_the_stage(tmp_path: Path) -> None:
    files = texts(good(tmp_path, with_key(STAGES, "data.train", "chat.jsonl")))
    assert 'JUDGE = BUNDLE / "outputs" / "reward" / "merged"' in files["stages/3-ppo/rewards.py"]
    assert 'MODEL = str(BUNDLE / "outputs" / "sft" / "merged")' in files["stages/3-ppo/train.py"]
    assert "this_run(PLAN, args.max_steps, DATA, Path(MODEL), JUDGE)" in files["stages/3-ppo/train.py"]
    assert "Before the next stage" in files["README.md"]


def test_functions_and_models_judge_together(tmp_path: Path) -> None:
    both = [{"model": JUDGE, "weight": 0.5}, "judge.py:is_right"]
    for base in ("grpo", "rloo", "ppo"):
        files = texts(good(tmp_path / base, with_key(BASES[base], "alignment.reward", both)))
        assert "WEIGHTS = [1.0, 0.5]" in files["rewards.py"] and f'Judge("{JUDGE}")' in files["rewards.py"]


def test_what_is_missing_or_too_much_is_refused_by_name(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path / "a", without(STAGES, "data.prompts"))) == []  # those of the pairs
    assert codes(compiled(tmp_path / "b", without(BASES["ppo"], "alignment.reward"))) == ["E0201"]
    assert "E0401" in codes(compiled(tmp_path / "c", with_key(STAGES, "alignment.reward", "judge.py:is_right")))
    for entry in ({"weight": 1.0}, {"function": "judge.py:is_right", "model": JUDGE}):
        assert "E0310" in codes(compiled(tmp_path / "d", with_key(BASES["grpo"], "alignment.reward", entry)))
