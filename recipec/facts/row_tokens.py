"""The tokens of a row, and of what stands before its answer, estimated from its bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct

from recipec.axes import KINDS, ROW_FORMATS
from recipec.catalog.templates import Template
from recipec.dataset import ASSISTANT, Converted, DataShape, Message
from recipec.dataset.contents import parted
from recipec.facts.token_size import TokenSize

# Around a message, with its speaker: ChatML `<|im_start|>user\n…<|im_end|>\n`, Llama 3 `<|start_header_id|>user
# <|end_header_id|>\n\n…<|eot_id|>`, Gemma `<start_of_turn>user\n…<end_of_turn>\n` (TRL 1.16, chat_templates/*.jinja).
TOKENS_AROUND_MESSAGE = 5
# Qwen's templates write 560 bytes around the tools of a conversation (TRL 1.16, chat_templates/qwen3.jinja).
TOKENS_AROUND_TOOLS = 140
_UNLEARNED = -100  # the label of a token that is not learned


class RowHead(Struct, frozen=True):
    """Tokens before the messages of a conversation: in any case, and where it has no system message; and their size."""

    always: float = 0.0
    otherwise: float = 0.0
    size: TokenSize = TokenSize()


def head_of(prompt: str | None, template: Template | None, size: TokenSize) -> RowHead:
    """What the recipe's own system prompt takes as a message, or else the template's; and what that always writes."""
    always, system = (template.head_tokens, template.system_tokens) if template else (0, 0)
    return RowHead(always, message_tokens({"role": "system", "content": prompt}, size) if prompt else system, size)


def row_tokens(made: Converted, shape: DataShape, head: RowHead) -> float:
    """The tokens of a row, with what a template writes.

    A pair counts its longer answer: the trainer pads the other one to that length.
    """
    kind = KINDS[ROW_FORMATS[shape.format].kind]
    if not ROW_FORMATS[shape.format].turns:
        return _tokens(made[kind.columns[0]], head.size)  # labels stand beside the tokens that they are of
    prompt, tools = made.get("prompt", []), made.get("tools")
    answer = max((_said(made[taught], head.size) for taught in kind.taught), default=0)
    tokens = answer + _said(prompt, head.size) + sum(_json_tokens(tool, head.size) for tool in tools or ())
    own = any(message["role"] == "system" for message in (*prompt, *made.get("messages", ())))
    return tokens + TOKENS_AROUND_TOOLS * bool(tools) + head.always + (0 if own else head.otherwise)


def _said(messages: Sequence[Message], size: TokenSize) -> float:
    return sum(message_tokens(message, size) for message in messages)


def tokens_before_answer(made: Converted, shape: DataShape, head: RowHead) -> float:
    """The tokens of a row before its first answer, with what a template writes; none of raw text.

    Rows whose prompt alone fills max_length teach nothing (templates/data/answerable.py.j2).
    """
    if labels := made.get("labels"):
        return next((place for place, label in enumerate(labels) if place and label != _UNLEARNED), len(labels))
    if not ROW_FORMATS[shape.format].turns:
        return 0.0
    said = takewhile(lambda message: message["role"] != ASSISTANT[0], made.get("messages", ()))
    asked = {**made, "prompt": [*made.get("prompt", ()), *said]}
    answers = KINDS[ROW_FORMATS[shape.format].kind].taught
    return row_tokens({**asked, **dict.fromkeys(answers, ())}, shape, head)


def _tokens(value: str | list[int], size: TokenSize) -> float:
    """The tokens of a text, estimated, or of a list of them."""
    return len(value.encode("utf-8", "surrogatepass")) / size.bytes if isinstance(value, str) else len(value)


def message_tokens(message: Message, size: TokenSize) -> float:
    """Those of what is said and thought, of calls as templates write them, and of what stands around a message."""
    texts = (message["content"], message.get("reasoning_content", ""))
    calls = sum(_json_tokens(call, size) for call in message.get("tool_calls", ()))
    return TOKENS_AROUND_MESSAGE + sum(_tokens(text, size) for text in texts) + calls


def thought_tokens(message: Message, size: TokenSize) -> float:
    """Those of a thought before an answer, in a field of its own or in the text."""
    text = message["content"]
    return _tokens(message.get("reasoning_content", "") + text.removesuffix(parted(text)[1]), size)


def _json_tokens(value: object, size: TokenSize) -> float:
    return _tokens(json.dumps(value, ensure_ascii=False, default=str), size)
