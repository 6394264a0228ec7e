"""Real processes: what is imported, colours, endings, encodings and strange names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from jinja2 import TemplateNotFound

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
PYDANTIC_HAS = {"logging", "importlib.metadata"}  # it looks for plug-ins


def shell(*arguments: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    """A real process; python -m recipec."""
    repository = str(Path(group.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": repository, "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= options.pop("env", {})  # type: ignore[operator]
    command = [sys.executable, "-m", "recipec", *arguments]
    return subprocess.run(command, capture_output=True, env=environment, check=False, **options)  # type: ignore[call-overload]


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
        (TemplateNotFound("rows/x.py.j2"), 2, "error: this is a bug in recipec: TemplateNotFound: rows/x.py.j2"),
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


def test_a_reader_that_goes_away_is_no_bug(folder):
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


PRINTING = {"recipec.diagnostics", "recipec.diagnostics.printable"}


def test_commands_import_only_what_they_need(out, folder):
    for arguments in (["--help"], ["--version"]):
        ours = {name for name in imported_by(folder, *arguments) if name.startswith("recipec.")}
        assert ours == {"recipec.cli", "recipec.cli.group", "recipec.cli.output", *PRINTING}

    for arguments in LIGHT:
        found = imported_by(folder, *arguments)
        assert not {"pydantic", "jinja2", *HEAVY} & found, arguments

    for arguments in (["build", "recipe.toml", "-o", "new"], ["plan", "recipe.toml"]):
        assert not ({*HEAVY} - PYDANTIC_HAS) & imported_by(folder, *arguments), arguments


def test_python_dash_m_is_the_console_script(folder):
    done = shell("check", "recipe.toml", cwd=folder)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"recipe.toml: fine, sft (single)\n"


def test_without_unicode_the_bars_are_ascii(folder):
    plain = shell("plan", "recipe.toml", cwd=folder, env={"PYTHONIOENCODING": "ascii"})
    unicode = shell("plan", "recipe.toml", cwd=folder, env={"PYTHONIOENCODING": "utf-8"})

    assert plain.stdout.isascii() and b"####" in plain.stdout
    assert "████" in unicode.stdout.decode()
