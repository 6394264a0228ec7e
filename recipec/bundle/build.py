"""Put a compiled bundle on the disk: compare, decide, write whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from recipec.bundle.changes import Action, FileChange, OnConflict, compare
from recipec.bundle.folder import (
    behind_link,
    changed_text,
    check_paths,
    damaged,
    foreign,
    name_is_taken,
    not_written,
    of_another_recipe,
    strangers,
    unusable,
)
from recipec.bundle.lock import LockInputs, amended, changed_texts, lock_text
from recipec.bundle.source_map import source_map_text
from recipec.bundle.state import (
    LAST,
    LOCK,
    PLAN,
    SOURCE_MAP,
    STATE,
    Found,
    LastBuild,
    fingerprint,
    has_damaged_lock,
    read_file,
    read_last,
)
from recipec.bundle.write import (
    DamagedJournal,
    File,
    check_journals,
    exclusive,
    in_the_way,
    is_interrupted,
    recover,
    write_files,
)
from recipec.diagnostics.model import Diagnostic
from recipec.render.artifact import Rendered

FINE, FOUND, UNUSABLE = 0, 1, 2  # exit codes


class WriteResult(Struct, frozen=True):
    """What happened to each file, what to tell the user, and the exit code."""

    changes: tuple[FileChange, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    exit_code: int = FINE
    stale: bool = True  # the build had something to write
    written: bool = False  # it wrote that: not where conflicts hold everything up


class _Job(Struct, frozen=True):
    """Everything of one build that can reach the disk."""

    out: Path
    shown: str  # the folder as the user wrote it
    files: Sequence[Rendered]
    plan_json: bytes
    lock_inputs: LockInputs
    conflict: OnConflict
    force: bool
    restore: Collection[str]
    writes: bool


def write_bundle(
    out: Path,
    files: Sequence[Rendered],
    plan_json: bytes,
    lock_inputs: LockInputs,
    *,
    conflict: str = OnConflict.MARKERS,
    force: bool = False,
    restore: Collection[str] = (),
    dry_run: bool = False,
    check: bool = False,
) -> WriteResult:
    """Bring `out` to `files`, keeping the user's edits unless `force`, and of the files in `restore` in no case.

    `dry_run` and `check` write nothing.

    With `check` the exit code is 1 when a build would write anything.
    """
    check_paths([file.path for file in files])
    writes = not (dry_run or check)
    where, how = (Path(os.path.abspath(out)), str(out)), (OnConflict(conflict), force, restore, writes)
    job = _Job(*where, files, plan_json, lock_inputs, *how)
    try:
        with exclusive(job.out, creates=writes):
            result = _run(job)
    except DamagedJournal as found:
        return _refused(damaged(job.shown, found.path, found.why))
    except OSError as error:
        outcome = "the next build recovers" if is_interrupted(job.out) else "nothing was written"
        return _refused(not_written(job.out, job.shown, error, outcome))
    return replace(result, exit_code=FOUND) if check and result.stale and not result.exit_code else result


def _run(job: _Job) -> WriteResult:
    """Build, or say what a build would do."""
    problem = unusable(job.out, job.shown, [file.path for file in job.files])
    if problem:
        return _refused(problem)
    if taken := in_the_way(job.out):
        return _refused(name_is_taken(job.shown, taken))
    if is_interrupted(job.out):
        check_journals(job.out)
        if not job.writes:
            note = "an earlier build was interrupted; the next build recovers from it"
            return WriteResult((FileChange(STATE, Action.OVERWRITE, note),))
        recover(job.out)
    return _compare_and_write(job)


def _compare_and_write(job: _Job) -> WriteResult:
    built = read_last(job.out)
    last = built or LastBuild()
    if has_damaged_lock(job.out) and not job.force:
        return _refused(damaged(job.shown, LOCK, "cannot be read, and it names the recipe that the bundle is of"))
    if linked := behind_link(job.out, job.shown, last.texts):
        return _refused(linked)
    if last.name not in ("", job.lock_inputs.name) and not job.force:
        return _refused(of_another_recipe(job.shown, last.name, job.lock_inputs.name))
    if problem := _changed_text(job, last):
        return _refused(problem)
    changes = tuple(compare(job.out, job.files, last, job.conflict, job.force, job.restore))
    theirs = {change.path for change in changes if change.action is Action.REFUSE}
    if built is None:
        theirs |= set(strangers(job.out, {file.path: file.text for file in job.files}))
    if theirs:
        return replace(_refused(foreign(job.shown, theirs)), changes=changes)
    conflicts = [change for change in changes if change.action is Action.CONFLICT]
    if _holds_up(job, conflicts):
        return _restore(job, changes, conflicts)
    return _write(job, last, changes, conflicts)


def _changed_text(job: _Job, last: LastBuild) -> Diagnostic | None:
    """The refusal to merge from a text that no build left; what is given up is not merged."""
    changed = [] if job.force else [path for path in changed_texts(last) if path not in job.restore]
    return changed_text(job.shown, changed[0], [file.path for file in job.files]) if changed else None


def _holds_up(job: _Job, conflicts: Sequence[FileChange]) -> bool:
    """Conflicts that must be settled before anything is written."""
    return bool(conflicts) and (job.conflict is OnConflict.FAIL or any(change.unresolved for change in conflicts))


def _restore(job: _Job, changes: tuple[FileChange, ...], conflicts: Sequence[FileChange]) -> WriteResult:
    """Write the files that --restore names, where conflicts hold up all others; the records of these stay, too."""
    named = [change for change in changes if change.path in job.restore and change.text is not None]
    restored = {change.path: str(change.text) for change in named}
    texts = {f"{LAST}/{path}": text for path, text in restored.items()}
    texts |= {LOCK: lock} if (lock := amended(job.out, restored)) else {}
    records = {path: File(text, before=_known_by(read_file(job.out / path))) for path, text in texts.items()}
    edited = write_files(job.out, _changed_files(named) | records) if named and job.writes else ()
    late = [FileChange(path, Action.CONFLICT, "edited during the build; your version is kept") for path in edited]
    only = f"only {' and '.join(change.path for change in named)}" if named else "nothing"
    outcome = f"{only} was written" if job.writes else f"a build would write {only}"
    help = "resolve them and build again; --restore FILE discards your edits of a file, --force those of all files"
    found = _conflict([*conflicts, *late], outcome, help)
    told = (*named, *conflicts) if named else changes
    return WriteResult(told, (found,), FOUND, written=bool(named) and job.writes)


def _write(job: _Job, last: LastBuild, changes: tuple[FileChange, ...], conflicts: Sequence[FileChange]) -> WriteResult:
    files = _changed_files(changes) | _changed_state(job, last, changes)
    edited = write_files(job.out, files) if files and job.writes else ()
    late = [FileChange(path, Action.CONFLICT, "edited during the build; your version is kept") for path in edited]
    outcome = "all other files were written" if job.writes else "a build would write all other files"
    diagnostics = [_conflict(found, outcome, help) for found, help in _helps(conflicts, late)]
    marked = bool(conflicts) and job.conflict is OnConflict.MARKERS
    code = FOUND if marked or late else FINE
    return WriteResult(changes, tuple(diagnostics), code, stale=bool(files), written=bool(files) and job.writes)


def _helps(conflicts: Sequence[FileChange], late: Sequence[FileChange]) -> list[tuple[Sequence[FileChange], str]]:
    """The kinds of conflict that there are, and how each is resolved."""
    kinds = (conflicts, "edit the marked lines; recipec keeps the result as your edit"), (late, "build again")
    return [kind for kind in kinds if kind[0]]


def _changed_files(changes: Sequence[FileChange]) -> dict[str, File]:
    changed = [change for change in changes if change.text is not None or change.action is Action.DELETE]
    return {c.path: File(c.text, c.executable, _known_by(c.found), c.crlf) for c in changed}


def _changed_state(job: _Job, last: LastBuild, changes: Sequence[FileChange]) -> dict[str, File]:
    """The files under `.recipec/` that this build changes; a file kept as an orphan keeps its last text, for merges."""
    emitted = {file.path: file.text for file in job.files}
    kept = {change.path for change in changes if change.action is Action.KEEP_ORPHAN}
    deleted = [change.path for change in changes if change.action is Action.STAYS_DELETED]
    orphans = {path: last.texts[path] for path in sorted(kept)}
    state = {f"{LAST}/{path}": text for path, text in emitted.items()} | {
        PLAN: job.plan_json.decode(),
        SOURCE_MAP: source_map_text(job.files),
        LOCK: lock_text(job.lock_inputs, job.plan_json, job.files, deleted, orphans),
    }
    found = {path: read_file(job.out / path) for path in state}
    stale = [path for path, now in found.items() if now is None or now.text != state[path]]
    gone = [f"{LAST}/{path}" for path in last.texts if path not in emitted and path not in kept]
    written = {path: File(state[path], before=_known_by(found[path])) for path in stale}
    return written | {path: File(None, before=fingerprint(job.out / path)) for path in gone}


def _known_by(found: Found | None) -> str | None:
    return found.fingerprint if found else None


def _conflict(conflicts: Sequence[FileChange], outcome: str, help: str) -> Diagnostic:
    places = tuple(f"{change.path}: {change.note}" for change in conflicts)
    return Diagnostic("W0701", f"merge conflicts; {outcome}", notes=places, help=(help,))


def _refused(problem: Diagnostic) -> WriteResult:
    return WriteResult((), (problem,), UNUSABLE)
