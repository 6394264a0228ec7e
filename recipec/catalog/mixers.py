"""What mixes tokens in the layers of a hybrid that have no attention, as shapes: one class for each kind.

Checked 2026-11-24 against the modeling sources of transformers 5.23.0; a test builds every kind.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class GatedDeltaNet(Struct, frozen=True):
    """Linear attention by the gated delta rule behind a short convolution (`Qwen3_5GatedDeltaNet`)."""

    key_heads: int
    value_heads: int
    key_dim: int  # features of a head
    value_dim: int
    kernel: int  # tokens that the convolution sees

    @property
    def key_size(self) -> int:
        """Features of all key heads together; queries have the same."""
        return self.key_heads * self.key_dim

    @property
    def value_size(self) -> int:
        """Features of all value heads together."""
        return self.value_heads * self.value_dim

    @property
    def convolved(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_size + self.value_size

    def linear_shapes(self, hidden: int) -> tuple[tuple[str, int, int], ...]:
        """Its linear modules as (name, in, out): what it reads, the gate of its output, update, decay, and output."""
        return (
            ("in_proj_qkv", hidden, self.convolved),
            ("in_proj_z", hidden, self.value_size),
            ("in_proj_b", hidden, self.value_heads),
            ("in_proj_a", hidden, self.value_heads),
            ("out_proj", self.value_size, hidden),
        )

    def other_params(self, hidden: int) -> int:
        """The convolution, two numbers for the decay of each head, and the norm of a head's output."""
        return self.convolved * self.kernel + 2 * self.value_heads + self.value_dim

    @property
    def unadapted(self) -> tuple[str, ...]:
        """Linear modules that take no adapter."""
        return ()

    def shrunk(self) -> GatedDeltaNet:
        """A tiny one of the same kind, with as many value heads to a key head."""
        heads = 2 * self.value_heads // self.key_heads
        return GatedDeltaNet(2, heads, key_dim=16, value_dim=16, kernel=self.kernel)


class ShortConvolution(Struct, frozen=True):
    """A convolution over a few tokens, gated before and behind it (`Lfm2ShortConv`), without biases."""

    kernel: int  # tokens that the convolution sees

    def linear_shapes(self, hidden: int) -> tuple[tuple[str, int, int], ...]:
        """Its linear modules as (name, in, out): both gates with what is convolved, and output."""
        return ("in_proj", hidden, 3 * hidden), ("out_proj", hidden, hidden)

    def other_params(self, hidden: int) -> int:
        """The convolution, one filter for each feature."""
        return hidden * self.kernel

    @property
    def unadapted(self) -> tuple[str, ...]:
        """Linear modules that take no adapter."""
        return ()

    def shrunk(self) -> ShortConvolution:
        """A tiny one of the same kind."""
        return self


class StateSpace(Struct, frozen=True):
    """Mamba 2, a selective state space behind a short convolution (`GraniteMoeHybridMambaLayer`), whose convolution has
    biases and whose projections have none."""

    heads: int
    head_dim: int  # features of a head
    state: int  # numbers that each feature of a head remembers
    groups: int  # of heads that are read and written with the same projections
    kernel: int  # tokens that the convolution sees
    chunk: int  # tokens that are solved at once
    normed: bool = True  # a norm takes the gated output; else it is gated alone
    scaled: bool = False  # its inputs, what they are projected to and its output are multiplied by numbers

    @property
    def inner(self) -> int:
        """Features of all heads together."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Channels of the convolution: what is remembered, and for each group how it is written and read."""
        return self.inner + 2 * self.groups * self.state

    @property
    def unadapted(self) -> tuple[str, ...]:
        """mamba_ssm takes the weight of this module itself, past an adapter on it (PEFT issue 2274)."""
        return ("out_proj",)

    def linear_shapes(self, hidden: int) -> tuple[tuple[str, int, int], ...]:
        """Its linear modules as (name, in, out): the gate, what is convolved and the steps of the heads; and output."""
        return ("in_proj", hidden, self.inner + self.convolved + self.heads), ("out_proj", self.inner, hidden)

    def other_params(self, hidden: int) -> int:
        """The convolution with its biases, three numbers for each head, and the norm of the output if it has one."""
        return self.convolved * (self.kernel + 1) + 3 * self.heads + self.inner * self.normed

    def shrunk(self) -> StateSpace:
        """A tiny one of the same kind, twice as wide as the stand-in's 64 features."""
        return replace(self, heads=4, head_dim=32, state=16, groups=min(2, self.groups), chunk=32)


Mixer = GatedDeltaNet | ShortConvolution | StateSpace
