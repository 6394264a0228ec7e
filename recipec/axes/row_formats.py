"""The formats of training rows: what a row must have, what it teaches, and what it becomes. One row each.

A format is how rows are written in the user's files. A kind is what preparation makes of them and a trainer reads;
several formats become one kind.
"""

from __future__ import annotations

from msgspec import Struct

LOSS_ON = "all", "assistant", "completion", "labels"  # the tokens of a row that are learned
# What a column holds: texts, lists of messages with `role` and `content`, or with `from` and `value`, or token ids.
TEXTS, MESSAGES, FROM_VALUE, IDS = "strings", "messages", "from-value", "token-ids"
EITHER = "strings or messages"  # some columns hold texts, others lists of messages
FLAGS = ("flags",)  # what a role holds that is true or false, in one of the pairs of FLAG_TEXTS
WORDS, DIGITS = "true or false", "1 or 0"
# How flags are written, in JSON and as texts -> the text that is true and the one that is false, in lower case. All
# flags of a source are of one pair: each says which of the two is the good answer.
FLAG_TEXTS = {
    WORDS: ("true", "false"),
    DIGITS: ("1", "0"),
    "1.0 or 0.0": ("1.0", "0.0"),
    "good or bad": ("good", "bad"),
    "up or down": ("up", "down"),
    "thumbs_up or thumbs_down": ("thumbs_up", "thumbs_down"),
    "👍 or 👎": ("👍", "👎"),
    "yes or no": ("yes", "no"),
    "like or dislike": ("like", "dislike"),
    "positive or negative": ("positive", "negative"),
    "desirable or undesirable": ("desirable", "undesirable"),
    "chosen or rejected": ("chosen", "rejected"),
}
USUAL_FLAGS = WORDS, DIGITS  # the pairs that rows are taken to have which nobody has seen

MASKS = ("completion_mask", "assistant_masks", "attention_mask")  # of rows that are tokens
# Columns, and fields of messages, that say how rows are to be learned and that nothing here reads -> what they say.
MEANT = {
    **dict.fromkeys(("tools", "functions"), "the tools that the assistant may call"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_call_id"), "a call of a tool"),
    **dict.fromkeys(("reasoning_content", "reasoning", "thinking", "thought"), "what the assistant thinks"),
    **dict.fromkeys(("weight", "weights", "train", "loss", "loss_mask", "loss_weight"), "how much a part counts"),
    **dict.fromkeys(("image", "images", "audio", "audios", "video", "videos"), "what is seen or heard"),
    **dict.fromkeys(("system", "system_prompt"), "the system prompt"),
    "role": "who says it",
    "parent_id": "which message it answers",
    **dict.fromkeys(("history", "context"), "what came before the question"),
    "input": "what the question is about",
    **dict.fromkeys(MASKS, "which tokens are learned or seen"),
}
TALK = ("message", "conversation", "dialog", "turn", "chat", "thread")  # words in names of columns of conversations
RATING_WORDS = ("rating", "rated", "score", "stars", "grade", "feedback", "thumb", "vote", "like")  # of ratings
# Words in names of columns that speak for a role, beside its own names.
SPEAK_FOR = {
    "prompt": ("prompt", "question", "query", "user", "human", "ask", "problem", "input", "request", "instruction"),
    "completion": ("completion", "answer", "response", "reply", "output", "assistant", "target", "solution", "bot"),
    "instruction": ("instruct", "task"),
    "output": ("output", "answer", "response", "target"),
    "chosen": ("chosen", "preferred", "accepted", "better", "winner", "good"),
    "rejected": ("rejected", "dispreferred", "worse", "loser", "bad"),
    "label": ("label", "good", "helpful", "desirable", "accepted", *RATING_WORDS),
    "messages": TALK,
    "text": ("text", "content", "body", "document", "article", "passage"),
}
# Words in names of columns that hold the class of a text.
CLASS_WORDS = ("label", "class", "categor", "intent", "sentiment", "emotion", "target")
# Words in names of columns that hold what a model makes of a text, beside those that speak for a completion.
MADE_WORDS = ("highlight", "summar", "translation")
FLAG_NAMES = ("label", "kto_tag")  # columns that say whether a row is good, where every one is true or false


class Carried(Struct, frozen=True, kw_only=True):
    """What rows may hold beside the columns of their format: read where they have it, or where data.carry names it."""

    name: str
    means: str  # for editors
    columns: tuple[str, ...]  # names of a column that holds it
    fields: tuple[str, ...]  # names of the fields of a message that hold it
    apart: bool  # it says of each answer how it is learned, so that each becomes a row of its own
    elsewhere: tuple[str, ...] = ()  # what people call it who know other tools


CARRIED = {
    row.name: row
    for row in (
        Carried(
            name="tools",
            means="tools, tool calls and their results",
            columns=("tools", "functions"),
            fields=("tool_calls",),
            apart=False,
            elsewhere=("function_calling", "tool_calling", "tool_use"),
        ),
        Carried(
            name="reasoning",
            means="thoughts before answers",
            columns=(),
            fields=("reasoning_content", "reasoning", "thinking", "thought"),
            apart=False,
        ),
        Carried(
            name="weight",
            means="weights of answers: an answer with weight 0 is shown but not trained",
            columns=(),
            fields=("weight", "train", "loss"),
            apart=True,
        ),
        Carried(
            name="parts",
            means="message content as a list of text parts",
            columns=(),
            fields=(),
            apart=False,
        ),
        Carried(
            name="system",
            means="system prompts in a separate column",
            columns=("system", "system_prompt"),
            fields=(),
            apart=False,
        ),
    )
}


class Role(Struct, frozen=True, kw_only=True):
    """What one column of a row is for."""

    name: str
    aliases: tuple[str, ...]  # names that are understood without being told, the usual one first
    required: bool
    holds: tuple[str, ...]  # of TEXTS, MESSAGES, FROM_VALUE, IDS, or FLAGS
    becomes: str  # the column of the kind that it ends up in


class RowFormat(Struct, frozen=True, kw_only=True):
    """One way to write training rows."""

    name: str  # the value of data.format
    means: str  # for editors
    elsewhere: tuple[str, ...]  # what people type for it who come from other tools
    kind: str  # what preparation makes of it
    unrolled: str  # what it makes where every answer becomes a row of its own; "" where a row has one answer
    answers: int  # in every row; 0 where rows differ
    roles: tuple[Role, ...]
    carries: tuple[str, ...]  # what its rows may hold beside the roles: names of CARRIED
    forbidden: tuple[str, ...]  # columns that turn such a row into one of another format, which reads them
    splits: bool  # a long row can be cut into several
    loss_on: str  # of LOSS_ON
    turns: bool  # rows are rendered with a chat template
    wraps: bool  # strings become messages: a question of the user, an answer of the assistant
    implicit: str  # a role that other roles may hold the beginning of; "" where there is none
    recognized: str  # how a person recognizes it
    usual: str  # the method that such rows are most often for: a name of recipec.axes.methods

    @property
    def required(self) -> tuple[Role, ...]:
        return tuple(role for role in self.roles if role.required)

    def may_lack(self, role: str) -> bool:
        """Whether a row may leave the role out, or null, though others have it. An implicit one is in all or none."""
        return not self.role(role).required and role != self.implicit

    def role(self, name: str) -> Role:
        """The role of that name; raises StopIteration where there is none."""
        return next(role for role in self.roles if role.name == name)


_TEXTS, _ANY_TURNS = (TEXTS,), (TEXTS, MESSAGES, FROM_VALUE)
_PROMPTS = ("prompt", "question", "query")

PREFERENCE = RowFormat(
    name="preference",
    means="`prompt`, `chosen` and `rejected` answer",
    elsewhere=("dpo", "pairs", "chosen_rejected", "hh_rlhf"),
    kind="pairs",
    unrolled="unpaired",
    answers=2,
    roles=(
        Role(name="prompt", aliases=_PROMPTS, required=False, holds=_ANY_TURNS, becomes="prompt"),
        Role(name="chosen", aliases=("chosen",), required=True, holds=_ANY_TURNS, becomes="chosen"),
        Role(name="rejected", aliases=("rejected",), required=True, holds=_ANY_TURNS, becomes="rejected"),
    ),
    carries=("tools", "reasoning", "parts", "system"),
    forbidden=(),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=True,
    implicit="prompt",
    recognized="`chosen` and `rejected`, and a `prompt` unless both begin with the same messages",
    usual="dpo",
)
UNPAIRED_PREFERENCE = RowFormat(
    name="unpaired-preference",
    means="`prompt`, `completion`, and a `label` that is true for a good answer",
    elsewhere=("kto", "unpaired"),
    kind="unpaired",
    unrolled="",
    answers=1,
    roles=(
        Role(name="prompt", aliases=_PROMPTS, required=True, holds=_ANY_TURNS, becomes="prompt"),
        Role(
            name="completion",
            aliases=("completion", "response", "answer"),
            required=True,
            holds=_ANY_TURNS,
            becomes="completion",
        ),
        Role(name="label", aliases=("label", "kto_tag"), required=True, holds=FLAGS, becomes="label"),
    ),
    carries=("tools", "reasoning", "parts", "system"),
    forbidden=(),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=True,
    implicit="",
    recognized="`prompt`, `completion` and a `label` that is true or false, or 1 or 0",
    usual="kto",
)
CHAT = RowFormat(
    name="chat",
    means="`messages` with roles, or ShareGPT `conversations`",
    elsewhere=("sharegpt", "messages", "chatml", "openai", "conversation", "conversations", "chat_template"),
    kind="chat",
    unrolled="completion",
    answers=0,
    roles=(
        Role(
            name="messages",
            aliases=("messages", "conversations", "conversation"),
            required=True,
            holds=(MESSAGES, FROM_VALUE),
            becomes="messages",
        ),
    ),
    carries=("tools", "reasoning", "weight", "parts", "system"),
    forbidden=(),
    splits=False,
    loss_on="assistant",
    turns=True,
    wraps=False,
    implicit="",
    recognized="`messages`: a list of `role` and `content`, or of `from` and `value`",
    usual="sft",
)
INSTRUCTION = RowFormat(
    name="instruction",
    means="`instruction`, optional `input`, and `output` (Alpaca)",
    elsewhere=("alpaca", "instruct"),
    kind="completion",
    unrolled="",
    answers=1,
    roles=(
        Role(name="instruction", aliases=("instruction",), required=True, holds=_TEXTS, becomes="prompt"),
        Role(name="input", aliases=("input", "context"), required=False, holds=_TEXTS, becomes="prompt"),
        Role(name="output", aliases=("output", "response"), required=True, holds=_TEXTS, becomes="completion"),
    ),
    carries=("reasoning", "system"),
    forbidden=(),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=False,
    implicit="",
    recognized="`instruction` and `output`, and an `input` that may be empty",
    usual="sft",
)
PROMPT_COMPLETION = RowFormat(
    name="prompt-completion",
    means="`prompt` and `completion`",
    elsewhere=("completion", "prompt_completion"),
    kind="completion",
    unrolled="",
    answers=1,
    roles=(
        Role(name="prompt", aliases=_PROMPTS, required=True, holds=_ANY_TURNS, becomes="prompt"),
        Role(
            name="completion",
            aliases=("completion", "response", "answer"),
            required=True,
            holds=_ANY_TURNS,
            becomes="completion",
        ),
    ),
    carries=("tools", "reasoning", "parts", "system"),
    forbidden=("label",),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=True,
    implicit="",
    recognized="`prompt` and `completion`, as texts or as lists of messages",
    usual="sft",
)
TEXT = RowFormat(
    name="text",
    means="raw text",
    elsewhere=("pretrain", "raw"),
    kind="text",
    unrolled="",
    answers=1,
    roles=(Role(name="text", aliases=("text", "content"), required=True, holds=_TEXTS, becomes="text"),),
    carries=(),
    forbidden=(),
    splits=True,
    loss_on="all",
    turns=False,
    wraps=False,
    implicit="",
    recognized="`text`, or .txt and .md files, each of which is one row",
    usual="continue-pretrain",
)

TOKEN_IDS = RowFormat(
    name="token-ids",
    means="token ids in `input_ids`, tokenized before",
    elsewhere=("tokens", "tokenized", "pretokenized", "input_ids"),
    kind="token-ids",
    unrolled="",
    answers=1,
    roles=(
        Role(name="input_ids", aliases=("input_ids",), required=True, holds=(IDS,), becomes="input_ids"),
        Role(name="labels", aliases=("labels",), required=False, holds=(IDS,), becomes="labels"),
        Role(
            name="attention_mask",
            aliases=("attention_mask",),
            required=False,
            holds=(IDS,),
            becomes="input_ids",
        ),
    ),
    carries=(),
    forbidden=(),
    splits=False,
    loss_on="labels",
    turns=False,
    wraps=False,
    implicit="",
    recognized="`input_ids`, and `labels` with -100 where nothing is learned; `attention_mask` is 0 at padding alone",
    usual="sft",
)

PROMPTS = RowFormat(
    name="prompts",
    means="`prompt` only, which the model answers during training",
    elsewhere=("prompt", "grpo", "rlvr", "online"),
    kind="prompts",
    unrolled="",
    answers=1,
    roles=(Role(name="prompt", aliases=_PROMPTS, required=True, holds=_ANY_TURNS, becomes="prompt"),),
    carries=("parts", "system"),
    forbidden=(),
    splits=False,
    loss_on="completion",
    turns=True,
    wraps=True,
    implicit="",
    recognized="a `prompt` that nobody answers yet, or a conversation, whose last answer the model writes anew; other "
    "columns are read where a reward names them",
    usual="grpo",
)

# In the order in which a row is tried against them.
ROW_FORMATS = {
    row.name: row
    for row in (PREFERENCE, UNPAIRED_PREFERENCE, CHAT, INSTRUCTION, PROMPT_COMPLETION, TEXT, TOKEN_IDS, PROMPTS)
}
