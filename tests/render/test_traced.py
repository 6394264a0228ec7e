"""Traced values behave as their values and mark what they print."""

from __future__ import annotations

import pytest

from recipec.render.traced import Raw, Traced, fragment, mark, plain, split, visible


def test_behaves_as_its_value() -> None:
    size = Traced(4, "size")

    assert size == 4 and size == Traced(4, "other") and size != 5
    assert size < 5 and size <= 4 and size > 3 and size >= Traced(4, "x")
    assert not Traced(0, "a") and not Traced([], "a") and not Traced(False, "a") and Traced("x", "a")
    assert len(Traced([1, 2], "a")) == 2
    assert "b" in Traced(["a", "b"], "x") and "c" not in Traced("ab", "x")
    assert {Traced("k", "a"): 1}["k"] == 1


def test_parts_carry_the_decision() -> None:
    lora = Traced({"rank": 16, "targets": ["q", "v"]}, "lora")

    assert [part.id for part in lora["targets"]] == ["lora", "lora"]
    assert lora["rank"] == 16
    assert Traced(1 + 2j, "z").imag == 2 and Traced(1 + 2j, "z").imag.id == "z"


def test_traced_again_names_both() -> None:
    assert Traced(Traced(1, "inner"), "outer").id == "inner,outer"


def test_plain_at_any_depth() -> None:
    assert plain({"a": [Traced(1, "x"), (Traced({"b": Traced(2, "y")}, "z"),)]}) == {"a": [1, ({"b": 2},)]}


def test_split_credits_each_line_between_open_and_close() -> None:
    marked = "top\n" + mark("if", "one " + mark("value", "1") + "\n\nthree\n") + "end\n"

    text, lines = split(marked)
    assert text == "top\none 1\n\nthree\nend\n"
    assert lines == {2: ("value", "if"), 3: ("if",), 4: ("if",)}


def test_split_orders_by_nearness_and_names_each_once() -> None:
    _, lines = split(fragment(mark("b", "x") + mark("a,b", "y") + mark("c", mark("d", "z")), ["file"]))
    assert lines == {1: ("d", "b", "a", "c", "file")}


@pytest.mark.parametrize("marked", ["a\ue002", "\ue000x\ue001a"])
def test_unbalanced_marks_are_a_bug(marked: str) -> None:
    with pytest.raises(AssertionError):
        split(marked)


def test_fragment_without_decisions_is_bare() -> None:
    assert fragment("x", []) == "x"
    assert isinstance(fragment("x", []), Raw)
    assert visible(fragment("x", ["a", "b"])) == "x"
