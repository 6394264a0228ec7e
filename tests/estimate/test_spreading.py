"""Models that are scored on several GPUs: their layers are whole, and lie as transformers spreads them."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.accelerate import get_balanced_memory, infer_auto_device_map

from recipec.catalog.architecture import Architecture
from recipec.catalog.models import model
from recipec.estimate.spreading import ROOM_TO_PACK, find_room, modules_of

LLAMA = model("meta-llama/Llama-3.1-70B")
assert LLAMA is not None
SHAPE = LLAMA.architecture


def spread_by_transformers(shape: Architecture, layers: int, gpus: int, room: int, usable: float) -> bool:
    """Whether all of it lies on the GPUs; a quantizer leaves the share `usable` of each."""
    options = {"hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size}
    options |= {"num_attention_heads": shape.num_heads, "num_key_value_heads": shape.num_kv_heads}
    config = AutoConfig.for_model("llama", num_hidden_layers=layers, vocab_size=shape.vocab_size, **options)
    with torch.device("meta"):
        found = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    whole = found._no_split_modules
    rooms = get_balanced_memory(found, dict.fromkeys(range(gpus), room), no_split_module_classes=whole)
    limits = {gpu: usable * limit for gpu, limit in rooms.items()}
    places = infer_auto_device_map(found, limits, no_split_module_classes=whole).values()
    return not {"cpu", "disk"} & {str(place) for place in places}


@pytest.mark.parametrize("usable", [1.0, ROOM_TO_PACK])
@pytest.mark.parametrize("gpus", [2, 3, 8])
def test_the_least_room_is_that_of_transformers(gpus: int, usable: float) -> None:
    """Within a thousandth of the model, which is what is small beside the matrices."""
    shape = replace(SHAPE, num_layers=20)
    total = 2 * shape.params
    modules = modules_of(shape, total, 2)
    assert sum(modules) == pytest.approx(total)
    sizes = range(total // gpus, 2 * total, total // 1000)
    least = next(room for room in sizes if find_room([modules], [room] * gpus, usable))
    assert spread_by_transformers(shape, 20, gpus, least + total // 1000, usable)
    assert not spread_by_transformers(shape, 20, gpus, least - total // 500, usable)


def test_what_is_uneven_is_a_layer_and_not_a_tenth() -> None:
    """A 70B in 16 bits, 131.4 GiB, on two GPUs: the first leaves room for the head, and ends with a whole layer."""
    modules = modules_of(SHAPE, 2 * SHAPE.params, 2)
    half = SHAPE.params  # bytes
    assert find_room([modules], [1.04 * half] * 2)
    assert not find_room([modules], [half] * 2)
    assert not find_room([modules, modules], [1.5 * half] * 2), "the second finds what the first has left"
    assert find_room([modules, modules], [2.2 * half] * 2)
