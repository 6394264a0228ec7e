"""The contract of every command: exit codes, streams, JSON, and no traceback whatever is asked."""

from __future__ import annotations

import json

import pytest

from recipec.cli import group, habits


@pytest.mark.parametrize("command", group.COMMANDS)
def test_every_command_has_help(run, command):
    result = run(command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert "--color" in result.stdout


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("train", "launch/local.sh"),
        ("run", "launch/local.sh"),
        ("sft", '`goal.task = "instruct"`'),
        ("dpo", '`alignment.method = "dpo"`'),
        ("preprocess", "prepare_data.py"),
        ("merge-lora", "merge_adapter.py"),
        ("merge_lora", "merge_adapter.py"),
        ("inference", '"The result"'),
        ("export", '"The result"'),
        ("chat", '"The result"'),
        ("validate", "`recipec check"),
        ("compile", "`recipec build"),
        ("new", "`recipec init"),
        ("chekc", "`recipec check`"),
        ("recipe.toml", "`recipec plan recipe.toml`"),
        ("zzz", "`recipec --help`"),
    ],
)
def test_a_command_of_another_tool_leads_to_the_command_or_script(run, word, named):
    result = run(word)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: recipec has no command `{word}`") and named in result.stderr


@pytest.mark.parametrize("word", habits.ELSEWHERE)
def test_every_such_word_has_a_page_and_is_no_command(run, word):
    assert word not in group.COMMANDS
    assert run("explain", word).exit_code == 0


def test_a_method_as_the_task_of_init_is_told_the_task(run):
    result = run("init", "new", "--task", "sft")

    assert result.exit_code == 2 and "use `--task instruct`" in result.stderr


# command line, exit code, the start of stdout and of stderr ("" means that nothing is there)
CONTRACT = [
    (["check", "recipe.toml"], 0, "recipe.toml: fine", ""),
    (["check", "recipe.toml", "faster.toml"], 0, "recipe.toml: fine", ""),
    (["check", "risky.toml"], 0, "risky.toml: fine", "warning[W0501]"),
    (["check", "broken.toml"], 1, "", "error[E0203]"),
    (["check", "recipe.toml", "broken.toml"], 1, "recipe.toml: fine", "error[E0203]"),
    (["check", "broken.toml", "none.toml"], 2, "", "error[E0203]"),
    (["check", "."], 1, "", "error[E0002]"),
    (["check", "-"], 2, "", "error[E0001]"),
    (["check"], 2, "", "Usage:"),
    (["check", "broken.toml", "--format", "concise"], 1, "", "broken.toml:17:1: E0203"),
    (["check", "broken.toml", "--json"], 1, "{", ""),
    (["plan", "recipe.toml"], 0, "sft  supervised fine-tuning", ""),
    (["plan", "recipe.toml", "--json"], 0, "{", ""),
    (["plan", "broken.toml"], 1, "", "error[E0203]"),
    (["plan", "broken.toml", "--json"], 1, "", "{"),
    (["plan", "none.toml"], 2, "", "error[E0001]"),
    (["plan", "rows.jsonl"], 1, "", "error[E0101]"),
    (["build", "recipe.toml"], 2, "", "Usage:"),
    (["build", "none.toml", "-o", "out"], 2, "", "error[E0001]"),
    (["build", "broken.toml", "-o", "out"], 1, "", "error[E0203]"),
    (["build", "recipe.toml", "-o", "rows.jsonl"], 2, "", "error[E0702]"),
    (["build", "recipe.toml", "-o", "new", "--check"], 1, "recipe.toml -> new", ""),
    (["build", "recipe.toml", "-o", "new", "--conflict", "both"], 2, "", "Usage:"),
    (["why", "recipe.toml", "learning_rate"], 0, "sft.learning_rate = 2e-4", ""),
    (["why", "recipe.toml", "learning_rte"], 1, "", "error: no decision is called `learning_rte`"),
    (["why", "broken.toml", "learning_rate"], 1, "", "error[E0203]"),
    (["why", "none.toml", "learning_rate"], 2, "", "error[E0001]"),
    (["why", ".", "learning_rate"], 1, "", "error: `.` is not a bundle"),
    (["why", "recipe.toml"], 2, "", "Usage:"),
    (["why", "recipe.toml:3"], 2, "", "error: `recipe.toml` is not inside a bundle"),
    (["explain", "OPT-001"], 0, "# OPT-001", ""),
    (["explain", "E9999"], 2, "", "error: nothing is called `E9999`"),
    (["diff", "recipe.toml", "recipe.toml"], 0, "no differences", ""),
    (["diff", "recipe.toml", "faster.toml"], 1, "sft.learning_rate: 2e-4 -> 4e-4", ""),
    (["diff", "recipe.toml", "none"], 2, "", "error[E0001]"),
    (["diff", "recipe.toml", "."], 1, "", "error: `.` is not a bundle"),
    (["list", "methods"], 0, "name", ""),
    (["list", "cars"], 2, "", "Usage:"),
    (["schema"], 0, "{", ""),
    (["verify", "none"], 2, "", "error: there is no folder `none`"),
    (["verify", "."], 1, "", "error: `.` is not a bundle"),
    (["verify", ".", "--ranks", "0"], 2, "", "Usage:"),
    (["init", "new"], 2, "", "error: missing --data, --task"),
    (["train"], 2, "", "error: recipec has no command `train`"),
    (["--version"], 0, "recipec ", ""),
]


@pytest.mark.parametrize(
    ("arguments", "code", "stdout", "stderr"), CONTRACT, ids=[" ".join(row[0]) for row in CONTRACT]
)
def test_exit_codes_and_streams(run, arguments, code, stdout, stderr):
    result = run(*arguments)

    assert result.exit_code == code, result.output
    assert result.stdout.startswith(stdout) and bool(result.stdout) == bool(stdout)
    assert result.stderr.startswith(stderr) and bool(result.stderr) == bool(stderr)


JSON = [
    ["check", "recipe.toml", "broken.toml", "none.toml"],
    ["plan", "recipe.toml"],
    ["build", "recipe.toml", "-o", "new"],
    ["why", "recipe.toml", "epochs"],
    ["explain", "OPT-001"],
    ["diff", "recipe.toml", "faster.toml"],
    *(["list", what] for what in ("models", "gpus", "rules", "methods", "strategies")),
]


@pytest.mark.parametrize("arguments", JSON, ids=" ".join)
def test_json_is_one_versioned_document(run, arguments):
    result = run(*arguments, "--format", "json")

    assert json.loads(result.stdout_bytes)["schema_version"] == 1
    assert run(*arguments, "--json").stdout_bytes.startswith(b"{")


HOSTILE = [
    ["check", ""],
    ["check", "a\0b"],
    ["check", "line\nbreak.toml"],
    ["check", "x" * 5000],
    ["plan", "\udcff.toml"],
    ["plan", "/dev/null"],
    ["plan", "--", "--help"],
    ["build", "recipe.toml", "-o", ""],
    ["build", "recipe.toml", "-o", "x" * 5000],
    ["build", "recipe.toml", "-o", "a\0b"],
    ["why", "a:b:c"],
    ["why", "rows.jsonl:1"],
    ["why", ":1", "x"],
    ["why", "out/train.py:" + "9" * 5000],
    ["why", "recipe.toml", "\udcff\x1b[31m"],
    ["explain", "../../etc/passwd"],
    ["explain", "\udcff"],
    ["diff", "", "recipe.toml"],
    ["diff", "recipe.toml", "\udcff"],
    ["verify", "a\0b"],
    ["init", "rows.jsonl", "--data", "rows.jsonl", "--gpu", "h100", "--yes"],
    ["init", "new", "--data", "\udcff", "--gpu", "h100", "--yes"],
    ["init", "new", "--data", "**/[", "--gpu", "h100", "--yes"],
    ["init", "new", "--data", "rows.jsonl", "--gpu", "h100", "--model", 'a"\nb', "--yes"],
]


@pytest.mark.parametrize("arguments", HOSTILE, ids=lambda row: ascii(" ".join(row))[:60])
def test_hostile_arguments_are_refused_without_a_bug(run, folder, arguments):
    before = sorted(folder.rglob("*"))

    result = run(*arguments)

    assert result.exit_code in (1, 2)
    assert "bug in recipec" not in result.stderr
    assert "\x1b" not in result.output
    assert sorted(folder.rglob("*")) == before
