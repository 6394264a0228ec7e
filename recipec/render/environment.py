"""The template environment: strict, traced, cached; nothing is printed but through a literal filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined, nodes

from recipec.render import literals, prose
from recipec.render.artifact import Artifact, Rendered
from recipec.render.blocks import OPENER, credit_blocks, open_block
from recipec.render.cache import bytecode_cache
from recipec.render.call import render_call
from recipec.render.mapping import render_mapping
from recipec.render.traced import CLOSE, Raw, fragment, split

FILTERS = {
    "py": literals.py,
    "yaml": literals.yaml,
    "json": literals.json,
    "sh": prose.sh,
    "md": prose.md,
    "sentence": prose.sentence,
    "comment": prose.comment,
    "docstring": prose.docstring,
    "name": prose.name,
    "code": prose.code,
    "call": render_call,
    "yaml_block": partial(render_mapping, language="yaml"),
    "json_block": partial(render_mapping, language="json"),
}


def templates_folder() -> Path:
    """Where the templates are: inside an installed package, else at the top of the repository."""
    package = Path(__file__).parent.parent
    installed = package / "_templates"
    return installed if installed.is_dir() else package.parent / "templates"


def render(artifact: Artifact) -> Rendered:
    """Turn an artifact into text with the decisions behind each line."""
    marked = _from_mapping(artifact) if artifact.template is None else _from_template(artifact)
    text, lines = split(fragment(marked, artifact.decided_by))
    return Rendered(artifact.path, text, lines, artifact.executable, artifact.copy_of)


def snippet(template: str, names: Mapping[str, Any], ids: Iterable[str]) -> Raw:
    """A piece of a file without its last line end; of `names`, the template reads what it wants."""
    text = template_environment(templates_folder()).get_template(template).render(names)
    end = len(text.rstrip(CLOSE))  # the last line may end inside a block
    return fragment(text[:end].removesuffix("\n") + text[end:], ids)


def _from_mapping(artifact: Artifact) -> str:
    assert artifact.mapping is not None and not artifact.names, f"{artifact.path} has neither template nor mapping"
    return render_mapping(artifact.mapping, "json" if artifact.path.endswith(".json") else "yaml")


def _from_template(artifact: Artifact) -> str:
    assert artifact.template is not None and artifact.mapping is None
    environment = template_environment(templates_folder())
    _check_names(environment, artifact)
    return environment.get_template(artifact.template).render(artifact.names)


@lru_cache
def template_environment(folder: Path) -> TracingEnvironment:
    """The environment for the templates in `folder`."""
    environment = TracingEnvironment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_only_literals,
        bytecode_cache=bytecode_cache(),
    )
    environment.filters.update(FILTERS)
    environment.globals[OPENER] = open_block
    return environment


class TracingEnvironment(Environment):
    """Credits blocks to the decisions that switch them, and notes in each compiled template the names it needs."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return credit_blocks(super()._parse(source, name, filename))

    def _generate(self, source: nodes.Template, name: str | None, filename: str | None, **options: Any) -> str:
        return super()._generate(source, name, filename, **options) + f"\nneeds = {needs(source)!r}\n"


def needs(tree: nodes.Template) -> tuple[set[str], list[str], set[str]]:
    """The names a template reads, the templates it includes, and the names its loops give to those."""
    from jinja2.meta import find_undeclared_variables

    includes = [node.template for node in tree.find_all(nodes.Include)]
    assert all(isinstance(include, nodes.Const) for include in includes), "a template is included by a fixed name"
    given = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    return find_undeclared_variables(tree) - {OPENER}, [include.value for include in includes], given


def names_needed(environment: TracingEnvironment, template: str) -> set[str]:
    """Every name that `template` and what it includes must be given."""
    names, includes, given = environment.get_template(template).root_render_func.__globals__["needs"]
    return names.union(*(names_needed(environment, include) - given for include in includes))


def _check_names(environment: TracingEnvironment, artifact: Artifact) -> None:
    needed, have = names_needed(environment, artifact.template or ""), set(artifact.names)
    if needed != have:
        missing, unused = sorted(needed - have), sorted(have - needed)
        raise ValueError(f"{artifact.template} for {artifact.path}: missing names {missing}, unused names {unused}")


def _only_literals(value: Any) -> str:
    """Refuse to print what no literal filter has written."""
    if isinstance(value, Undefined):
        return str(value)  # raises and names the variable
    if not isinstance(value, Raw):
        raise TypeError(f"{value!r} is printed without a literal filter")
    return value
