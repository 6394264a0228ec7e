"""How a finding is drawn for people."""

from __future__ import annotations

from recipec.diagnostics.human import human, summary
from recipec.diagnostics.model import Diagnostic, Label, Place, Span


def drawn(text: str, *spans: tuple[Span, str], **more: tuple[str, ...]) -> str:
    """Draw one error over `text`, without headline, position and summary."""
    labels = tuple(Label(Place("r.toml", span, text), message) for span, message in spans)
    body = human([Diagnostic("E0401", "title", labels, **more)])
    return "\n".join(body.split("\n")[2:-3])


def test_the_span_is_underlined() -> None:
    assert drawn("a = 1\n", (Span(1, 5, 1, 6), "why")) == "  |\n1 | a = 1\n  |     ^ why"


def test_wide_characters_take_two_columns() -> None:
    assert drawn('a = "日本" x', (Span(1, 10, 1, 11), "")).endswith('a = "日本" x\n  |            ^')


def test_combining_characters_take_none() -> None:
    assert drawn("e\u0301 = 1", (Span(1, 6, 1, 7), "")).endswith("|     ^")


def test_tabs_take_four_columns() -> None:
    assert drawn("\ta = 1", (Span(1, 6, 1, 7), "")) == "  |\n1 |     a = 1\n  |         ^"


def test_a_span_of_several_lines_is_underlined_on_each() -> None:
    text = "a = [\n  1,\n]"
    assert drawn(text, (Span(1, 5, 3, 2), "all")) == ("  |\n1 | a = [\n  |     ^\n2 |   1,\n  |   ^^\n3 | ]\n  | ^ all")


def test_the_middle_of_a_long_span_is_left_out() -> None:
    text = "\n".join(str(number) for number in range(100, 120))
    assert "...\n" in drawn(text, (Span(1, 1, 20, 4), ""))
    assert "110" not in drawn(text, (Span(1, 1, 20, 4), ""))


def test_a_second_place_is_dashed_in_the_order_of_the_file() -> None:
    text = "a = 1\n\n\nb = 2"
    assert drawn(text, (Span(4, 1, 4, 2), "here"), (Span(1, 1, 1, 2), "and here")) == (
        "  |\n1 | a = 1\n  | - and here\n...\n4 | b = 2\n  | ^ here"
    )


def test_an_empty_place_still_has_a_caret() -> None:
    assert drawn("a = 1", (Span(1, 6, 1, 6), "needs b")).endswith("|      ^ needs b")


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    text = human(
        [Diagnostic("E0203", "unknown key `\x1b[31m`", (Label(Place("\x1b.toml", Span(1, 1, 1, 2), "\x9b")),))]
    )
    assert "\x1b" not in text and "\x9b" not in text


def test_colour_only_when_asked_for_and_only_beside_words() -> None:
    finding = [Diagnostic("W0502", "unused", (Label(Place("r.toml", Span(1, 1, 1, 2), "a")),), ("remove",))]
    plain, coloured = human(finding), human(finding, color=True)
    assert "\x1b" not in plain and "\x1b[1;33mwarning[W0502]\x1b[0m" in coloured


def test_help_of_several_lines_hangs() -> None:
    assert drawn("a", (Span(1, 1, 1, 2), ""), help=("one\ntwo",)).endswith("  = help: one\n          two")


def test_the_summary_counts() -> None:
    assert [summary(*n) for n in ((1, 2), (2, 1), (0, 1), (3, 0))] == [
        "1 error, 2 warnings",
        "2 errors, 1 warning",
        "1 warning",
        "3 errors",
    ]


def test_nothing_found_is_nothing_said() -> None:
    assert human([]) == ""


def test_a_long_line_is_cut_around_its_underline() -> None:
    text = f"{'a' * 1000} = {'b' * 1000}"
    _, line, under = drawn(text, (Span(1, 1004, 1, 2004), "why"), (Span(1, 1, 1, 1001), "")).split("\n")[:3]
    assert line.startswith("1 | …a") and line.endswith("b…") and len(line) < 260
    shown = [(mark, letter) for mark, letter in zip(under, line, strict=False) if mark == "^"]
    assert {letter for _, letter in shown} == {"b", "…"} and shown[0] == ("^", "b")
    assert under.endswith("^ why")


def test_a_title_of_the_length_of_a_file_is_cut() -> None:
    assert len(human([Diagnostic("E0203", "k" * 100_000, (), ("h" * 100_000,))])) < 5_000
