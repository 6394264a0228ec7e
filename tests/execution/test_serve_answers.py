"""serve_answers.py, with programs in place of vLLM and the training: each ends with the other, on GPUs of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compiling import BASES, Tables, compiled, good, texts, with_key

pytestmark = pytest.mark.executes

_FOUND = "import sys, torch; count = int(sys.argv.pop(1)); torch.accelerator.device_count = lambda: count\n"
_RUN = _FOUND + "import runpy; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
_SEES = 'import os; print(*(os.environ[name] for name in ("CUDA_VISIBLE_DEVICES", "VLLM_HOST_IP", "no_proxy")))'
_SLEEPS = "import time; time.sleep(120)"


def served(**more) -> Tables:
    engine = {"engine": "vllm-server", "server_gpus": 2}
    recipe = with_key(with_key(BASES["grpo"], "alignment.generation", engine), "hardware.gpus_per_node", 4)
    for key, value in {"hardware__gpu": "h100-sxm", **more}.items():
        recipe = with_key(recipe, key.replace("__", "."), value)
    return recipe


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with serve_answers.py of a bundle for two GPUs that train and two that write."""
    (tmp_path / "serve_answers.py").write_text(texts(good(tmp_path, served()))["serve_answers.py"])
    return tmp_path


def stands_in(place: Path, program: str) -> None:
    """What vllm is: a shell program that notes itself first."""
    text = f'#!/bin/sh\necho $$ > "{place}/pid"\necho "$CUDA_VISIBLE_DEVICES|$PYTORCH_ALLOC_CONF|$@" > "{place}/told"\n'
    (place / "vllm").write_text(text + program)
    (place / "vllm").chmod(0o755)


def start(place: Path, training: str, gpus: int = 4, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-c", _RUN, str(gpus), str(place / "serve_answers.py"), sys.executable, "-c", training]
    own = {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    environment = {name: os.environ[name] for name in ("HOME",) if name in os.environ} | own | environment
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment, "cwd": place}
    known = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore it
    try:
        return subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, known)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def waited_for(file: Path) -> str:
    end = time.monotonic() + 30
    while not file.exists() or not file.read_text():
        assert time.monotonic() < end, f"{file} was not written"
        time.sleep(0.05)
    return file.read_text()


def test_the_training_gets_the_first_gpus_and_its_end_ends_the_server(place: Path) -> None:
    stands_in(place, "exec sleep 120\n")
    training = f"import time; time.sleep(1); {_SEES}; raise SystemExit(3)"
    running = start(place, training, CUDA_VISIBLE_DEVICES="7,GPU-5a,3,1", no_proxy="intern.example")
    said, errors = running.communicate(timeout=50)
    assert said.split() == ["7,GPU-5a", "127.0.0.1", "intern.example,127.0.0.1"], errors
    assert running.returncode == 3  # the training's
    gpus, allocator, arguments = (place / "told").read_text().split("|")
    assert gpus == "3,1" and not allocator  # GPUs of vLLM cannot share expandable segments
    assert "--generation-config vllm" in arguments and "--trust-remote-code" not in arguments
    assert not is_there(int((place / "pid").read_text()))


def test_a_server_that_ends_ends_the_training_at_once_with_its_last_words(place: Path) -> None:
    stands_in(place, "echo out of memory\nexit 5\n")
    began = time.monotonic()
    running = start(place, _SLEEPS)
    _, errors = running.communicate(timeout=50)
    assert time.monotonic() - began < 40
    assert running.returncode == 1 and "The server ended with exit code 5" in errors and "out of memory" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(place: Path, number: int) -> None:
    stands_in(place, "exec sleep 120\n")
    running = start(place, f"open('training', 'w').write('runs'); {_SLEEPS}")
    waited_for(place / "training")
    time.sleep(1.5)  # until signals are passed on
    running.send_signal(number)
    running.communicate(timeout=50)
    assert running.returncode not in (0, None) and not is_there(int((place / "pid").read_text()))


def test_too_few_gpus_and_a_missing_vllm_stop_it_before_anything_runs(place: Path) -> None:
    stands_in(place, "exec sleep 120\n")
    _, errors = start(place, _SLEEPS, gpus=3).communicate(timeout=50)
    assert "PyTorch sees 3 of the 4 GPUs" in errors and not (place / "pid").exists()
    _, errors = start(place, _SLEEPS, CUDA_VISIBLE_DEVICES="0,1,2").communicate(timeout=50)
    assert "PyTorch sees 3 of the 4 GPUs" in errors
    _, errors = start(place, _SLEEPS, gpus=3, CUDA_VISIBLE_DEVICES="0,1,2,3").communicate(timeout=50)
    assert "PyTorch sees 3 of the 4 GPUs" in errors
    (place / "vllm").unlink()
    _, errors = start(place, _SLEEPS).communicate(timeout=50)
    assert "The command vllm is missing" in errors


@pytest.mark.parametrize("engine", ["vllm", "vllm-server"])
def test_code_of_the_model_is_trusted_by_vllm_too(tmp_path: Path, engine: str) -> None:
    recipe = with_key(served(model__trust_remote_code=True), "alignment.generation", {"engine": engine})
    bundle = texts(good(tmp_path, recipe))
    if engine == "vllm":
        assert "        trust_remote_code=True,  # for vLLM, too" in bundle["train.py"]
    else:
        assert '"--trust-remote-code", *words]' in bundle["serve_answers.py"]


@pytest.mark.parametrize("engine", ["vllm", "vllm-server"])
def test_experts_whose_weights_vllm_would_not_find_are_refused(tmp_path: Path, engine: str) -> None:
    recipe = with_key(served(model__name="Qwen/Qwen3-30B-A3B"), "alignment.generation", {"engine": engine})
    found = compiled(tmp_path, recipe).diagnostics
    assert any("BAD-167" in str(finding) for finding in found), found
