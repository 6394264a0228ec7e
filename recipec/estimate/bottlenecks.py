"""What bottleneck adapters cost: behind a module, output + up(relu(down(output))), with a bias in both products; and
what attention over several frozen ones costs (AdapterFusion).

Source: `templates/trl/bottleneck_adapters.py.j2`. For the gradients of both products their inputs are kept, in the type
in which they are computed: what the module gives, and what the ReLU gives, which is also all that its own gradient
needs. Source of the attention: `templates/trl/adapter_fusion.py.j2`. Its three square matrices have no bias. Kept are
what the module gives, the query, the query times the key matrix, the mean, what each adapter adds and what its ReLU
gives, and the shares, in fp32 and as they are multiplied. Frozen products keep nothing of their inputs.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from recipec.catalog.architecture import Architecture, LinearShape
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape

MIXING_MATRICES = 3  # query, key and value
KEPT_VECTORS = 4  # of the model's width
SHARE_BYTES = 4  # a softmax computes in fp32


def bottleneck_matrices(shapes: Collection[LinearShape], lora: LoraShape | None) -> list[tuple[int, int]]:
    """Rows and columns of the matrices behind modules given as (name, inputs, outputs)."""
    if lora is None or not lora.bottleneck:
        return []
    features = [outputs for name, _, outputs in shapes if name in lora.behind]
    if lora.mixed:
        return [(out, out) for out in features for _ in range(MIXING_MATRICES)]
    return [shape for out in features for shape in ((lora.bottleneck, out), (out, lora.bottleneck))]


def bottleneck_params(shapes: Collection[LinearShape], lora: LoraShape | None) -> int:
    """All trained numbers behind modules given as (name, inputs, outputs): matrices, and the biases of networks."""
    biased = lora is not None and not lora.mixed
    return sum(rows * columns + rows * biased for rows, columns in bottleneck_matrices(shapes, lora))


def frozen_behind(architecture: Architecture, lora: LoraShape | None) -> int:
    """All numbers of the frozen networks that are mixed, in all layers."""
    if lora is None or not lora.mixed:
        return 0
    each = replace(lora, mixed=0)
    return lora.mixed * sum(layers * bottleneck_params(shapes, each) for layers, shapes in architecture.linear_groups)


def mixing_flops(architecture: Architecture, lora: LoraShape | None, recomputed: float) -> float:
    """Operations per token of attention over frozen networks: forward and backward of its matrices and of the networks,
    whose own gradient nobody needs. `recomputed` is the share of layers whose forward is repeated."""
    if lora is None or not lora.mixed:
        return 0.0
    shapes = architecture.linear_groups
    trained = sum(layers * bottleneck_params(group, lora) for layers, group in shapes)
    return 2.0 * (trained * (3 + recomputed) + frozen_behind(architecture, lora) * (2 + recomputed))


def kept_behind(architecture: Architecture, modules: Collection[str], lora: LoraShape | None, path: CodePath) -> int:
    """Bytes per token that the networks behind some of the modules keep."""
    if lora is None or not lora.bottleneck:
        return 0
    hidden = architecture.hidden_size
    kept = path.compute * (hidden + lora.bottleneck)
    if lora.mixed:
        each = path.compute * (hidden + lora.bottleneck) + SHARE_BYTES + path.compute * (path.compute < SHARE_BYTES)
        kept = KEPT_VECTORS * path.compute * hidden + lora.mixed * each
    return sum(name in lora.behind for name in modules) * kept


def kept_for_nothing(
    architecture: Architecture, lora: LoraShape | None, path: CodePath, norms: int, attention: int, mlp: int
) -> int:
    """Bytes per token, of what a layer saves by its parts, that the first layer does not: no gradient passes there.

    Below the first adapter nothing trains. Where layers are recomputed, PEFT gives the embeddings a gradient, and the
    first layer keeps as much as any.
    """
    if lora is None or not lora.bottleneck:
        return 0
    output, mlp_out = architecture.modules.output, architecture.modules.mlp_out
    norm = 4 * architecture.hidden_size + 4
    if output in lora.behind:
        later = (architecture.norms_per_layer - 1) * norm
        return norms - later + attention - kept_behind(architecture, (output,), lora, path)
    later = norm * (architecture.norms_per_layer == 4)
    return norms - later + attention + mlp - kept_behind(architecture, (mlp_out,), lora, path)
