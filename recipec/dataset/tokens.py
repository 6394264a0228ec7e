"""Rows that are tokens already: what may stand in them, beside them and around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipec.dataset.contents import BadContent, Row


def tokens_of(row: Row, columns: Mapping[str, str]) -> dict[str, list[int]]:
    """The tokens of a row without its padding, and their labels.

    Raises BadContent where labels are other tokens, or where a mask hides what is no padding.

    `columns` is role -> column. A label is the token at its place, or -100 where nothing is learned.
    """
    ids, labels, mask = (row.get(columns.get(role, "")) for role in ("input_ids", "labels", "attention_mask"))
    for role, held in (("input_ids", ids), ("labels", labels), ("attention_mask", mask)):
        if (role == "input_ids" or held is not None) and not _are_numbers(held):
            raise BadContent(f"`{columns[role]}` holds {held!r:.40}, which is no list of whole numbers")
    if odd := [token for token in ids if not 0 <= token < 2**31]:
        raise BadContent(f"`{columns['input_ids']}` holds {odd[0]}, which is no token")
    fit = labels is None or (
        len(labels) == len(ids) and all(label in (-100, token) for token, label in zip(ids, labels, strict=True))
    )
    if not fit:
        raise BadContent(f"`{columns['labels']}` must hold the token at each place, or -100 where none is learned")
    start, end = (0, len(ids)) if mask is None else _seen(mask, ids, labels, columns["attention_mask"])
    return {"input_ids": ids[start:end], "labels": (labels or ids)[start:end]}


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _seen(mask: list[int], ids: list[int], labels: list[int] | None, column: str) -> tuple[int, int]:
    """Where tokens begin and end that are no padding: one token at the ends of a row, at which the mask is 0."""
    if len(mask) != len(ids) or not {0, 1}.issuperset(mask) or 1 not in mask:
        raise BadContent(f"`{column}` must be 1 at each place, or 0 where padding is")
    start, end = mask.index(1), len(mask) - mask[::-1].index(1)
    padding, learned = {*ids[:start], *ids[end:]}, {*labels[:start], *labels[end:]} if labels else set()
    if 0 in mask[start:end] or len(padding) > 1 or learned - {-100}:
        raise BadContent(f"`{column}` hides tokens that are no padding: they would be seen, or learned")
    return start, end
