"""The contract of every command: exit codes, streams, colours, and no traceback whatever is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from recipec.cli import group

HEAVY = (
    "torch",
    "transformers",
    "jsonschema",
    "yaml",
    "rich",
    "logging",
    "asyncio",
    "subprocess",
    "importlib.metadata",
)


def shell(*arguments: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    """A real process; python -m recipec."""
    repository = str(Path(group.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": repository, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= options.pop("env", {})  # type: ignore[operator]
    command = [sys.executable, "-m", "recipec", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, check=False, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("command", group.COMMANDS)
def test_every_command_has_help(run, command):
    result = run(command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert "--color" in result.stdout


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
    (["why", "recipe.toml:3"], 2, "", "error: `recipe.toml` is not in a bundle"),
    (["explain", "OPT-001"], 0, "# OPT-001", ""),
    (["explain", "E9999"], 2, "", "error: nothing is called `E9999`"),
    (["diff", "recipe.toml", "recipe.toml"], 0, "no difference", ""),
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
    (["train"], 2, "", "Usage:"),
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


def test_a_name_that_is_not_utf8_is_refused_as_a_recipe_and_taken_as_a_folder(folder):
    strange = os.fsencode(folder) + b"/\xff"
    os.mkdir(strange)
    for name in (b"recipe.toml", b"rows.jsonl"):
        Path(os.fsdecode(strange + b"/" + name)).write_bytes((folder / os.fsdecode(name)).read_bytes())

    assert shell("check", b"\xff.toml", cwd=folder).returncode == 2
    built = shell("build", b"\xff/recipe.toml", "-o", b"\xff/out", "--json", cwd=folder)

    assert (built.returncode, built.stderr) == (0, b"")
    assert json.loads(built.stdout)["out"] == "\udcff/out"
    assert shell("why", b"\xff/out/train.py:1", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("environment", "flags", "coloured"),
    [
        ({}, [], False),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": ""}, [], False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
        ({"FORCE_COLOR": "1"}, ["--color", "auto"], True),
    ],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_colour(run, monkeypatch, environment, flags, coloured, place):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    plan, check = ["plan", "recipe.toml"], ["check", "broken.toml"]
    lines = [[*flags, *each] if place == "before" else [*each, *flags] for each in (plan, check)]

    assert ("\x1b[" in run(*lines[0]).stdout) is coloured
    assert ("\x1b[" in run(*lines[1]).stderr) is coloured


def failing(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("schema", callback=fail)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (RuntimeError("of us"), 2, "error: this is a bug in recipec: RuntimeError: of us"),
        (RecursionError(), 2, "error: this is a bug in recipec: RecursionError"),
        (PermissionError(13, "Permission denied", "file"), 2, "error: this is a bug in recipec: PermissionError"),
        (OSError(28, "No space left on device"), 2, "error: cannot write the output: no space left on device"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_every_way_to_end_has_a_code_and_no_traceback(run, monkeypatch, error, code, says):
    monkeypatch.setattr(group.CommandLine, "get_command", lambda *_: failing(error))

    result = run("schema")

    assert result.exit_code == code
    assert result.stderr.strip().startswith(says)
    assert "Traceback" not in result.output


def test_the_traceback_of_a_bug_is_shown_when_asked(run, monkeypatch):
    monkeypatch.setattr(group.CommandLine, "get_command", lambda *_: failing(RuntimeError("of us")))
    monkeypatch.setenv("RECIPEC_TRACEBACK", "1")

    assert "Traceback" in run("schema").stderr


def test_a_reader_that_goes_away_and_a_full_disk_are_no_bugs(folder):
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(Path(group.__file__).parents[2])}
    command = [sys.executable, "-m", "recipec", "schema"]

    gone = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writer)

    assert (gone.returncode, gone.stderr) == (141, b"")


def imported_by(folder: Path, *arguments: str) -> set[str]:
    """The modules in a fresh process after a command."""
    code = (
        "import sys, runpy\nsys.argv = ['recipec', *sys.argv[1:]]\n"
        "try: runpy.run_module('recipec', run_name='__main__')\n"
        "except SystemExit: pass\nfinally: print('\\n' + ' '.join(sys.modules), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(group.__file__).parents[2])}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, cwd=folder, env=environment, check=False, text=True)
    return set(done.stderr.splitlines()[-1].split())


LIGHT = [
    ["explain", "E0203"],
    ["list", "models"],
    ["schema"],
    ["why", "out/train.py:1"],
    ["why", "out", "epochs"],
    ["diff", "out", "out"],
]


def test_commands_import_only_what_they_need(out, folder):
    for arguments in (["--help"], ["--version"]):
        ours = {name for name in imported_by(folder, *arguments) if name.startswith("recipec.")}
        assert ours == {"recipec.cli", "recipec.cli.group", "recipec.cli.color", "recipec.cli.exit_codes"}

    for arguments in LIGHT:
        found = imported_by(folder, *arguments)
        assert not {"pydantic", "jinja2", *HEAVY} & found, arguments

    for arguments in (["build", "recipe.toml", "-o", "new"], ["plan", "recipe.toml"]):
        assert not set(HEAVY) & imported_by(folder, *arguments), arguments


def test_python_dash_m_is_the_console_script(folder):
    done = shell("check", "recipe.toml", cwd=folder)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"recipe.toml: fine, sft (single)\n"


def test_without_unicode_the_bars_are_ascii(folder):
    plain = shell("plan", "recipe.toml", cwd=folder, env={"PYTHONIOENCODING": "ascii"})
    unicode = shell("plan", "recipe.toml", cwd=folder, env={"PYTHONIOENCODING": "utf-8"})

    assert plain.stdout.isascii() and b"####" in plain.stdout
    assert "████" in unicode.stdout.decode()
