"""Holds the training stack imported, and forks a process for each script that `python` of this folder sends.

    python server.py SOCKET [MODULE.NAME ...]     what else is imported: libraries load their classes when asked

Every script of a bundle imports torch, transformers, datasets, PEFT and TRL: eight seconds, four times a bundle. The
fork has the script's own arguments, folder, environment and output, and its exit code; imports are what it shares.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import threading
import traceback
from pathlib import Path

_LARGEST_REQUEST = 1 << 20


def serve(address: str, names: list[str]) -> None:
    """Import, with these names, then fork at every connection until this process is ended."""
    import datasets  # noqa: F401
    import deepspeed  # noqa: F401
    import peft  # noqa: F401
    import torch.utils.tensorboard  # noqa: F401

    for name in names:
        module, _, attribute = name.rpartition(".")
        getattr(importlib.import_module(module), attribute)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks: they answer their clients
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        while True:
            client, _ = listening.accept()
            if os.fork() == 0:
                _answer(client)
            client.close()


def _answer(client: socket.socket) -> None:
    """Tell the own pid, run the script of one request, tell its exit code, and end."""
    client.sendall(os.getpid().to_bytes(4, "big"))
    message, descriptors, _, _ = socket.recv_fds(client, _LARGEST_REQUEST, 3)
    request = json.loads(message)
    for descriptor, own in zip(descriptors, (0, 1, 2), strict=True):
        os.dup2(descriptor, own)
    # the server's was a file, and the client's may be a pipe, in which nothing can be sought
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", line_buffering=True)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    threading.Thread(target=_end_with, args=(client,), daemon=True).start()
    code = _run(*request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([code]))
    os._exit(code)


def _end_with(client: socket.socket) -> None:
    """The client never writes again: an end of its stream is its death."""
    client.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _run(script: str, *arguments: str) -> int:
    """The exit code of a script, started as Python starts it."""
    sys.argv = ["-c", *arguments[1:]] if script == "-c" else [script, *arguments]  # sitecustomize may read it
    try:
        _read_environment()
        if script == "-c":
            exec(arguments[0], {"__name__": "__main__"})
            return 0
        sys.path[0] = str(Path(script).resolve().parent)
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _read_environment() -> None:
    """What was read from the environment when Python and the libraries started is read again."""
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    tempfile.tempdir = None
    for name in ("huggingface_hub.constants", "datasets.config"):
        importlib.reload(sys.modules[name])
    for folder in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        sys.path.insert(1, folder)
    sys.modules.pop("sitecustomize", None)  # a Linux distribution may have one of its own, read when the server began
    importlib.import_module("sitecustomize")


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
