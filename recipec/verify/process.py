"""Running a command to its end or its time limit, and leaving nothing of it behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

_GRACE_SECONDS = 5.0
_FIRST_POLL_SECONDS, _POLL_SECONDS = 0.005, 0.1  # each look at the processes takes time from the command
ASK_SECONDS = 180.0  # for a command that reads a file


class Outcome(Struct, frozen=True):
    """How a command ended."""

    code: int | None  # None: it was stopped at its time limit
    seconds: float
    log: Path

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and well."""
        return self.code == 0

    def text(self) -> str:
        """All of its output."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self, lines: int = 120) -> str:
        """How it ended, and the last lines of its output: a launcher says 45 of its own behind those of a rank."""
        ending = "stopped at the time limit" if self.code is None else f"exit code {self.code}"
        return f"{ending} after {self.seconds:.0f} s, output ends with:\n" + "\n".join(
            self.text().splitlines()[-lines:]
        )


class Said(Struct, frozen=True):
    """How a short command ended, and what it said."""

    code: int | None  # None: it was stopped at its time limit
    output: str
    errors: str


def ask(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], limit_seconds: float = ASK_SECONDS
) -> Said:
    """Run a short command as `run_command` does, and read what it said."""
    with TemporaryDirectory(prefix="recipec-said-") as place:
        output, errors = Path(place, "output"), Path(place, "errors")
        done = run_command(
            command, folder=folder, environment=environment, log=output, errors=errors, limit_seconds=limit_seconds
        )
        return Said(done.code, *(path.read_text(encoding="utf-8", errors="replace") for path in (output, errors)))


def run_command(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    limit_seconds: float,
    errors: Path | None = None,
) -> Outcome:
    """Run `command` with exactly this environment; nothing that it started survives.

    Its output goes to `log`, and so do its errors where they have no file.
    """
    started = time.monotonic()
    with log.open("wb") as output, errors.open("wb") if errors else nullcontext(subprocess.STDOUT) as complaints:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=complaints,
            start_new_session=True,
        )
        code, family = _wait(process, started + limit_seconds)
        _end(family)
        process.wait()
    return Outcome(code, time.monotonic() - started, log)


def _wait(process: subprocess.Popen, deadline: float) -> tuple[int | None, dict]:
    """The exit code, or None at the deadline; and every process that the command was seen to start."""
    import psutil

    family, pause = {process.pid: psutil.Process(process.pid)}, _FIRST_POLL_SECONDS
    while True:
        _look_for_children(family)
        if process.poll() is not None:
            _look_for_children(family)  # it may have started some since
            return process.returncode, family
        if time.monotonic() > deadline:
            return None, family
        time.sleep(pause)
        pause = min(2 * pause, _POLL_SECONDS)


def _look_for_children(family: dict) -> None:
    """Add what the family has started, in one look at all processes: one for each member takes a core from the run."""
    import psutil

    for process in psutil.process_iter(["ppid"]):
        parent = family.get(process.info["ppid"])
        born = parent is not None and parent.is_running()
        if family.get(process.pid) != process and (born or _session(process.pid) in family):
            family[process.pid] = process


def _session(pid: int) -> int | None:
    """The process that leads the session of `pid`: it tells what a command started whose own process has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _end(family: Mapping) -> None:
    """Ask all that still live to stop, then make them; psutil tells a process from a later one with the same id."""
    import psutil

    living = [process for process in family.values() if process.is_running()]
    for send in (signal.SIGTERM, signal.SIGKILL):
        for process in living:
            try:
                process.send_signal(send)
            except psutil.Error:
                continue
        _, living = psutil.wait_procs(living, timeout=_GRACE_SECONDS)


def program(name: str) -> str | None:
    """The program beside this Python, or on the path by a whole name: nothing of the folder that a user stands in."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    return found if found and os.path.isabs(found) else None


def clean_environment(home: Path) -> dict[str, str]:
    """The few variables that a command needs, nothing else of the caller's; `home` becomes its home folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "CC", "CXX") if name in os.environ}
    return kept | {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(home)}


STALE_SECONDS = 600.0


def drop_stale_locks(folder: Path, now: float | None = None) -> list[Path]:
    """Remove lock files that an interrupted build left behind, or the next run waits forever; those removed."""
    moment = time.time() if now is None else now
    stale = [path for path in folder.glob("**/lock") if moment - path.stat().st_mtime > STALE_SECONDS]
    for path in stale:
        path.unlink(missing_ok=True)
    return stale
