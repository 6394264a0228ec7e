"""The static level: every emitted file by the loader that will read it, without running the bundle."""

from __future__ import annotations

from collections.abc import Callable

from recipec.verify.bundle import Bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.as_built import check_built
from recipec.verify.static.consistency import check_consistency
from recipec.verify.static.documents import check_documents
from recipec.verify.static.frameworks import check_frameworks
from recipec.verify.static.launch import check_launch
from recipec.verify.static.python import check_python
from recipec.verify.static.shell import check_shell
from recipec.verify.static.text import check_text

STATIC_CHECKS: tuple[Callable[[Bundle, VerifyReport], None], ...] = (
    check_python,
    check_documents,
    check_shell,
    check_launch,
    check_text,
    check_consistency,
    check_built,
    check_frameworks,
)
