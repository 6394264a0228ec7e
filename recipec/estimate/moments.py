"""The moments of a step, each as named terms. The peak of a run is the largest of them."""

from __future__ import annotations

from recipec.estimate.activations import Activations
from recipec.estimate.sharding import Gathered
from recipec.estimate.step import Step, policy_layer

Terms = dict[str, float]


def moments(step: Step) -> dict[str, Terms]:
    """The terms that are live at each moment, in bytes per rank."""
    kept = _saved(step)
    return {
        "load": _load(step),
        **({"precomputation": _scored_once(step)} if step.once else {}),
        "forward": _forward(step),
        **({"last_layer": _last_layer(step, kept)} if step.fixed.measuring else {}),
        "forward_end": _forward_end(step, kept),
        **(_scored(step, kept) if step.scorings else {}),
        "loss": _loss(step, kept),
        "layer_backward": _layer_backward(step, kept),
        "end_of_backward": _end_of_backward(step),
        "optimizer_step": _optimizer_step(step),
        "evaluation": _evaluation(step),
        "save": _save(step),
    }


def _saved(step: Step) -> float:
    """Activations that wait for the backward pass on the device when the forward ends."""
    depth = step.depth
    embedded = 1 if step.fixed.sizes.adapters else 0  # a leaf of the graph, which hooks on saved tensors do not move
    inputs = (embedded if depth.offloads else depth.recomputed) * step.fixed.layers.checkpoint
    mask = step.scores.masks if depth.recomputed else 0
    return step.tokens * (inputs + step.fixed.layers.tail) + mask + depth.kept * step.kept + _entered(step)


def _entered(step: Step) -> float:
    """What enters the layers beside their states; what layers borrow is saved where it was made, unless recomputed."""
    entering = step.batch.entering
    return entering.held + entering.saved + (entering.borrowed if step.depth.recomputed else 0)


def _resident(step: Step) -> Terms:
    """What is there at all times, and the gradients of earlier micro steps."""
    return step.fixed.accumulating if step.accumulates else step.fixed.resident


def _load(step: Step) -> Terms:
    """The model is on the device, nothing else; quantized loading holds one weight in the compute type beside it, and
    sharding one that is whole."""
    kept = ("weights", "adapters", "reference_model", "teacher_model", "reward_models")
    terms = {name: size for name, size in step.fixed.states.terms.items() if name in kept}
    fixed = step.fixed
    largest = fixed.path.compute * fixed.sizes.largest_linear if fixed.path.quantized else 0
    sharded = fixed.path.weight_shards > 1
    return {**terms, "working_set": _table(step) if sharded else largest}


def _table(step: Step) -> float:
    """Bytes of the larger embedding, the largest parameter that is whole alone: below adapters it is frozen."""
    path, sizes = step.fixed.path, step.fixed.sizes
    return (path.frozen or path.trained) * max(sizes.embedding, sizes.second)


def _scored_once(step: Step) -> Terms:
    """The reference scores all rows before training; under FSDP it is a copy, and the policy is not sharded yet."""
    kept = ("weights", "adapters", "reward_models")
    terms = {name: size for name, size in step.fixed.states.terms.items() if name in kept}
    passes = [{**_running(part.layer, part.head, part.in_evaluation), "activations": part.masks} for part in step.once]
    return {**terms, **max(passes, key=_total)}


def _forward(step: Step) -> Terms:
    """A layer runs: the last that is recomputed later, the first of all where none is; or the embedding."""
    sizes, path, buffers, depth = step.fixed.sizes, step.fixed.path, step.fixed.buffers.forward, step.depth
    begun = max(1, depth.layers - depth.above)
    inputs = 1 if depth.offloads else max(1, depth.recomputed)
    checkpoint = step.tokens * step.fixed.layers.checkpoint
    embedding = {
        "activations": checkpoint,
        "working_set": step.fixed.copied,
        "communication_buffers": buffers.first,
    }
    kept = inputs * checkpoint + step.scores.masks + (depth.kept - depth.above) * step.kept
    kept += _entered(step) - step.batch.entering.held  # which is counted where the layer runs
    layer = {
        "activations": kept,
        "working_set": policy_layer(step.batch, step.fixed),
        "autocast_cache": path.compute * sizes.cast_by_layers * begun / depth.layers if path.autocast_copies else 0,
        "communication_buffers": buffers.layers,
    }
    return {**_resident(step), **_scored_before(step), **max(embedding, layer, key=_total)}


def _last_layer(step: Step, saved: float) -> Terms:
    """The last layer measures its weights: all others wait for the backward pass."""
    sizes, path = step.fixed.sizes, step.fixed.path
    return {
        **_resident(step),
        **_scored_before(step),
        "activations": saved - step.tokens * step.fixed.layers.tail,
        "working_set": max(step.fixed.measuring, step.tokens * step.fixed.layers.outputs),
        "autocast_cache": path.compute * sizes.cast_by_layers if path.autocast_copies else 0,
        "communication_buffers": step.fixed.buffers.forward.layers,
    }


def _scored_before(step: Step) -> Terms:
    """What the passes before the one that is learned from have left for the loss."""
    return {f"{part.model}_states": part.leaves for part in step.scorings if part.before and part.leaves}


def _left_for_loss(step: Step) -> Terms:
    """What all passes without a gradient have left for the loss."""
    return {f"{part.model}_states": part.leaves for part in step.scorings if part.leaves}


def _running(layer: float, head: float, gathered: Gathered, embedding: float = 0.0) -> Terms:
    """What a forward that saves nothing needs: at the embedding, in a layer, before the head or at it."""
    places = ((embedding, gathered.first), (layer, gathered.layers), (0.0, gathered.entering), (head, gathered.head))
    working, sharding = max(places, key=sum)
    return {"working_set": working, "communication_buffers": sharding}


def _forward_end(step: Step, saved: float) -> Terms:
    """The loss is being computed; autocast still holds its copies of the fp32 weights."""
    sizes, path = step.fixed.sizes, step.fixed.path
    cast = sizes.cast_by_layers + step.head.held_weight
    earlier = step.tokens * step.depth.layers * step.fixed.layers.earlier
    return {
        **_resident(step),
        **_left_for_loss(step),
        "activations": saved + earlier + step.scores.waiting,
        "logits": step.head.forward,
        "autocast_cache": path.compute * cast if path.autocast_copies else 0,
        "communication_buffers": step.fixed.buffers.loss + _other_head(step),
    }


def _scored(step: Step, saved: float) -> dict[str, Terms]:
    """Passes without a gradient, named by who runs them; those behind the policy's own find its activations waiting."""
    found: dict[str, Terms] = {}
    for part in step.scorings:
        waiting = 0.0 if part.before else saved + step.head.saved
        running = _running(part.layer, part.head, part.gathered)
        terms = {**_resident(step), **running, "activations": waiting + part.masks, "autocast_cache": part.cast}
        found[part.model] = max(terms, found.get(part.model, {}), key=_total)
    return found


def _total(terms: Terms) -> float:
    return sum(terms.values())


def _loss(step: Step, saved: float) -> Terms:
    """The loss is differentiated: of the autocast copies only those that the graph holds are left."""
    sizes, path = step.fixed.sizes, step.fixed.path
    held = sizes.cast_by_layers * step.depth.kept / step.depth.layers
    return {
        **_resident(step),
        **_left_for_loss(step),
        "activations": saved,
        "logits": step.head.backward,
        "autocast_cache": path.compute * (held + step.head.held_weight) if path.autocast_copies else 0,
        "communication_buffers": step.fixed.buffers.loss + _other_head(step),
    }


def _other_head(step: Step) -> float:
    """The teacher's matrix of the vocabulary, gathered where it is sharded."""
    return step.fixed.teacher.gathered_head if step.fixed.teacher else 0.0


def _layer_backward(step: Step, saved: float) -> Terms:
    """The largest of the first layer to run backward (all saved, no gradients), the first to be recomputed and the last
    of all (the reverse)."""
    depth, places = step.depth, [_last_backward(step)]
    if depth.above:
        places.append(_first_backward(step, saved, recomputed=False))
    if depth.recomputed:
        below = saved - depth.above * step.kept
        places.append(_first_backward(step, below, recomputed=True))
    return max(places, key=lambda terms: sum(terms.values()))


def _first_backward(step: Step, saved: float, *, recomputed: bool) -> Terms:
    """The uppermost layer that keeps everything, or that is recomputed: the layers above have their gradients."""
    sizes, path, states = step.fixed.sizes, step.fixed.path, step.fixed.states
    terms = _resident(step)
    above = step.depth.above * states.gradients * _layer_share(step) if recomputed else 0.0
    unpacked = step.tokens * step.fixed.layers.checkpoint if recomputed and step.depth.offloads else 0
    matrix = sizes.embedding if sizes.tied else sizes.head
    head = 0.0 if sizes.adapters else states.gradients * matrix / sizes.trainable
    waiting = head if sizes.tied and path.gradient_shards == 1 else 0.0  # a tied head's waits for the embedding's
    return {
        **terms,
        "gradients": max(terms.get("gradients", 0.0) + waiting, head + above),
        "activations": saved - step.tokens * step.fixed.layers.tail + unpacked,
        "working_set": _working_set(step, recomputed) + step.batch.entering.gradients,
        "autocast_cache": path.compute * sizes.layer_cast if path.autocast_copies and not sizes.adapters else 0,
        "communication_buffers": step.fixed.buffers.backward,
    }


def _layer_share(step: Step) -> float:
    """What one layer has of all gradients."""
    sizes = step.fixed.sizes
    return 1 / step.depth.layers if sizes.adapters else sizes.layer / sizes.params


def _last_backward(step: Step) -> Terms:
    sizes, states, path, each = step.fixed.sizes, step.fixed.states, step.fixed.path, step.fixed.layers
    missing = sizes.layer + sizes.second + (0 if sizes.tied and path.gradient_shards == 1 else sizes.embedding)
    waiting = 0.0 if sizes.adapters or step.accumulates else missing / sizes.params
    entering = step.batch.entering
    held = 2 * (step.depth.layers - 1) * each.checkpoint if path.holds_inputs else each.checkpoint
    return {
        **states.terms,
        "gradients": max(states.terms.get("gradients", 0.0), states.gradients * (1 - waiting)),
        "working_set": max(_working_set(step, True) + entering.gradients, entering.unmaking),
        "activations": step.tokens * held + step.scores.masks + _entered(step),
        "communication_buffers": step.fixed.buffers.last,
    }


def _working_set(step: Step, recomputed: bool) -> float:
    """One layer running backward, with what its recomputation saves: of the kind that needs most."""
    return max(
        _running_backward(step, each, scores, each.mixing * step.tokens or step.scores.backward, recomputed)
        for each, scores in zip(step.fixed.kinds, step.scores.of_kinds, strict=True)
    )


def _running_backward(step: Step, each: Activations, scores: float, mixing: float, recomputed: bool) -> float:
    """A layer of one kind; `scores` are what its attention saves beside `each`, `mixing` what runs backward in it."""
    sizes, path, built, saved = step.fixed.sizes, step.fixed.path, step.fixed.built, 0.0
    if recomputed:
        saved = step.tokens * each.saved + scores + built.kept
    dequantized = path.compute * sizes.largest_linear if path.quantized else 0
    freed = each.mlp * step.tokens + built.kept  # what its feed-forward block saved, when attention runs
    attention = mixing - freed
    inner = each.experts_input * step.tokens  # its gradient comes with that of `down`; behind it, more is freed
    experts = max(built.down + inner, built.gate_up - inner)
    running = max(each.backward * step.tokens, each.product * step.tokens + dequantized, attention, experts)
    running = max(running, step.fixed.measuring if recomputed else 0)
    return saved + max(running, 2 * step.batch.gathered_context)


def _end_of_backward(step: Step) -> Terms:
    """All gradients exist; the embedding's is made last, twice where it is added to the head's or to an earlier one."""
    sizes, path, states = step.fixed.sizes, step.fixed.path, step.fixed.states
    shared = not sizes.adapters and (sizes.tied or step.accumulates)
    copies = (2 if sizes.tied else 0) + step.accumulates
    largest = max(copies * sizes.embedding, step.accumulates * sizes.second)
    summed = path.gradient * largest if shared and path.gradient_shards == 1 else 0
    return {
        **states.terms,
        "gradients": states.gradients,
        "working_set": summed + step.fixed.copied,
        "communication_buffers": step.fixed.buffers.end,
    }


def _optimizer_step(step: Step) -> Terms:
    states = step.fixed.states
    return {
        **states.terms,
        "gradients": states.gradients + states.step_gradients,
        "working_set": states.temporaries,
        "communication_buffers": step.fixed.buffers.idle,
    }


def _evaluation(step: Step) -> Terms:
    """A forward that saves nothing, with optimizer states in place, or another of the passes."""
    layer = policy_layer(step.batch, step.fixed)
    running = _running(layer, step.head.evaluation, step.fixed.buffers.forward, step.fixed.copied)
    passes = [{**running, **_scored_before(step), "activations": step.scores.masks + step.scores.cached}]
    for part in step.scorings:
        running = _running(part.layer, part.head, part.in_evaluation)
        passes.append({**running, "activations": part.masks, "autocast_cache": part.cast})
    return {**step.fixed.states.terms, **max(passes, key=_total)}


def _save(step: Step) -> Terms:
    """Sharded weights are gathered one parameter at a time and moved to the host."""
    gathered = _table(step) if step.fixed.path.weight_shards > 1 else 0
    return {**step.fixed.states.terms, "working_set": gathered, "communication_buffers": step.fixed.buffers.idle}
