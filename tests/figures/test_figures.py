"""Every figure of the rule books: our number, the verdict, and that none is missing. A moved estimate fails here."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, with_key

from recipec.figures import FIGURES
from recipec.figures.figure import about, at_least, at_most, between, shown, verdict
from recipec.figures.pages import explain_figure, figure_rows, figures_of_rule
from recipec.figures.trainings import MODELS
from recipec.rules import RULES

TOLERANCE = 0.03  # of our number; a verdict near its edge may move with less
NONE = "cannot be computed"

# id -> our number in the figure's unit, and the verdict on the book's
OURS: dict[str, tuple[float | None, str]] = {
    "FIG-001": (2, "holds"),
    "FIG-002": (2, "holds"),
    "FIG-003": (2, "holds"),
    "FIG-004": (2, "too high"),
    "FIG-005": (None, NONE),
    "FIG-006": (1, "holds"),
    "FIG-007": (0.593, "too high"),
    "FIG-101": (0.593, "too high"),
    "FIG-102": (0.593, "holds within 19 %"),
    "FIG-103": (165.2, "too low"),
    "FIG-104": (312, "holds"),
    "FIG-105": (989.4, "holds"),
    "FIG-106": (989.4, "holds"),
    "FIG-107": (1307.4, "too low"),
    "FIG-108": (98.5, "holds"),
    "FIG-109": (10.7, "holds"),
    "FIG-110": (30.8, "too low"),
    "FIG-111": (221, "too low"),
    "FIG-112": (154, "too low"),
    "FIG-113": (1171, "too low"),
    "FIG-114": (1171, "too low"),
    "FIG-115": (1.28, "holds"),
    "FIG-116": (138, "holds"),
    "FIG-117": (966, "too low"),
    "FIG-118": (28, "too low"),
    "FIG-119": (138, "too low"),
    "FIG-120": (14.9, "too high"),
    "FIG-121": (98.1, "too low"),
    "FIG-122": (100, "too high"),
    "FIG-123": (4.9, "too high"),
    "FIG-124": (279, "too low"),
    "FIG-125": (8, "holds"),
    "FIG-126": (2.79, "holds within 7 %"),
    "FIG-127": (5.33, "holds within 7 %"),
    "FIG-128": (0.55, "holds within 11 %"),
    "FIG-129": (1.86, "holds within 7 %"),
    "FIG-130": (None, NONE),
    "FIG-131": (11.2, "holds within 7 %"),
    "FIG-132": (1023, "holds within 7 %"),
    "FIG-133": (982_426, "holds within 7 %"),
    "FIG-134": (None, NONE),
    "FIG-135": (6.36, "holds"),
    "FIG-136": (16.7, "holds"),
    "FIG-137": (114.9, "too low"),
    "FIG-138": (11, "too low"),
    "FIG-139": (29, "too low"),
    "FIG-301": (85.5, "holds within 7 %"),
    "FIG-302": (6.36, "holds"),
    "FIG-303": (10.7, "holds"),
    "FIG-304": (4.27, "too high"),
    "FIG-305": (8.53, "too low"),
    "FIG-306": (8.53, "too low"),
    "FIG-307": (16.7, "holds"),
    "FIG-308": (114.9, "too low"),
    "FIG-309": (6.36, "too high"),
    "FIG-310": (10.7, "too high"),
    "FIG-311": (24.2, "holds within 11 %"),
    "FIG-312": (24.2, "too low"),
    "FIG-313": (76.6, "holds"),
    "FIG-314": (1.047, "holds"),
    "FIG-401": (30.5, "holds"),
    "FIG-402": (29.6, "too high"),
    "FIG-403": (1.0, "too high"),
    "FIG-404": (2.91, "too high"),
    "FIG-405": (4.27, "too high"),
    "FIG-406": (8.0, "holds"),
    "FIG-407": (26.95, "holds"),
    "FIG-408": (13.48, "holds"),
    "FIG-409": (107.8, "too low"),
    "FIG-410": (13.48, "holds"),
    "FIG-411": (275.9, "holds"),
    "FIG-412": (138, "holds"),
    "FIG-413": (46.1, "holds"),
}

# What the books state, one by one: each must be in the text of a figure of that book.
STATED = {
    "000": "DDP: on 2 to 8; (2-128+); (2-64); (8-256+); MoE: from 8; LoRA: from 1; 1 %",
    "001": "about 1 %; about 0.5 %; 82 TFLOPS; 312 TFLOPS; h100: 989; h200: 989; 653 TFLOPS; VRAM; QLoRA up to 13B; "
    "LoRA up to 13B; full fine-tuning up to 13B; LoRA up to 70B; h100, 80 GB: full; h200, 141 GB: full; "
    "mi300x: an alternative; 140 GB; 560 GB; 3-5x; 10-100 GB; 30-40 %; 80-90 %; HDR100; 64 GB; 128 GB; 8-16 CPU; "
    "$3.00; $5.00; $0.50; $2.00; $12; $960; $921,600; 10-30 %; "
    "Under 16 GB: QLoRA; 16-48 GB: LoRA; 48-160 GB; batch size 1-2; batch size 2-8",
    "003": "80 %; 7B fits an 8 GB; 13B fits a 16 GB; 8x; 4 x model size; 4-6x; 16.9 GB; 29.5 GB; "
    "7B: about 8 GB; 13B: about 14 GB; 34B: about 22 GB; 8-24 GB; 24-80 GB; x 1.1",
    "004": "30 % slower; 60 % or more; 2x; 4x; 8x; linearly; 28 GB; fp16: 14 GB; 84 GB; 8 GPUs: 14 GB; "
    "280 GB; 140 GB; 48 GB",
}


@pytest.mark.parametrize("id", OURS)
def test_our_number_and_the_verdict(id: str) -> None:
    figure, (expected, judged) = FIGURES[id], OURS[id]
    ours = figure()
    assert ours.value == (expected if expected is None else pytest.approx(expected, rel=TOLERANCE))
    assert verdict(figure.stated, ours.value) == judged


def test_every_figure_has_a_row() -> None:
    assert OURS.keys() == FIGURES.keys()


@pytest.mark.parametrize(
    ("book", "text"), [(book, text) for book, texts in STATED.items() for text in texts.split("; ")]
)
def test_every_number_of_a_book_has_a_figure(book: str, text: str) -> None:
    assert [
        figure.id
        for figure in FIGURES.values()
        if figure.book.startswith(f"docs/rule-books/{book}.md") and text in figure.states
    ]


@pytest.mark.parametrize(
    ("id", "gpu", "goal", "trains"),
    [
        ("FIG-135", "rtx-3060-12gb", {}, "lora"),
        ("FIG-135", "rtx-3060-12gb", {"first_time": True}, "qlora"),
        ("FIG-135", "rtx-3060-12gb", {"priority": "memory"}, "qlora"),
        ("FIG-136", "rtx-4090", {}, "lora"),
        ("FIG-137", "a100-80gb", {}, "lora"),
        ("FIG-137", "h200", {}, "lora"),
        ("FIG-137", "h200", {"new_domain": True}, "full"),
        ("FIG-137", "h200", {"first_time": True, "priority": "quality"}, "full"),
        ("FIG-312", "rtx-4090", {}, "lora"),
        ("FIG-312", "rtx-4090", {"priority": "memory"}, "qlora"),
    ],
)
def test_a_branch_says_what_the_planner_does(tmp_path: Path, id: str, gpu: str, goal: Tables, trains: str) -> None:
    model = "Qwen/Qwen2.5-1.5B" if gpu == "rtx-3060-12gb" else MODELS["7B"]
    recipe = BASES["lora-single"] | {"model": {"name": model}, "hardware": {"gpu": gpu}}
    recipe = with_key(recipe | {"goal": recipe["goal"] | goal}, "data.examples", 20_000)
    plan = compiled(tmp_path, recipe, only_plan=True).plan
    assert plan and plan.stages[0].layout.adapts.name == trains
    says = FIGURES[id].does
    named = {"first_time": "first training", "priority": str(goal.get("priority")), "new_domain": "new domain"}
    assert all(named[key].replace("memory", "memory first") in says for key in goal)
    assert "LoRA" in says and "by these thresholds" not in says


def test_a_figure_says_why_and_what_follows() -> None:
    for id, figure in FIGURES.items():
        assert id[4] == figure.book.removeprefix("docs/rule-books/")[2], "the first digit of an id is the book's last"
        assert figure.because.endswith(".") and figure.does and figure().how, id
        assert set(figure.rules) <= RULES.keys(), id


def test_a_page_shows_both_numbers() -> None:
    page = explain_figure("fig-308")
    assert page is not None and page.startswith("# FIG-308")
    for line in (
        "about 29.5 GB (docs/rule-books/003.md, Reference)",
        "- recipec: 115 GB",
        "- verdict: too low",
        "Llama-2-7b-hf",
    ):
        assert line in page


def test_what_has_no_number_says_why() -> None:
    for id, (expected, _) in OURS.items():
        if expected is None:
            page = explain_figure(id)
            assert page is not None and f"- verdict: {NONE}" in page and len(FIGURES[id].because) > 30, id


def test_a_list_has_both_numbers() -> None:
    rows = {row["id"]: row for row in figure_rows()}
    assert list(rows) == sorted(FIGURES)
    assert (rows["FIG-409"]["recipec"], rows["FIG-409"]["verdict"]) == ("108 GB", "too low")
    assert rows["FIG-127"]["recipec"] == "$5.33"


def test_a_rules_page_names_its_figures() -> None:
    assert "FIG-134 (torch.compile: 10-30 % more throughput)" in figures_of_rule("prec-003")
    assert figures_of_rule("OPT-001") == ""


@pytest.mark.parametrize(
    ("stated", "ours", "expected"),
    [
        (about(100, "GB"), 104.9, "holds"),
        (about(100, "GB"), 95.1, "holds"),
        (about(100, "GB"), 105.1, "holds within 6 %"),
        (about(100, "GB"), 119.9, "holds within 20 %"),
        (about(100, "GB"), 121, "too low"),
        (about(100, "GB"), 79, "too high"),
        (between(3, 5, "x"), 4, "holds"),
        (between(3, 5, "x"), 5.5, "too low"),
        (between(3, 5, "x"), 2.7, "too high"),
        (at_most(8, "GB"), 1, "holds"),
        (at_most(8, "GB"), 8, "holds"),
        (at_most(8, "GB"), 8.1, "too low"),
        (at_least(60, "%"), 90, "holds"),
        (at_least(60, "%"), 59, "too high"),
        (about(1, "$"), None, NONE),
    ],
)
def test_a_verdict_follows_from_the_two_numbers(stated, ours, expected) -> None:
    assert verdict(stated, ours) == expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (16.69, "GB", "16.7 GB"),
        (2.914, "x", "2.91x"),
        (921_600, "$", "$921,600"),
        (0.593, "%", "0.59 %"),
        (1, "GPUs", "1 GPU"),
    ],
)
def test_numbers_are_written_as_people_do(value, unit, text) -> None:
    assert shown(value, unit) == text
