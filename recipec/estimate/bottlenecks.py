"""What bottleneck adapters cost: behind a module, output + up(relu(down(output))), with a bias in both products.

Source: `templates/trl/bottleneck_adapters.py.j2`. For the gradients of both products their inputs are kept, in the type
in which they are computed: what the module gives, and what the ReLU gives, which is also all that its own gradient
needs.
"""

from __future__ import annotations

from collections.abc import Collection

from recipec.catalog.architecture import Architecture, LinearShape
from recipec.estimate.codepath import CodePath
from recipec.estimate.workload import LoraShape


def bottleneck_matrices(shapes: Collection[LinearShape], lora: LoraShape | None) -> list[tuple[int, int]]:
    """Rows and columns of the matrices behind modules given as (name, inputs, outputs)."""
    if lora is None or not lora.bottleneck:
        return []
    features = [outputs for name, _, outputs in shapes if name in lora.behind]
    return [shape for out in features for shape in ((lora.bottleneck, out), (out, lora.bottleneck))]


def bottleneck_params(shapes: Collection[LinearShape], lora: LoraShape | None) -> int:
    """All numbers of the networks behind modules given as (name, inputs, outputs): matrices, and biases."""
    return sum(rows * columns + rows for rows, columns in bottleneck_matrices(shapes, lora))


def kept_behind(architecture: Architecture, modules: Collection[str], lora: LoraShape | None, path: CodePath) -> int:
    """Bytes per token that the networks behind some of the modules keep."""
    if lora is None or not lora.bottleneck:
        return 0
    return sum(name in lora.behind for name in modules) * path.compute * (architecture.hidden_size + lora.bottleneck)


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
