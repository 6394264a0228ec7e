"""Which columns hold messages together, order them and rate them; and rows that are no messages."""

from __future__ import annotations

from typing import Any

import pytest

from recipec.dataset.message_rows import grouped, message_rows

Rows = list[dict[str, Any]]
PLACE = "rows.jsonl:1"


def talks(**beside: list[Any]) -> Rows:
    """Conversations of four messages, with columns beside them whose values come round."""
    rows = [
        {"role": ("user", "assistant")[turn % 2], "content": f"Message {talk}.{turn} of some words."}
        for talk in range(40)
        for turn in range(4)
    ]
    return [row | {name: held[n % len(held)] for name, held in beside.items()} for n, row in enumerate(rows)]


def each(form: str = "{}") -> list[str]:
    """A value for each of the conversations, for all of its messages."""
    return [form.format(1000 + n // 4) for n in range(160)]


@pytest.mark.parametrize(
    ("name", "other", "held"),
    [
        ("conv_id", "issue_type", ["billing", "delivery", "returns"]),
        ("uid", "case_type", [*"abcdefgh"]),
        ("id", "chat_channel", ["web", "app"]),
        ("uuid", "call_type", ["in", "out", "out"]),
        ("ref_id", "session_id", ["a", "b", "c"]),
    ],
)
def test_a_class_of_conversations_holds_no_messages_together(name: str, other: str, held: list[str]) -> None:
    found = message_rows(talks(**{other: [value for value in held for _ in range(4)], name: each("c{}")}))
    assert found is not None and found.talk == name


@pytest.mark.parametrize(
    "beside",
    [
        {"ticket_id": each(), "order_number": each("9{}")},
        {"ticket_number": each()},
        {"ticket_id": each(), "ticket_created_at": each("2024-05-01T10:00:0{}")},
        {"ticket_id": each(), "num_tokens": [40, 7, 30, 3]},
        {"ticket_id": each(), "response_time": [9, 5, 7, 4]},
        {"ticket_id": each(), "order_id": [4, 3, 2, 1]},
        {"ticket_id": each(), "date": ["2024-05-02", "2024-05-02", "2024-05-01", "2024-05-01"]},
    ],
    ids=["constant", "talk", "talk's time", "count", "duration", "purchase", "shared"],
)
def test_what_orders_no_messages_is_not_sorted_by(beside: dict[str, list[Any]]) -> None:
    rows = talks(**beside)
    found = message_rows(rows)
    assert found is not None and not found.order
    (line,) = grouped(rows, PLACE, found)
    assert "in the order of the file: `python3" in line and "sorted" not in line


@pytest.mark.parametrize("name", ["turn_id", "message_index", "msg_no", "sent_at", "created", "timestamp", "time"])
def test_the_name_that_fits_best_orders_messages(name: str) -> None:
    beside = {"num_tokens": [9, 5, 7, 4], "updated_at": [8, 6, 5, 7], name: [1, 2, 3, 4]}
    found = message_rows(talks(ticket_id=each(), **beside))
    assert found is not None and (found.order, found.otherwise) == (name, "")


@pytest.mark.parametrize(("seq", "other"), [([4, 3, 2, 1], "created_at"), ([10, 20, 30, 40], "")])
def test_of_two_orders_that_disagree_both_are_named(seq: list[int], other: str) -> None:
    rows = talks(ticket_id=each(), created_at=[1, 2, 3, 4], seq=seq)
    found = message_rows(rows)
    assert found is not None and (found.order, found.otherwise) == ("seq", other)
    assert ("`created_at` orders them otherwise" in next(grouped(rows, PLACE, found))) == bool(other)


def test_of_two_who_speak_the_one_that_tells_roles_is_taken() -> None:
    rows = [{"author": f"Ann {n % 4}"} | row for n, row in enumerate(talks(ticket_id=each()))]
    found = message_rows(rows)
    assert found is not None and found.speaker == "role"


def written_by(talk: str, speaker: str = "author", **texts: str) -> Rows:
    """Six rows of each id, which several people wrote."""
    return [
        {talk: n // 6, speaker: f"Ann {n % 5}"} | {name: text.format(n, n % 5) for name, text in texts.items()}
        for n in range(120)
    ]


@pytest.mark.parametrize(
    "rows",
    [
        written_by("category_id", Question="Why is it {}?", Answer="It is {}."),
        written_by("issue", customer_question="Why is it {}?", reply_text="It is {}."),
        written_by("doc_id", "speaker", en="It is {}.", de="Es ist {}."),
        written_by("thread_id", text="It is {}.", label="class {1}"),
        written_by("product_id", text="It is {}.", stars="{1}"),
        written_by("source_id", title="All of {}", body="It is {}."),
        written_by("source_id", text="It is {}."),
        written_by("source_id", "from", text="It is {}."),
        [row | {"question": f"Why {n}?", "reply": f"So {n}."} for n, row in enumerate(talks(session_id=each()))],
    ],
    ids=["faq", "pairs", "translations", "classes", "reviews", "articles", "texts", "sources", "answered"],
)
def test_rows_that_several_people_wrote_are_no_messages(rows: Rows) -> None:
    assert message_rows(rows) is None


@pytest.mark.parametrize(
    "rows",
    [
        written_by("thread_id", text="It is {}."),
        written_by("play_id", "speaker", text="It is {}."),
        [
            row | {"author": ("customer", "agent")[n % 2]}
            for n, row in enumerate(written_by("post_id", text="It is {}."))
        ],
        talks(session_id=each(), intent=["refund", "order"], translated=[f"So ist {n}." for n in range(160)]),
    ],
    ids=["the id says so", "the column says so", "the speakers say so", "classes of messages"],
)
def test_rows_that_say_so_are_messages(rows: Rows) -> None:
    assert message_rows(rows) is not None


def test_ratings_of_whole_conversations_stay() -> None:
    rows = talks(ticket_id=each(), csat=[n // 4 % 5 + 1 for n in range(160)], score=[1, 2, 3])
    found = message_rows(rows)
    assert found is not None
    (line,) = grouped(rows, PLACE, found)
    assert '"csat": turns[0]["csat"], "messages"' in line and '"score"' not in line


@pytest.mark.parametrize(
    "value",
    [10**400, float("inf"), float("nan"), "--5", "²", "2026-01-02"],
    ids=["huge", "inf", "nan", "dashes", "superscript", "date"],
)
def test_a_column_that_cannot_be_sorted_orders_nothing(value: object) -> None:
    rows = [
        {"thread_id": f"c{at // 4}", "seq": value if at == 5 else at % 4, "role": ("user", "assistant")[at % 2]}
        | {"content": f"The answer number {at} says more."}
        for at in range(40)
    ]
    found = message_rows(rows)
    assert found is not None and found.order == ""
