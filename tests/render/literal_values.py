"""Hypothesis strategies for everything that a recipe may put into an output, and for text that tries to break out."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from recipec.render.characters import is_allowed

HOSTILE = (
    "", " ", " a", "a ", "a b", "yes", "No", "on", "OFF", "y", "n", "true", "null", "~", "=", "<<", "-", "--- a",
    "...", "1e5", "0o7", "0x1F", "1_000", "1:30", ".inf", ".nan", "2024-01-31", "12:30:45", "!tag", "&a", "*a", "%d",
    "@x", "`x`", "a: b", "a:", ": a", "a #b", "#a", "# ", "? a", "- a", "[a]", "{a}", "a, b", "|", ">", "'", '"',
    "''", '"""', "'''", "\\", "\\n", "\\\"", "a\\", "$(id)", "$HOME", "`id`", "!!", "{{ x }}", "{% x %}", "\n",
    "a\nb", "\ta", "\t", "a\n\n", "naïve", "日本", "🙂", "\u202e", "\u2028", "\u00a0", "\ufeff", "1. a", "+ a", "===",
    "## a ##", "<b>", "&lt;", "&amp", "_a_", "a_b", "**a**", "~a~", "a|b", "a\\|b", "![a](b)", "http://a.b/?c=d&e=f",
    "x" * 150, "word " * 40,
)  # fmt: skip

texts = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cc", "Cs", "Co"]).filter(is_allowed))
texts |= st.text(st.sampled_from("ab01 \n\t\"'\\`$#:-_*|<>&~[]{}!=,.%@?"))
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = texts | st.integers() | numbers | st.booleans() | st.none()


def nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any] = texts) -> st.SearchStrategy[Any]:
    """Lists and mappings of leaves, a few deep."""
    return st.recursive(
        leaves, lambda parts: st.lists(parts, max_size=4) | st.dictionaries(keys, parts, max_size=4), max_leaves=12
    )
