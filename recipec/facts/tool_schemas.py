"""What makes a Python function a tool that a chat template can describe, read from its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from recipec.facts.own_code import Arguments

# Of a schema in JSON, whose names and punctuation are shorter tokens than words: recipec's choice.
CHARACTERS_PER_TOKEN = 3
CHARACTERS_PER_RESULT_TOKEN = 4  # of English text; by which the bundle cuts a result: recipec's choice
# What a template says around the schemas, of tools and of how to call them: the most is Qwen3.5's (TRL 1.16
# chat_templates/qwen3_5_think.jinja, rendered with one tool and without; Qwen3 402, Llama 3.1 524).
PREAMBLE_CHARACTERS = 918
_FRAME = len(
    '{"type": "function", "function": {"name": "", "description": "", '
    '"parameters": {"type": "object", "properties": {}, "required": []}}}'
)
_OF_PARAMETER = len('"": {"type": "string", "description": ""}, "", ')


def tool_problem(tool: Arguments, file: str, of: str) -> tuple[str, ...]:
    """Why a function is no tool, what to show and what helps; empty where it is. `of` names its class, or is empty.

    transformers 5.23 utils/chat_template_utils.py (get_json_schema) refuses these at the first prompt.
    """
    called, line = f"{of}.{tool.name}" if of else tool.name, f"line {tool.lineno} of {file}"
    if isinstance(tool, ast.AsyncFunctionDef):
        return f"the tool `{called}` is async", line, f"write `def {tool.name}`, without async"
    if tool.decorator_list:
        help = "remove the decorator, or begin the name with `_` where it is no tool"
        return f"the tool `{called}` is decorated", line, help
    arguments = tool.args
    if arguments.posonlyargs or arguments.vararg or arguments.kwarg:
        help = "name every parameter: the model gives each argument by its name"
        return f"the tool `{called}` has parameters without a name", line, help
    return _undescribed(tool, called, line, bool(of))


def _undescribed(tool: Arguments, called: str, line: str, bound: bool) -> tuple[str, ...]:
    """What the description of a tool lacks."""
    parameters = _parameters(tool, bound)
    if untyped := [one.arg for one in parameters if one.annotation is None]:
        help = f"write `{untyped[0]}: str`, or another type: the model is told the type of every argument"
        return f"the tool `{called}` has no type hint for `{untyped[0]}`", line, help
    said = ast.get_docstring(tool)
    if not said or said.startswith("Args:"):
        help = "say in a docstring what it does; with parameters, add a section `Args:`"
        return f"the docstring of the tool `{called}` does not say what it does", line, help
    missing = [one.arg for one in parameters if one.arg not in _described(said)]
    if missing:
        help = f"add a line `{missing[0]}: ...` to a section `Args:` of its docstring"
        return f"the docstring of the tool `{called}` does not describe `{missing[0]}`", line, help
    return ()


def _parameters(tool: Arguments, bound: bool) -> list[ast.arg]:
    return [*tool.args.args[bound:], *tool.args.kwonlyargs]


def _described(docstring: str) -> set[str]:
    """The parameters in the section `Args:` of a Google docstring: indented lines that begin `name:`."""
    section = re.search(r"\n[ \t]*Args:\n((?:[ \t]+.*\n?|[ \t]*\n)*)", docstring)
    return set(re.findall(r"^\s+(\w+):", section.group(1), re.MULTILINE)) if section else set()


def schema_tokens(tools: Sequence[Arguments]) -> int:
    """Tokens that the descriptions of the tools take in a prompt, estimated from their text."""
    if not tools:
        return 0
    characters = sum(_characters(tool) for tool in tools)
    return PREAMBLE_CHARACTERS // CHARACTERS_PER_RESULT_TOKEN + -(-characters // CHARACTERS_PER_TOKEN)


def _characters(tool: Arguments) -> int:
    parameters = [*tool.args.args, *tool.args.kwonlyargs]
    names = sum(2 * len(one.arg) + _OF_PARAMETER for one in parameters)
    return _FRAME + len(tool.name) + names + len(ast.get_docstring(tool) or "")
