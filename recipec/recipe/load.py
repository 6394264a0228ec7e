"""The front half of the compiler: from a recipe file to a checked recipe with places, and what it decides itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from recipec.axes import ADAPTATIONS, METHODS
from recipec.characters import forbidden_in_name, why_forbidden
from recipec.diagnostics.model import Diagnostic, Place, Report
from recipec.recipe.adapters import FUSION, LIST, of_one_task
from recipec.recipe.contradictions import contradictions
from recipec.recipe.document import Document, Located, Written, asked_method, asks_method, nearest, value_at
from recipec.recipe.extends import read_whole
from recipec.recipe.fields import AUTO, Section
from recipec.recipe.locate import KeyPath
from recipec.recipe.prompts_of_pairs import pairs_asked, with_prompts_of_pairs
from recipec.recipe.schema import Recipe, rivals
from recipec.recipe.schema_adapters import ADDED_UP, MIX, MIXED
from recipec.recipe.schema_training import attribute
from recipec.recipe.source import Source
from recipec.recipe.validate import doubtful_sections, recipe_of, validate
from recipec.rules.core import Wish


class LoadedRecipe(Struct, frozen=True):
    """A recipe without errors of its own, and where each of its values was written."""

    recipe: Recipe
    path: Path
    files: tuple[Path, ...]  # every file that was read, the recipe first
    document: Document
    names: Mapping[str, str]  # a file as diagnostics show it -> relative to the recipe's folder
    of_tasks: Mapping[str, LoadedRecipe] = field(default_factory=dict)  # [[adapters]]: name -> the recipe of it alone
    task: str = ""  # the adapter of [[adapters]] that it is the recipe of, or [fusion]
    mixes: tuple[str, ...] = ()  # the adapters that [fusion] learns to mix, of a recipe of one of them or of the mix

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def tasks(self) -> Mapping[str, LoadedRecipe]:
        """Return the recipes that are trained side by side: one for each adapter, else this one, without a name."""
        return self.of_tasks or {"": self}

    @property
    def places(self) -> Mapping[KeyPath, Located]:
        return self.document.places

    def is_set(self, *path: str | int) -> bool:
        """Tell whether the recipe, or one that it extends, writes `path`."""
        return self.value(*path) is not None

    def value(self, *path: str | int) -> Any:
        """Return what the recipe writes at `path`, as TOML has it; None when it writes nothing."""
        return value_at(self.document.data, path)

    def place(self, *path: str | int, part: str = "value") -> Place:
        """Return where `path` is written, else its nearest table that is; `part` is "value" or "key"."""
        return getattr(nearest(self.places, path, self.document), part)

    def where(self, *path: str | int) -> str:
        """Return "recipe.toml:14", the file relative to the recipe's folder."""
        place = self.place(*path)
        return f"{self.names[place.file]}:{place.span.line}"

    @property
    def method(self) -> str | None:
        """Return the alignment method that the recipe asks for, by its name or by its KL; None for none."""
        return asked_method(self.value("alignment") or {})

    @property
    def asks_method(self) -> tuple[str | int, ...]:
        """Return the key that asks for it."""
        return asks_method(self.value("alignment") or {})

    def pairs_asked(self, section: str) -> str:
        """Return the section of the pairs whose prompts a section has; "" where its rows are its own."""
        return pairs_asked(self.document, section)

    def written_for(self, stage: str, key: str) -> tuple[str, ...]:
        """Return the path of the line that sets a key for a stage: in [train.STAGE], else in its general table."""
        section, *rest = (part for part in key.split(".") if part != stage)
        own = (section, stage, *rest)
        return own if self.is_set(*own) else (section, *rest)

    def wishes(self, stage: str, last: bool) -> dict[str, Wish]:
        """Return the values that the recipe sets for a stage, by recipe key ("train.lora.rank").

        `last` tells whether it is the last stage: what says how it learns in [train] holds for that one only.
        """
        found = wishes(self.recipe, self.where, stage, last)
        return found | self._adaptation(found) if self.task else found

    @property
    def mix(self) -> bool:
        """Tell whether it is the recipe of [fusion]."""
        return bool(self.mixes) and self.task == FUSION

    @property
    def combined(self) -> str:
        """Return the table that combines the adapters of several tasks; "" where there are none."""
        return (FUSION if self.mixes else LIST) if self.task else ""

    def _adaptation(self, found: Mapping[str, Wish]) -> dict[str, Wish]:
        """Return what an adapter is where the recipe does not name it, and what the mix of them is in any case."""
        if self.mix:
            return {"train.adaptation": Wish(MIX.family, self.where(FUSION), FUSION)}
        row, asked_by = MIXED if self.mixes else ADDED_UP, self.combined
        stated = found.get("train.adaptation")
        if stated and not (stated.implied_by and stated.value == row.family):
            return {}
        return {"train.adaptation": Wish(row.family, self.where(asked_by), asked_by)}

    def allowed(self) -> dict[str, Place]:
        """Return the warnings that the recipe silences, and where it says so."""
        codes = self.recipe.recipe.allow or []
        return {code: self.place("recipe", "allow", index) for index, code in enumerate(codes)}


class Draft(Struct, frozen=True):
    """What can be read of a recipe with errors, so that what it names can be looked up all the same."""

    loaded: LoadedRecipe
    doubtful: frozenset[str]  # sections in which a key with an error may be what names something
    valid: bool  # whether each value is right by itself, and only some of them do not go together


def load_recipe(path: Path, report: Report) -> LoadedRecipe | None:
    """Read and check the recipe at `path` with all that it extends; None if and only if errors were reported."""
    found = read_recipe(path, report)
    return found if isinstance(found, LoadedRecipe) else None


def read_recipe(path: Path, report: Report) -> LoadedRecipe | Draft | None:
    """The same; of a recipe with errors what can be read without the values that have them, None where that is not
    enough for a recipe."""
    if (character := forbidden_in_name(path.name)) is not None:
        report.add(_unfit_name(path.name, character))
        return None
    document, sources = read_whole(path, report)
    if document is None:
        return None
    document, own, lost = with_prompts_of_pairs(document), Report(), report.has_errors
    recipe, written = validate(document, own)
    contradictions(written, own)
    parts = {} if own.has_errors else {name: _checked(part, own) for name, part in of_one_task(document).items()}
    for finding in as_preset(written, own.diagnostics):
        if not (lost and _may_be_inherited(written, finding)):
            report.add(finding)
    names = {source.shown: _name(source, path.parent) for source in sources}
    files = tuple(dict.fromkeys(source.path for source in sources))
    if recipe is not None and not report.has_errors:
        mixes = tuple(name for name in parts if name != FUSION) if FUSION in parts else ()
        of_tasks = {
            name: LoadedRecipe(part, path, files, read, names, task=name, mixes=mixes)
            for name, (part, read) in parts.items()
            if part
        }
        return LoadedRecipe(recipe, path, files, document, names, of_tasks)
    kept = recipe_of(written)
    if kept is None:
        return None
    readable = Document(document.source, dict(written.data), written.document.places)
    doubtful = doubtful_sections(written.document, written)
    return Draft(LoadedRecipe(kept, path, files, readable, names), doubtful, recipe is not None)


def _checked(document: Document, report: Report) -> tuple[Recipe | None, Document]:
    """Validate the recipe of one task, and check what it says against itself."""
    recipe, written = validate(document, report)
    contradictions(written, report, of_task=True)
    return recipe, document


def _may_be_inherited(written: Written, finding: Diagnostic) -> bool:
    """Whether a key is missing that a recipe may have which is extended and could not be read."""
    return written.has("recipe", "extends") and finding.title.startswith(_MISSING)


def _unfit_name(name: str, character: str) -> Diagnostic:
    title = f"the file name `{name}` holds the forbidden character U+{ord(character):04X}"
    return Diagnostic(
        "E0006",
        title,
        (),
        ("rename the recipe file: its name appears in generated files",),
        (why_forbidden(character),),
    )


def _name(source: Source, folder: Path) -> str:
    """Name a file relative to the recipe's folder; a shipped recipe by its own name, wherever it is installed."""
    if source.shipped:
        return source.shown
    return Path(os.path.relpath(source.path, folder)).as_posix()


_MISSING, _MISPLACED = "missing key ", " of [policy] in the recipe itself"


def as_preset(written: Written, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """One finding (E0201) in place of those that only say that a preset is none; others stay.

    A preset is told by a [policy], which binds only the recipes that extend it, without a name.
    """
    source = written.document.source
    limits = [finding for finding in found if finding.title.endswith(_MISPLACED)]
    if not limits or written.has("recipe", "name") or written.has("recipe", "extends"):
        return list(found)
    missing = [finding for finding in found if finding.title.startswith(_MISSING)]
    needed = ", ".join(finding.title.removeprefix(_MISSING) for finding in missing)
    title = f"`{source.shown}` looks like a preset that recipes extend: it has a [policy] and no name"
    extending = f'a recipe has `extends = "{source.path.name}"` in [recipe], and adds {needed}'
    kept = [finding for finding in found if finding not in (*missing, *limits)]
    help = (extending, "check that recipe: it is checked with this one")
    return [Diagnostic("E0201", title, limits[0].labels, help), *kept]


# What says how a stage learns belongs in [train] to the last stage only; what says how it runs, and the adapters
# that one stage hands to the next, hold for all.
LAST_STAGE_ONLY = frozenset(
    (
        *("learning_rate", "schedule", "warmup", "weight_decay", "max_grad_norm"),
        *("epochs", "max_steps", "global_batch_size", "arguments"),
    )
)
_NOT_DECISIONS = ("policy", LIST)

Where = Callable[..., str]


def wishes(recipe: Recipe, where: Where, stage: str, last: bool) -> dict[str, Wish]:
    """Return every value that the recipe sets for `stage`, by its recipe key; "auto" sets nothing.

    `where` tells where a key path is written. [train.STAGE] overrides [train].
    """
    found: dict[str, Wish] = {}
    for name in Recipe.model_fields:
        if name not in _NOT_DECISIONS and name != "train" and (section := getattr(recipe, name)) is not None:
            found |= _of_section(section, (name,), where)
    found |= _of_section(recipe.train, ("train",), where, skip=METHODS if last else (*METHODS, *LAST_STAGE_ONLY))
    shaped = _shaped(recipe.train, ("train",), where)
    if stage in METHODS:
        table = getattr(recipe.train, attribute(stage))
        own = _of_section(table, ("train", stage), where)
        found = _overridden(found, {key.replace(f".{stage}.", ".", 1): wish for key, wish in own.items()})
        shaped |= _shaped(table, ("train", stage), where)
    return _written_out(shaped | found)


def _of_section(section: Section, path: tuple[str, ...], where: Where, skip: Collection[str] = ()) -> dict[str, Wish]:
    found = {}
    for key, value in _set_keys(section):
        here = (*path, key)
        if key in skip or value == AUTO:
            continue
        if isinstance(value, Section):
            found |= _of_section(value, here, where)
        else:
            found[".".join(here)] = Wish(_whole(value) if key == "epochs" else value, where(*here))
    return found


def _shaped(section: Section, path: tuple[str, ...], where: Where) -> dict[str, Wish]:
    """A table that shapes an adapter asks for one, also without `train.adaptation`."""
    rows = [row for row in ADAPTATIONS.values() if row.table in section.model_fields_set]
    asked = [row for row in rows if getattr(getattr(section, row.table), row.own_key or "_", None) is not None]
    plain = [row for row in rows if not row.own_key]
    wishes = [Wish(row.family, where(*path, row.table), ".".join((*path, row.table))) for row in (*asked, *plain)]
    return {"train.adaptation": wishes[0]} if wishes else {}


def _whole(value: float) -> float:
    """2 and not 2.0, as the rules and people write it."""
    return int(value) if value == int(value) else value


def _set_keys(section: Section) -> Iterator[tuple[str, Any]]:
    for name, described in type(section).model_fields.items():
        value = getattr(section, name)
        if value is not None:
            yield described.alias or name, value


def _overridden(general: Mapping[str, Wish], own: Mapping[str, Wish]) -> dict[str, Wish]:
    """Lay a stage's own values over the general ones; `max_steps` also displaces a general `epochs`."""
    displaced = {".".join(rival) for key in own for rival in rivals(tuple(key.split(".")))}
    merged = {key: wish for key, wish in general.items() if key not in displaced} | dict(own)
    both = general.get("train.arguments"), own.get("train.arguments")
    if all(both):
        merged["train.arguments"] = Wish(both[0].value | both[1].value, both[1].where)
    return merged


def _written_out(found: dict[str, Wish]) -> dict[str, Wish]:
    """Write an adaptation that is named with its base ("qlora") out as family and base."""
    wish = found.get("train.adaptation")
    row = ADAPTATIONS.get(wish.value) if wish else None
    if wish and row and row.quantized:
        found["train.adaptation"] = Wish(row.family, wish.where)
        found.setdefault("train.quantization", Wish(row.base, wish.where))
    return found
