"""What the sections of the language are made of: the base model, a key's documentation, and the shared value types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import core_schema

from recipec.axes.tasks import AUTO as AUTO


class Section(BaseModel):
    """A table of the recipe: unknown keys are refused, numbers are finite, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


def key(title: str, description: str, *examples: Any, default: Any = None, absent: str = "", **more: Any) -> Any:
    """Document a key that may be absent: it is then None, "decided".

    `default` is the value that this amounts to, or `absent` says it in words, where no rule decides and says it.
    """
    extra = ({} if default is None else {"default": default}) | ({ABSENT: absent} if absent else {})
    return Field(
        None, title=title, description=description, examples=list(examples), json_schema_extra=extra or None, **more
    )


ABSENT = "x-absent"  # in the JSON Schema: what a recipe without the key gets


def required(title: str, description: str, *examples: Any) -> Any:
    """Document a key that every recipe must have."""
    return Field(title=title, description=description, examples=list(examples))


def table(title: str, description: str, example: dict[str, Any], **more: Any) -> Any:
    """Document a table; an absent one is an empty one, so that its keys can always be read."""
    return Field(
        default_factory=dict, validate_default=True, title=title, description=description, examples=[example], **more
    )


class OneOrMany:
    """Lets a single entry stand where a list is meant; readers always get a list."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(_listed, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], listed]}


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def one_of(meanings: Mapping[str, str]) -> Any:
    """An enumeration: its values, and what each of them means."""
    return Annotated[Literal[tuple(meanings)], Meanings(*meanings.values())]


class Meanings:
    """Says what each value of an enumeration means, in the enumeration's order, for editors to show."""

    def __init__(self, *meanings: str) -> None:
        self.meanings = meanings

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        plain = handler(schema)
        assert len(plain["enum"]) == len(self.meanings), f"one meaning for each of {plain['enum']}"
        return {**plain, "x-taplo": {"docs": {"enumValues": list(self.meanings)}}}


# What a pattern asks for, in words: the text of E0206.
PATTERNS: dict[str, str] = {}


def _text(pattern: str, words: str) -> str:
    PATTERNS[pattern] = words
    return pattern


RECIPE_NAME = _text(
    r"^[a-z0-9][a-z0-9._-]{0,62}$",
    "1 to 63 lower-case letters, digits, dots, dashes and underscores, beginning with a letter or digit",
)
TASK_NAME = _text(r"^[a-z][a-z0-9-]{0,31}$", "1 to 32 lower-case letters, digits and dashes, beginning with a letter")
_LINE = _text(r"^[^\n\t]*[^\s][^\n\t]*$", "one line that is not blank")
_SPOKEN = _text(r"\S", "a text that says something")
_COLUMN = _text(r"^([^\n\t]*[^\s][^\n\t]*)?$", 'one line that is not blank, or "" for a column without a name')
_VARIABLE = _text(
    r"^[A-Za-z_][A-Za-z0-9_]*$", "letters, digits and underscores, not beginning with a digit, as in a shell variable"
)
_REVISION = _text(
    r"^[^\s~^:?*\[\\]+$",
    "a branch, a tag or a commit: git allows no spaces in their names, and none of ~ ^ : ? * [ \\",
)
_WARNING_CODE = _text(r"^W[0-9]{4}$", "the code of a warning, such as `W0503`")
OWN_TEMPLATES = ("chatml", "plain")  # values of data.template that recipec brings
_TEMPLATE = _text(
    r"^(auto|model|" + "|".join(OWN_TEMPLATES) + r"|\.{0,2}/[^\n\t]*\.jinja2?)$",
    "`auto`, `model`, `chatml`, `plain`, or the path of a Jinja file that begins with `./`",
)

Line = Annotated[str, Field(pattern=_LINE, max_length=4096)]
Revision = Annotated[str, Field(pattern=_REVISION, max_length=4096)]
ColumnName = Annotated[str, Field(pattern=_COLUMN, max_length=4096)]
Prose = Annotated[str, Field(max_length=20_000)]
Spoken = Annotated[str, Field(pattern=_SPOKEN, max_length=20_000)]
Variable = Annotated[str, Field(pattern=_VARIABLE, max_length=256)]
VariableValue = Annotated[str, Field(max_length=32_768)]
WarningCode = Annotated[str, Field(pattern=_WARNING_CODE)]
TemplateName = Annotated[str, Field(pattern=_TEMPLATE, max_length=4096)]

# A peak learning rate. Adam moves a weight by up to the rate in a step (arXiv 1412.6980, section 2.1), and most weights
# are far below 1, which would replace them all; of SGD 0.03 is published (LOMO, 2306.09782), far below 1, too. The
# largest that is published is 0.3, of prompt tuning (2104.08691).
Rate = Annotated[float, Field(gt=0, lt=1)]
OpenFraction = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Usd = Annotated[float, Field(gt=0, le=1e9)]

MOST_NEW_TOKENS = 65_536  # recipec's choice
NewTokens = Line | Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=MOST_NEW_TOKENS)]
