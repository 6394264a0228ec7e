"""A generator of answers with a copy of the weights: its trainer arguments, its server, and how it gets adapters."""

from __future__ import annotations

from collections.abc import Iterator

from recipec.axes.generators import PROFILED_TOKENS
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.models import bundle_root, model_expression, pinned_revision, reads_data_root
from recipec.backends.parts import Import, Part, lines
from recipec.render.artifact import Artifact
from recipec.render.call import Arg
from recipec.render.traced import Raw

MERGED = "merged_weights"  # the file of the bundle that adds adapters to the weights which the copy gets
# The most that a token counts of which the copy is too sure: truncated importance sampling as VeRL's and TRL's recipes
# have it (TRL 1.16 docs/source/paper_index.md, "Your Efficient RL Framework Secretly Brings You Off-Policy RL").
MOST_RATIO = 2.0
SERVER = "serve_answers"  # the file of the bundle that runs the training beside vLLM on GPUs of its own
# Variables of the environment in which it tells the training where vLLM is, with TRL's own values.
PORT, USUAL_PORT = "ANSWERS_PORT", 8000
WEIGHTS_PORT, USUAL_WEIGHTS_PORT = "WEIGHTS_PORT", 51216
LOADING_SECONDS = 900.0  # until a server answers, at most: our decision; TRL's 240 are few for weights from a slow disk
_OF_LENGTH = "max_length", "max_new_tokens", "generator"
_OF_GENERATION = "global_batch_size", "updates"


def generator_arguments(stage: StageJob) -> Iterator[Arg]:
    """Nothing for a generator that writes with the very weights."""
    if not stage.method.written_by.own_copy:
        return
    ids = stage.ids("generator")
    yield Arg("use_vllm", True, ids)
    if stage.served_by:
        yield from _of_server(stage)
    else:
        newest = "; TRL gives vLLM no revision: see README.md" * loads_newest(stage)
        yield Arg("vllm_mode", "colocate", (*ids, *stage.ids("model")), f"on the GPUs that train{newest}")
        yield Arg("vllm_enable_sleep_mode", True, ids, "gives its memory back while the model learns")
        for own in stage.method.splits:
            yield stage.arg(own.argument, own.name, note=True)
        yield stage.arg("vllm_gpu_memory_utilization", "generator_share", note=True)
        yield Arg("vllm_max_model_length", longest_answer(stage), stage.ids(*_OF_LENGTH), "a prompt and its answer")
        if stage.job.loaded.recipe.model.trust_remote_code:
            yield Arg("trust_remote_code", True, stage.ids("model", "generator"), "for vLLM, too")
    yield Arg("vllm_importance_sampling_correction", True, ids, "its probabilities are not quite those that learn")
    yield Arg("vllm_importance_sampling_mode", "token_truncate", ids)
    yield Arg("vllm_importance_sampling_clip_max", MOST_RATIO, ids)


def loads_newest(stage: StageJob) -> bool:
    """Whether a copy on the GPUs that train is loaded from the newest commit, though the recipe pins another.

    TRL 1.16 generation/vllm_generation.py: LLM(model=model.name_or_path, ...) has no revision.
    """
    copied = stage.method.generates and stage.method.written_by.own_copy and not stage.served_by
    return copied and bool(pinned_revision(stage))


def _of_server(stage: StageJob) -> Iterator[Arg]:
    ids = stage.ids("generator", "server_gpus")
    yield Arg("vllm_mode", "server", ids, f"{SERVER}.py, on GPUs that do not train")
    yield Arg("vllm_server_host", "127.0.0.1", ids)
    yield Arg("vllm_server_port", _from_environment(PORT, USUAL_PORT), ids)
    yield Arg("vllm_group_port", _from_environment(WEIGHTS_PORT, USUAL_WEIGHTS_PORT), ids)
    yield Arg("vllm_server_timeout", LOADING_SECONDS, ids, "until it has loaded the model")


def _from_environment(name: str, usual: int) -> Raw:
    return Raw(f'int(os.environ.get("{name}", "{usual}"))')


def longest_answer(stage: StageJob) -> int:
    """Tokens of a prompt and its answer, at most."""
    return stage.value("max_length") + stage.value("max_new_tokens")


def merges_for_copy(stage: StageJob) -> bool:
    """Whether the copy gets weights that no module has: those of the base with an adapter."""
    return stage.method.written_by.own_copy and not stage.adapts.trains_all


def generator_part(stage: StageJob) -> Part:
    """What train.py does for it."""
    if not merges_for_copy(stage):
        return Part()
    ids = stage.ids("generator", "adaptation")
    return Part(
        own_imports=(Import(MERGED, "send_merged", ids),),
        after_trainer=lines(ids, "send_merged(trainer)  # TRL would merge into the base and subtract again"),
    )


def generator_files(stage: StageJob) -> list[Artifact]:
    """The file that adds an adapter to what the copy gets, and the one that starts a server."""
    ids = stage.ids("generator", "adaptation")
    merged = Artifact(f"{stage.folder}{MERGED}.py", ids, "trl/merged_weights.py.j2", {})
    return [*[merged] * merges_for_copy(stage), *([_server(stage)] if stage.served_by else [])]


def server_log(stage: StageJob) -> str:
    """The file below outputs/ with the words of a stage's server."""
    return f"{stage.name}-server.log"


def _server(stage: StageJob) -> Artifact:
    """What runs the training beside vLLM, with everything that it assumes of it."""
    names = {
        "stage": stage.named,
        "path": Raw(f"{stage.folder}{SERVER}.py"),
        "bundle_root": bundle_root(stage),
        "log": stage.because(server_log(stage), "stage"),
        "below_root": stage.because(reads_data_root(stage), "model"),
        "model": model_expression(stage),
        "revision": stage.because(pinned_revision(stage) or "", "model"),
        "served_by": stage.traced("server_gpus"),
        "training_gpus": stage.traced("world_size"),
        "port": PORT,
        "weights_port": WEIGHTS_PORT,
        "trusts": stage.because(bool(stage.job.loaded.recipe.model.trust_remote_code), "model"),
        "dtype": stage.because(torch_dtype(stage.value("precision")).removeprefix("torch."), "precision"),
        "longest": stage.because(str(longest_answer(stage)), *_OF_LENGTH),
        "at_once": stage.because(str(stage.value("global_batch_size") * stage.value("updates")), *_OF_GENERATION),
        "profiled_tokens": stage.because(str(PROFILED_TOKENS), "generator"),
        "share": stage.because(str(stage.value("generator_share")), "generator_share"),
        "seed": stage.because(str(stage.value("seed")), "seed"),
    }
    return Artifact(f"{stage.folder}{SERVER}.py", stage.ids("generator", "server_gpus"), f"trl/{SERVER}.py.j2", names)
