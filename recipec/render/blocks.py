"""Template blocks that a decision switches on belong to that decision, even where they print no value."""

from __future__ import annotations

from jinja2 import nodes

from recipec.render.traced import CLOSE, MIDDLE, OPEN, Raw, Traced

OPENER = "_open_block"  # the template global that `open_block` is reached by


def open_block(*reads: object) -> Raw:
    """The opening mark of a block, for the traced values among what its test reads."""
    ids = [read.id for read in reads if isinstance(read, Traced)]
    return Raw(f"{OPEN}{','.join(dict.fromkeys(ids))}{MIDDLE}")


def credit_blocks(tree: nodes.Template) -> nodes.Template:
    """Wrap the bodies of every `if` and `for` in marks for what their tests read.

    A branch of a chain is chosen by its own test and by all before it; the `else` by all of them.
    """
    chains, loops = list(tree.find_all(nodes.If)), list(tree.find_all(nodes.For))
    links = {id(link) for chain in chains for link in chain.elif_}
    for chain in chains:
        if id(chain) not in links:
            _credit_chain(chain)
    for loop in loops:
        _wrap(loop.body, _reads(loop.iter), loop.lineno)
    return tree.set_environment(tree.environment)


def _credit_chain(chain: nodes.If) -> None:
    reads: list[nodes.Expr] = []
    for link in (chain, *chain.elif_):
        reads = reads + _reads(link.test)
        _wrap(link.body, reads, link.lineno)
    _wrap(chain.else_, reads, chain.lineno)


def _wrap(body: list[nodes.Node], reads: list[nodes.Expr], line: int) -> None:
    if not body or not reads:
        return
    opener = nodes.Call(nodes.Name(OPENER, "load", lineno=line), reads, [], None, None, lineno=line)
    body.insert(0, nodes.Output([opener], lineno=line))
    body.append(nodes.Output([nodes.TemplateData(CLOSE, lineno=line)], lineno=line))


def _reads(test: nodes.Node) -> list[nodes.Expr]:
    """The values that a test looks at: names and whole attribute paths."""
    if isinstance(test, nodes.Name | nodes.Getattr | nodes.Getitem):
        return [test]
    return [read for child in test.iter_child_nodes() for read in _reads(child)]
