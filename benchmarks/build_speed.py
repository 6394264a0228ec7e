"""CPU time of `recipec build` in a fresh process, beside a bare interpreter and `trl sft --help`.

    python benchmarks/build_speed.py [RUNS]

The minimum of several runs is printed, with .pyc files and the template cache warm: other load only adds to it.
The ratio to the bare interpreter is what can be compared between machines.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "recipes" / "support-chat.toml"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    bare = cpu_seconds([sys.executable, "-c", "pass"], runs)
    print(f"bare interpreter       {bare:6.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "recipec", "build", str(RECIPE), "-o", f"{folder}/out"]
        build = cpu_seconds(command, runs)
    print(f"recipec build          {build:6.3f} s   {build / bare:5.1f} x bare")
    planning = warm_milliseconds(only_plan=True)
    print(f"compile in process     {warm_milliseconds():6.1f} ms, of which planning {planning:.1f}")
    trl = cpu_seconds([str(Path(sys.executable).parent / "trl"), "sft", "--help"], 1)
    print(f"trl sft --help         {trl:6.3f} s   {trl / build:5.1f} x recipec build")


def cpu_seconds(command: list[str], runs: int) -> float:
    """The least user and system time of `runs` runs, after one to warm caches."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return min(one_run(command, environment) for _ in range(runs + 1))


def one_run(command: list[str], environment: dict[str, str]) -> float:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def warm_milliseconds(only_plan: bool = False) -> float:
    """The least time of one compilation in this process."""
    from recipec.compiler import compile_recipe

    times = []
    for _ in range(20):
        start = time.process_time()
        compile_recipe(RECIPE, only_plan=only_plan)
        times.append(time.process_time() - start)
    return min(times) * 1000


if __name__ == "__main__":
    main()
