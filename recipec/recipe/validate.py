"""Check a document against the schema and say in plain words what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError

from recipec.axes import NAMED_MODELS, SECTIONS
from recipec.diagnostics.model import Diagnostic, Label, Place, Report
from recipec.recipe.document import Document, Written, nearest, stands_for, value_at
from recipec.recipe.fields import AUTO, PATTERNS
from recipec.recipe.foreign import KEYS, keys_in, not_built
from recipec.recipe.foreign_values import as_file, beyond_range, by_value, instead_of, of_another_kind
from recipec.recipe.locate import KeyPath, dotted
from recipec.recipe.misplaced import as_table, elsewhere, homes_of, listed, near_to
from recipec.recipe.names import as_name
from recipec.recipe.respelled import names_meant, respelled
from recipec.recipe.schema import Recipe
from recipec.recipe.schema_data import GENERAL
from recipec.recipe.schema_keys import allowed_values, keys_of
from recipec.recipe.shares import as_counted, as_share
from recipec.recipe.shown import number, short, shown
from recipec.recipe.slips import slip
from recipec.recipe.trainer_arguments import written_as_argument

MOST_PROBLEMS = 50  # that are reported one by one: each is compared with all keys of its table


def validate(document: Document, report: Report) -> tuple[Recipe | None, Written]:
    """Return the recipe, None when it has errors (E02xx), and what it says without the values that have errors.

    What stands below a misspelled key is checked, and read, as below the key that is meant.
    """
    try:
        return Recipe.model_validate(document.data), Written(document.data, document)
    except ValidationError as error:
        problems = _problems(document.data, error.errors(include_url=False, include_input=False))
    if names := _misspelled(problems, document):
        found, own = [diagnose(problem, document) for problem in problems if problem.path in names], Report()
        _, written = validate(respelled(document, names), own)
        guessed = {document.places[path].value for path in names if path in document.places}  # of another type: not it
        found += [each for each in own.diagnostics if each.code != "E0202" or each.labels[0].place not in guessed]
        for finding in sorted(found, key=lambda finding: _written_order(finding, document)):
            report.add(finding)
        return None, written
    problems = sorted(problems, key=lambda problem: _order(problem, document))
    unknown = [problem for problem in problems if problem.is_unknown][:MOST_PROBLEMS]
    meant = frozenset(path for problem in unknown for path in _meant(problem))
    meant |= {problem.path for problem in problems if as_table(problem.path, problem.value)}
    problems = [problem for problem in problems if not (problem.is_missing and stands_for(meant, problem.path))]
    for problem in problems[:MOST_PROBLEMS]:
        report.add(diagnose(problem, document))
    if more := problems[MOST_PROBLEMS:]:
        report.add(_more(more, document))
    refused = {problem.path for problem in problems}
    return None, Written(_without(document.data, refused, _around(refused)), document, meant)


def _misspelled(problems: list[Problem], document: Document) -> dict[KeyPath, str]:
    """The unknown keys that one alone can be meant by -> that one; none of so many that the rest is not told."""
    unknown = [problem.path for problem in problems if problem.is_unknown and not _of_tools(problem)]
    return names_meant(document, unknown) if len(problems) <= MOST_PROBLEMS else {}


def _of_tools(problem: Problem) -> bool:
    """Whether a key is known from other tools, so that another one may be meant."""
    key, value = str(problem.path[-1]), problem.value
    return bool(_of_other_tools(dotted(problem.path), value) or _of_other_tools(key, value) or not_built(key))


def _written_order(finding: Diagnostic, document: Document) -> tuple[bool, tuple[int, ...]]:
    place = finding.labels[0].place
    return place.file != document.source.shown, place.span or ()


def _more(problems: list[Problem], document: Document) -> Diagnostic:
    """One finding for all problems that are not reported one by one."""
    first = diagnose(problems[0], document)
    title = f"{len(problems):,} more keys or values are wrong"
    return Diagnostic(first.code, title, (Label(first.labels[0].place, "the first of them"),), (_FIRST_ONES,))


_FIRST_ONES = f"fix the first {MOST_PROBLEMS}; recipec then reports the others"


def recipe_of(written: Written) -> Recipe | None:
    """The recipe without the values that have errors; None where a value that every recipe has is among them."""
    try:
        return Recipe.model_validate(written.data)
    except ValidationError:
        return None


_NAMING = ("name", "like", "gpu", "vram_gib", "path", "hub", *SECTIONS, *NAMED_MODELS, "eval", "test", GENERAL)


def doubtful_sections(document: Document, written: Written) -> frozenset[str]:
    """The sections where a refused key looks like one that names a model, a GPU or a file."""
    refused = [path for path in document.places if len(path) > 1 and value_at(written.data, path) is None]
    if len(refused) > MOST_PROBLEMS:
        return frozenset(str(path[0]) for path in refused)
    return frozenset(str(path[0]) for path in refused if near_to(str(path[-1]), list(_NAMING)))


def _problems(data: dict[str, Any], errors: Iterable[Any]) -> list[Problem]:
    """Gather pydantic's errors by the place in the document that they speak of.

    An entry that may have one of several forms gives one error for each; an error further inside it is the one that
    tells what is wrong.
    """
    found: dict[KeyPath, Problem] = {}
    for error in errors:
        path = _document_path(data, error["loc"], error["type"])
        problem = found.setdefault(path, Problem(path, value_at(data, path)))
        problem.faults.append((error["type"], error.get("ctx", {})))
        problem.at_key |= error["loc"][-1] == "[key]"
        problem.no_table |= problem.is_missing and len(path) == 2 and value_at(data, path[:1]) is None
    around = _around(found)
    return [problem for path, problem in found.items() if path not in around]


def _document_path(data: Any, loc: KeyPath, kind: str) -> KeyPath:
    """Drop from pydantic's location what is not in the document: the names of union members, positions we added."""
    if kind == "missing":
        return loc
    path: KeyPath = ()
    for part in loc:
        if (isinstance(data, dict) and part in data) or (isinstance(data, list) and isinstance(part, int)):
            path, data = (*path, part), data[part]
    return path


def _around(paths: Iterable[KeyPath]) -> set[KeyPath]:
    """The tables and lists that the paths are in."""
    return {path[:length] for path in paths for length in range(len(path))}


def _order(problem: Problem, document: Document) -> tuple[bool, tuple[int, ...]]:
    """Sort by where the reader finds it: this file before those it extends, then by line."""
    place = problem.place(document)
    return place.file != document.source.shown, place.span


def _without(data: Any, refused: set[KeyPath], around: set[KeyPath], path: KeyPath = ()) -> Any:
    """Copy `data` leaving out the refused paths; a list that is `around` one is left out whole."""
    if not isinstance(data, dict):
        return data
    below = {key: (*path, key) for key in data}
    lists = {key for key, value in data.items() if isinstance(value, list) and below[key] in around}
    kept = [key for key in data if below[key] not in refused and key not in lists]
    return {key: _without(data[key], refused, around, below[key]) for key in kept}


Context = dict[str, Any]

_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a table",
    "string_type": "a string",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_ENDS = {"greater_than", "less_than"}  # of a share, which is neither nothing nor all


class Problem(Struct):
    """A path of the document, its value, and what the schema has against it."""

    path: KeyPath
    value: Any
    faults: list[tuple[str, Context]] = field(default_factory=list)
    at_key: bool = False  # the key itself is of the wrong form, not its value
    no_table: bool = False  # it is missing with the table that it belongs to

    @property
    def is_missing(self) -> bool:
        return any(kind == "missing" for kind, _ in self.faults)

    @property
    def is_unknown(self) -> bool:
        return any(kind == "extra_forbidden" for kind, _ in self.faults)

    @property
    def table(self) -> str:
        return f"[{dotted(self.path[:-1])}]" if len(self.path) > 1 else "a recipe"

    @property
    def name(self) -> str:
        return f"`{dotted(self.path)}`"

    def place(self, document: Document) -> Place:
        located = nearest(document.places, self.path, document)
        kinds = {kind for kind, _ in self.faults}
        if self.is_missing:
            return nearest(document.places, self.path[:-1], document).key
        return located.key if self.at_key or "extra_forbidden" in kinds else located.value


def diagnose(problem: Problem, document: Document) -> Diagnostic:
    """Return the one diagnostic for everything that is wrong at one place."""
    faults = dict(problem.faults)
    place = problem.place(document)
    for kinds, describe in _DESCRIPTIONS:
        if faults.keys() & set(kinds):
            found = describe(problem, faults, place)
            shares = as_share(problem.path, problem.value, document.data) if faults.keys() & _ENDS else ()
            counted = as_counted(problem.path, problem.value, document.data) if "extra_forbidden" in faults else ""
            return replace(found, help=(counted,) if counted else (*found.help, *shares))
    return _plain("E0202", f"{problem.name} does not have the expected form", place)


def _plain(code: str, title: str, place: Place, label: str = "", *help: str) -> Diagnostic:
    return Diagnostic(code, title, (Label(place, label),), tuple(text for text in help if text))


def _missing(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    key = problem.path[-1]
    title, example = f"missing key `{key}` in {problem.table}", _example(problem.path)
    if not problem.no_table:
        return _plain("E0201", title, place, f"needs `{key}`", example)
    return _plain(
        "E0201", title, place, f"no {problem.table}", f"write `{problem.table}`, and `{key}` below it", example
    )


def _example(path: KeyPath) -> str:
    """What could be written: the values of an enumeration, else an example."""
    if values := allowed_values(path):
        return f"the values are {listed(values)}"
    examples = keys_of(path[:-1])[path[-1]].examples or [None]
    return f'for example {path[-1]} = "{examples[0]}"' if isinstance(examples[0], str) else ""


def _unknown(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    key = str(problem.path[-1])
    kind = "table" if isinstance(problem.value, dict) and len(problem.path) == 1 else "key"
    named = f"[{key}]" if kind == "table" else f"`{key}` in {problem.table}"
    known = list(keys_of(problem.path[:-1]))
    help = _instead(problem, known, kind)
    return _plain("E0203", f"unknown {kind} {named}", place, f"not a key of {problem.table}", *help)


def _instead(problem: Problem, known: list[str], kind: str) -> tuple[str, ...]:
    """What to write for an unknown key, the value of which may decide what was meant."""
    key, value = str(problem.path[-1]), problem.value
    if isinstance(value, str) and value.lower() == AUTO and _decided_here(key):
        return (_REMOVED,)
    if told := by_value(key, value):
        return (_in_source(told, problem.path, known),)
    instead = _of_other_tools(dotted(problem.path), value) or _of_other_tools(key, value)
    return not_built(key) or (_in_source(instead, problem.path, known) or elsewhere(problem.path, value, known, kind),)


def _decided_here(key: str) -> bool:
    """Whether a key of another tool stands for keys that a recipe may leave out."""
    named = keys_in(KEYS.get(key.lower(), ""))
    return bool(named) and not any(map(_is_required, named))


_OF_SOURCES = re.compile(r"`data\.(?:train\.)?(\w+)( = [^`]*)?`")


def _in_source(help: str, path: KeyPath, known: list[str]) -> str:
    """A key of [data] that each source has for itself, where the unknown key stands in a source."""
    found = _OF_SOURCES.search(help)
    if not found or found[1] not in known or path[0] != "data" or len(path) < 3:
        return help
    return help.replace(found[0], f"`{found[1]}{found[2] or ''}` in this source", 1)


def _of_other_tools(key: str, value: object) -> str:
    """What to write for a key of another tool; "" for other words."""
    return by_value(key, value) or KEYS.get(key.lower()) or written_as_argument(key.lower(), value)


def _meant(problem: Problem) -> Iterator[KeyPath]:
    """The keys that an unknown one stands for, of another tool or misspelled."""
    key, table = str(problem.path[-1]), problem.path[:-1]
    if instead := _of_other_tools(dotted(problem.path), problem.value) or _of_other_tools(key, problem.value):
        yield from (tuple(named.split(".")) for named in keys_in(instead))
    elif homes := homes_of(key):
        yield from ((*home.split("."), key) for home in homes)
    elif near := near_to(key, list(keys_of(table))):
        yield (*table, near)
    elif table and as_table((key,), problem.value):
        yield (key,)


def _one_of(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    allowed = allowed_values(problem.path)
    if not isinstance(problem.value, str):
        return _wrong_type(problem, faults, place)
    instead, near = instead_of(dotted(problem.path), problem.value.lower()), near_to(problem.value, allowed)
    help = f"did you mean `{near}`?" if near else f"the values are {listed(allowed)}"
    title = f"`{short(problem.value)}` is not a value of {problem.name}"
    help = _left_open(problem) or help
    return _plain("E0204", title, place, f"expected {listed(allowed, 'or')}" if near else "", *(instead or (help,)))


def _left_open(problem: Problem) -> str:
    """How a recipe leaves a value to recipec, where it is said to be automatic; "" for other values."""
    automatic = isinstance(problem.value, str) and problem.value.lower() == AUTO
    return _REMOVED if automatic and not _is_required(dotted(problem.path)) else ""


_REMOVED = "remove it: recipec decides what a recipe does not set"


def _is_required(key: str) -> bool:
    """Whether every recipe must have the key; also true where it may be another one, as for the name of a GPU."""
    *table, name = key.split(".")
    field = keys_of(tuple(table)).get(name)
    return key in _ONE_OF_TWO or bool(field and field.is_required())


_ONE_OF_TWO = ("hardware.gpu", "hardware.vram_gib")


def _wrong_type(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    forms = [_form(problem, kind, context) for kind, context in problem.faults]
    expected = " or ".join(dict.fromkeys(form for form in forms if form))
    kinds = {kind for kind, _ in problem.faults}
    meant = as_table(problem.path, problem.value), _left_open(problem), slip(problem.value, kinds)
    help = *meant, *of_another_kind(dotted(problem.path), problem.value)
    return _plain("E0202", f"{problem.name} is {shown(problem.value)}", place, f"expected {expected}", *help)


def _form(problem: Problem, kind: str, context: Context) -> str:
    if kind == "literal_error":
        return listed([value for value in allowed_values(problem.path) if value not in ("true", "false")], "or")
    if context.get("class_name") == "DataSource":
        return "a path, a table or a list of these"
    return _EXPECTED.get(kind, "")


def _out_of_range(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    bounds = [f"{words} {number(faults[kind][bound])}" for kind, (bound, words) in _LIMITS.items() if kind in faults]
    title = f"{problem.name} is {shown(problem.value, bare=True)}"
    help = beyond_range(dotted(problem.path), problem.value)
    return _plain("E0205", title, place, f"must be {' and '.join(bounds)}", *help)


def _not_finite(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    return _plain("E0205", f"{problem.name} is {problem.value}", place, "must be a finite number")


def _bad_text(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    if "string_too_long" in faults:
        label = f"at most {faults['string_too_long']['max_length']} characters"
    else:
        label = PATTERNS[faults["string_pattern_mismatch"]["pattern"]]
    what = f"the key {problem.name}" if problem.at_key else problem.name
    instead = instead_of(dotted(problem.path), str(problem.value).lower())
    if (as_written := _AS_WRITTEN.get(problem.path)) and (name := as_written(str(problem.value))):
        instead = (f'write `{problem.path[-1]} = "{name}"`',)
    return _plain("E0206", f"{what} does not have the right form", place, f"must be {label}", *instead)


_AS_WRITTEN: dict[KeyPath, Callable[[str], str]] = {("recipe", "name"): as_name, ("data", "template"): as_file}


def _wrong_size(problem: Problem, faults: dict[str, Context], place: Place) -> Diagnostic:
    if "too_short" in faults and (least := faults["too_short"]["min_length"]) > 1 and problem.value:
        label = f"at least {least}"
        return _plain("E0207", f"{problem.name} has too few entries", place, label, f"write {least} or more, or none")
    if "too_short" in faults:
        return _plain("E0207", f"{problem.name} is empty", place, "add an entry, or remove the key")
    most = faults["too_long"]["max_length"]
    return _plain("E0207", f"{problem.name} has too many entries", place, f"at most {most}")


_Describe = Callable[[Problem, dict[str, Context], Place], Diagnostic]
# The first row with a fault of the problem speaks for all of them.
_DESCRIPTIONS: tuple[tuple[tuple[str, ...], _Describe], ...] = (
    (("missing",), _missing),
    (("extra_forbidden",), _unknown),
    (("finite_number",), _not_finite),
    (tuple(_LIMITS), _out_of_range),
    (("string_pattern_mismatch", "string_too_long"), _bad_text),
    (("too_short", "too_long"), _wrong_size),
    (("literal_error",), _one_of),
    (tuple(_EXPECTED), _wrong_type),
)
