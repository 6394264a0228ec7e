"""`recipec explain`: the page of a key, a diagnostic, a rule, a figure, a rule book, or a word of another tool."""

from __future__ import annotations

import click

from recipec.cli.output import UNUSABLE, Failure, formats, print_json
from recipec.diagnostics.codes import CODES, explain


@click.command("explain")
@click.argument("name", nargs=-1, required=True)
@formats("human", "json")
def command(name: tuple[str, ...], format: str) -> None:
    """Print the page of a key, a diagnostic, a rule, a row, a figure, a rule book, or a word of another tool.

    Takes a key or a table of a recipe (train.packing, packing, [hardware]) or its name in other tools (lr), a value
    (adamw, wandb), a word of a plan (usable), a decision (sft.learning_rate), the name of a method, strategy,
    adaptation or row format (dpo, fsdp, qlora, preference) or its name in other tools (sharegpt), what rows carry
    (tools), a GPU, a model or its family, a variable of a launch script (DATA_ROOT), the code of a diagnostic (E0203),
    a rule (OPT-001), an unsupported combination (BAD-002), a feature that is not built (NOT-001, slurm) or a figure of
    a rule book (FIG-307), or the number of a rule book (001).
    """
    wanted = " ".join(name)
    id, page = _page(wanted)
    if page is None:
        raise _unknown(wanted)
    if format == "json":
        print_json({"schema_version": 1, "id": id, "page": page})
    else:
        click.echo(page.rstrip("\n"))


def has_page(wanted: str) -> bool:
    """Whether there is something to print for a name."""
    return _page(wanted)[1] is not None


def _page(wanted: str) -> tuple[str, str | None]:
    """The id of a page, and its text; None where no page has the name."""
    from recipec.rules.pages import explain_decision, explain_rule, explain_rule_book, rule_book_named

    code = wanted.upper()
    if book := rule_book_named(wanted):
        return book, explain_rule_book(book)
    if page := explain(code):
        return code, page
    from recipec.figures.pages import explain_figure, figures_of_rule
    from recipec.rules.row_pages import explain_row

    if row := explain_row(wanted):
        return wanted.lower(), row
    from recipec.cli.meanings import meaning_of, variable
    from recipec.recipe.reference import page_of
    from recipec.rules.row_pages import explain_carried
    from recipec.rules.unbuilt import unbuilt_named

    path, key = page_of(wanted) or explain_decision(wanted) or (wanted, None)
    unbuilt = None if key else unbuilt_named(wanted)
    if pages := [page for page in (variable(wanted), key, None if unbuilt else explain_carried(wanted)) if page]:
        return path, "\n".join(pages)
    code = unbuilt.id if unbuilt else code
    if (rule := explain_rule(code)) is not None:
        return code, rule + figures_of_rule(code)
    return (code, figure) if (figure := explain_figure(code)) else (wanted, meaning_of(wanted))


def known_codes() -> list[str]:
    """Everything that has a page."""
    from recipec.figures import FIGURES
    from recipec.recipe.reference import entries
    from recipec.rules.combinations import COMBINATIONS
    from recipec.rules.core import RULES
    from recipec.rules.pages import RULE_BOOKS
    from recipec.rules.row_pages import row_names
    from recipec.rules.unbuilt import UNBUILT

    ids = [*RULES, *(row.id for row in COMBINATIONS), *(row.id for row in UNBUILT), *FIGURES]
    return [*CODES, *ids, *RULE_BOOKS, *(name.upper() for name in (*row_names(), *entries()))]


def _unknown(wanted: str) -> Failure:
    from difflib import get_close_matches

    from recipec.recipe.reference import entries
    from recipec.rules.pages import RULE_BOOKS
    from recipec.rules.row_pages import row_names

    codes, code = known_codes(), wanted.upper()
    swapped = [known for known in codes if sorted(known) == sorted(code)]
    near = list(dict.fromkeys([*swapped, *get_close_matches(code, codes, n=3)]))[:3]
    ids = "Run `recipec list rules` or `recipec list figures` for ids."
    lower = {*row_names(), *entries()}
    rows = [name.lower() if name.lower() in lower else name for name in near]
    help = f"did you mean {' or '.join(rows)}?" if near else ids
    books = f"{', '.join(RULE_BOOKS[:-1])} and {RULE_BOOKS[-1]}"
    return Failure(f"nothing is called `{wanted}`", help, f"The rule books are {books}.", exit_code=UNUSABLE)
