"""The launch scripts do what they say, with programs that only note how they were called."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from compiling import BASES, Tables, good, texts, with_key

LARGE_THEN_SMALL = with_key(with_key(BASES["sft-dpo"], "train.global_batch_size", 2), "train.sft.global_batch_size", 64)
EIGHT_THEN_TWO = with_key(LARGE_THEN_SMALL, "hardware.gpus_per_node", 8)
FOUR_THEN_ONE = with_key(with_key(EIGHT_THEN_TWO, "hardware.gpus_per_node", 4), "train.global_batch_size", 1)
CLUSTER = {"gpu": "a100-80gb", "gpus_per_node": 8, "nodes": 2, "network_gbps": 800}
TWO_NODES_THEN_ONE = with_key(LARGE_THEN_SMALL, "hardware", CLUSTER)
ONE_NODE_THEN_TWO = with_key(
    with_key(TWO_NODES_THEN_ONE, "train.global_batch_size", 64), "train.sft.global_batch_size", 2
)

GROUPS = with_key(with_key(BASES["full-fsdp"], "hardware", CLUSTER), "train.strategy", "hsdp")
OTHER = {"OTHER_RANKS": "1"}
NODE_0 = {"NODE_RANK": "0", "MASTER_ADDR": "first"}


def launched(folder: Path, recipe: Tables, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the launch script of a recipe; stdout is one line for every program it starts, its visible devices first."""
    programs, scripts = folder / "bin", folder / "bundle" / "launch"
    if not scripts.exists():
        scripts.mkdir(parents=True)
        bundle = texts(good(folder / "recipe", recipe))
        (name,) = (path for path in bundle if path.startswith("launch/"))
        (folder / "bundle" / name).write_text(bundle[name])
        programs.mkdir()
        for name in ("python", "accelerate", "torchrun"):
            (programs / name).write_text(f'#!/bin/sh\necho "[$CUDA_VISIBLE_DEVICES] {name} $@"\n')
            (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HF_TOKEN": "none"} | variables
    command = ["bash", str(*scripts.iterdir()), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def trained(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the programs that train."""
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "/train.py" in line]


def option(line: str, name: str) -> str:
    words = line.split()
    return words[words.index(f"--{name}") + 1]


@pytest.mark.parametrize("argument", ["--output-dir", "--output-dir=elsewhere", "--resume", "--resume=none"])
def test_several_stages_share_no_folder(tmp_path: Path, argument: str) -> None:
    done = launched(tmp_path, BASES["sft-dpo"], "--max-steps", "20", argument, "elsewhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "one stage's train.py" in done.stderr


@pytest.mark.parametrize("argument", ["--output-dir", "--output-dir=elsewhere"])
def test_the_result_is_where_it_is_scored(tmp_path: Path, argument: str) -> None:
    """evaluate.py after a training into another folder would score what an earlier one left in outputs."""
    done = launched(tmp_path, BASES["lora-single"], argument, "elsewhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "make that folder a link" in done.stderr


@pytest.mark.parametrize(
    "base, arguments", [("sft-dpo", ["--max-steps", "20"]), ("lora-single", ["--max-steps", "20", "--resume", "none"])]
)
def test_arguments_reach_training(tmp_path: Path, base: str, arguments: list[str]) -> None:
    lines = trained(launched(tmp_path, BASES[base], *arguments))
    assert lines
    assert all(line.endswith(f"train.py {' '.join(arguments)}") for line in lines)


@pytest.mark.parametrize("recipe", [BASES["sft-dpo"], TWO_NODES_THEN_ONE])
def test_each_stage_is_evaluated_before_and_after_it(tmp_path: Path, recipe: Tables) -> None:
    done = launched(tmp_path, recipe, NODE_RANK="0", MASTER_ADDR="first")
    assert done.returncode == 0, done.stderr
    scripts = [line.rpartition("/bundle/")[2].strip() for line in done.stdout.splitlines() if "/bundle/" in line]
    assert [script for script in scripts if script.startswith("prepare")] == scripts[:1]
    assert scripts[1:] == [
        "stages/1-sft/evaluate.py before",
        "stages/1-sft/train.py",
        "stages/1-sft/evaluate.py after",
        "stages/1-sft/merge_adapter.py",
        "stages/1-sft/evaluate.py merged",
        "stages/2-dpo/evaluate.py before",
        "stages/2-dpo/train.py",
        "stages/2-dpo/evaluate.py after",
    ]


def evaluations(done: subprocess.CompletedProcess[str]) -> list[str]:
    """How evaluate.py is started: the words before and after the bundle's folder."""
    assert done.returncode == 0, done.stderr
    lines = [line.split("] ", 1)[1] for line in done.stdout.splitlines() if "/evaluate.py" in line]
    return [re.sub(r"\S+/bundle/", "", line) for line in lines]


def test_each_rank_of_a_node_scores_a_share_of_the_rows(tmp_path: Path) -> None:
    wide = "torchrun --standalone --nproc-per-node"
    assert evaluations(launched(tmp_path / "local", FOUR_THEN_ONE)) == [
        f"{wide} 4 stages/1-sft/evaluate.py before",
        f"{wide} 4 stages/1-sft/evaluate.py after",
        f"{wide} 4 stages/1-sft/evaluate.py merged",
        "python stages/2-dpo/evaluate.py before",
        "python stages/2-dpo/evaluate.py after",
    ]
    nodes = launched(tmp_path / "nodes", TWO_NODES_THEN_ONE, **NODE_0)
    assert [line.split()[3] for line in evaluations(nodes)] == ["8", "8", "8", "2", "2"]
    assert evaluations(launched(tmp_path / "nodes", TWO_NODES_THEN_ONE, NODE_RANK="1", MASTER_ADDR="first")) == []


def test_a_first_look_evaluates_few_rows(tmp_path: Path) -> None:
    given = [(("--max-steps", "20"), True), (("--max-steps=20",), True), (("--resume", "none"), False)]
    for arguments, quick in (*given, (("--mine",), False), (("--max-stepsize", "2"), False)):
        started = evaluations(launched(tmp_path, BASES["lora-ddp"], *arguments))
        assert [line.endswith(" --quick") for line in started] == [quick, quick]


@pytest.mark.parametrize("loop", ["trainer", "torch"])
def test_training_takes_no_option_cut_short(tmp_path: Path, loop: str) -> None:
    """The launch script looks for whole names."""
    recipe = with_key(BASES["lora-single"], "train.loop", loop)
    assert "allow_abbrev=False)" in texts(good(tmp_path, recipe))["train.py"]


@pytest.mark.parametrize(
    ("keys", "started"),
    [
        ({}, "python evaluate.py before"),  # on all GPUs of the node
        ({"hardware.nodes": 4, "hardware.gpus_per_node": 2, "hardware.network_gbps": 800}, "python evaluate.py before"),
        (
            {
                "hardware.gpu": "a100-40gb",
                "hardware.nodes": 8,
                "hardware.gpus_per_node": 2,
                "hardware.network_gbps": 800,
            },
            "before --offload",
        ),
    ],
)
def test_a_model_that_no_gpu_holds_is_spread_over_all_and_else_over_host_memory(
    tmp_path: Path, keys: dict[str, object], started: str
) -> None:
    recipe = with_key(
        with_key(BASES["full-fsdp"], "model.name", "meta-llama/Llama-3.1-70B"), "train.adaptation", "lora"
    )
    for key, value in {"hardware.gpus_per_node": 8, "hardware.host_memory_gib": 4000, **keys}.items():
        recipe = with_key(recipe, key, value)
    done = launched(tmp_path, recipe, **NODE_0)
    assert all(line.startswith("python ") for line in evaluations(done))
    assert evaluations(done)[0].endswith(started)


@pytest.mark.parametrize(("told", "processes"), [({}, ["8", "2"]), (OTHER | {"NPROC_PER_NODE": "3"}, ["3", "3"])])
def test_each_stage_starts_with_its_own_processes(tmp_path: Path, told: dict[str, str], processes: list[str]) -> None:
    lines = trained(launched(tmp_path, EIGHT_THEN_TWO, **told))
    assert [option(line, "num_processes") for line in lines] == processes
    assert [f"/configs/{stage}/accelerate.yaml" in line for stage, line in zip(("sft", "dpo"), lines, strict=True)]


@pytest.mark.parametrize(
    ("recipe", "told", "said"),
    [
        (EIGHT_THEN_TWO, {"NPROC_PER_NODE": "8"}, "NPROC_PER_NODE is 8, and stage dpo is planned for 2"),
        (EIGHT_THEN_TWO, {"NNODES": "2"}, "NNODES is 2, and this script is for one node"),
        (EIGHT_THEN_TWO, {"NNODES": "2"} | OTHER, "NNODES is 2, and this script is for one node"),
        (TWO_NODES_THEN_ONE, NODE_0 | {"NNODES": "2"}, "NNODES is 2, and stage dpo is planned for 1"),
        (GROUPS, NODE_0 | {"SHARDS": "4"}, "SHARDS is 4, and stage sft is planned for 8"),
        (GROUPS, NODE_0 | OTHER | {"SHARDS": "32"}, "SHARDS is 32, which does not divide the 16 processes"),
        (GROUPS, NODE_0 | OTHER | {"NPROC_PER_NODE": "3"}, "SHARDS is 8, which does not divide the 6 processes"),
    ],
)
def test_what_a_cluster_exports_does_not_change_the_plan(
    tmp_path: Path, recipe: Tables, told: dict[str, str], said: str
) -> None:
    done = launched(tmp_path, recipe, **told)
    assert (done.returncode, done.stdout) == (2, ""), "nothing is started"
    assert said in done.stderr


def test_what_a_cluster_exports_may_be_the_plan(tmp_path: Path) -> None:
    told = NODE_0 | {"NNODES": "2", "NPROC_PER_NODE": "8", "SHARDS": "8"}
    (line,) = trained(launched(tmp_path, GROUPS, **told))
    assert option(line, "parallelism_config_dp_replicate_size") == "2"


@pytest.mark.parametrize(("visible", "one"), [(None, "0"), ("3", "3"), ("5,6", "5")])
def test_one_device_beside_a_distributed_stage(tmp_path: Path, visible: str | None, one: str) -> None:
    told = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    done = launched(tmp_path, FOUR_THEN_ONE, NPROC_PER_NODE="2", **OTHER, **told)
    first, second = trained(done)
    assert first.startswith(f"[{visible or ''}] accelerate launch")
    assert option(first, "num_processes") == "2"
    assert second.startswith(f"[{one}] python ")
    assert done.stdout.splitlines()[-1].startswith(f"[{visible or ''}] python"), "evaluation has all devices"


def test_one_device_alone_is_set_for_the_whole_script(tmp_path: Path) -> None:
    done = launched(tmp_path, BASES["lora-single"])
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"[0]"}


@pytest.mark.parametrize(
    ("recipe", "by_node"),
    [
        (TWO_NODES_THEN_ONE, {"0": [("2", "16"), ("1", "2")], "1": [("2", "16")]}),
        (ONE_NODE_THEN_TWO, {"0": [("1", "2"), ("2", "16")], "1": [("2", "16")]}),
    ],
)
def test_each_stage_starts_on_its_own_nodes(
    tmp_path: Path, recipe: Tables, by_node: dict[str, list[tuple[str, str]]]
) -> None:
    ports = set()
    for node, planned in by_node.items():
        done = launched(tmp_path, recipe, NODE_RANK=node, MASTER_ADDR="first")
        lines = trained(done)
        assert [(option(line, "num_machines"), option(line, "num_processes")) for line in lines] == planned
        assert {option(line, "machine_rank") for line in lines} == {node}
        assert ("prepare_data.py" in done.stdout) is (node == "0")
        ports |= {option(line, "main_process_port") for line in lines}
    assert ports == {"29500", "29501"}


def program(folder: Path, name: str, does: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")


def started(folder: Path, node: int, **variables: str) -> subprocess.Popen[str]:
    """The launch script of a bundle that `launched` has written, on one of its nodes."""
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HF_TOKEN": "none"} | variables
    environment |= {"NODE_RANK": str(node), "MASTER_ADDR": "first"}
    command = ["bash", str(folder / "bundle" / "launch" / "nodes.sh")]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("old", ["", "node 0 at 1"])
def test_the_other_nodes_stop_when_the_first_fails(tmp_path: Path, old: str) -> None:
    launched(tmp_path, TWO_NODES_THEN_ONE, **NODE_0)
    failed = tmp_path / "bundle" / "outputs" / "failed-node.txt"
    failed.write_text(f"{old}\n")  # of an earlier run
    program(tmp_path, "accelerate", "exec sleep 100")
    program(tmp_path, "python", "[ $1 != -c ] || exit 0; sleep 4; exit 3")
    second = started(tmp_path, 1)
    first = started(tmp_path, 0)
    assert first.wait(30) == 3
    assert second.wait(30) == 1
    assert "Another node has failed (node 0 at " in (second.stderr.read() if second.stderr else "")
    assert failed.read_text().startswith("node 0 at ") and failed.read_text() != f"{old}\n"


def test_all_nodes_stop_when_one_behind_the_first_fails(tmp_path: Path) -> None:
    """The first and the third would wait for the second until their collectives time out."""
    launched(tmp_path, TWO_NODES_THEN_ONE, **NODE_0)
    program(tmp_path, "accelerate", 'case "$*" in *"machine_rank 1"*) sleep 4; exit 5;; esac; exec sleep 100')
    nodes = [started(tmp_path, node, NNODES="3", **OTHER) for node in (0, 1, 2)]
    assert [node.wait(30) for node in nodes] == [1, 5, 1]
    for node in (nodes[0], nodes[2]):
        assert "Another node has failed (node 1 at " in (node.stderr.read() if node.stderr else "")
    failed = tmp_path / "bundle" / "outputs" / "failed-node.txt"
    assert failed.read_text().startswith("node 1 at "), "those that it stopped put no name over it"


def test_a_node_that_is_ended_from_outside_has_failed_and_one_that_is_done_has_not(tmp_path: Path) -> None:
    launched(tmp_path, TWO_NODES_THEN_ONE, **NODE_0)
    failed = tmp_path / "bundle" / "outputs" / "failed-node.txt"
    assert not failed.exists()
    begun = tmp_path / "begun"
    program(tmp_path, "accelerate", f'touch "{begun}"; exec sleep 100')
    node = started(tmp_path, 1)
    while not begun.exists():
        assert node.poll() is None
        time.sleep(0.1)
    node.terminate()
    assert node.wait(30) != 0
    assert failed.read_text().startswith("node 1 at ")


@pytest.mark.parametrize(
    ("recipe", "place"), [(BASES["lora-single"], {}), (BASES["full-fsdp"], {}), (TWO_NODES_THEN_ONE, NODE_0)]
)
def test_a_run_without_its_gpus_ends_before_the_data_are_prepared(
    tmp_path: Path, recipe: Tables, place: dict[str, str]
) -> None:
    launched(tmp_path, recipe, **place)
    program(tmp_path, "python", "[ $1 != -c ] || exit 1; echo started")
    done = launched(tmp_path, recipe, **place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "This run is planned for " in done.stderr and "PyTorch computes on no GPU." in done.stderr


@pytest.mark.parametrize(("recipe", "place"), [(BASES["lora-single"], {}), (TWO_NODES_THEN_ONE, NODE_0)])
def test_nothing_starts_with_conflict_markers_in_a_script(
    tmp_path: Path, recipe: Tables, place: dict[str, str]
) -> None:
    assert launched(tmp_path, recipe, **place).stdout
    (tmp_path / "bundle" / "train.py").write_text(
        "x = (\n<<<<<<< your edit\n    1,\n=======\n    2,\n>>>>>>> new build\n)\n"
    )
    done = launched(tmp_path, recipe, **place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "conflict markers" in done.stderr and "train.py" in done.stderr


def test_a_run_on_the_cpu_looks_for_no_gpu(tmp_path: Path) -> None:
    done = launched(tmp_path, with_key(BASES["lora-single"], "hardware", {"gpu": "cpu", "host_memory_gib": 64}))
    assert trained(done) and "is_available" not in done.stdout and " -c " not in done.stdout


def test_the_other_nodes_give_up_on_a_first_node_without_a_sign(tmp_path: Path) -> None:
    launched(tmp_path, TWO_NODES_THEN_ONE, **NODE_0)
    program(tmp_path, "accelerate", "exec sleep 100")
    second = started(tmp_path, 1, WAIT="2")
    assert second.wait(30) == 1


def test_nodes_wait_for_each_other_as_long_as_the_readme_says(tmp_path: Path) -> None:
    """The first for the others to start; they for its signs, while it may prepare data for hours."""
    done = {node: launched(tmp_path, TWO_NODES_THEN_ONE, NODE_RANK=node, MASTER_ADDR="first") for node in ("0", "1")}
    limits = {node: int(option(trained(ran)[0], "rdzv_conf").removeprefix("timeout=")) for node, ran in done.items()}
    assert limits["0"] == 600 < limits["1"]
    assert "within 10 minutes of each other" in texts(good(tmp_path / "again", TWO_NODES_THEN_ONE))["README.md"]


def test_a_user_decides_on_the_nodes_too(tmp_path: Path) -> None:
    told = {"NODE_RANK": "0", "MASTER_ADDR": "first", "NNODES": "3", "NPROC_PER_NODE": "4"} | OTHER
    lines = trained(launched(tmp_path, TWO_NODES_THEN_ONE, **told))
    assert [(option(line, "num_machines"), option(line, "num_processes")) for line in lines] == [("3", "12")] * 2


def test_the_readme_names_the_nodes_of_the_largest_stage(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, TWO_NODES_THEN_ONE))
    assert "# on each of the 2 nodes" in bundle["README.md"]
    assert "evaluation on 2 nodes that share this folder" in bundle["launch/nodes.sh"]
    assert "NPROC_PER_NODE=" not in bundle["README.md"], "no smaller number is right for both stages"


def test_a_team_with_its_own_launcher_gets_no_script(tmp_path: Path) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-ddp"], "launch.with", "none")))
    assert not [path for path in bundle if path.startswith("launch/")]
    told = "# with your own launcher and configuration, that of the plan is in configs/accelerate.yaml:"
    assert f"{told}\naccelerate launch train.py\n" in bundle["README.md"]
    assert "accelerate launch train.py" in bundle["train.py"] and "launch/" not in bundle["train.py"]


def test_without_a_script_the_readme_runs_what_the_script_would(tmp_path: Path) -> None:
    """The same programs in the same order, and nothing that only a launch script does is promised."""
    shared = with_key(BASES["sft-dpo"], "train", {"adaptation": "qlora", "strategy": "fsdp"})
    shared = with_key(shared, "hardware", {"gpu": "h100", "gpus_per_node": 4})
    recipes = (shared, BASES["served"], with_key(GROUPS, "model.name", "google/gemma-3-4b-it"), BASES["adapters"])
    for recipe in recipes:
        recipe = with_key(recipe, "model.new_tokens", ["<|a|>"]) if recipe is recipes[2] else recipe
        scripted, own = (texts(good(tmp_path, with_key(recipe, "launch.with", way))) for way in ("local", "none"))
        assert _programs(own["README.md"].split("```bash")[1].split("```")[0]) == _programs(_script(scripted))
        text = "\n".join(own.values())
        assert not re.search(r"launch/|failed-node|NPROC_PER_NODE", text)


def _script(bundle: dict[str, str]) -> str:
    return bundle.get("launch/local.sh") or bundle["launch/nodes.sh"]


def _programs(shell: str) -> list[tuple[str, ...]]:
    """The scripts of the bundle in the order of their start, each with the one word that says when it evaluates."""
    lines = [line for line in shell.replace("$BUNDLE/", "").splitlines() if not line.lstrip().startswith(("#", "echo"))]
    found = re.findall(r"((?:[\w-]+/)*\w+\.py)\b\"?(?: (before|after|merged))?", "\n".join(lines))
    return [tuple(filter(None, each)) for each in found]


def test_the_command_is_the_same_wherever_it_is_named(tmp_path: Path) -> None:
    done = good(tmp_path, TWO_NODES_THEN_ONE)
    start = "NODE_RANK=0 MASTER_ADDR=first-node bash launch/nodes.sh --max-steps 20"
    assert done.start is not None
    assert f"{done.start.command} {done.start.script} {done.start.short}" == start
    bundle = texts(done)
    for path in ("launch/nodes.sh", "README.md", "stages/1-sft/train.py"):
        assert start in bundle[path]
    assert [path for path, text in bundle.items() if "launch/local.sh" in text] == []


def test_a_step_of_slurm_knows_its_node_and_the_first(tmp_path: Path) -> None:
    """As srun starts the script: it names the node and the list of all, which scontrol writes out, a part at a time."""
    launched(tmp_path, GROUPS, **NODE_0)
    (tmp_path / "bin" / "scontrol").write_text(
        '#!/bin/sh\n[ "$1 $2 $3" = "show hostnames gpu[1-2]" ] || exit 2\necho gpu1\nsleep 0.2\necho gpu2\n'
    )
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    step = {"SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "gpu[1-2]"}
    for variables, node, first in ((step, "1", "gpu1"), (step | {"NODE_RANK": "0", "MASTER_ADDR": "me"}, "0", "me")):
        (line,) = trained(launched(tmp_path, GROUPS, **variables))
        assert (option(line, "machine_rank"), option(line, "main_process_ip")) == (node, first)


@pytest.mark.parametrize("stated", [None, 48])
def test_the_readme_has_the_line_for_slurm(tmp_path: Path, stated: int | None) -> None:
    """It asks for the cores in which the plan prepares the rows: 4 for each GPU load them later."""
    recipe = with_key(GROUPS, "data.examples", 20_000_000)
    several = good(tmp_path, with_key(recipe, "hardware.cpu_cores", stated) if stated else recipe)
    (stage,) = several.plan.stages
    cores = stated or stage.value("host_cores")
    assert f"in {cores} processes" in next(part.because for part in stage.parts if part.name == "data preparation")
    asked = f"--nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --cpus-per-task={cores}"
    assert cores > 40 and f"\nsrun {asked} bash launch/nodes.sh\n" in texts(several)["README.md"]
    assert "srun" not in texts(good(tmp_path, BASES["full-fsdp"]))["README.md"]


def test_another_number_of_nodes_than_the_plan_uses_is_refused_by_what_the_recipe_says(tmp_path: Path) -> None:
    one = launched(tmp_path / "one", with_key(BASES["full-fsdp"], "hardware.gpus_per_node", 8), NNODES="2")
    assert one.returncode == 2 and "Unset it, or set hardware.nodes." in one.stderr
    cluster = with_key(BASES["full-fsdp"], "hardware", CLUSTER | {"network_gbps": 1})
    idle = launched(tmp_path / "idle", cluster, NNODES="2")
    assert idle.returncode == 2
    assert "NNODES is 2, and the plan uses one of 2 nodes (hardware.nodes). Unset NNODES." in idle.stderr


@pytest.mark.parametrize(("steps", "look"), [(300, 20), (40, 20), (24, 12), (4, 2), (2, 1)])
def test_a_first_look_is_shorter_than_the_training(tmp_path: Path, steps: int, look: int) -> None:
    bundle = texts(good(tmp_path, with_key(BASES["lora-single"], "train.max_steps", steps)))
    for path in ("train.py", "README.md", "launch/local.sh"):
        assert re.findall(r"local\.sh --max-steps (\d+)", bundle[path]) == [str(look)], path


def test_a_first_look_ends_with_a_generation(tmp_path: Path) -> None:
    recipe = with_key(with_key(BASES["grpo"], "train.max_steps", 30), "alignment.variant", "gspo")
    assert "--max-steps 12" in texts(good(tmp_path, recipe))["README.md"], "of 15 steps, three would lack answers"


@pytest.mark.parametrize("nodes", [1, 2])
def test_an_optimizer_on_the_host_gets_all_cores(tmp_path: Path, nodes: int) -> None:
    recipe = with_key(with_key(BASES["zero3-offload"], "hardware.nodes", nodes), "hardware.network_gbps", 100)
    recipe = recipe if nodes > 1 else BASES["zero3-offload"]
    cores = int(subprocess.run(["nproc"], capture_output=True, text=True, check=True, env={}).stdout)
    (line,) = trained(launched(tmp_path, recipe, **NODE_0))
    assert option(line, "num_cpu_threads_per_process") == str(-(-cores // 4)), "four processes share the cores"
    (line,) = trained(launched(tmp_path, recipe, **NODE_0, OMP_NUM_THREADS="7"))
    assert option(line, "num_cpu_threads_per_process") == "7"


@pytest.mark.parametrize("base", ["lora-ddp", "full-fsdp"])
def test_an_optimizer_on_the_device_needs_no_threads(tmp_path: Path, base: str) -> None:
    (line,) = trained(launched(tmp_path, BASES[base]))
    assert "threads" not in line
