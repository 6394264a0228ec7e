"""What preparation makes of training rows, and trainers read. One row each; several formats become one kind."""

from __future__ import annotations

from msgspec import Struct


class Kind(Struct, frozen=True, kw_only=True):
    """What a trainer reads: the columns of data/STAGE/*.jsonl."""

    name: str
    columns: tuple[str, ...]
    taught: tuple[str, ...]  # those of them that hold what is learned; none where the answers are still to be written
    scored: str  # that hold the answer which evaluation scores; "" where the whole row is scored
    masked: bool  # the chat template says which tokens of a row are learned
    flag: str  # that is true where what is taught is wanted, and false where it is not; "" where all is
    shares_prompts: bool  # rows may have the same prompt, so that a split keeps those together
    joins: str  # the kind that they become beside rows of that kind; "" where there is none
    ends: str  # the kind that held-out rows become beside rows of that kind, by their last answer; "" where none
    template: str  # templates/rows/NAME.py.j2: how rows become tokens


KINDS = {
    row.name: row
    for row in (
        Kind(
            name="text",
            columns=("text",),
            taught=("text",),
            scored="",
            masked=False,
            flag="",
            shares_prompts=False,
            joins="",
            ends="",
            template="text",
        ),
        Kind(
            name="token-ids",
            columns=("input_ids", "labels"),
            taught=("labels",),
            scored="",
            masked=False,
            flag="",
            shares_prompts=True,
            joins="",
            ends="",
            template="tokens",
        ),
        Kind(
            name="chat",
            columns=("messages",),
            taught=("messages",),
            scored="",
            masked=True,
            flag="",
            shares_prompts=True,
            joins="",
            ends="completion",
            template="chat",
        ),
        Kind(
            name="completion",
            columns=("prompt", "completion"),
            taught=("completion",),
            scored="completion",
            masked=False,
            flag="",
            shares_prompts=True,
            joins="chat",
            ends="",
            template="completion",
        ),
        Kind(
            name="pairs",
            columns=("prompt", "chosen", "rejected"),
            taught=("chosen", "rejected"),
            scored="chosen",
            masked=False,
            flag="",
            shares_prompts=True,
            joins="",
            ends="",
            template="pairs",
        ),
        Kind(
            name="unpaired",
            columns=("prompt", "completion", "label"),
            taught=("completion",),
            scored="completion",
            masked=False,
            flag="label",
            shares_prompts=True,
            joins="",
            ends="",
            template="completion",
        ),
        Kind(
            name="prompts",
            columns=("prompt",),
            taught=(),
            scored="",
            masked=False,
            flag="",
            shares_prompts=True,
            joins="",
            ends="",
            template="prompts",
        ),
    )
}
