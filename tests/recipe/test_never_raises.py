"""Whatever stands in a recipe, loading it ends in a recipe or in diagnostics that can be printed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from test_validate import ALL_KEYS, WRONG, toml
from toml_documents import documents

from recipec.diagnostics.human import human
from recipec.diagnostics.model import Report
from recipec.recipe import load_recipe
from recipec.recipe.schema_keys import keys_of
from recipes import BASE

VALUES = st.sampled_from([*WRONG, '"auto"', "1", "0.5", '["a", 5]', '"./x.toml"', "[{path = 1}]", "{lora = 1}"])


@st.composite
def recipes(draw: st.DrawFn) -> str:
    """Draw a recipe of known keys with wrong values and right ones."""
    lines = []
    for path in draw(st.lists(st.sampled_from(ALL_KEYS), unique=True, max_size=12)):
        examples = keys_of(path[:-1])[str(path[-1])].examples
        lines.append(f"{'.'.join(map(str, path))} = {draw(VALUES | st.sampled_from(examples).map(toml))}\n")
    return "".join(lines)


def ends_well(text: str) -> None:
    """Load the text, which may be wrong in any way, and wish for every stage."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "recipe.toml")
        path.write_bytes(text.encode(errors="surrogatepass"))
        report = Report()
        loaded = load_recipe(path, report)
    assert (loaded is None) == report.has_errors
    assert bool(human(report.diagnostics)) == bool(report.diagnostics)
    if loaded:
        assert loaded.wishes("sft", last=True)


@settings(max_examples=300, deadline=None)
@given(recipes())
def test_known_keys_with_any_values(text: str) -> None:
    ends_well(text)


@settings(max_examples=100, deadline=None)
@given(documents())
def test_unknown_keys(text: str) -> None:
    ends_well(text)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(BASE)), st.text(max_size=4), st.integers(0, 9))
def test_a_recipe_with_a_slip(at: int, typed: str, removed: int) -> None:
    ends_well(BASE[:at] + typed + BASE[at + removed :])
