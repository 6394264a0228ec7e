"""What a command's exit code says."""

from __future__ import annotations

FINE = 0
FOUND = 1  # the recipe or what it names is wrong, or a comparison or a check found something
UNUSABLE = 2  # wrong usage, no such recipe, output not writable, or a bug of recipec
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED = 141  # 128 + SIGPIPE
