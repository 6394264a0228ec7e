"""Verified bundles find a `python` that forks the training stack instead of importing it anew."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from recipec.axes import METHODS
from recipec.backends.methods import BACKENDS
from recipec.verify import sandbox
from recipec.verify.static import frameworks

HERE = Path(__file__).parent
_START_SECONDS = 120.0


@contextmanager
def fork_server(folder: Path) -> Iterator[None]:
    """Run the server, with its socket and the `python` that speaks to it in `folder`."""
    socket = folder / "socket"
    _write_client(folder / "python", socket)
    for launcher in ("torchrun", "accelerate"):
        _write_launcher(folder / launcher, folder / "python")
    environment = sandbox.clean_environment(folder) | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environment |= {"DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1"}
    installed = [row for row in METHODS.values() if getattr(BACKENDS[row.name].trainer, "config", "") != row.config]
    classes = {f"{row.module}.{name}" for row in installed for name in (row.trainer, row.config)}
    command = [sys.executable, str(HERE / "server.py"), str(socket), *sorted(classes)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_for(socket, server)
        yield
    finally:
        server.kill()
        server.wait()


def _write_client(path: Path, socket: Path) -> None:
    text = (HERE / "client.py").read_text(encoding="utf-8")
    text = text.replace("{real}", sys.executable).replace("{socket}", str(socket))
    path.write_text(f"#!{sys.executable} -SEs\n{text}", encoding="utf-8")
    path.chmod(0o755)


def _write_launcher(path: Path, python: Path) -> None:
    """The real one, a fork itself, which starts its processes with this `python`."""
    real = Path(sys.executable).with_name(path.name)
    path.write_text(f'#!/bin/sh\nPYTHON_EXEC={python} exec {python} {real} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _wait_for(socket: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not socket.exists():
        assert server.poll() is None and time.monotonic() < deadline, (socket.parent / "server.log").read_text()
        time.sleep(0.1)


@contextmanager
def forking(folder: Path) -> Iterator[None]:
    """Bundles verified in this context find the `python` of `folder` first; their configurations are read by it."""
    clean = sandbox.clean_environment

    def with_fork(home: Path) -> dict[str, str]:
        environment = clean(home)
        return environment | {"PATH": f"{folder}:{environment['PATH']}"}

    python = str(folder / "python")
    with patch.object(sandbox, "clean_environment", with_fork), patch.object(frameworks, "PYTHON", python):
        yield
