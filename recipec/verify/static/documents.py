"""The emitted documents: JSON, YAML, the registry entry against its schema, the pins against the stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from recipec.verify.bundle import Bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.python import pin_problems


def check_documents(bundle: Bundle, report: VerifyReport) -> None:
    """Everything parses; the registry entry follows its own schema; the pins are the stack's."""
    files = bundle.ending(".json", ".yaml", ".yml")
    if report.add("JSON and YAML parse", parse_problems(bundle), f"{len(files)} files"):
        report.add("registry/entry.json follows its schema", registry_problems(bundle))
    report.add("requirements.txt pins the stack", pin_problems(bundle))


def parse_problems(bundle: Bundle) -> list[str]:
    """JSON and YAML files that cannot be read, or that say a key twice."""
    problems = []
    for path in bundle.ending(".json", ".yaml", ".yml"):
        load = _json if path.suffix == ".json" else _yaml
        try:
            load(path.read_text(encoding="utf-8"))
        except Exception as error:  # the parsers have no common class
            problems.append(f"{bundle.name_of(path)}: {' '.join(str(error).split())}")
    return problems


def registry_problems(bundle: Bundle) -> list[str]:
    """Where registry/entry.json breaks registry/entry.schema.json; a bundle without a registry has no problem."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    entry, schema = (bundle.root / "registry" / name for name in ("entry.json", "entry.schema.json"))
    if not entry.is_file():
        return []
    if not schema.is_file():
        return ["registry/entry.schema.json is missing"]
    rules = json.loads(schema.read_text(encoding="utf-8"))
    if not isinstance(rules, dict):
        return ["registry/entry.schema.json holds no keys"]
    validator = validator_for(rules)
    try:
        validator.check_schema(rules)
        errors = list(validator(rules, registry=Registry()).iter_errors(json.loads(entry.read_text(encoding="utf-8"))))
    except Exception as error:  # of the schema, a pattern or a reference in it: they have no common class
        return [f"registry/entry.schema.json is not a schema that can be used: {str(error).partition(chr(10))[0]}"]
    return [f"{'.'.join(map(str, error.absolute_path)) or 'entry'}: {error.message}" for error in errors]


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"said twice: {', '.join(twice)}")
    return dict(pairs)


def _yaml(text: str) -> Any:
    return list(strict_yaml()(text))


def strict_yaml() -> Callable[[str], Any]:
    """A reader of all YAML documents of a text that refuses repeated keys."""
    import yaml

    class Strict(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict:
        return _once(
            [(loader.construct_object(key, True), loader.construct_object(value, True)) for key, value in node.value]
        )

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return lambda text: yaml.load_all(text, Loader=Strict)
