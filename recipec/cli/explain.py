"""`recipec explain`: the page of a diagnostic, a rule or a figure of the rule books."""

from __future__ import annotations

import click

from recipec.cli.exit_codes import UNUSABLE
from recipec.cli.output import Failure, formats, print_json
from recipec.diagnostics.codes import CODES, explain


@click.command("explain")
@click.argument("code")
@formats("human", "json")
def command(code: str, format: str) -> None:
    """Print the page of a diagnostic, a rule or a figure of the rule books.

    Codes of diagnostics (E0203), rules (OPT-001), known-bad combinations (BAD-002), what is not built (NOT-001), and
    figures with our number beside the book's (FIG-307).
    """
    page = _page(code)
    if page is None:
        raise _unknown(code)
    if format == "json":
        print_json({"schema_version": 1, "id": code.upper(), "page": page})
    else:
        click.echo(page.rstrip("\n"))


def _page(code: str) -> str | None:
    page = explain(code)
    if page is None:
        from recipec.figures.pages import explain_figure, figures_of_rule
        from recipec.rules.pages import explain_rule

        rule = explain_rule(code)
        page = explain_figure(code) if rule is None else rule + figures_of_rule(code)
    return page


def known_codes() -> list[str]:
    """Everything that has a page."""
    from recipec.figures import FIGURES
    from recipec.rules.combinations import COMBINATIONS
    from recipec.rules.core import RULES
    from recipec.rules.unbuilt import UNBUILT

    return [*CODES, *RULES, *(row.id for row in COMBINATIONS), *(row.id for row in UNBUILT), *FIGURES]


def _unknown(code: str) -> Failure:
    from difflib import get_close_matches

    codes, wanted = known_codes(), code.upper()
    swapped = [known for known in codes if sorted(known) == sorted(wanted)]
    near = list(dict.fromkeys([*swapped, *get_close_matches(wanted, codes, n=3)]))[:3]
    help = f"did you mean {' or '.join(near)}?" if near else "`recipec list rules` and `list figures` have the ids"
    return Failure(f"nothing is called `{code}`", help, exit_code=UNUSABLE)
