"""`recipec explain`: the page of a diagnostic or a rule."""

from __future__ import annotations

import click

from recipec.cli.exit_codes import UNUSABLE
from recipec.cli.output import Failure, formats, print_json
from recipec.diagnostics.codes import CODES, explain


@click.command("explain")
@click.argument("code")
@formats("human", "json")
def command(code: str, format: str) -> None:
    """Print the page of a diagnostic or a rule.

    Codes of diagnostics (E0203), rules (OPT-001), known-bad combinations (BAD-002) and what is not built (NOT-001).
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
        from recipec.rules.pages import explain_rule

        page = explain_rule(code)
    return page


def known_codes() -> list[str]:
    """Everything that has a page."""
    from recipec.rules.combinations import COMBINATIONS
    from recipec.rules.core import RULES
    from recipec.rules.unbuilt import UNBUILT

    return [*CODES, *RULES, *(row.id for row in COMBINATIONS), *(row.id for row in UNBUILT)]


def _unknown(code: str) -> Failure:
    from difflib import get_close_matches

    codes, wanted = known_codes(), code.upper()
    swapped = [known for known in codes if sorted(known) == sorted(wanted)]
    near = list(dict.fromkeys([*swapped, *get_close_matches(wanted, codes, n=3)]))[:3]
    help = f"did you mean {' or '.join(near)}?" if near else "`recipec list rules` has the rules"
    return Failure(f"nothing is called `{code}`", help, exit_code=UNUSABLE)
