"""check, plan and build: human text comes from the JSON model, and a second build finds nothing to do."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from small_recipe import RECIPE, line_of

from recipec.cli.build import build_text
from recipec.cli.inputs import PLAN_VERSION
from recipec.cli.plan import plan_text
from recipec.compiler import compile_recipe
from recipec.estimate.whole_run import RunPart
from recipec.planner.document import SCHEMA_VERSION
from recipec.planner.plan import StagePlan


def test_plan_json_is_what_the_bundle_holds(run, out):
    printed = run("plan", "recipe.toml", "--format", "json").stdout_bytes

    assert printed == compile_recipe(Path("recipe.toml")).plan_json
    assert printed == (out / ".recipec" / "plan.json").read_bytes()
    assert PLAN_VERSION == SCHEMA_VERSION


def test_human_plan_is_made_from_the_document_alone(run):
    document = json.loads(run("plan", "recipe.toml", "--json").stdout)
    stage = document["stages"][0]
    stage["memory"]["terms"]["weights"] = 7 * 2**30
    stage["cost"] = {"usd": 12.5, "because": "made up"}
    rejected = {
        "family": "LoRA, ddp",
        "reason": "1.3x slower",
        "peak_allocated_bytes": 3 * 2**30,
        "seconds": 7200,
        "usd": 3.2,
    }
    stage["rejected"] = [rejected, rejected | {"family": "LoRA, zero3", "seconds": None, "usd": None}]

    text = plan_text(document)

    assert "weights" in text and "7.0 GiB" in text
    assert "$12.50: made up" in text
    assert "LoRA, ddp 3.0 GiB 2 h 0 min $3.20 1.3x slower" in " ".join(text.split())
    assert "LoRA, zero3 3.0 GiB - - 1.3x slower" in " ".join(text.split())


def test_the_plan_and_the_readme_tell_the_same_times(run, monkeypatch):
    """Both round in one place: rounded twice, 93.495 minutes are 93 here and 94 there."""
    monkeypatch.setattr(RunPart, "told_seconds", property(lambda part: 12345.0))
    monkeypatch.setattr(StagePlan, "told_seconds", property(lambda plan: 54321))
    run("build", "recipe.toml", "-o", "told")
    readme = Path("told/README.md").read_text()
    plan = run("plan", "recipe.toml").stdout

    parts = len(json.loads(run("plan", "recipe.toml", "--json").stdout)["stages"][0]["run"])
    assert plan.count("  3 h 26 min  ") == readme.count("| 3 h 26 min |") == parts > 5
    assert "15 h 5 min for the whole run" in plan and "15 h 5 min for the whole run" in readme


def test_a_chosen_model_is_told_with_the_models_that_come_next(run, folder):
    recipe = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(recipe.replace("Qwen/Qwen2.5-0.5B-Instruct", "auto"))

    text = run("plan", "recipe.toml").stdout
    chosen = json.loads(run("plan", "recipe.toml", "--json").stdout)["model_selection"]

    assert text.startswith(f"model  {chosen['model']}, 8.19B\n  {chosen['because']}\n\n  not taken")
    assert all(row["model"] in text and row["reason"] in text for row in chosen["runners_up"])
    assert "auto" not in text.replace(chosen["because"], "")
    because = f"  because  {chosen['because']}\n"
    assert because in run("why", "recipe.toml", "model.name").stdout
    assert run("build", "recipe.toml", "-o", "out").exit_code == 0
    assert because in run("why", "out", "model").stdout


def test_check_says_how_many_rows_were_read_and_what_has_not_run(run, folder):
    row = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Good day."}]}
    (folder / "many.jsonl").write_text((json.dumps(row) + "\n") * 3_000)
    recipe = re.sub(r'train = "[^"]*"', 'train = "many.jsonl"', RECIPE)
    (folder / "many.toml").write_text(recipe)
    assert run("check", "many.toml").stdout.endswith("; read: the first 2,000 of 3,000 rows of data.train\n")
    assert "Later checks" not in run("check", "many.toml").stderr
    (folder / "many.toml").write_text(recipe.replace("many.jsonl", "none.jsonl"))
    assert run("check", "many.toml").stderr.endswith("correct these first, since more may follow.\n")


def test_commands_for_files_say_where_they_run_from_another_folder(run, folder):
    named = "The commands name files as the recipe does: run them in below, the recipe's folder.\n"
    (folder / "below").mkdir()
    (folder / "below/recipe.toml").write_text(re.sub(r'train = "[^"]*"', 'train = "../odd.jsonl"', RECIPE))
    (folder / "recipe.toml").write_text(re.sub(r'train = "[^"]*"', 'train = "odd.jsonl"', RECIPE))
    (folder / "odd.jsonl").write_bytes(json.dumps({"text": "Grüße"}, ensure_ascii=False).encode("cp1252"))
    assert "`iconv" in run("check", "below/recipe.toml").stderr
    assert named in run("check", "below/recipe.toml").stderr
    assert "run them in" not in run("check", "recipe.toml").stderr
    assert "run them in" not in run("check", "below/recipe.toml", "--format", "concise").stderr


def test_two_stages_have_a_total(run, folder):
    pairs = [{"prompt": f"Hi {n}", "chosen": "Good day.", "rejected": "No."} for n in range(40)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    text = RECIPE.replace('"instruct"', '"align"').replace("[hardware]", 'preferences = "pairs.jsonl"\n\n[hardware]')
    (folder / "two.toml").write_text(text)

    assert "all stages  " in run("plan", "two.toml").stdout
    assert run("check", "two.toml").stdout == "two.toml: fine, sft (single) then dpo (single)\n"

    found = json.loads(run("why", "two.toml", "train.learning_rate", "--json").stdout)["decisions"]
    assert [decision["id"] for decision in found] == ["sft.learning_rate", "dpo.learning_rate"]
    assert [decision["origin"] for decision in found] == ["rule", "recipe"]
    one = json.loads(run("why", "two.toml", "dpo.learning_rate", "--json").stdout)["decisions"]
    assert [decision["id"] for decision in one] == ["dpo.learning_rate"]


def test_check_as_json_names_the_recipe_of_each_diagnostic(run):
    document = json.loads(run("check", "recipe.toml", "broken.toml", "none.toml", "--json").stdout)

    assert [(found["recipe"], found["code"]) for found in document["diagnostics"]] == [
        ("broken.toml", "E0203"),
        ("none.toml", "E0001"),
    ]
    assert document["summary"] == {"errors": 2, "warnings": 0}
    assert [row["errors"] for row in document["recipes"]] == [0, 1, 1]


def test_build_says_what_it_made_and_what_to_do_next(run):
    text = run("build", "recipe.toml", "-o", "out").stdout

    assert "  + train.py\n" in text
    ending = r"The bundle is in out\.\n\nNext:\n  recipec verify out\n  bash out/launch/local\.sh --max-steps \d+\n$"
    assert re.search(ending, text)


@pytest.mark.parametrize(
    ("more", "command"),
    [
        (
            'nodes = 2\nnetwork_gbps = 3200\n\n[train]\nstrategy = "hsdp"\nglobal_batch_size = 512\n',
            "# on each of the 2 nodes, which share big; NODE_RANK is 0 on the first, 1 on the next\n"
            "  NODE_RANK=0 MASTER_ADDR=first-node bash big/launch/nodes.sh --max-steps 2",
        ),
        ('\n[launch]\nwith = "none"\n', "python big/prepare_data.py"),
        ('nodes = 2\nnetwork_gbps = 3200\n\n[launch]\nwith = "none"\n', "python big/prepare_data.py"),
    ],
)
def test_build_names_the_command_of_the_launcher(run, folder, more, command):
    hardware = f'[hardware]\ngpu = "h100"\ngpus_per_node = 8\n{more}'
    (folder / "big.toml").write_text(f"{RECIPE.partition('[hardware]')[0]}{hardware}")

    assert run("build", "big.toml", "-o", "big").stdout.endswith(f"recipec verify big\n  {command}\n")


def test_building_twice_changes_nothing(run, out):
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}

    result = run("build", "recipe.toml", "-o", "out", "--json")

    document = json.loads(result.stdout)
    assert {change["mark"] for change in document["changes"]} == {"="}
    assert (document["written"], document["stale"], document["decisions"]) == (False, False, [])
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert "The bundle in out was up to date." in run("build", "recipe.toml", "-o", "out").stdout


@pytest.mark.parametrize(("recipe", "code"), [("recipe.toml", 0), ("faster.toml", 1)])
def test_check_finds_a_stale_bundle_and_writes_nothing(run, out, recipe, code):
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    result = run("build", recipe, "-o", "out", "--check")

    assert result.exit_code == code
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_dry_run_prints_the_changes_and_writes_nothing(run, folder):
    dry = json.loads(run("build", "recipe.toml", "-o", "new", "--dry-run", "--json").stdout)
    assert not (folder / "new").exists()
    assert not dry["written"]
    assert "Nothing was written." in run("build", "recipe.toml", "-o", "new", "--dry-run").stdout

    wet = json.loads(run("build", "recipe.toml", "-o", "new", "--json").stdout)

    assert dry["changes"] == wet["changes"]


def test_a_build_says_what_it_did_and_a_dry_run_what_it_would_do(run, folder):
    new = run("build", "recipe.toml", "-o", "new", "--dry-run").stdout
    assert re.search(r"\nFiles: \d+ to create\.\n", new)
    assert re.search(r"\nFiles: \d+ created\.\n", run("build", "recipe.toml", "-o", "new").stdout)
    assert re.search(r"\nFiles: \d+ unchanged\.\n", run("build", "recipe.toml", "-o", "new").stdout)
    assert re.search(r"\nFiles: \d+ updated, \d+ unchanged\.\n", run("build", "faster.toml", "-o", "new").stdout)


def test_a_rebuild_names_the_decisions_behind_its_changes(run, out):
    text = run("build", "faster.toml", "-o", "out").stdout

    assert "  ~ train.py\n" in text
    assert "sft.learning_rate: 2e-4 -> 4e-4  (set in faster.toml:17" in text


def test_conflicts(run, out):
    train = out / "train.py"
    number = line_of(train, "learning_rate=")
    train.write_text(train.read_text().replace("learning_rate=2e-4", "learning_rate=3e-3"))

    fails = run("build", "faster.toml", "-o", "out", "--conflict", "fail")
    assert (fails.exit_code, "Nothing was written." in fails.stdout) == (1, True)
    assert fails.stderr.startswith("warning[W0701]")
    marks = run("build", "faster.toml", "-o", "out")
    assert (marks.exit_code, "  ! train.py  " in marks.stdout) == (1, True)
    assert "<<<<<<<" in train.read_text().splitlines()[number - 1]
    again = run("build", "faster.toml", "-o", "out")
    assert (again.exit_code, "Nothing was written. Conflicts are open in train.py: " in again.stdout) == (1, True)
    assert "only the records" not in again.stdout.lower()
    forced = run("build", "faster.toml", "-o", "out", "--force")
    assert (forced.exit_code, "learning_rate=4e-4" in train.read_text()) == (0, True)


def test_one_file_is_restored_and_other_edits_stay(run, out):
    train, gone = out / "train.py", out / "prepare_data.py"
    built, edited = gone.read_text(), train.read_text() + "\n# mine\n"
    train.write_text(edited)
    gone.unlink()
    told = run("build", "recipe.toml", "-o", "out")
    assert "restore it with --restore prepare_data.py" in told.stdout
    restored = run("build", "recipe.toml", "-o", "out", "--restore", "out/prepare_data.py")
    assert (restored.exit_code, gone.read_text(), train.read_text()) == (0, built, edited)
    assert run("build", "recipe.toml", "-o", "out", "--restore", "train.py").exit_code == 0
    assert "# mine" not in train.read_text()
    assert run("build", "recipe.toml", "-o", "out", "--restore", str(gone.absolute())).exit_code == 0
    strange = run("build", "recipe.toml", "-o", "out", "--restore", "trian.py")
    assert (strange.exit_code, "did you mean train.py?" in strange.stderr) == (2, True)


def test_files_of_others_are_not_touched(run, folder):
    (folder / "full").mkdir()
    (folder / "full" / "train.py").write_text("mine")

    result = run("build", "recipe.toml", "-o", "full")

    assert result.exit_code == 2
    assert result.stderr.startswith("error[E0701]")
    assert (folder / "full" / "train.py").read_text() == "mine"


def test_check_says_that_a_deleted_file_is_not_noted_yet(run, folder):
    run("build", "recipe.toml", "-o", "new")
    (folder / "new" / "ruff.toml").unlink()
    checked = run("build", "recipe.toml", "-o", "new", "--check")
    assert "Only the records of recipec in the folder are out of date" in checked.stdout
    run("build", "recipe.toml", "-o", "new")
    assert run("build", "recipe.toml", "-o", "new", "--check").exit_code == 0


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_lines_that_were_edited_are_named_with_the_key_that_says_the_same(run, out, check):
    train = out / "train.py"
    line = line_of(train, "learning_rate=2e-4")
    edited = train.read_text().replace("learning_rate=2e-4", "learning_rate=9e-5")
    train.write_text(edited.replace("import argparse", "import argparse  # mine", 1))
    assert json.loads(run("build", "recipe.toml", "-o", "out", "--json", *check).stdout)["edits"] == [
        {"file": "train.py", "line": 12, "built": "import argparse", "now": "import argparse  # mine", "key": ""},
        {
            "file": "train.py",
            "line": line,
            "built": "learning_rate=2e-4,",
            "now": "learning_rate=9e-5,",
            "key": "train.learning_rate",
        },
    ]
    text = run("build", "recipe.toml", "-o", "out", *check).stdout
    assert (
        f"  train.py:{line}: learning_rate=2e-4, -> learning_rate=9e-5,  "
        "(to keep it in the recipe, set `train.learning_rate`)\n"
    ) in text
    assert "lines that you edited; README.md and registry/entry.json show the values as built:\n" in text
    assert "lines that you edited" not in run("build", "recipe.toml", "-o", "out", "--force").stdout


def test_many_edited_lines_are_cut(run, out):
    train = out / "train.py"
    train.write_text(train.read_text().replace("import ", "import  "))
    found = json.loads(run("build", "recipe.toml", "-o", "out", "--check", "--json").stdout)["edits"]
    assert f"  and {len(found) - 8} more line" in run("build", "recipe.toml", "-o", "out", "--check").stdout


def test_edits_of_damaged_records_are_passed_over(run, out):
    (out / ".recipec" / "source_map.json").write_text("{}")
    result = run("build", "recipe.toml", "-o", "out", "--check")
    assert (result.exit_code, result.stderr) == (1, "")


STATED = """
format = "instruction"
examples = 20_000
tokens_per_example = 600
"""
STATED = RECIPE.replace("[data]\n", f"[data]{STATED}")


def test_a_bundle_is_checked_where_the_data_are_not(run, folder):
    """As in CI: what the recipe states of its rows is enough, and nothing else is taken from them."""
    (folder / "stated.toml").write_text(STATED)
    row = {"instruction": "Count.", "input": "to 9", "output": "one, two"}
    (folder / "rows.jsonl").write_text(f"{json.dumps(row)}\n" * 9)
    run("build", "stated.toml", "-o", "out")
    (folder / "rows.jsonl").unlink()

    result = run("build", "stated.toml", "-o", "out", "--check")

    assert result.exit_code == 0, result.output
    assert "warning[W0518]: the rows of `rows.jsonl` are not checked" in result.stderr
    assert run("check", "stated.toml").exit_code == 0


@pytest.mark.parametrize("key", ["format", "examples", "tokens_per_example"])
def test_data_that_are_not_there_must_be_stated_in_full(run, folder, key):
    (folder / "stated.toml").write_text(re.sub(f"^{key} = .*\n", "", STATED, flags=re.MULTILINE))
    (folder / "rows.jsonl").unlink()

    result = run("check", "stated.toml")

    assert result.exit_code == 1
    assert "error[E0303]" in result.stderr


def attributes(folder: Path, path: str, *names: str) -> list[str]:
    """What git holds the attributes of a file to be."""
    command = ["git", "check-attr", *names, "--", path]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return [line.rpartition(": ")[2] for line in done.stdout.splitlines()]


def test_git_takes_the_records_for_generated_and_scripts_for_those_of_bash(run, out, folder):
    subprocess.run(["git", "init", "-q", folder], check=True)

    for record in ("lock.json", "last/train.py", "last/registry/entry.json"):
        assert attributes(folder, f"out/.recipec/{record}", "linguist-generated", "diff") == ["set", "unset"]
    for file in ("out/train.py", "rows.jsonl"):
        assert attributes(folder, file, "linguist-generated", "diff", "eol") == ["unspecified"] * 3
    assert attributes(folder, "out/launch/local.sh", "eol") == ["lf"]
    assert "fixed text of the template" in run("why", "out/.gitattributes:2").stdout


@pytest.mark.parametrize("place", ["out", "deep/er/out", "../beside", "../with space/out", "linked/out"])
def test_the_readme_leads_from_the_bundle_to_the_recipe(run, folder, place):
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.mkdir()
    (folder / "linked").symlink_to(elsewhere)
    assert run("build", "recipe.toml", "-o", place).exit_code == 0

    readme = (folder / place / "README.md").read_text()
    command = next(line for line in readme.splitlines() if line.startswith("export DATA_ROOT="))
    shell = f'{command}\ncd -P -- "$DATA_ROOT" && pwd -P'
    found = subprocess.run(["bash", "-c", shell], cwd=folder / place, capture_output=True, text=True, check=True)

    assert found.stdout.strip() == str(folder.resolve())
    assert run("build", "recipe.toml", "-o", place, "--check").exit_code == 0
    assert run("diff", "recipe.toml", place).stdout == "no differences\n"


def test_a_stage_that_is_new_or_gone_is_told_in_a_line():
    """And the changed decisions of the others one by one."""

    def side(value):
        return {"value": value, "because": f"it is {value}", "origin": "rule", "where": ""}

    rows = [
        ("dpo.stage", None, side("dpo")),
        ("dpo.beta", None, side(0.1)),
        ("sft.task", side("instruct"), side("align")),
    ]
    rows += [("kto.stage", side("kto"), None), ("sft.fresh", None, side(1))]
    nothing = {"changes": [], "edits": [], "next": [], "written": True, "stale": True, "recipe": "r.toml", "out": "out"}
    document = nothing | {"decisions": [{"id": id, "a": a, "b": b} for id, a, b in rows]}

    lines = build_text(document).partition("because these decisions changed:\n")[2].splitlines()

    assert lines[:4] == [
        "  dpo: a new stage, with 2 decisions",
        "  kto: no longer a stage, with 1 decision",
        "  sft.task: instruct -> align  (it is align)",
        "  sft.fresh: absent -> 1  (it is 1)",
    ]
