"""The recipe language as JSON Schema, for editors and linters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from recipec.recipe.fields import ABSENT
from recipec.recipe.schema import Recipe

DIALECT = "http://json-schema.org/draft-07/schema#"
WITHOUT = "\n\nDefault: "
COMMITTED = Path(__file__).parent / "recipe.schema.json"


class _Generator(GenerateJsonSchema):
    """TOML has no null: a key that may be absent is simply not required."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def recipe_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft-07, which TOML editors read) of the recipe language."""
    schema = Recipe.model_json_schema(schema_generator=_Generator, ref_template="#/definitions/{model}")
    definitions = schema.pop("$defs")
    tables = {name: key for name, key in schema["properties"].items() if "$ref" in key}
    required = {name: definitions[_referred(key)].pop("required", []) for name, key in tables.items()}
    needed = {name: keys for name, keys in required.items() if keys}
    return {
        "$schema": DIALECT,
        **_rewritten(schema),
        **_complete_recipe(needed),
        "definitions": _rewritten(definitions),
    }


def _complete_recipe(needed: dict[str, list[str]]) -> dict[str, Any]:
    """Demand keys only of a file with a name and without `extends`: others have a part of a recipe."""
    header = {"required": ["name"], "not": {"required": ["extends"]}, "additionalProperties": True}
    tables = {name: {"required": keys, "additionalProperties": True} for name, keys in needed.items()}
    return {
        "if": {"required": ["recipe"], "properties": {"recipe": header}, "additionalProperties": True},
        "then": {
            "required": [*needed, "hardware"],
            "anyOf": [{"required": [table], "additionalProperties": True} for table in ("data", "adapters")],
            "properties": tables,
            "additionalProperties": True,
        },
    }


def _referred(key: dict[str, Any]) -> str:
    return key["$ref"].rsplit("/", 1)[1]


def schema_text() -> str:
    """Return the text of the committed schema file."""
    return json.dumps(recipe_json_schema(), indent=2, ensure_ascii=False) + "\n"


def _rewritten(node: Any) -> Any:
    """Return a copy in which `$ref` stands alone in an allOf, and descriptions have values and defaults.

    Draft-07 ignores what stands beside a `$ref`; most editors show no text but the description.
    """
    if isinstance(node, list):
        return [_rewritten(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    node = {key: _rewritten(value) for key, value in node.items()}
    if meanings := node.get("x-taplo", {}).get("docs", {}).get("enumValues"):
        pairs = zip(node["enum"], meanings, strict=True)
        lines = [node.get("description", ""), "", *(f"- `{value}`: {meaning}" for value, meaning in pairs)]
        node["description"] = "\n".join(lines).lstrip("\n")
    if absent := node.get(ABSENT):
        node["description"] = f"{node['description']}{WITHOUT}{absent}."
    if "$ref" in node and len(node) > 1:
        return {"allOf": [{"$ref": node.pop("$ref")}], **node}
    return node


if __name__ == "__main__":  # python -m recipec.recipe.json_schema writes the committed file anew; an import never does
    text = schema_text()
    with COMMITTED.open("w", encoding="utf-8") as file:
        file.write(text)
