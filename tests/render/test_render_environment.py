"""Templates: strict names, literal filters only, and every block credited to what switches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError
from literal_values import texts

from recipec.render import cache, environment
from recipec.render.artifact import Artifact
from recipec.render.call import Arg, Call
from recipec.render.environment import render
from recipec.render.traced import Raw, Traced, plain

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    environment.template_environment.cache_clear()
    yield
    environment.template_environment.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write templates and render from them."""
    monkeypatch.setattr(environment, "templates_folder", lambda: tmp_path)

    def write(**templates: str) -> None:
        for name, text in templates.items():
            (tmp_path / f"{name}.j2").write_text(text, encoding="utf-8")

    return write


CHAIN = """\
top
{% if checkpointing %}
checkpointing = {{ checkpointing | py }}
{% elif model.moe and rate > 1 %}
leaf modules

{% else %}
neither
{% endif %}
{% for name in targets %}
# one target
{{ name | py }}
{% endfor %}
end
"""


def names(**changes: Any) -> dict[str, Any]:
    values = {
        "checkpointing": Traced(False, "checkpointing"),
        "model": {"moe": Traced(True, "model")},
        "rate": Traced(2, "rate"),
        "targets": Traced(["q"], "targets"),
    }
    return values | changes


def test_blocks_belong_to_what_switches_them(write: Write) -> None:
    write(chain=CHAIN)

    on = render(Artifact("x", ("file",), "chain.j2", names(checkpointing=Traced(True, "checkpointing"))))
    assert on.text == 'top\ncheckpointing = True\n# one target\n"q"\nend\n'
    assert on.lines == {
        1: ("file",),
        2: ("checkpointing", "file"),
        3: ("targets", "file"),
        4: ("targets", "file"),
        5: ("file",),
    }


def test_a_branch_is_credited_to_all_tests_before_it(write: Write) -> None:
    write(chain=CHAIN)

    second = render(Artifact("x", (), "chain.j2", names()))
    assert second.text.splitlines()[1:3] == ["leaf modules", ""]
    assert second.lines[2] == second.lines[3] == ("checkpointing", "model", "rate")
    last = render(Artifact("x", (), "chain.j2", names(rate=Traced(0, "rate"))))
    assert last.lines[2] == ("checkpointing", "model", "rate")
    assert 1 not in last.lines


def test_an_include_inside_a_block_belongs_to_it(write: Write) -> None:
    write(outer="{% if on %}\n{% include 'inner.j2' %}\n{% endif %}\n", inner="a\nb = {{ size | py }}\n")

    rendered = render(Artifact("x", (), "outer.j2", {"on": Traced(True, "on"), "size": Traced(1, "size")}))
    assert (rendered.text, rendered.lines) == ("a\nb = 1\n", {1: ("on",), 2: ("size", "on")})


@pytest.mark.parametrize(
    "template", ["{{ name }}", "{{ 'text' }}", "{{ name | upper }}", "{{ names | join(', ') }}", "{{ name ~ 'x' }}"]
)
def test_nothing_is_printed_without_a_literal_filter(write: Write, template: str) -> None:
    write(bare=template)
    given_names = {"name": Traced("x", "id"), "names": ["a"]}
    read = {name: value for name, value in given_names.items() if f"{name} " in template}

    with pytest.raises(TypeError, match="without a literal filter"):
        render(Artifact("x", (), "bare.j2", read))


def test_code_and_calls_are_printed_as_they_are(write: Write) -> None:
    write(code="{{ dtype }}\n    x = {{ call | call(indent=4) }}\n{{ config | yaml_block }}")
    call = Call("f", [Arg("a", 1, ("one",)), Arg("b", 2)])

    rendered = render(Artifact("x", (), "code.j2", {"dtype": Raw("bf16"), "call": call, "config": {"k": "no"}}))
    assert rendered.text == 'bf16\n    x = f(\n        a=1,\n        b=2,\n    )\nk: "no"\n'
    assert rendered.lines == {3: ("one",)}


def test_names_given_are_the_names_read(write: Write) -> None:
    write(outer="{% for item in items %}{% include 'inner.j2' %}{% endfor %}", inner="{{ item | py }}{{ tail | py }}")

    assert render(Artifact("x", (), "outer.j2", {"items": [1], "tail": 2})).text == "12"
    with pytest.raises(ValueError, match=r"missing names \['tail'\], unused names \['size'\]"):
        render(Artifact("x", (), "outer.j2", {"items": [], "size": 1}))


def test_a_misspelt_attribute_is_an_error(write: Write) -> None:
    write(outer="{% if model.size > 1 %}x{% endif %}")

    with pytest.raises(UndefinedError):
        render(Artifact("x", (), "outer.j2", {"model": {"sise": 1}}))


def test_mappings_are_dumped_by_suffix() -> None:
    assert render(Artifact("a.json", ("zero",), mapping={"a": True})).text == '{\n  "a": true\n}\n'
    assert render(Artifact("a.yaml", ("zero",), mapping={"a": True})).lines == {1: ("zero",)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(on=st.booleans(), moe=st.booleans(), rate=st.integers(0, 3), targets=st.lists(texts, max_size=3))
def test_tracing_changes_no_text(write: Write, on: bool, moe: bool, rate: int, targets: list[str]) -> None:
    write(chain=CHAIN)
    traced = names(
        checkpointing=Traced(on, "c"),
        model={"moe": Traced(moe, "m")},
        rate=Traced(rate, "r"),
        targets=Traced(targets, "t"),
    )

    assert (
        render(Artifact("x", ("f",), "chain.j2", traced)).text
        == render(Artifact("x", (), "chain.j2", plain(traced))).text
    )


def test_compiled_templates_are_reused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(chain=CHAIN)
    first = render(Artifact("x", (), "chain.j2", names()))

    environment.template_environment.cache_clear()
    monkeypatch.setattr(environment.TracingEnvironment, "_parse", None)
    assert render(Artifact("x", (), "chain.j2", names())) == first


@pytest.mark.parametrize("state", ["a file", "unwritable", "damaged"])
def test_a_cache_that_does_not_work_is_done_without(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    if state == "a file":
        home.write_text("")
    if state == "unwritable":
        monkeypatch.setattr("tempfile.NamedTemporaryFile", _no_space)
    write(chain=CHAIN)

    text = render(Artifact("x", (), "chain.j2", names())).text
    if state == "damaged":
        for file in home.rglob("*.cache"):
            file.write_bytes(file.read_bytes()[:-50])
    environment.template_environment.cache_clear()
    assert render(Artifact("x", (), "chain.j2", names())).text == text


def _no_space(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_the_cache_names_its_versions() -> None:
    assert cache.bytecode_cache() is not None
    assert cache._folder().name.startswith(f"{cache.__version__}-") and cache.jinja_version in cache._folder().name
