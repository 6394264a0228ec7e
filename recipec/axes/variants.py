"""The variants of group relative policy optimization: one row each, with the values of its paper.

TRL's index of papers was read on 2026-11-23. Where neither paper nor index gives a value, it is that of TRL 1.16
trainer/grpo_config.py.
"""

from __future__ import annotations

from msgspec import Struct


class Variant(Struct, frozen=True, kw_only=True):
    """What tells one variant from the others; every value is written out in train.py."""

    name: str  # the value of alignment.variant
    means: str  # how answers are compared and weighed, for editors
    clips: str  # what it does about probabilities that moved since the answers were written: with several updates alone
    loss_type: str  # keyword of GRPOConfig, as are the next five
    importance_sampling_level: str
    scale_rewards: str
    epsilon: float | None  # how far a probability may fall; None where its loss does not read it
    epsilon_high: float | None  # how far it may rise
    mask_truncated_completions: bool
    head_in_fp32: bool
    gate_temperatures: tuple[float, float] | None  # of better and of worse answers, where the gate is soft
    beta: float  # weight of the KL to the reference; 0 keeps none
    per_prompt: int  # answers to a prompt
    updates: int  # optimizer steps from one generation
    paper_updates: int | None  # the same in the paper of the variant; None where it was not looked up
    source: str

    @property
    def told(self) -> str:
        """All of it, for editors."""
        return f"{self.means}; with several updates per generation, {self.clips}"


_INDEX = "github.com/huggingface/trl, docs/source/paper_index.md at 0167b7d"

VARIANTS = {
    row.name: row
    for row in (
        Variant(
            name="grpo",
            means="each answer has the same weight; a small KL term keeps the model close to the reference",
            clips="the ratio of each token is clipped",
            loss_type="grpo",
            importance_sampling_level="token",
            scale_rewards="group",
            epsilon=0.2,
            epsilon_high=0.2,
            mask_truncated_completions=False,
            head_in_fp32=False,
            gate_temperatures=None,
            beta=0.001,
            per_prompt=16,
            updates=1,
            paper_updates=1,
            source="DeepSeekMath (arXiv 2402.03300, 2024: one update of each generation); DeepSeek-R1 (arXiv "
            "2501.12948, 2025: beta 0.001, 16 answers)",
        ),
        Variant(
            name="dapo",
            means="each token has the same weight, truncated answers are masked",
            clips="the ratio of each token is clipped, upwards later than downwards, so that rare tokens may become "
            "likelier",
            loss_type="dapo",
            importance_sampling_level="token",
            scale_rewards="group",
            epsilon=0.2,
            epsilon_high=0.28,
            mask_truncated_completions=True,
            head_in_fp32=False,
            gate_temperatures=None,
            beta=0.0,
            per_prompt=16,
            updates=1,
            paper_updates=16,
            source="DAPO (arXiv 2503.14476, 2025, section 4.1: 512 prompts with 16 answers each for 16 updates of 512 "
            f"answers); {_INDEX}",
        ),
        Variant(
            name="dr_grpo",
            means="no division by the length of answers or the spread of rewards",
            clips="the ratio of each token is clipped",
            loss_type="dr_grpo",
            importance_sampling_level="token",
            scale_rewards="none",
            epsilon=0.2,
            epsilon_high=0.2,
            mask_truncated_completions=False,
            head_in_fp32=False,
            gate_temperatures=None,
            beta=0.0,
            per_prompt=8,
            updates=1,
            paper_updates=None,
            source=f"Dr. GRPO (arXiv 2503.20783, 2025); {_INDEX}, which leaves out scale_rewards",
        ),
        Variant(
            name="gspo",
            means="each answer has the same weight",
            clips="the ratio of a whole answer is clipped instead of those of its tokens",
            loss_type="grpo",
            importance_sampling_level="sequence",
            scale_rewards="group",
            epsilon=3e-4,
            epsilon_high=4e-4,
            mask_truncated_completions=False,
            head_in_fp32=False,
            gate_temperatures=None,
            beta=0.0,
            per_prompt=8,
            updates=4,
            paper_updates=4,
            source=f"GSPO (arXiv 2507.18071, 2025, section 5.1); {_INDEX}",
        ),
        Variant(
            name="cispo",
            means="each token has the same weight, rewards are divided by the spread of the batch, as in ScaleRL",
            clips="the weights of tokens are clipped and no token is dropped",
            loss_type="cispo",
            importance_sampling_level="token",
            scale_rewards="batch",
            epsilon=None,
            epsilon_high=5.0,
            mask_truncated_completions=False,
            head_in_fp32=True,
            gate_temperatures=None,
            beta=0.0,
            per_prompt=16,
            updates=1,
            paper_updates=16,
            source="MiniMax-M1 (arXiv 2506.13585, 2025, section 3.1: 16 updates of each generation); ScaleRL (arXiv "
            f"2510.13786, 2025); {_INDEX}",
        ),
        Variant(
            name="sapo",
            means="each answer has the same weight",
            clips="a soft gate stands in place of clipping",
            loss_type="sapo",
            importance_sampling_level="token",
            scale_rewards="group",
            epsilon=None,
            epsilon_high=None,
            mask_truncated_completions=False,
            head_in_fp32=False,
            gate_temperatures=(1.0, 1.05),
            beta=0.0,
            per_prompt=8,
            updates=1,
            paper_updates=None,
            source=f"SAPO (arXiv 2511.20347, 2025); {_INDEX}",
        ),
    )
}
