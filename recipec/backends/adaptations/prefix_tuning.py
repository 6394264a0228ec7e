"""Keys and values that stand before every row in each layer: PEFT's PrefixTuningConfig."""

from __future__ import annotations

from recipec.backends.adaptations.configuration import configured
from recipec.backends.adaptations.encoder import kept_encoder
from recipec.backends.job import StageJob
from recipec.backends.parts import Import, Part, joined, lines
from recipec.render.call import Arg

_ZERO = "the prefix begins at 0, where it changes little"
_NEAR_ZERO = """\
# a prefix near 0 changes little at the start; at 0 exactly its tokens would all learn the same
torch.nn.init.normal_(trainer.model.prompt_encoder["default"].embedding.weight, std=0.02)"""


def part(stage: StageJob) -> Part:
    """The prefix that the trainer puts before the rows, where it begins, and what keeps its network, if it has one."""
    tokens, ids = stage.arg("num_virtual_tokens", "prefix_tokens"), stage.ids("prefix_encoder_size")
    if not stage.value("prefix_encoder_size"):
        begun = lines(stage.ids("prefix_tokens"), *_NEAR_ZERO.splitlines())
        needed = (Import("torch", "", stage.ids("prefix_tokens")),)
        return joined((configured(stage, tokens), Part(imports=needed, after_trainer=begun)))
    prefix = configured(
        stage,
        tokens,
        Arg("prefix_projection", True, ids),
        stage.arg("encoder_hidden_size", "prefix_encoder_size"),
        Arg("init_weights", "zero", ids, _ZERO),
    )
    return joined((prefix, kept_encoder(stage)))
