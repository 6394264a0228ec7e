"""What a recipe puts into the launch script: variables that are not its own, lines that bash cannot read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence

from recipec.axes import METHODS
from recipec.diagnostics.model import Diagnostic, Label
from recipec.recipe.document import Written
from recipec.recipe.schema import NO_SCRIPT

_READ_ONLY = frozenset(("UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"))
_BASH_OWN = _READ_ONLY | {  # bash gives them values, or a meaning for how it reads the rest of the script
    *("COMP_CWORD", "COMP_KEY", "COMP_LINE", "COMP_POINT", "COMP_TYPE", "COMP_WORDBREAKS", "COMP_WORDS", "COMPREPLY"),
    *("COPROC", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "FUNCNEST", "GROUPS", "HISTCMD", "IFS"),
    *("LINENO", "MAPFILE", "OLDPWD", "OPTARG", "OPTIND", "PIPESTATUS", "POSIXLY_CORRECT", "PWD", "RANDOM"),
    *("READLINE_ARGUMENT", "READLINE_LINE", "READLINE_MARK", "READLINE_POINT", "REPLY", "SECONDS", "SHLVL", "SRANDOM"),
    *("TMOUT", "_"),
}
_SCRIPT_OWN = {  # of templates/launch
    *("BUNDLE", "QUICK", "SERVER", "PORT", "DEVICES", "NODE", "FIRST", "MEETING", "SIGN", "SIGNS", "OLD_SIGN"),
    *("FAILED", "OLD_FAILED", "ENDS", "TRAINING", "CONFLICTS"),
    *("ANSWERS_PORT", "WEIGHTS_PORT"),  # of serve_answers.py, which takes free ones
}
_OF_A_STAGE = re.compile(
    f"({'|'.join(name.upper().replace('-', '_') for name in METHODS)})_(NODES|PROCESSES|THREADS|SHARDS|COPIES)"
)


def taken_variables(written: Written) -> Iterator[Diagnostic]:
    """A variable that bash or the launch script sets itself would have another value, or end the script."""
    for name, value in (written.get("launch", "env") or {}).items():
        if isinstance(value, str) and (why := owner(name)):
            label = Label(written.key("launch", "env", name), why)
            help = f"remove it, or choose another name: `RUN_{name.strip('_')}`"
            yield Diagnostic("E0407", f"`{name}` cannot be set in a recipe", (label,), (help,))


def owner(name: str) -> str:
    """Whose variable it is, if not the recipe's; "" for any other."""
    if name in _BASH_OWN or name.startswith("BASH"):
        return "a read-only variable of bash" if name in _READ_ONLY else "a variable of bash"
    return "a variable of the launch script" if name in _SCRIPT_OWN or _OF_A_STAGE.fullmatch(name) else ""


def said_of_no_script(written: Written) -> Iterator[Diagnostic]:
    """What the launch script would do, where the same file says that the bundle has none (E0401)."""
    if written.get("launch", "with") != NO_SCRIPT:
        return
    for name in (name for name in ("env", "setup") if written.get("launch", name)):
        if written.key("launch", name).file != written.key("launch", "with").file:
            continue  # of a recipe that this one extends
        labels = (written.label(("launch", name), "for the script"), written.label(("launch", "with"), "no script"))
        help = f'remove `{name}` and set it in your launcher, or set `launch.with = "local"`'
        yield Diagnostic("E0401", f"`launch.{name}` has no effect without a launch script", labels, (help,))


def unreadable_setup(written: Written) -> Iterator[Diagnostic]:
    """Lines that bash does not read as whole commands would end the launch script, or swallow what comes after them.

    bash reads them and runs none; where there is no bash, only `recipec verify` looks at the script.
    """
    lines = written.get("launch", "setup")
    bash = shutil.which("bash")
    if not isinstance(lines, list) or not lines or not all(isinstance(line, str) for line in lines) or not bash:
        return
    said = _said(bash, lines)
    if said is None:
        return
    number, reason = said
    path = ("launch", "setup", number - 1) if number <= len(lines) else ("launch", "setup")  # at the end of all
    help = "write whole commands; a loop or a text of several lines is closed within `launch.setup`"
    yield Diagnostic("E0206", "bash cannot read `launch.setup`", (written.label(path, reason),), (help,))


_SAYS = re.compile(r"line (\d+): (?:warning: |syntax error: )?(.*)")


def _said(bash: str, lines: Sequence[str]) -> tuple[int, str] | None:
    """The line that bash objects to, from 1, and why; None where all is well.

    Within braces a line that goes on behind the last one meets their end. Alone, the lines cannot close the braces.
    """
    import subprocess

    for before, after in (("", ""), ("{ :\n", "\n}\n")):
        text = before + "\n".join(lines) + after
        command = [bash, "--norc", "-O", "extglob", "-n"]
        done = subprocess.run(command, input=text.encode(), capture_output=True, env={"LC_ALL": "C"}, check=False)
        if found := _SAYS.search(done.stderr.decode(errors="replace")):
            return (int(found[1]) - before.count("\n") if len(lines) > 1 else 1), found[2]
    return None
