"""evaluate.py beside each train.py: the same evaluation before and after the stage."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from recipec.axes import BASES
from recipec.axes.adaptations import PROMPTS
from recipec.backends.acting import TOOLS, evaluated_with, has_judge, has_rewards
from recipec.backends.adaptations import quantized_base
from recipec.backends.arguments import PATIENCE_FOR_ANSWERS, in_hours
from recipec.backends.dequantized import config_import, loaded_when
from recipec.backends.engines.engine import torch_dtype
from recipec.backends.job import StageJob
from recipec.backends.merging import merged_into
from recipec.backends.methods import BACKENDS
from recipec.backends.methods.backend import Measure
from recipec.backends.models import (
    MARKED_TEMPLATE,
    below_root,
    bundle_root,
    code,
    ending,
    folder_checks,
    from_hub,
    has_template_file,
    in_bundle,
    model_expression,
    other_models,
    padded_attention,
    pinned_revision,
    placed,
    random_model,
    reads_data_root,
)
from recipec.backends.parts import Import, import_blocks, import_lines
from recipec.backends.rows import PREPARED
from recipec.backends.score_head import head_in_fp32, head_options
from recipec.backends.wrapped import FUNCTIONS, JUDGE, REWARDS
from recipec.facts.model import is_path
from recipec.render.artifact import Artifact
from recipec.render.call import WIDTH, Arg, Call
from recipec.render.environment import snippet
from recipec.render.literals import py
from recipec.render.traced import Raw, Traced
from recipec.units import GIB

SAMPLES, NEW_TOKENS = 5, 128  # enough to see whether answers changed, few enough to wait for
QUICK_ROWS = 32  # of a first look
COUNTED = {True: "token", False: "pair"}  # what a loss is a mean over, by whether the method writes
KEPT_SHARE = 0.1  # of what training gained: what a merge may lose of it, recipec's choice
AGAIN_SHARE = 0.25  # the same, where the next stage stores it in few bits: rounded to those of its base it loses most
_INSTEAD = {  # of a merge that loses what was trained, by whether the next stage stores it in few bits
    False: "Serve the adapter on the base that it was trained on.",
    True: 'Set `train.quantization = "none"`: then the next stage does not round it.',
}

_ALWAYS = (
    *(Import(module) for module in ("argparse", "hashlib", "json", "os", "sys", "torch")),
    Import("pathlib", "Path"),
    Import("collections.abc", "Iterator"),
    Import("torch.nn.utils.rnn", "pad_sequence"),
    Import("datasets", "Dataset"),
    *(Import("transformers", name) for name in ("AutoTokenizer", "PreTrainedModel", "PreTrainedTokenizerBase")),
)
_IN_PIECES = (("collections.abc", "Callable"), ("contextlib", "contextmanager"), ("itertools", "cycle"))
_RANDOM = (
    ("transformers", "AutoConfig"),
    ("transformers", "set_seed"),
)
_PINNED = "of the base; what is read from a folder has none"
_DISPATCH = (("accelerate", "dispatch_model"), ("accelerate", "infer_auto_device_map"))


def evaluation_artifact(stage: StageJob) -> Artifact:
    """evaluate.py of one stage: what it began with and its result, by its own held-out rows."""
    return Artifact(_path(stage), stage.ids("data_format", "stage"), "evaluate.py.j2", _names(stage))


def _path(stage: StageJob) -> str:
    return f"{stage.folder}evaluate.py"


def _names(stage: StageJob) -> dict[str, Any]:
    measure, (costs, because) = BACKENDS[stage.method.name].measure_of(stage), _merge_limit(stage)
    why = wrap(f"{because[:1].upper()}{because[1:]}.", WIDTH - 2)
    how = _how(stage)
    soft_prompt = stage.because(stage.adapts.trains == PROMPTS, "adaptation")
    rows = {"soft_prompt": soft_prompt, "in_pieces": stage.because(in_pieces(stage), "max_length", "gpu", "model")}
    measured = {**measure.names(stage), **how, **rows}
    standard, installed = import_blocks(_imports(stage))
    return {
        **_title(stage),
        "path": _path(stage),
        "bundle_root": bundle_root(stage),
        "standard_imports": standard,
        "installed_imports": installed,
        "rows_functions": code(stage, ", ".join(sorted([PREPARED, *measure.reads])), "stage"),
        "reads_data_root": reads_data_root(stage),
        "model_folders": _model_folders(stage),
        **_sources(stage),
        "stage": stage.named,
        "rows_file": stage.because("test.jsonl", "test_fraction", "has_test_file"),
        "replays": stage.because(stage.replays, *["replay"] * stage.replays),
        "asked_with": _asked_with(stage),
        "adapter": stage.because(not stage.adapts.trains_all, "adaptation"),
        "adapter_import": _adapter_import(stage),
        "random_weights": stage.because(stage.method.random_weights, "stage"),
        "new_head": stage.because(bool(stage.method.new_head), "stage"),
        "writes": stage.because(stage.method.writes, "stage"),
        "fp32_head": () if stage.method.writes else head_in_fp32(stage),
        **how,
        "merges": stage.because(stage.adapts.merges, "adaptation"),
        "merged_into": merged_into(stage) if stage.adapts.merges else "",
        "merge_costs": stage.because(costs, "quantization"),
        "merge_because": [stage.because(line, "quantization") for line in why],
        "instead": stage.because(_INSTEAD[stage.stored_again], "quantization", "stage"),
        "gain": _gain(measure, stage),
        "counted": COUNTED[stage.method.writes],
        **kept_of_gains(stage),
        "loss": measure.loss,
        "functions": _functions(stage),
        "in_windows": measured.get("in_windows", False),
        "on_cpu": stage.because(stage.on_cpu, "gpu"),
        "seed": stage.traced("seed"),
        "load_shape": from_hub(stage, "AutoConfig", Raw("BASE")),
        "random_model": random_model(stage, _dtype(stage), padded_attention(stage)),
        **_sizes(stage),
        "soft_prompt": soft_prompt,
        "judges": stage.because(stage.method.earns and has_rewards(stage), "stage"),
        "acted_with": evaluated_with(stage),
        "chat_template_file": stage.because(has_template_file(stage), "template"),
        "load_model": _load_model(stage),
        "tokenizer": ending(from_hub(stage, "AutoTokenizer", Raw("source")), stage),
        "routes": stage.because(stage.job.facts.model.architecture.balanced, "model"),
        "by_row": stage.because(measure.by_row, "stage"),
        "errors": stage.because(measure.errors, "stage"),
        "answers_all": stage.because(measure.answers_all, "stage"),
        "measure": snippet(measure.template, measured | _written(stage), stage.ids("stage")),
    }


def in_pieces(stage: StageJob) -> bool:
    """Whether a row may have more tokens than a batch: its logits are then made in pieces. Answers are not cut."""
    return stage.method.generates or stage.value("max_length") > stage.plan.needs.evaluation.tokens_at_once


def _sizes(stage: StageJob) -> dict[str, Any]:
    """How many rows are scored, how many of them at once, and how long answers are."""
    asked, needs = stage.job.loaded.recipe.evaluate, stage.plan.needs.evaluation
    return {
        "max_rows": stage.traced("eval_samples"),
        "max_length": stage.traced("max_length"),
        "samples": asked.samples or SAMPLES,
        "quick_rows": QUICK_ROWS,
        "tokens_at_once": stage.because(needs.tokens_at_once, "gpu", "model"),
        "batch_gib": stage.because(round(needs.batch_bytes / GIB, 1), "prediction"),
        "answers_at_once": stage.because(needs.answers_at_once, "adaptation", "prediction"),
        "rounds": stage.traced("tool_rounds") if stage.acts else 0,
        "max_new_tokens": asked.max_new_tokens or _new_tokens(stage),
    }


def _written(stage: StageJob) -> dict[str, Any]:
    """What only the measures that write answers read."""
    return {"trained_on_answers": stage.because(stage.method.generates, "stage")}


def kept_of_gains(stage: StageJob) -> dict[str, Any]:
    """How much of what training gained a merge may lose: nothing where rewards are learned, which no loss measures."""
    learned, share = not stage.method.generates, AGAIN_SHARE if stage.stored_again else KEPT_SHARE
    return {"kept": stage.because(share * learned, "stage"), "kept_share": f"{share:.0%}"}


def _merge_limit(stage: StageJob) -> tuple[float, str]:
    """What a merge may add to the loss, and why; a model that the next stage stores in few bits is scored so."""
    base = BASES[stage.adapts.base]
    return (base.again_costs, base.again_because) if stage.stored_again else (base.merge_costs, base.merge_because)


def _gain(measure: Measure, stage: StageJob) -> dict[str, Any] | None:
    """How compare() reads what training gained; None where the loss shows it."""
    if (gain := measure.gain) is None:
        return None
    before = f'metrics.get("before", metrics["after"])["{gain.metric}"]'
    value = f'metrics[then].get("{gain.metric}", start)'
    found = {
        "start": before if gain.start is None else py(gain.start),
        "since": f"start - {value}" if gain.falls else f"{value} - start",
        "noise": gain.noise,
    }
    return {"metric": gain.metric, **{name: code(stage, text, "stage") for name, text in found.items()}}


def _title(stage: StageJob) -> dict[str, Any]:
    """What the file says that it measures."""
    measure = BACKENDS[stage.method.name].measure_of(stage)
    staged = f"stage {stage.name} of {stage.job.name}"
    fits = len(f'"""Evaluate {staged} before and after training: {measure.same}.') <= WIDTH
    return {
        "what": (staged if fits else f"stage {stage.name}") if stage.folder else stage.job.name,
        "same": stage.because(measure.same, "stage"),
        "unit": stage.because(measure.unit, "stage"),
    }


def _sources(stage: StageJob) -> dict[str, Any]:
    """Where the models come from."""
    return {
        "base": model_expression(stage),
        "start_adapter": below_root(stage, "init_from", stage.init_from) if stage.init_from else None,
        "folder_checks": folder_checks(stage, "BASE"),
        "other_models": other_models(stage),
    }


def _model_source(stage: StageJob) -> Raw:
    """Where the weights are: those below an adapter are the base's, before and after training."""
    if stage.adapts.trains_all:
        return code(stage, "source", "adaptation")
    return code(stage, 'source if when == "merged" else BASE' if stage.adapts.merges else "BASE", "adaptation")


def _new_tokens(stage: StageJob) -> int | Traced:
    """Of an answer at most: as many as in training, where answers are written there."""
    return stage.traced("max_new_tokens") if stage.method.generates else NEW_TOKENS


def shares_rows(stage: StageJob) -> bool:
    """Whether each rank of the stage holds the whole model and scores a share of the rows."""
    return stage.strategy.distributed and stage.plan.needs.evaluation.trained.whole


def spreads_layers(stage: StageJob) -> bool:
    """Whether evaluate.py spreads the layers of a model over GPUs."""
    needs = stage.plan.needs.evaluation
    return not all(held.whole for held in (needs.trained, needs.merged_as(stage.stored_again)) if held)


def _how(stage: StageJob) -> dict[str, Any]:
    """What the measures' templates also read: whether rows are shared, and whether layers are."""
    ranks = shares_rows(stage)
    return {
        "ranks": stage.because(ranks, "strategy", "prediction"),
        "spreads": stage.because(spreads_layers(stage), "prediction"),
        "waits_long": stage.because(_patience(stage) if ranks else 0, "prediction", "strategy"),
        "say": code(stage, "PartialState().print" if ranks else "print", "strategy", "prediction"),
    }


def _functions(stage: StageJob) -> list[Raw]:
    """How the base is loaded where it is quantized, as in train.py."""
    base = quantized_base(stage)
    return [] if base is None else [base.loading(stage)]


def _model_folders(stage: StageJob) -> list[Raw]:
    """The constants that name folders of models, whose files may change under the same name."""
    models = {role.upper(): stage.value(role) for role in stage.method.named_models}
    found = [Raw(constant) for constant, name in models.items() if is_path(name)]
    own = is_path(stage.job.facts.model.name) or stage.plan.stage.starts_from is not None
    start = [code(stage, "ADAPTER", "init_from")] if stage.init_from else []
    return [code(stage, "BASE", "model", "stage")] * own + start + found


def _imports(stage: StageJob) -> list[Import]:
    method, base = stage.method, quantized_base(stage)
    found = [
        *_ALWAYS,
        *BACKENDS[stage.method.name].measure_of(stage).imports,
        Import("transformers", method.auto_class, stage.ids("quantization", "stage")),
    ]
    if method.writes:
        pieces = _IN_PIECES if in_pieces(stage) else ()
        found += [Import(*source, stage.ids("stage")) for source in (*pieces, ("itertools", "starmap"))]
    if not stage.adapts.trains_all:
        found.append(Import("peft", "PeftModel", stage.ids("adaptation")))
    if base is not None:
        found += base.imports(stage)
    found += config_import(stage)
    found += _placing_imports(stage)
    if method.new_head:
        found.append(Import("transformers", "set_seed", stage.ids("stage")))
    if method.random_weights:
        found += [Import(*source, stage.ids("stage")) for source in _RANDOM]
    return found


def _adapter_import(stage: StageJob) -> Raw | None:
    """The statement that makes PEFT know a kind of adapter that the bundle brings; None where PEFT has it."""
    module = stage.adapts.module
    return import_lines([Import(module, "", stage.ids("adaptation"))])[0] if module else None


COLLECTIVE_SECONDS = 600  # torch 2.13: how long NCCL waits for a rank


def _patience(stage: StageJob) -> int:
    """Seconds for which ranks of evaluate.py wait for the one with the longest answers; 0: the usual ones."""
    seconds = PATIENCE_FOR_ANSWERS * stage.plan.scoring_seconds if stage.method.generates else 0.0
    return in_hours(seconds) if seconds > COLLECTIVE_SECONDS else 0


def _placing_imports(stage: StageJob) -> Iterator[Import]:
    """What puts the model onto its devices and shares the rows."""
    how, ids = _how(stage), stage.ids("prediction", "strategy", "gpu")
    placed_on_gpu = stage.plan.needs.evaluation.trained.whole and not stage.on_cpu
    if placed_on_gpu or how["ranks"].value:
        yield Import("accelerate", "PartialState", ids)
    yield Import("collections.abc", "Iterable", ids, left_out=not how["ranks"].value)
    if how["ranks"].value:
        yield Import("accelerate.utils", "gather_object", ids)
        yield Import("datetime", "timedelta", ids, left_out=not _patience(stage))
    if how["spreads"].value:
        yield Import("sys", "", ids)
        if stage.method.random_weights:
            yield from (Import(*source, ids) for source in _DISPATCH)


def _asked_with(stage: StageJob) -> Raw:
    """The files that say what is asked."""
    files = ["ROWS", *["GENERAL"] * stage.replays, "Path(__file__)", 'Path(__file__).with_name("rows.py")']
    if stage.method.earns:
        judging = f'Path(__file__).with_name("{FUNCTIONS}").glob("*.py")'
        wrapping = [REWARDS] * has_rewards(stage) + [JUDGE] * has_judge(stage) + [TOOLS] * stage.acts
        files += [*(f'Path(__file__).with_name("{name}.py")' for name in wrapping), f"*sorted({judging})"]
    if stage.judge:  # another result of that stage gives other scores
        files.append(f'{in_bundle(stage.judge)} / "finished.json"')
    files += ['BUNDLE / "chat_template.jinja"'] * has_template_file(stage)
    files += [f'BUNDLE / "{MARKED_TEMPLATE}"'] * stage.marks_turns
    line = f"({', '.join(files)}, *more)"
    if len(f"    files = {line}") > WIDTH:
        line = "(\n" + "".join(f"        {file},\n" for file in (*files, "*more")) + "    )"
    return code(stage, line, "stage", "template", "template_marks")


def _load_model(stage: StageJob) -> Call:
    model, base = stage.job.loaded.recipe.model, quantized_base(stage)
    args = [
        Arg("", _model_source(stage)),
        Arg("dtype", _dtype(stage), stage.ids("precision")),
        *_placed(stage),
        Arg("attn_implementation", padded_attention(stage), stage.ids("attention")),
    ]
    args += head_options(stage)
    if base is not None:
        args.append(Arg("quantization_config", _stored_as(stage, f"{base.LOADING}()"), stage.ids("quantization")))
    args += loaded_when(stage)
    if revision := pinned_revision(stage):
        args.append(Arg("revision", revision, stage.ids("model"), _PINNED))
    if model.trust_remote_code:
        args.append(Arg("trust_remote_code", True, stage.ids("model")))
    return Call(f"{stage.method.auto_class}.from_pretrained", args)


def _stored_as(stage: StageJob, config: str) -> Raw:
    """How the weights of a model are stored that training stores as `config` says."""
    return Raw(config if stage.stored_again else f'{config} if when != "merged" else None')


def _placed(stage: StageJob) -> list[Arg]:
    """Where the model goes; a merged model may need more room than the quantized one that was trained."""
    needs, ids = stage.plan.needs.evaluation, stage.ids("prediction")
    merged = needs.merged_as(stage.stored_again)
    if needs.trained.whole and merged and not merged.whole:
        whole = '{"device_map": {"": PartialState().device}}'
        return [Arg("", Raw(f'**(spread() if when == "merged" else {whole})'), ids)]
    return placed(stage)


def _dtype(stage: StageJob) -> Raw:
    return Raw(f"torch.{torch_dtype(stage.value('precision'))}")
