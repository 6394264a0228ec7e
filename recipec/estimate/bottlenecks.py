"""What bottleneck adapters cost: behind a module, output + up(relu(down(output))), with a bias in both products.

Source: `templates/trl/bottleneck.py.j2`. For the gradients of both products their inputs are kept, in the type in which
they are computed: what the module gives, and what the ReLU gives, which is also all that its own gradient needs.
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
