"""The emitted Python: it compiles, it is clean, and it depends on nothing that it should not."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from recipec.catalog.stack import stack
from recipec.verify.bundle import Bundle
from recipec.verify.process import ask, clean_environment, program
from recipec.verify.report import VerifyReport

RULES = "E,F,W,I,B,UP,SIM,C4,PIE"
LINE_LENGTH = 140  # of a comment with its reason; the formatter keeps the code itself shorter
_NOT_TEXT = "\N{REPLACEMENT CHARACTER}"  # what bytes that are not UTF-8 are read as
_DEVICE = re.compile(r"\b(cuda|nccl)\b", re.IGNORECASE)
_COMES_WITH = {"safetensors": "transformers", "numpy": "torch"}  # imported, but pinned through another package


def check_python(bundle: Bundle, report: VerifyReport) -> None:
    """Syntax first; the rest only where it can be parsed."""
    files = bundle.ending(".py")
    broken = syntax_problems(bundle)
    if not report.add("Python compiles", broken, f"{len(files)} files"):
        return
    for name, options in ((f"check {RULES}", ("check", "--select", RULES)), ("format", ("format", "--check"))):
        if program("ruff") is None:
            report.skip(f"ruff {name}", "it is not installed")
        else:
            report.add(f"ruff {name}", ruff_problems(bundle, *options))
    report.add("no device is named in Python", device_problems(bundle))
    report.add("imports are in requirements.txt", import_problems(bundle))


def syntax_problems(bundle: Bundle) -> list[str]:
    """Python files that do not compile."""
    problems = []
    for path in bundle.ending(".py"):
        try:
            compile(path.read_text(encoding="utf-8"), bundle.name_of(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problems.append(f"{bundle.name_of(path)}: {error}")
    return problems


def ruff_problems(bundle: Bundle, command: str, *options: str) -> list[str]:
    """What ruff says about the Python files, with the bundle's own ruff.toml where it has one.

    Its program is run, in another folder: `python -m ruff` in the bundle's would run a `ruff` that lies there.
    """
    files = [str(path) for path in bundle.ending(".py")]
    ruff = [program("ruff") or "ruff", command, "--no-cache", "--quiet", "--force-exclude", *options]
    own = bundle.root / "ruff.toml"
    plain = ["--isolated", "--line-length", str(LINE_LENGTH), "--config", f"src = {json.dumps([str(bundle.root)])}"]
    ruff += ["--config", str(own)] if own.is_file() else plain
    ruff += ["--output-format", "concise"] if command == "check" else []
    with TemporaryDirectory(prefix="recipec-ruff-") as elsewhere:
        environment = clean_environment(Path(elsewhere))
        done = ask([*ruff, *files], folder=Path(elsewhere), environment=environment)
    said = (done.output + done.errors).replace(f"{bundle.root}/", "").strip()
    return said.splitlines() or [f"ruff {command} ended with {done.code}"] if done.code != 0 else []


def device_problems(bundle: Bundle) -> list[str]:
    """Lines that name a device: it comes from the trainer, accelerate or torch.accelerator.

    A server of answers gets weights as it knows how to, and is a program of its own.
    """
    return [
        f"{bundle.name_of(path)}:{number}: {line.strip()}"
        for path in bundle.ending(".py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if _DEVICE.search(line.partition("#")[0]) and "--weight-transfer-config" not in line
    ]


def import_problems(bundle: Bundle) -> list[str]:
    """Imports of recipec, and of packages that requirements.txt does not pin."""
    pinned, files = pins(bundle.root / "requirements.txt"), bundle.ending(".py")
    own = {path.stem for path in files}  # evaluate.py imports a stage's rows.py
    own |= {path.parent.name for path in files}  # and rewards.py what lies in a folder beside it
    problems = []
    for path in files:
        for name in sorted(_imported(path) - own - set(sys.stdlib_module_names)):
            if name == "recipec":
                problems.append(f"{bundle.name_of(path)} imports recipec: a bundle must run without it")
            elif _COMES_WITH.get(name, name) not in pinned:
                problems.append(f"{bundle.name_of(path)} imports {name}, which requirements.txt does not pin")
    return problems


def pins(path: Path) -> dict[str, str]:
    """Package -> version of the exact pins in a requirements file; other lines have an empty version."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return {name: version for name, _, version in (line.partition("==") for line in lines if line)}


def pin_problems(bundle: Bundle) -> list[str]:
    """Pins that are not those of the stack this compiler verifies."""
    path = bundle.root / "requirements.txt"
    found = pins(path)
    if not found:
        return ["requirements.txt is missing or empty"]
    if any(_NOT_TEXT in name + version for name, version in found.items()):
        return ["requirements.txt: it is not UTF-8 text"]
    wrong = {name: version for name, version in found.items() if stack().get(name) != version}
    return [f"{name}=={version} is not the stack's {stack().get(name)}" for name, version in wrong.items()]


def _imported(path: Path) -> set[str]:
    """Top-level names of everything that a file imports."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}
