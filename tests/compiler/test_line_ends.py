"""Files of the user's that a bundle takes over have the bundle's line ends, whatever theirs are."""

from __future__ import annotations

from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

TEMPLATE = """{%- for m in messages %}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{%- endif %}
"""
REWARD = "def short(completions, **kwargs):\n    return [1.0 / (1 + len(said)) for said in completions]\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_chat_template_and_a_reward_are_taken_over_alike(tmp_path: Path, end: str) -> None:
    (tmp_path / "chat.jinja").write_bytes(TEMPLATE.replace("\n", end).encode())
    (tmp_path / "own.py").write_bytes(b"\xef\xbb\xbf" + REWARD.replace("\n", end).encode())
    recipe = with_key(BASES["grpo"], "data.template", "./chat.jinja")
    found = texts(good(tmp_path, with_key(recipe, "alignment.reward", "own.py:short")))
    assert found["functions/own.py"].endswith(REWARD)
    assert TEMPLATE.replace("\n", "")[:30] in "".join(found.values()).replace("\n", "")
    assert not any("\r" in text for text in found.values())
