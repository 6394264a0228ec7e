"""Files that cannot be read, and files that must not bring the compiler down."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recipec.diagnostics.human import human
from recipec.diagnostics.model import Report
from recipec.recipe import load_recipe
from recipec.recipe.source import MAX_BYTES
from recipes import BASE, codes, findings, load

HOSTILE = {
    "lists in lists": ("x = " + "[" * 100_000, "E0102"),
    "closed lists in lists": ("x = " + "[" * 200 + "]" * 200, "E0102"),
    "tables in tables": ("x = " + "{a=" * 60_000, "E0102"),
    "long dotted key": ("a." * 100_000 + "a = 1", "E0102"),
    "long quoted header": ("[" + '"a".' * 50_000 + "a]", "E0102"),
    "deep dotted key": (".".join("a" * 33) + " = 1", "E0102"),
    "digits": ("x = " + "9" * 5000, "E0103"),
    "65 bits": ("x = 18446744073709551616", "E0103"),
    "large file": ("#" * (MAX_BYTES + 1), "E0005"),
    "raw NUL": ("x = '\0'", "E0101"),
    "nothing but a quote": ('"', "E0101"),
    "surrogate": ("x = '\\ud800'".replace("'", '"'), "E0101"),
    "binary": (b"\x7fELF\x02\x01\xff", "E0003"),
}

PLANES = (0xF0000, 0xFFFFD, 0xFFFFE, 0x100000, 0x10FFFD, 0x10FFFF)  # private use, and the noncharacters between


@pytest.mark.parametrize(("text", "code"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused(tmp_path: Path, text: str | bytes, code: str) -> None:
    assert codes(tmp_path, recipe=text) == [code]


@pytest.mark.parametrize("number", [0, 0x1B, 0x7F, 0x85, 0x2028, 0x202E, 0xFEFF, 0xE000, 0xF8FF, 0xFDD0, *PLANES])
def test_a_forbidden_character_is_refused_wherever_it_stands(tmp_path: Path, number: int) -> None:
    escape = f"\\U{number:08x}"
    value = f'[recipe]\nname = "x"\ndescription = "a{escape}b"\n'
    key = f'[launch.env]\n"A{escape}" = "x"\n'
    assert codes(tmp_path, recipe=value + key) == ["E0006", "E0006"]


def test_line_breaks_tabs_and_emoji_are_text(tmp_path: Path) -> None:
    text = BASE.replace('name = "case"', 'name = "case"\ndescription = """\na\tb\nc \U0001f600"""')
    assert load(tmp_path, recipe=text.replace("\n", "\r\n")).recipe.recipe.description == "a\tb\nc \U0001f600"


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\u202e", "\ue000", "\U000f0000", "\udcff"])
def test_a_recipe_with_an_unfit_file_name_is_refused(tmp_path: Path, character: str) -> None:
    path = tmp_path / f"a{character}b.toml"
    path.write_text(BASE)
    report = Report()
    assert load_recipe(path, report) is None
    (diagnostic,) = report.diagnostics
    assert (diagnostic.code, diagnostic.notes != ()) == ("E0006", True)
    human(report.diagnostics).encode()


def test_a_syntax_error_points_at_its_column(tmp_path: Path) -> None:
    (diagnostic,) = findings(tmp_path, recipe="[recipe]\nname = 'é' oops\n").diagnostics
    assert diagnostic.code == "E0101"
    assert diagnostic.labels[0].place.span[:2] == (2, 12)


def test_an_unreadable_file_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").symlink_to("recipe.toml")
    report = Report()
    assert load_recipe(tmp_path / "recipe.toml", report) is None
    assert [diagnostic.code for diagnostic in report.diagnostics] == ["E0002"]


OLD_AUTO = BASE.replace('"Qwen/Qwen3-8B"', '"auto"\nlicences = ["MIT"]')
EXTENDING = BASE.replace("[recipe]\n", '[recipe]\nextends = "./team.toml"\n')


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({"recipe": OLD_AUTO}, ("model", "licenses")),
        ({"recipe": EXTENDING, "team": '[policy]\nlicences = ["MIT"]\n'}, ("policy", "licenses")),
    ],
)
def test_the_old_name_of_a_key_is_read(tmp_path: Path, files: dict[str, str], path: tuple[str, str]) -> None:
    loaded = load(tmp_path, **files)
    place = loaded.place(*path, part="key")
    assert loaded.value(*path) == ["MIT"]
    assert place.text.split("\n")[place.span.line - 1] == 'licences = ["MIT"]'


def test_a_key_under_both_its_names_is_refused(tmp_path: Path) -> None:
    both = BASE.replace('"Qwen/Qwen3-8B"', '"auto"\nlicences = ["MIT"]\nlicenses = ["MIT"]')
    assert codes(tmp_path, recipe=both) == ["E0203"]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "team.toml")
    found = findings(tmp_path, recipe='[recipe]\nname = "case"\nextends = "team.toml"\n')
    title = f"cannot read `{tmp_path.as_posix()}/team.toml`: it is a pipe or a device, not a file"
    assert (found.diagnostics[0].code, found.diagnostics[0].title) == ("E0002", title)


@pytest.mark.parametrize("form", ["k{} = 1\n", "k{} = [{{a = [1]}}]\n", "[t{}]\n"])
def test_many_unknown_keys_are_counted(tmp_path: Path, form: str) -> None:
    """Comparing each with all others, or with the keys of the language, would take minutes."""
    many = "[train]\n" + "".join(form.format(index) for index in range(8000))
    *first, last = findings(tmp_path, recipe=BASE + many).diagnostics
    assert [finding.help != () for finding in first] == [True] * 50
    assert (last.code, last.title) == ("E0203", "7,950 more keys or values are wrong")
    assert len(human([*first, last])) < 20_000


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("t.yaml", "# axolotl\n\nbase_model: Qwen\n", "YAML"),
        ("t.yml", "a b\n", "YAML"),
        ("recipe.toml", "model:\n  name: x\n", "YAML"),
        ("recipe.toml", "---\nmodel: x\n", "YAML"),
        ("recipe.toml", ' \n{"model": 1}', "JSON"),
        ("t.json", "[1, 2, {}]\n", "JSON"),
        ("recipe.toml", "[model]\nname: x\n", ""),
    ],
)
def test_a_file_of_another_language_is_told(tmp_path: Path, name: str, text: str, language: str) -> None:
    (tmp_path / name).write_text(text)
    report = Report()
    load_recipe(tmp_path / name, report)
    (found,) = report.diagnostics
    help = f"the file looks like {language}; recipes are TOML: `recipec init` writes one"
    assert (found.code, found.help) == ("E0101", (help,) if language else ())
