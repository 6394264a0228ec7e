"""Whether a folder may be written to: it is ours, or empty, or holds nothing that the bundle would touch."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from errno import EFBIG
from pathlib import Path, PurePosixPath

from recipec.bundle.paths import is_behind_link, stays_inside
from recipec.bundle.state import LAST, LOCK, NEXT, PLAN, SOURCE_MAP, STAGING, STATE, UNDO, read_text
from recipec.diagnostics.model import Diagnostic

_SHOWN = 8  # names in a message


def unusable(out: Path, shown: str, paths: Iterable[str]) -> Diagnostic | None:
    """Why `out`, which the user wrote as `shown`, cannot be a bundle's folder; None when it can."""
    if linked := behind_link(out, shown, ("", STATE, *paths)):
        return linked
    if out.exists() and not out.is_dir():
        return unwritable(shown, f"{shown} is a file; -o names a folder")
    if (out / STATE).exists() and not (out / STATE).is_dir():
        return unwritable(shown, f"{shown}/{STATE} is a file; recipec keeps its state in a folder of that name")
    return next((damaged(shown, *found) for found in strange_records(out)), None)


def behind_link(out: Path, shown: str, paths: Iterable[str]) -> Diagnostic | None:
    """The refusal to write or delete through a symbolic link; None when no path leads through one."""
    for path in paths:
        if is_behind_link(out, path):
            where = f"{shown}/{path}" if path else shown
            why = f"{where} is reached through a symbolic link, which recipec does not write through"
            return unwritable(
                shown, why, help="put a file or folder in the place of the link, or choose another with -o"
            )
    return None


def strange_records(out: Path) -> Iterator[tuple[str, str]]:
    """What lies under `.recipec/` and no build left there: a path, and what is wrong with it."""
    for path in _below(out, STATE):
        target = out / path
        if target.is_symlink():
            yield path, "is a symbolic link; recipec keeps only files and folders there"
        elif not stays_inside(path):
            yield path, "has a name that recipec gives to no file"
        elif not (target.is_file() or target.is_dir()):
            yield path, "is neither a file nor a folder"
    yield from ((path, "is not a folder") for path in (LAST, STAGING, NEXT, UNDO) if (out / path).is_file())
    yield from ((path, "is not a file") for path in (LOCK, PLAN, SOURCE_MAP) if (out / path).is_dir())


def _below(out: Path, folder: str) -> Iterator[str]:
    """Every path below a folder of `out`; follows no link, and leaves out what another build removes meanwhile."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        with suppress(FileNotFoundError), os.scandir(out / path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                yield f"{path}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/{entry.name}")


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
        f"{shown} contains files that recipec did not write",
        notes=(f"in the way: {', '.join(named[:_SHOWN])}{more}; nothing was written",),
        help=("choose another folder with -o, or move these files away",),
    )


def of_another_recipe(shown: str, theirs: str, ours: str) -> Diagnostic:
    """The refusal to turn one recipe's bundle into another's."""
    return Diagnostic(
        "E0703",
        f"{shown} contains the bundle of the recipe `{theirs}`",
        notes=(f"this recipe is named `{ours}`; nothing was written",),
        help=("choose another folder with -o; if you renamed the recipe, pass --force (your edits are lost)",),
    )


def damaged(shown: str, path: str, why: str, help: tuple[str, ...] = ()) -> Diagnostic:
    """The refusal to build on a record that no build of recipec left so."""
    delete = f"delete {shown}/{path} and build again, or restore {shown}/{STATE} from version control"
    return Diagnostic(
        "E0704",
        f"the records in {shown}/{STATE} are damaged",
        notes=(f"{shown}/{path} {why}; nothing was written",),
        help=help or (delete,),
    )


def changed_text(shown: str, path: str, emitted: Collection[str]) -> Diagnostic:
    """The refusal to merge from a text that is not the one of the last build."""
    why = "is not the text of the last build, from which your edits are merged: its digest is not the one in lock.json"
    discard = f"or build with --restore {path}, which discards your edits of that file: copy it first to keep them"
    help = (f"restore {shown}/{STATE} from version control", discard) if path in emitted else ()
    return damaged(shown, f"{LAST}/{path}", why, help)


def unwritable(
    shown: str,
    why: str,
    outcome: str = "nothing was written",
    help: str = "name a folder that you may write to with -o",
) -> Diagnostic:
    """The report that the folder could not be written."""
    return Diagnostic("E0702", f"cannot write {shown}", notes=(f"{why}; {outcome}",), help=(help,))


def name_is_taken(shown: str, name: str) -> Diagnostic:
    """The refusal to build where something of the user's has the name that the bundle is prepared under."""
    why = f"recipec prepares a new bundle in `{name}` beside it, and recipec did not make what has that name now"
    return unwritable(shown, why, help=f"move `{name}` away, or name another folder with -o")


def not_written(out: Path, shown: str, error: OSError, outcome: str) -> Diagnostic:
    """The report of an error of the system, with the file that it is about where that lies in the folder."""
    said = error.strerror or str(error)
    why, path = said[:1].lower() + said[1:], _path_of(out, error)
    if not path:
        return unwritable(shown, why, outcome)
    if error.errno != EFBIG:
        return unwritable(shown, f"{shown}/{path}: {why}", outcome)
    return unwritable(shown, f"{shown}/{path}: {why}", outcome, _smaller(out, shown, path))


def _path_of(out: Path, error: OSError) -> str:
    """The file of an error, relative to the folder; "" where there is none, or it lies elsewhere."""
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else out
    return path.relative_to(out).as_posix() if out in path.parents else ""


def _smaller(out: Path, shown: str, path: str) -> str:
    """What to do about a file that is too large to be compared with its new text."""
    if path.startswith(f"{STATE}/"):
        return f"restore {shown}/{STATE} from version control"
    if (out / LAST / path).is_file():
        return f"shorten {shown}/{path}, or copy {shown}/{LAST}/{path} over it: that is the file as it was built"
    return f"move {shown}/{path} out of the folder"


def check_paths(paths: Iterable[str]) -> None:
    """Emitted paths are ours to get right: relative, normal, distinct, outside `.recipec`, no file inside a file."""
    seen = list(paths)
    folders = {parent.as_posix() for path in seen for parent in PurePosixPath(path).parents}
    for path in seen:
        assert stays_inside(path), f"{path} is not a path inside a bundle"
        in_state = path.split("/")[0] == STATE
        assert not in_state and path not in folders and seen.count(path) == 1, f"{path} is emitted in the way"
