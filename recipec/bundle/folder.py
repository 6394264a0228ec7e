"""Whether a folder may be written to: it is ours, or empty, or holds nothing that the bundle would touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from recipec.bundle.state import STATE, read_text
from recipec.diagnostics.model import Diagnostic

_SHOWN = 8  # names in a message


def unusable(out: Path, shown: str, paths: Iterable[str]) -> Diagnostic | None:
    """Why `out`, which the user wrote as `shown`, cannot be a bundle's folder; None when it can."""
    links = [path for path in ("", STATE, *paths) if _is_behind_link(out, path)]
    if links:
        where = f"{shown}/{links[0]}" if links[0] else shown
        return unwritable(shown, f"{where} is reached through a symbolic link, which recipec does not write through")
    if out.exists() and not out.is_dir():
        return unwritable(shown, f"{shown} is a file; -o names a folder")
    if (out / STATE).exists() and not (out / STATE).is_dir():
        return unwritable(shown, f"{shown}/{STATE} is a file; recipec keeps its state in a folder of that name")
    return None


def strangers(out: Path, texts: Mapping[str, str]) -> list[str]:
    """In a folder without a bundle: whatever is not the very file that would be written."""
    if not out.is_dir():
        return []
    ours = {path.split("/")[0] for path in texts} | {STATE}
    others = [path for path, text in texts.items() if (out / path).exists() and read_text(out / path) != text]
    return [entry.name for entry in out.iterdir() if entry.name not in ours] + others


def foreign(shown: str, names: Iterable[str]) -> Diagnostic:
    """The refusal to touch files that recipec did not build."""
    named = sorted(names)
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return Diagnostic(
        "E0701",
        f"{shown} holds files that recipec did not build",
        notes=(f"in the way: {', '.join(named[:_SHOWN])}{more}; nothing was written",),
        help=("choose another folder with -o, or move these files away",),
    )


def of_another_recipe(shown: str, theirs: str, ours: str) -> Diagnostic:
    """The refusal to turn one recipe's bundle into another's."""
    return Diagnostic(
        "E0703",
        f"{shown} is the bundle of the recipe `{theirs}`",
        notes=(f"this recipe is `{ours}`; nothing was written",),
        help=("choose another folder with -o; a renamed recipe takes it over with --force, without your edits",),
    )


def unwritable(shown: str, why: str, outcome: str = "nothing was written") -> Diagnostic:
    """The report that the folder could not be written."""
    help = "name a folder that you may write to with -o"
    return Diagnostic("E0702", f"cannot write {shown}", notes=(f"{why}; {outcome}",), help=(help,))


def check_paths(paths: Iterable[str]) -> None:
    """Emitted paths are ours to get right: relative, normal, distinct, outside `.recipec`, no file inside a file."""
    seen = list(paths)
    folders = {parent.as_posix() for path in seen for parent in PurePosixPath(path).parents}
    for path in seen:
        parts = path.split("/")
        assert not {"", ".", ".."} & set(parts) and "\\" not in path, f"{path} is not a path inside a bundle"
        assert parts[0] != STATE and path not in folders and seen.count(path) == 1, f"{path} is emitted in the way"


def _is_behind_link(out: Path, path: str) -> bool:
    target = out / path
    inside = [target, *target.parents]
    return any(part.is_symlink() for part in inside[: inside.index(out) + 1])
