"""init: flags, questions and proposals; what it writes compiles."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from recipec.axes import ROW_FORMATS
from recipec.cli import init, init_questions
from recipec.recipe.schema import Task

DATA = {
    "instruct": {"prompt": "Who?", "completion": "Me."},
    "align": {"prompt": "Who?", "chosen": "Me.", "rejected": "No."},
    "continue-pretrain": {"text": "Once upon a time. " * 2_000},
}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch, tmp_path):
    """The proposals must not depend on this machine."""
    monkeypatch.setattr(init_questions, "_DRIVER", tmp_path / "driver")


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_tasks_are_those_of_the_language(run):
    offered = re.search(r"--task \[(.*?)\]", run("init", "--help").stdout)[1]
    assert offered.split("|") == list(get_args(get_args(Task)[0]))


@pytest.mark.parametrize("task", ["continue-pretrain", "pretrain"])
def test_raw_text_gets_a_base_model(run, folder, task):
    rows = [json.dumps({"text": f"Pump {n} moves water. " * 400}) for n in range(200)]
    (folder / "manual.jsonl").write_text("\n".join(rows))
    run("init", "new", "--data", "manual.jsonl", "--task", task, "--gpu", "h100", "--yes")
    written = folder / "new" / "recipe.toml"

    plan = json.loads(run("plan", str(written), "--json").stdout)
    values = {decision["id"]: decision["value"] for decision in plan["stages"][0]["decisions"]}
    assert values["model_kind"] == "base"
    offered = '# adaptation = "lora" ' in written.read_text()
    assert offered == (task != "pretrain"), "random weights are all trained"


@pytest.mark.parametrize("task", DATA)
def test_the_data_propose_the_task_and_the_recipe_compiles(run, folder, task):
    rows = ({name: f"{text}{n}" for name, text in DATA[task].items()} for n in range(50))
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    result = run("init", "My Bot", "--data", "data.jsonl", "--gpu", "rtx-4090", "--yes")

    assert result.exit_code == 0, result.output
    recipe = read(folder / "My Bot" / "recipe.toml")
    assert (recipe["goal"]["task"], recipe["recipe"]["name"]) == (task, "my-bot")
    assert "Next:\n  recipec check 'My Bot/recipe.toml'\n  recipec plan 'My Bot/recipe.toml'\n" in result.stdout
    assert run("check", "My Bot/recipe.toml").exit_code == 0
    text = (folder / "My Bot" / "recipe.toml").read_text()
    assert text.startswith("#:schema recipe.schema.json\n")
    assert "50 of 50 sampled rows have" in text
    assert json.loads((folder / "My Bot" / "recipe.schema.json").read_text())["$schema"]


def test_a_task_that_needs_another_model_gets_a_pair_that_goes_together(run, folder):
    result = run("init", "new", "--data", "rows.jsonl", "--task", "distill", "--gpu", "h100", "--yes")

    assert result.exit_code == 0, result.output
    recipe = read(folder / "new" / "recipe.toml")
    assert (recipe["model"]["name"], recipe["alignment"]) == ("Qwen/Qwen3-1.7B", {"teacher": "Qwen/Qwen3-14B"})


@pytest.mark.parametrize(("gpu", "model"), [("rtx-4090", "Qwen/Qwen3-8B"), ("t4", "Qwen/Qwen3-4B-Instruct-2507")])
def test_the_choice_of_the_model_is_left_to_the_compiler_and_told(run, folder, gpu, model):
    result = run("init", "new", "--data", "rows.jsonl", "--gpu", gpu, "--yes")

    assert read(folder / "new" / "recipe.toml")["model"]["name"] == "auto"
    assert f"Its model is {model}: " in result.stdout


def test_the_gpus_of_the_machine_are_proposed(run, folder, tmp_path):
    for device in ("0", "1"):
        (tmp_path / "driver" / device).mkdir(parents=True)
        (tmp_path / "driver" / device / "information").write_text("Model: \t\t NVIDIA GeForce RTX 4090\nIRQ: 1\n")

    run("init", "new", "--data", "rows.jsonl", "--yes")

    assert read(folder / "new" / "recipe.toml")["hardware"] == {"gpu": "rtx-4090", "gpus_per_node": 2}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "missing --data, --task, --gpu, --gpus, --model, --name"),
        (["--data", "rows.jsonl", "--gpu", "h100"], "missing --task, --gpus, --model, --name"),
        (["--yes"], "missing --data, --gpu"),
        (["--yes", "--gpu", "h100", "--data", "none.jsonl"], "--data: no file `none.jsonl`"),
        (["--yes", "--gpu", "h100", "--data", "recipe.toml"], "--data: recipe.toml: its ending `.toml`"),
        (
            ["--yes", "--gpu", "h1000", "--data", "rows.jsonl"],
            "--gpu: no GPU `h1000` in the catalog; similar names: h100",
        ),
        (["--yes", "--gpu", "h100", "--data", "rows.jsonl", "--gpus", "0"], "--gpus: enter a number from 1 to 8"),
        (["--yes", "--gpu", "h100", "--data", "rows.jsonl", "--name", "A b"], "a letter or digit, such as a-b"),
        (["--yes", "--gpu", "h100", "--data", "."], "--data: a folder; name its files: ./*.jsonl"),
        (
            ["--yes", "--gpu", "h100", "--data", "rows.jsonl", "--model", "llama3-8b"],
            "--model: no model `llama3-8b` in the catalog; similar names: meta-llama/Meta-Llama-3-8B",
        ),
        (
            ["--yes", "--gpu", "h100", "--data", "rows.jsonl", "--model", "acme/Big-VL-7B"],
            "name a checkpoint of the catalog whose language model is trained on text, such as",
        ),
        (["--yes", "--gpu", "h100", "--data", "rows.jsonl", "--model", "m/\udcff"], "--model: "),
        (["--yes", "--gpu", "h100", "--data", "a/b"], f"--format: Format of its rows ({', '.join(ROW_FORMATS)})"),
        (["--data", "a/b"], f"--format: Format of its rows ({', '.join(ROW_FORMATS)})"),
    ],
)
def test_what_is_missing_or_wrong_is_named_and_nothing_is_written(run, folder, flags, says):
    result = run("init", "new", *flags)

    assert result.exit_code == 2
    assert says in result.stderr
    assert not (folder / "new").exists()


@pytest.mark.parametrize("named", ["data/docs", "data/docs/", "./data/docs", "data/docs/**"])
@pytest.mark.parametrize(
    ("files", "glob"), [(["a.md", "b.txt"], "*"), (["a.md"], "*.md"), (["a.md", "b.txt", "c.csv"], "*.csv or")]
)
def test_a_folder_that_is_there_is_no_data_set_of_the_hub(run, folder, named, files, glob):
    (folder / "data/docs").mkdir(parents=True)
    for name in files:
        (folder / "data/docs" / name).write_text("Press the button.")
    result = run("init", "new", "--yes", "--gpu", "h100", "--data", named)
    path = named.removesuffix("**").rstrip("/")
    assert f"--data: a folder; name its files: {path}/{glob}" in f"{result.stderr} or".replace("\n", "")


def test_text_files_beside_others_are_named_and_taken_as_a_list(run, folder):
    (folder / "docs").mkdir()
    for name in ("a.md", "b.txt", "c.png"):
        (folder / "docs" / name).write_text("Press the button.")
    listed = '["docs/*.md", "docs/*.txt"]'
    flags = ("--yes", "--gpu", "h100", "--model", "Qwen/Qwen2.5-3B", "--task", "continue-pretrain")
    refused = run("init", "new", *flags, "--data", "docs").stderr.replace("\n", "")
    assert f"name its files: {listed}" in refused
    assert "Wrote new/recipe.toml." in run("init", "new", *flags, "--data", listed).output
    written = tomllib.loads((folder / "new/recipe.toml").read_text())["data"]["domain_text"]
    assert written == ["../docs/*.md", "../docs/*.txt"]
    (folder / "new/recipe.toml").write_text((folder / "new/recipe.toml").read_text().replace("../docs/*.md", "../docs"))
    assert 'name its files: ["../docs/*.md", "../docs/*.txt"]' in run("check", "new/recipe.toml").stderr


@pytest.mark.parametrize(("files", "held"), [(["train.jsonl"], "data/*.jsonl"), ([], "no data files")])
def test_a_mistyped_file_of_a_folder_that_is_there_is_no_data_set_of_the_hub(run, folder, files, held):
    (folder / "data").mkdir()
    for name in files:
        (folder / "data" / name).write_text((folder / "rows.jsonl").read_text())
    flags = ["--format", "chat", "--gpu", "h100", "--model", "Qwen/Qwen3-8B"]
    result = run("init", "new", "--yes", *flags, "--data", "data/missing")
    assert f"--data: no file `data/missing`; the folder `data` has {held}; for a data set" in result.stderr
    assert not (folder / "new").exists()
    assert run("init", "new", "--yes", *flags, "--data", "other/missing").exit_code == 0


def test_nothing_is_overwritten(run, folder):
    before = (folder / "recipe.toml").read_bytes()

    result = run("init", "--data", "rows.jsonl", "--gpu", "h100", "--yes")

    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "error: `recipe.toml` already exists",
    )
    assert (folder / "recipe.toml").read_bytes() == before


def test_questions_show_reasons_and_repeat_until_the_answer_can_be_used(folder, monkeypatch):
    from click.testing import CliRunner

    from recipec.cli.group import recipec

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(init, "sys", SimpleNamespace(stdin=Terminal()))

    answers = ["", "none.jsonl", "rows.jsonl", "", "", "rtx-9999", "blah", "rtx-4090", "9", "2", "", "bot"]
    result = CliRunner().invoke(recipec, ["init", "new"], input="\n".join(answers) + "\n")

    assert result.exit_code == 0, result.output
    recipe = read(folder / "new" / "recipe.toml")
    assert recipe["hardware"] == {"gpu": "rtx-4090", "gpus_per_node": 2}
    assert (recipe["recipe"]["name"], recipe["goal"]["task"]) == ("bot", "instruct")
    assert "instruct: instruction data: 177 of 177 sampled rows" in result.stdout
    assert "no GPU `rtx-9999` in the catalog; similar names: " in result.output
    some = "for example rtx-4090, a100-80gb, h100 or cpu; `recipec list gpus` shows all\n"
    assert f"no GPU `blah` in the catalog; {some}" in result.output
    assert f"enter a value, {some}" in result.output
    assert "enter a value, for example data/train.jsonl\n" in result.output
    assert "GPU []" not in result.output


def test_strings_of_the_user_are_data(run, folder):
    (folder / 'a"b # c.jsonl').write_text((folder / "rows.jsonl").read_text())

    run("init", "new", "--data", 'a"b # c.jsonl', "--gpu", "h100", "--model", './x"y', "--yes")

    recipe = read(folder / "new" / "recipe.toml")
    assert (recipe["data"]["train"], recipe["model"]["name"]) == ('../a"b # c.jsonl', '../x"y')


def test_a_data_set_of_the_hub_needs_its_format_and_the_recipe_compiles(run, folder):
    flags = ["--data", "HuggingFaceH4/ultrachat_200k", "--gpu", "h100", "--model", "Qwen/Qwen3-8B", "--name", "hub"]
    without = run("init", "new", *flags, "--yes")
    assert (without.exit_code, "missing --format" in without.stderr) == (2, True)

    result = run("init", "new", *flags, "--format", "chat", "--yes")
    assert result.exit_code == 0, result.stderr
    written = read(folder / "new/recipe.toml")
    source = {"hub": "HuggingFaceH4/ultrachat_200k", "split": "train"}
    assert written["data"] == {"train": source, "format": "chat"}
    assert written["goal"]["task"] == "instruct"


def test_the_format_of_files_is_read_and_not_asked_for(run, folder):
    assert "--format" not in run("init", "new", "--data", "nothing.jsonl").stderr
    (folder / "rows.jsonl").write_text(json.dumps(DATA["instruct"]) + "\n")
    idle = run("init", "new", "--data", "rows.jsonl", "--format", "chat", "--gpu", "cpu", "--yes")
    assert "--format is for a data set of the Hub: recipec reads the rows of files" in idle.stderr
    wrong = run("init", "new", "--data", "a/b", "--format", "alpaca", "--gpu", "cpu", "--yes")
    assert "--format: `alpaca` is not one of" in wrong.stderr


def test_the_split_of_a_data_set_of_the_hub_is_asked_for(run, folder):
    flags = ["--data", "HuggingFaceH4/ultrachat_200k", "--format", "chat", "--gpu", "h100", "--model", "Qwen/Qwen3-8B"]
    assert "--split" in run("init", "new", *flags).stderr
    run("init", "new", *flags, "--split", "train_sft", "--yes")
    assert read(folder / "new/recipe.toml")["data"]["train"]["split"] == "train_sft"


@pytest.mark.parametrize(
    ("target", "typed", "written"),
    [
        ("a/new", "./models/x", "../../models/x"),
        (".", "./models/x", "./models/x"),
        ("new", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("models", "./models/x", "./x"),
        ("new", "/models/x", "/models/x"),
    ],
)
def test_the_folder_of_a_model_is_written_as_seen_from_the_recipe(folder, target, typed, written):
    assert init._relative_model(typed, Path(target)) == written


def test_answered_questions_can_be_prompts_that_rewards_judge(run, folder):
    rows = [json.dumps({"question": f"What is {n} and 1?", "answer": str(n + 1)}) + "\n" for n in range(50)]
    (folder / "sums.jsonl").write_text("".join(rows))
    result = run("init", "new", "--task", "align", "--data", "sums.jsonl", "--gpu", "h100", "--yes")
    assert "E0201" in result.stderr and "needs `reward`" in result.stderr
    written = folder / "new/recipe.toml"
    assert read(written)["data"] == {"prompts": "../sums.jsonl", "format": "prompts"}
    (folder / "new/rewards.py").write_text("def is_right(completions, answer):\n    return [0.0 for _ in answer]\n")
    written.write_text(written.read_text().replace("# reward =", "reward ="))
    assert (checked := run("check", str(written))).exit_code == 0, checked.output


def test_a_gpu_with_its_number_is_taken_apart(run, folder):
    result = run("init", "new", "--data", "rows.jsonl", "--gpu", "4x A100 80GB", "--yes")
    assert "name one, a100-80gb, and their number with --gpus" in result.stderr


def test_incomplete_rows_are_left_out_and_counted(run, folder):
    rows = [{"instruction": f"Count to {n}.", "output": None if n % 10 == 9 else "one"} for n in range(60)]
    (folder / "gaps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("init", "new", "--data", "gaps.jsonl", "--gpu", "h100", "--yes")
    assert result.exit_code == 0, result.output
    assert read(folder / "new/recipe.toml")["data"]["incomplete"] == "skip"
    assert "# leaves out 6 of 60 sampled rows: no `output` in 6;" in (folder / "new/recipe.toml").read_text()


def test_rows_that_cannot_be_used_are_told_as_check_tells_them(run, folder):
    bad = [json.dumps({"prompt": f"Why {n}?", "completion": n}) for n in range(60)]
    (folder / "bad.jsonl").write_text("\n".join(bad))
    result = run("init", "new", "--data", "bad.jsonl", "--gpu", "h100", "--yes")
    assert result.exit_code == 1 and "60 of 60 sampled rows" in result.stderr
    assert "incomplete" not in read(folder / "new/recipe.toml")["data"]


def test_rows_of_no_format_are_refused_with_the_help_of_check(run, folder):
    odd = [json.dumps({"dialog": f"User: Why {n}?\nAssistant: So {n}."}) for n in range(60)]
    (folder / "odd.jsonl").write_text("\n".join(odd))
    result = run("init", "new", "--data", "odd.jsonl", "--gpu", "h100", "--yes")
    assert result.exit_code == 2 and "no known format fits" in result.stderr
    assert not (folder / "new").exists()


@pytest.mark.parametrize("asked", ["instruction", "prompt"])
def test_rows_of_public_datasets_are_refused_with_what_makes_pairs_or_answers_of_them(run, folder, asked):
    """Where a prompt is all that a format reads of them, too."""
    answers = [{"response": "So.", "score": 2}, {"response": "No.", "score": 1}]
    (folder / "odd.jsonl").write_text(
        "".join(json.dumps({asked: f"Why {n}?", "answers": answers}) + "\n" for n in range(9))
    )
    result = run("init", "new", "--data", "odd.jsonl", "--gpu", "h100", "--yes")
    assert result.exit_code == 2 and '"rejected": answers[0]' in result.stderr and '"completion": ' in result.stderr
    assert not (folder / "new").exists()


def test_ratings_are_told_in_the_recipe(run, folder):
    rows = [{"prompt": f"Why {n}?", "completion": f"So {n}.", "thumbs": "up" if n % 3 else "down"} for n in range(60)]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("init", "new", "--data", "rated.jsonl", "--gpu", "h100", "--yes").exit_code == 0
    text = (folder / "new/recipe.toml").read_text().replace("\n# ", " ")
    assert "to learn from the ratings in `thumbs`:" in text and '`method = "kto"` under [alignment]' in text
