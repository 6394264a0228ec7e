"""Stands before the real Python on PATH: sends scripts and `-c` to the fork-server, all else to the real one."""

import json
import os
import select
import socket
import sys

REAL, SOCKET = "{real}", "{socket}"

arguments = sys.argv[2:] if sys.argv[1:2] == ["-u"] else sys.argv[1:]  # torchrun wants no buffers
if not arguments or (arguments[0].startswith("-") and arguments[0] != "-c"):
    os.execv(REAL, [REAL, *arguments])
with socket.socket(socket.AF_UNIX) as server:
    server.connect(SOCKET)
    request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    pid = int.from_bytes(server.recv(4), "big")
    fork = os.pidfd_open(pid)
    code = server.recv(1)
    select.select([fork], [], [])  # what it holds, such as the lock of a folder, is free when it has ended
sys.exit(code[0] if code else 137)  # no code: it was killed
