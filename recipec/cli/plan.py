"""`recipec plan`: what was chosen, what it takes, and what was not taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recipec.axes import KINDS, METHODS, ROW_FORMATS, STRATEGIES
from recipec.axes.optimizers import PAGED
from recipec.axes.strategies import EVERYTHING, ON_DEVICE
from recipec.cli.compiling import compiled
from recipec.cli.inputs import RecipePath
from recipec.cli.output import dim, formats, missing_package, stdout_is_unicode, strong, table
from recipec.cli.trained import dispatched, trained
from recipec.rules import reservations
from recipec.rules.evaluation import own_rows
from recipec.rules.words import device, evaluation, run_of, waiting
from recipec.simulate.view import exact_text
from recipec.units import GIB, counted, duration, enough_gib, gib, usd, value_text

if TYPE_CHECKING:
    from recipec.compiler import Compilation


@click.command("plan")
@click.argument("recipe", type=RecipePath())
@click.option(
    "--exact",
    is_flag=True,
    help="Also simulate one step of each stage without a GPU, to compare memory. Needs recipec[verify].",
)
@formats("human", "json")
def command(recipe: Path, exact: bool, format: str) -> None:
    """Show, for each stage, how it will run, its predicted memory, time and cost, and the alternatives.

    With --format json it is the file .recipec/plan.json of the bundle, byte for byte.
    """
    compilation = compiled(recipe, format, only_plan=True)
    if exact:
        document = _simulated(compilation)
        click.echo(json.dumps(document, indent=2) + "\n" if format == "json" else exact_text(document), nl=False)
    elif format == "json":
        click.echo(compilation.plan_json, nl=False)
    else:
        click.echo(plan_text(json.loads(compilation.plan_json)), nl=False)


def _simulated(compilation: Compilation) -> dict[str, Any]:
    assert compilation.plan is not None and compilation.facts is not None
    from recipec.simulate.plan import plan_exact

    try:
        return plan_exact(compilation.plan, compilation.facts.model.architecture)
    except ModuleNotFoundError as error:
        raise missing_package("plan --exact", error) from error


_BAR_COLUMNS = 40  # stand for the usable memory
_LABEL = 9  # columns of "memory" and its like

Document = dict[str, Any]


def plan_text(plan: Document) -> str:
    """The whole plan: a block for each stage, and the total where there are several."""
    blocks = [_selection(plan["model_selection"])] if "model_selection" in plan else []
    blocks += [stage_text(stage) for stage in plan["stages"]]
    if len(plan["stages"]) > 1:
        total = plan["total"]
        blocks.append(f"{strong('all stages')}  {duration(total['seconds'])}, {usd(total['usd'])}")
    return "\n\n".join(blocks) + "\n"


def _selection(selection: Document) -> str:
    """How the model was chosen, and the models that come next."""
    rows = [(row["model"], _billion(row), row["reason"]) for row in selection["runners_up"]]
    head = f"{strong('model')}  {selection['model']}, {_billion(selection)}"
    lines = [head, f"  {selection['because']}", *(["", _row("not taken", "")] if rows else [])]
    return "\n".join([*lines, *(f"    {line}" for line in table(rows, numbers=[1]))])


def _billion(row: Document) -> str:
    return f"{row['params_billion']:.2f}B"


def stage_text(stage: Document) -> str:
    """One stage: the plan in five lines, memory by term, time, cost and machine, and the alternatives."""
    values = {decision["id"]: decision["value"] for decision in stage["decisions"]}
    title = f"{strong(stage['name'])}  {METHODS[stage['objective']].title} of {values['model']}"
    noun = device(values["gpu_is_cpu"])
    beside = [_beside(role, stage, values) for role in METHODS[stage["objective"]].named_models]
    figures = [
        [*_memory(stage["memory"], values, noun), *beside],
        [*_time_and_cost(stage, noun, values["stages"]), *_machine(stage, noun)],
    ]
    first = [*_chosen(stage["choice"], values, _by_planner(stage)), *_rows(stage)]
    parts = [first, *figures, _rejected(stage, noun), _options(stage), _next(stage)]
    return "\n\n".join("\n".join(lines) for lines in ([title, *parts[0]], *parts[1:]) if lines)


def _chosen(choice: Document, values: Document, settled: Document) -> list[str]:
    machine = f"{choice['world_size']} x {values['gpu']}{_nodes(choice, values)}"
    spread = STRATEGIES[choice["strategy"]].title
    served_by = f"; {_writers(values['server_gpus'])}" if "server_gpus" in values else _copies(values)
    batch = counted(choice["global_batch_size"], METHODS[values["stage"]].example)
    return [
        _row("trains", trained(choice, values)),
        _row(
            "on",
            f"{machine}, {spread}{_mesh(choice['mesh'])}, {_offload(choice)}{served_by}",
        ),
        _row("batch", f"{batch} = {_split(choice)}, {_length(values)}{_because(settled, 'global_batch_size')}"),
        _row("learns", _learning(values)),
        _row("step", _kernels(choice)),
        *([_row("dropout", f"0{_because(settled, 'lora_dropout')}")] if "lora_dropout" in settled else []),
        *([_row("experts", dispatched(values))] if "capacity_factor" in values else []),
        *([] if choice["can_be_built"] else [_row("but", "`recipec build` cannot write shared layers yet (E0410)")]),
    ]


def _writers(gpus: int) -> str:
    return "1 more writes the answers" if gpus == 1 else f"{gpus} more write the answers"


def _copies(values: Document) -> str:
    split = values.get("engine_tensor_parallel", 1)
    return f"; groups of {split} GPUs share a copy of the weights that writes the answers" if split > 1 else ""


def _by_planner(stage: Document) -> Document:
    """Why the planner settles values: what is learned otherwise than the rules have it because of the GPUs, too."""
    return {each["id"]: each["because"] for each in stage["decisions"] if each["origin"] == "planner"}


def _because(settled: Document, id: str) -> str:
    clauses = settled.get(id, "").split("; ")
    raised = [clause for clause in clauses if clause.startswith("raised from")]
    return f"; {(raised or clauses)[0]}" if id in settled else ""


def _rows(stage: Document) -> list[str]:
    """How long rows are where they were measured, which label is the good one, and which rows are left out."""
    decisions = {decision["id"]: decision for decision in stage["decisions"]}
    length = decisions["tokens_per_example"]
    told = f"about {length['value']:,} tokens each, {length['because']}"
    lines = [_row("rows", told)] if length["origin"] == "data" else []
    lines += [_row("labels", decisions["label_meaning"]["value"])] if "label_meaning" in decisions else []
    lines += [_row("answers", decisions["unlearned_answers"]["value"])] if "unlearned_answers" in decisions else []
    skipped = {"incomplete": "incomplete rows", "opening_answers": "messages before the first question"}
    skips = {what: decisions[id]["because"] for id, what in skipped.items() if decisions[id]["value"] == "skip"}
    return lines + [_row("skips", f"{what}, counted ({because})") for what, because in skips.items()]


def _row(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"


def _nodes(choice: Document, values: Document) -> str:
    nodes = -(-choice["world_size"] // values["gpus_per_node"])
    if nodes == 1:
        return ""
    return f" in {nodes} nodes, {values['network_gbps']:,.0f} Gbit/s between them"


def _mesh(mesh: Document) -> str:
    """The groups of ranks, where there is more than one kind."""
    words = {"replicate": "copies", "shard": "shards", "tensor": "tensor parallel", "context": "context parallel"}
    groups = [f"{mesh[name]} {word}" for name, word in words.items() if mesh[name] > 1]
    experts = f", experts over {mesh['expert']} ranks" if mesh["expert"] > 1 else ""
    told = len(groups) > 1 or experts or _sharing(mesh) > 1
    return f" ({' x '.join(groups)}{experts})" if told else ""


def _sharing(mesh: Document) -> int:
    """Ranks that have a micro batch together."""
    return mesh["tensor"] * mesh["context"]


def _offload(choice: Document) -> str:
    weights = STRATEGIES[choice["strategy"]].shards_weights and choice["offload"] == EVERYTHING
    states = "weights and states" if weights else "optimizer states"
    moved = [states] if choice["offload"] != ON_DEVICE else []
    moved += ["activations"] if choice["activation_offload"] else []
    if moved:
        return f"{' and '.join(moved)} in host memory"
    paged = choice["optimizer"] in PAGED
    return "optimizer states paged to host memory where they find no room" if paged else "nothing offloaded"


def _split(choice: Document) -> str:
    data_parallel = choice["mesh"]["replicate"] * choice["mesh"]["shard"]
    shared = _sharing(choice["mesh"])
    ranks = f"{counted(data_parallel, 'group')} of {shared} ranks" if shared > 1 else counted(data_parallel, "rank")
    return f"{choice['micro_batch_size']} x {choice['gradient_accumulation']} accumulated x {ranks}"


def _length(values: Document) -> str:
    longest = value_text(values.get("max_length"))
    if METHODS[values["stage"]].generates:
        written = value_text(values["max_new_tokens"])
        told = f"prompts of up to {longest} tokens, answers of up to {written}"
        if "tool_rounds" not in values:
            return told
        shown = value_text(values["schema_tokens"])
        return f"{told} in up to {value_text(values['tool_rounds'])} rounds of tool calls, and {shown} for the tools"
    return f"up to {longest} tokens each"


def _learning(values: Document) -> str:
    capped = (values.get("max_steps") or -1) > 0
    epochs = value_text(values.get("epochs"))
    length = counted(values["max_steps"], "step") if capped else f"{epochs} epoch{'s' * (epochs != '1')}"
    rate, schedule = value_text(values.get("learning_rate")), value_text(values.get("schedule"))
    held = ", weights that matter for general rows held near their start" * ("ewc_strength" in values)
    return f"{length} over {_examples(values)}, learning rate {rate}, {schedule}{held}"


def _examples(values: Document) -> str:
    """How many are learned of how many there are."""
    learned = own_rows(values)
    told = f"{learned:,} of {values['examples']:,}" if learned < values["examples"] else f"{learned:,}"
    apart = values["data_rows"] < values["examples"] and KINDS[ROW_FORMATS[values["data_format"]].kind].masked
    different = "different " * ("kept_answers" in values)
    told = f"{told} examples" + f" (one for each {different}answer of {values['data_rows']:,} rows)" * apart
    if "replay_rows" not in values:
        return told
    return f"{told} and {values['replay_rows']:,} general rows ({100 * values['replay']:.3g}% of all tokens)"


def _kernels(choice: Document) -> str:
    return f"{choice['attention']} attention, {_activations(choice)}, {'packed' if choice['packing'] else 'not packed'}"


def _activations(choice: Document) -> str:
    if not choice["checkpointing"]:
        return "without gradient checkpointing"
    layers = f" in one of {choice['recompute_every']} layers" if choice["recompute_every"] > 1 else ""
    return f"gradient checkpointing{layers}"


def _memory(memory: Document, values: Document, noun: str) -> list[str]:
    """The totals: allocated by tensors, by which part, and what else is taken."""
    peak, usable = memory["peak_allocated_bytes"], memory["usable_bytes"]
    stage = memory["peak_stage"].replace("_", " ")
    head = f"{gib(peak)} allocated at the peak ({stage}) of {gib(usable)} usable per {noun}"
    named = {name.replace("_", " "): size for name, size in memory["terms"].items() if size}
    rows = [(name, gib(size), _bar(size, usable)) for name, size in [*named.items(), ("free", max(0, usable - peak))]]
    lines = [f"    {line}" for line in table(rows, numbers=[1])]
    lines[-1] = dim(lines[-1])
    totals = f"    {reservations.whole_memory(memory, on_cpu=values['gpu_is_cpu'])}"
    measured, *tight = reservations.of_memory(memory)
    return [_row("memory", head), _row("", measured), *lines, totals, *(f"    {line}" for line in tight)]


def _beside(role: str, stage: Document, values: Document) -> str:
    """A model that runs beside the trained one."""
    precision, share = stage["choice"]["precision"], stage["time"]["terms"][role] / stage["time"]["seconds_per_step"]
    weights = f"{gib(values[f'{role}_params'] * (4 if precision == 'fp32' else 2))} of weights in {precision}"
    return _row(role, f"{values[role]}, {weights}, license {values[f'{role}_license']}; {share:.0%} of a step's time")


def _bar(size: int, usable: int) -> str:
    return ("█" if stdout_is_unicode() else "#") * max(1 if size > 0 else 0, round(_BAR_COLUMNS * size / usable))


def _time_and_cost(stage: Document, noun: str, stages: list[str]) -> list[str]:
    time, cost = stage["time"], stage["cost"]
    rate = f"{time['tokens_per_second_per_gpu']:,g} tokens/s per {noun}, bound by {time['bound_by']}"
    run = run_of(stage["name"], stage["objective"], stages)
    parts = [(part["part"], duration(part["seconds"]), part["because"]) for part in stage["run"]]
    return [
        _row("time", f"{duration(time['run_seconds'])} for {run}; in training {rate}"),
        _row("", reservations.of_step(time)),
        *(f"    {line}" for line in table(parts, numbers=[1])),
        _row("cost", f"{usd(cost['usd'])}: {cost['because']}"),
        _row("", reservations.not_counted(stage)),
        *(_row("assumes", line) for line in reservations.assumed(stage)),
        *(_row(label, line) for label, line in zip(("rates", ""), reservations.rates(stage), strict=False)),
    ]


def _machine(stage: Document, noun: str) -> list[str]:
    """What the plan asks of the machine around the GPUs, and where they wait for each other."""
    disk, host, row = stage["storage"], stage["host"], METHODS[stage["objective"]]
    beside = row.named_models or any(each["id"] == "reward_models" for each in stage["decisions"])
    parts = {
        "checkpoints": disk["checkpoints_bytes"],
        "the result": disk["export_bytes"],
        "further room for the trial save": disk["trial_bytes"],
        "the models" if beside else "the base model": disk["hub_cache_bytes"],
        "copies of the base model in the bundle": disk["made_bytes"],
        "its weights packed": disk["packed_bytes"],
        "prepared and tokenized data": disk["dataset_cache_bytes"],
    }
    cores = host["loader_cores_per_gpu"]
    loading = f", {counted(cores, 'core')} per {noun} for the data loader" if cores else ""
    named = ", ".join(f"{name} {gib(size)}" for name, size in parts.items() if round(size / GIB, 1))
    lines = [
        _row("disk", f"{gib(disk['total_bytes'])}: {named}"),
        _row("host", f"{gib(host['needed_bytes'])} of host memory per node{loading}"),
        *([_row("", f"of the memory: {host['because']}")] if ", " in host["because"] else []),  # several parts
    ]
    scored = stage["evaluation"]
    held = (scored["trained"][key] for key in ("where", "bytes"))
    beside = (scored[key] for key in ("batch_bytes", "of_reserve_bytes", "gpus"))
    return [*lines, _row("evaluate", evaluation(*held, *beside, noun)), *_links(stage["time"])]


def _links(time: Document) -> list[str]:
    """How long a step waits for other ranks, where that is half a percent or more."""
    waits = waiting(time["waiting_share"], time["shorter_waits"])
    return [_row("links", waits)] if waits else []


_NOT_TAKEN = "not taken, timed with the global batch of the plan where no other is named"


def _rejected(stage: Document, noun: str) -> list[str]:
    priced = stage["cost"]["usd"] is not None
    head = ("", f"allocated per {noun}", "training time", *(("its cost",) if priced else ()), "")
    rows = [head, *(_alternative(row, priced) for row in stage["rejected"])]
    return (
        [_row(_NOT_TAKEN, ""), *(f"    {line}" for line in table(rows, numbers=range(1, len(head) - 1)))]
        if stage["rejected"]
        else []
    )


def _options(stage: Document) -> list[str]:
    """What the recipe may also say, and what the plan would be then."""
    return ["  or", *(f"    {line}" for line in stage["options"])] if stage["options"] else []


def _next(stage: Document) -> list[str]:
    """What the next better option would take."""
    better = stage["next_better"]
    if better is None:
        return []
    ways = [f"{enough_gib(better['needs_gib'])} per GPU"]
    if better["change"] is not None:
        ways.append(better["change"])
    asked = f" ({better['asks']})" if better["asks"] else ""
    return [f"  with more hardware: {better['what']} needs {', or '.join(ways)}{asked}"]


def _alternative(row: Document, priced: bool) -> tuple[str, ...]:
    peak, seconds = row["peak_allocated_bytes"], row["seconds"]
    memory, time = "-" if peak is None else gib(peak), "-" if seconds is None else duration(seconds)
    cost = ("-" if row["usd"] is None else usd(row["usd"]),) if priced else ()
    return row["family"], memory, time, *cost, row["reason"]
