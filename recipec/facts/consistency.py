"""What the recipe says against what its data and its model turn out to be. Every finding names its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from recipec.axes import METHODS, ROW_FORMATS, Method, RowFormat, formats_of, methods_of, readers, stages_of
from recipec.axes.adaptations import ALL_LINEAR
from recipec.axes.adapted import targeted
from recipec.axes.method import REWARDS
from recipec.axes.row_formats import FLAGS
from recipec.catalog.architecture import Architecture
from recipec.dataset.commands import paragraphs
from recipec.dataset.files import TEXT_ENDINGS, is_glob
from recipec.diagnostics.model import Diagnostic, Label
from recipec.facts.columns import against_columns
from recipec.facts.data import DataFacts
from recipec.facts.running import stages_that_run
from recipec.recipe import LoadedRecipe
from recipec.recipe.clashes import KL_CONTROL, METHOD, TABLES, TASK, WHY_NOT_SPLIT, either, foreign, own_keys
from recipec.recipe.schema import AUTO
from recipec.recipe.schema_data import DataSource
from recipec.recipe.schema_training import ADAPTED
from recipec.rules import goal
from recipec.units import counted

Data = Mapping[str, DataFacts]

_ADAPTER_TABLES = tuple((*place, name) for name in TABLES for place in (("train",), *(("train", n) for n in ADAPTED)))
_FRACTIONS = {"eval_fraction": "has_eval_file", "test_fraction": "has_test_file"}


def against_data(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Yield what does not go with the rows (E0205, E0401)."""
    for check in _DATA_CHECKS:
        yield from check(loaded, data)


def of_what_runs(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Yield keys of methods and tables of stages that do not run with these rows (E0401)."""
    yield from _keys_of_method(loaded, data)
    yield from _tables_of_idle_stages(loaded, data)


def against_model(loaded: LoadedRecipe, architecture: Architecture) -> Iterator[Diagnostic]:
    """Yield targets without an adapter (of lm_head tells BAD-009), and a rank for experts without one (E0401)."""
    yield from unknown_targets(loaded, architecture)
    yield from idle_expert_ranks(loaded, architecture)


def unknown_targets(loaded: LoadedRecipe, architecture: Architecture) -> Iterator[Diagnostic]:
    """Yield targets that no module of the model is."""
    for table in _ADAPTER_TABLES:
        targets = loaded.value(*table, "targets")
        for index, name in enumerate(targets if isinstance(targets, list) else ()):
            if name not in (*_adaptable(architecture), "lm_head"):
                yield _no_target(loaded, (*table, "targets", index), name, architecture)


def idle_expert_ranks(loaded: LoadedRecipe, architecture: Architecture) -> Iterator[Diagnostic]:
    """Yield ranks for adapters of experts that no expert has."""
    for table in _ADAPTER_TABLES:
        if loaded.is_set(*table, "expert_rank"):
            yield from _idle_expert_rank(loaded, table, architecture)


def _adaptable(architecture: Architecture) -> tuple[str, ...]:
    """The names that train.lora.targets may hold."""
    return architecture.adaptable + architecture.expert_parameters


def _no_target(loaded: LoadedRecipe, path: tuple[str | int, ...], name: str, architecture: Architecture) -> Diagnostic:
    """PEFT 0.21 takes the names of a shared expert or of a plain layer for those of the fused experts."""
    beside = name in architecture.linear_modules
    why = "PEFT takes this name for the experts" if beside else "recipec adapts no module of this name"
    why = architecture.unadapted.get(name, why)
    names = ", ".join(_adaptable(architecture))
    labels = (Label(loaded.place(*path), why), Label(loaded.place("model", "name"), f"has {names}"))
    title = f"the model has no module `{name}` for an adapter"
    return Diagnostic("E0401", title, labels, ('name some of these, or use "all-linear"',))


def _idle_expert_rank(loaded: LoadedRecipe, table: tuple[str, ...], architecture: Architecture) -> Iterator[Diagnostic]:
    """The rank of adapters on experts says nothing where no expert has one."""
    said = next((path for path in ((*table, "targets"), ("train", table[-1], "targets")) if loaded.is_set(*path)), ())
    targets = loaded.value(*said) if said else ALL_LINEAR
    if targeted(targets, architecture.attention_modules, architecture.expert_parameters, architecture.named_linear)[1]:
        return
    why = "names no expert parameter" if architecture.moe else "a dense model"
    place = loaded.place(*said) if architecture.moe else loaded.place("model", "name")
    labels = (Label(loaded.place(*table, "expert_rank"), "for the adapters of experts"), Label(place, why))
    ways = ', or set `targets = "all-linear"`' if architecture.moe else ""
    title = f"`{'.'.join(table)}.expert_rank` without adapters on experts"
    yield Diagnostic("E0401", title, labels, (f"remove `expert_rank`{ways}",))


def _rows_of_stages(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A section holds rows that the stages which read it take; a method that is named has rows of its own."""
    task, named = loaded.recipe.goal.task, loaded.method
    last = methods_of(task, named) if named not in (None, AUTO) else ()
    for section, facts in data.items():
        of_task = formats_of(readers(section, data, task))
        of_method = formats_of(readers(section, data, task, named))
        needed = formats_of(row for row in last if row.rows_in(data) == section)
        if not {*facts.formats} <= {*of_task}:
            yield _other_rows(loaded, TASK, section, facts, of_task)
        elif (of_method or last) and not {*facts.formats} <= {*(needed or of_method)}:
            yield _other_rows(loaded, loaded.asks_method, section, facts, needed or of_method)


def _other_rows(
    loaded: LoadedRecipe, key: tuple[str, str], section: str, facts: DataFacts, taken: tuple[str, ...]
) -> Diagnostic:
    """The task, or the method that is named, takes rows of other formats than a section holds."""
    held = next(format for format in facts.formats if format not in taken)
    of_row = "task" if key == TASK else "alignment"
    fitting = dict.fromkeys(getattr(row, of_row) for row in METHODS.values() if held in row.formats)
    choices = [name for name in fitting if name not in ("", loaded.value(*key))]
    why = f"takes {either(taken, '')} rows" if taken else "has no stage that reads them"
    named = "method" if key == KL_CONTROL else key[1]
    ways = [f"use {named} = {either(choices)}"] if choices else [*_read_as(facts, taken)]
    ways += ["remove the method" if key == METHOD else f"remove {key[1]}"] if key != TASK and not choices else []
    ways += [_rows_to_give(taken, section)] if taken else [f"remove data.{section}"]
    return _clash(loaded, *key, why, section, held, *_flag_to_name(facts, taken), ", or ".join(ways))


def _read_as(facts: DataFacts, formats: tuple[str, ...]) -> Iterator[str]:
    """The key that has the rows read as those of a format that needs less of them."""
    for format in _needing_less(facts, formats):
        read = ", ".join(f"`{facts.shape.columns[role.name]}`" for role in format.required)
        yield f'set `format = "{format.name}"` under [data], which reads {read}, and columns that a reward names'


def _needing_less(facts: DataFacts, formats: Iterable[str]) -> Iterator[RowFormat]:
    """Those of the formats for which the rows have all that is required, and more that is read in another one."""
    rows = map(ROW_FORMATS.__getitem__, formats)
    return (row for row in rows if {role.name for role in row.required} < facts.shape.columns.keys())


def _flag_to_name(facts: DataFacts, formats: tuple[str, ...]) -> Iterator[str]:
    """The keys that make the rows those of a format that needs one flag more, where a column holds flags."""
    for format in map(ROW_FORMATS.__getitem__, formats):
        flag = next((role.name for role in format.required if role.holds == FLAGS), None)
        if flag and {role.name for role in format.required} - {flag} <= facts.shape.columns.keys():
            for name in facts.flags:
                yield f'name the column that is true or false: `columns = {{ {flag} = "{name}" }}`'


def _rows_to_give(formats: tuple[str, ...], section: str) -> str:
    """What rows of these formats look like, and where they belong if not in this section."""
    own = dict.fromkeys(row.section for row in METHODS.values() if set(formats) & set(row.formats))
    at = "" if section in own else f" as data.{either(own, '')}"
    signs = f": {ROW_FORMATS[formats[0]].recognized}" if len(formats) == 1 else ""
    return f"give {either(formats, '')} rows{at}{signs}"


def _keys_of_method(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Where the rows decide which method runs, the first that takes them, the keys of [alignment] are its own."""
    methods = methods_of(loaded.recipe.goal.task, loaded.method)
    if not any(row.is_set_in_alignment for row in methods):
        return  # that the task does not read the table is another finding
    fitting = [row for row in methods if _held(row, data) in row.formats][:1]
    for key, value in own_keys(loaded.value("alignment") or {}) if fitting else ():
        if ("alignment", key) not in (METHOD, KL_CONTROL) and not any(row.can_set(key, value) for row in fitting):
            section = loaded.place("data", fitting[0].rows_in(data))
            label = Label(section, f"holds {_held(fitting[0], data)} rows")
            yield foreign(key, value, fitting, loaded.place("alignment", *key.split(".")), label)


def _held(method: Method, data: Data) -> str | None:
    """The format of the rows that a method would learn from."""
    section = method.rows_in(data)
    return data[section].shape.format if section in data else None


def _as_prompts(able: Sequence[Method], facts: DataFacts) -> Iterator[str]:
    """How the first method that rewards judge learns from rows that also answer its prompts."""
    for row in (row for row in able if row.earns):
        for format in _needing_less(facts, row.formats):
            lines = f'name the rows in `data.{row.section}`, with `format = "{format.name}"` under [data]'
            yield f"{lines}, and a function of yours in `alignment.{REWARDS}`: {row.name} learns from its rewards"
            return


def _nothing_to_align(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A task that only methods with rows of their own fulfil, where no section holds such rows."""
    task, running = loaded.recipe.goal.task, stages_that_run(loaded, data)
    able = [row for row in methods_of(task, loaded.method) if row.alignment]
    if not able or not running or set(running) & {row.name for row in able}:
        return
    section, formats = able[0].section, formats_of(able)
    held = next(iter(data))
    labels = (
        Label(loaded.place(*TASK), f"only {' and '.join(METHODS[name].title for name in running)} would run"),
        Label(loaded.place("data", held), f"holds {data[held].shape.format} rows"),
    )
    alone = METHODS[running[-1]].task
    help = (
        f"add data.{section} with {either(formats, '')} rows",
        *_as_prompts(able, data[held]),
        f'set `goal.task = "{alone}"`, or `alignment.method = "{goal.NO_ALIGNMENT}"`',
    )
    yield Diagnostic("E0401", f"task `{task}` without {either(formats, '')} rows", labels, help)


def _rows_for_earlier_stages_alone(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A task whose one method has rows of its own, where all rows are for the stages before it."""
    task = loaded.recipe.goal.task
    own = (row for row in methods_of(task) if row.after and row.section != row.rows_in(()) and not row.alignment)
    row = next(own, None)
    held = {section for section, facts in data.items() if row and not {*facts.formats} & {*row.formats}}
    if row is None or stages_that_run(loaded, data) or held != {*data}:
        return
    section = next(iter(data))
    labels = (
        Label(loaded.place(*TASK), f"learns from {either(row.formats, '')} rows"),
        Label(loaded.place("data", section), f"holds {data[section].shape.format} rows, for a stage before it"),
    )
    help = [f"add data.{row.section} with {either(row.formats, '')} rows: {ROW_FORMATS[row.formats[0]].recognized}"]
    if row.answers_anew:
        column = "" if any(_needing_less(data[section], row.formats)) else ", the conversations as `columns.prompt`"
        told = f'`format = "{row.formats[0]}"`{column}: the answers at the ends are left out'
        help.append(f"or name the same rows in `data.{row.section}` with {told}")
    yield Diagnostic("E0401", f"task `{task}` without {either(row.formats, '')} rows", labels, tuple(help))


def _tables_of_idle_stages(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """The rows decide which stages of a task run; a table of another one would say nothing."""
    running = stages_that_run(loaded, data)
    task, named = loaded.recipe.goal.task, loaded.method
    aligned = any(METHODS[name].alignment for name in running)
    for row in stages_of(task, named) if running else ():
        if row.alignment and not aligned:
            continue  # that no rows are there to align with is another finding
        if loaded.is_set("train", row.name) and row.name not in running:
            section = next(iter(data))
            only = f"only {' and '.join(running)} run{'s' * (len(running) == 1)}"
            held = f"holds {data[section].shape.format} rows: {only}"
            labels = (
                Label(loaded.place("train", row.name), f"stage {row.name} does not run"),
                Label(loaded.place("data", section), held),
            )
            asked = row.alignment and _held(row, data) in row.formats
            rows = f"add data.{row.section} with {either(row.formats, '')} rows"
            runs = f'set `alignment.method = "{row.alignment}"`' if asked else rows
            help = (f"remove [train.{row.name}], or {runs}",)
            yield Diagnostic("E0401", f"[train.{row.name}] is for a stage that does not run", labels, help)


def _text_to_split(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    for section, facts in data.items():
        if loaded.recipe.data.overflow == "split" and not ROW_FORMATS[facts.shape.format].splits:
            help = 'use overflow = "drop" or "truncate"'
            yield _clash(loaded, "data", "overflow", WHY_NOT_SPLIT, section, facts.shape.format, help)
            return


def _clash(loaded: LoadedRecipe, table: str, key: str, why: str, section: str, format: str, *help: str) -> Diagnostic:
    value = getattr(getattr(loaded.recipe, table), key)
    labels = (Label(loaded.place(table, key), why), Label(loaded.place("data", section), f"holds {format} rows"))
    title = f"`{table}.{key} = {value}` and the {format} rows of `data.{section}` contradict each other"
    return Diagnostic("E0401", title, labels, help)


def _something_held_out(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """A share of known rows is at least one row."""
    for key, replaced_by in _FRACTIONS.items():
        share = getattr(loaded.recipe.data, key)
        for section, facts in data.items():
            rows = facts.decisions["source_rows"]
            held_out = not facts.decisions[replaced_by].value
            if share and held_out and rows.origin != "default" and share * rows.value < 1:
                yield _nothing_held_out(loaded, key, share, section, rows.value)
                break


def _a_row_for_each_part(loaded: LoadedRecipe, data: Data) -> Iterator[Diagnostic]:
    """Training, evaluation and test each need a row of the files."""
    for section, facts in data.items():
        rows = facts.decisions["source_rows"]
        split = [
            key.removesuffix("_fraction")
            for key, replaced_by in _FRACTIONS.items()
            if getattr(loaded.recipe.data, key) != 0 and not facts.decisions[replaced_by].value
        ]
        if rows.origin == "data" and rows.value < 1 + len(split):
            labels = (Label(loaded.place("data", section), f"{counted(rows.value, 'row')}; a text file is one row"),)
            more = f"add rows, or name files with {' and '.join(f'`data.{name}`' for name in split)}"
            help = (more, *_rows_of_a_text(getattr(loaded.recipe.data, section)))
            title = f"data.{section} has too few rows to hold out some of them"
            yield Diagnostic("E0304", title, labels, help)


def _rows_of_a_text(sources: Sequence[DataSource]) -> Iterator[str]:
    """How to make rows of the one text file that is named."""
    for file in [source.path or "" for source in sources] if len(sources) == 1 else ():
        if file.endswith(TEXT_ENDINGS) and not is_glob(file):
            yield f"make a row of each paragraph: {paragraphs(file)}"


def _nothing_held_out(loaded: LoadedRecipe, key: str, share: float, section: str, rows: int) -> Diagnostic:
    said = ("data", "examples") if loaded.is_set("data", "examples") else ("data", section)
    labels = (Label(loaded.place("data", key), "less than one row"), Label(loaded.place(*said), f"{rows:,} rows"))
    help = f"use {key} = {1 / rows:.2g} or more, or name a file with `{key.removesuffix('_fraction')}`"
    return Diagnostic("E0205", f"`data.{key}` of {share:g} holds out nothing of {rows:,} rows", labels, (help,))


_DATA_CHECKS: tuple[Callable[[LoadedRecipe, Data], Iterator[Diagnostic]], ...] = (
    _rows_of_stages,
    _keys_of_method,
    against_columns,
    _nothing_to_align,
    _rows_for_earlier_stages_alone,
    _tables_of_idle_stages,
    _text_to_split,
    _something_held_out,
    _a_row_for_each_part,
)
