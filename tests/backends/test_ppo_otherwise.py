"""Where PPO does not follow its papers: its page says what the emitted program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiling import BASES, good, texts

from recipec.axes import METHODS
from recipec.axes.methods.ppo import PPO
from recipec.rules.row_pages import explain_row

# what a sentence of the page says -> the file and the text that make it true
TRUE_OF = {
    "share one model": ("critic.py", "policy.value_head = head = nn.Linear("),
    "begins with zeros": ("critic.py", "nn.init.zeros_(head.weight)"),
    "Only advantages are whitened": ("ppo_trainer.py", "advantages = self.whitened(advantages, mask)"),
    "divides by the number of tokens": ("ppo_trainer.py", "squares / tokens.clamp(min=1) - mean**2"),
    "cut counts as ended": ("advantages.py", "later, following = torch.zeros_like(values[:, 0]), torch.zeros_like"),
    "epsilon is 1e-8": ("train.py", "adam_epsilon=1e-8,"),
    "along a cosine": ("train.py", 'lr_scheduler_type="cosine",'),
    "no entropy bonus": ("ppo_trainer.py", "return ((policy + self.args.value_weight * value) * answers.mask).sum()"),
}


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(good(tmp_path_factory.mktemp("ppo"), BASES["ppo"]))


@pytest.mark.parametrize("said", TRUE_OF)
def test_a_deviation_is_said_and_true(emitted: dict[str, str], said: str) -> None:
    """Change the program and not the page, or the other way round, and this fails."""
    name, text = TRUE_OF[said]
    assert text in emitted[name]
    assert sum(said in each for each in PPO.otherwise) == 1


def test_every_deviation_is_held_to_the_program() -> None:
    assert len(PPO.otherwise) == len(TRUE_OF)


def test_whitening_and_rewards_are_as_told(emitted: dict[str, str]) -> None:
    assert len(re.findall(r"self\.whitened\(", emitted["ppo_trainer.py"])) == 1


def test_the_page_has_them_and_pages_without_any_have_no_heading(tmp_path: Path) -> None:
    heading = "## Where it differs from its papers"
    page = explain_row("ppo") or ""
    assert heading in page and all(f"- {each}" in page for each in PPO.otherwise)
    assert {name for name in METHODS if heading in (explain_row(name) or "")} == {
        name for name, row in METHODS.items() if row.otherwise
    }
