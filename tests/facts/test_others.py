"""Which models can teach which: those with the same tokens."""

from __future__ import annotations

import pytest
from compiling import BASES, compiled, with_key

# student, teacher, whether their tokens can be compared
PAIRS = [
    ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", True),
    ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct", True),  # 128 rows of padding more
    ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", False),  # 128 rows fewer: no probabilities for them
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "meta-llama/Llama-2-13b-chat-hf", True),
    ("mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1", True),
    ("mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3", False),
    ("mistralai/Mistral-7B-v0.1", "meta-llama/Llama-2-13b-hf", False),  # both have 32,000 rows
    ("google/gemma-2-2b", "google/gemma-2-9b", True),
]


@pytest.mark.parametrize(("student", "teacher", "taught"), PAIRS)
def test_a_teacher_has_the_tokens_of_its_student(tmp_path, student, teacher, taught):
    recipe = with_key(with_key(BASES["distill"], "model.name", student), "alignment.teacher", teacher)
    recipe = with_key(with_key(recipe, "data.template", "plain"), "hardware", {"gpu": "b200", "gpus_per_node": 8})
    found = compiled(tmp_path, recipe)
    refused = [finding.title for finding in found.diagnostics if "vocabularies" in finding.title]
    assert bool(found.files) is taught, found.diagnostics
    assert bool(refused) is not taught


def test_another_revision_of_the_student_may_teach_it(tmp_path):
    """As in self-distillation, from a commit that is not the student's own."""
    name = BASES["distill"]["model"]["name"]
    recipe = with_key(BASES["distill"], "alignment.teacher", {"name": name, "revision": "abc"})
    assert compiled(tmp_path, recipe).files
    assert not compiled(tmp_path, with_key(recipe, "alignment.teacher", name)).files
