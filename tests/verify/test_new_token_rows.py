"""What verification finds of new tokens that rows do not hold as one, or whose embeddings do not train."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipec.verify.new_tokens import matrices, occurrences, other_row_problems, row_problems, token_problems

NUMBERS = {"<|a|>": 10, " foo": 11, " foo bar": 12}


def test_tokens_are_counted_in_the_texts_of_rows_the_longer_first() -> None:
    rows = [{"messages": [{"role": "user", "content": "<|a|> foo bar"}], "n": 3}, {"text": "a foo, foo"}]
    assert occurrences(rows, NUMBERS) == {"<|a|>": 1, " foo bar": 1, " foo": 2}


@pytest.mark.parametrize(
    ("written", "read", "cut", "found"),
    [
        ({"<|a|>": 2}, {10: 2}, False, ""),
        ({"<|a|>": 2}, {10: 1}, False, "'<|a|>' is written 2 times, and the model reads its number 1 times"),
        ({"<|a|>": 2}, {10: 1}, True, ""),
        ({"<|a|>": 2}, {10: 6}, False, ""),
        ({"<|a|>": 2}, {}, True, "reads its number 0 times"),
        ({}, {10: 1}, False, "no row has one of the new tokens"),
    ],
)
def test_a_token_must_be_one_number_wherever_it_is_written(
    written: dict[str, int], read: dict[int, int], cut: bool, found: str
) -> None:
    problems = token_problems(written, read, NUMBERS, cut)
    assert found in "".join(problems) and bool(problems) == bool(found)


def test_rows_that_stay_and_rows_that_move_beside_them_are_found() -> None:
    import torch

    start = {"embed_tokens": torch.arange(40.0).view(10, 4), "lm_head": torch.ones(10, 4)}
    trained = {"embed_tokens": start["embed_tokens"][8:] + 1}
    places = {"<|a|>": (8, 0), "<|b|>": (9, 1)}
    assert row_problems(start, trained, places) == ["no rows of lm_head are saved"]
    trained["lm_head"] = torch.tensor([[1.0] * 4, [2.0] * 4])
    assert row_problems(start, trained, places) == ["the row of '<|a|>' in lm_head has not moved"]
    moved = {"embed_tokens": start["embed_tokens"].clone()}
    moved["embed_tokens"][8:] += 1
    assert not other_row_problems(start, moved, [8, 9])
    moved["embed_tokens"][3] += 1
    assert other_row_problems(start, moved, [8, 9]) == ["rows of embed_tokens have moved that are of no new token"]


def test_what_is_saved_is_known_by_its_name(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    rows = "token_adapter.trainable_tokens_delta"
    names = ("base_model.model.lm_head", "base_model.model.model.embed_tokens", "model.layers.0.mlp.down_proj")
    save_file({f"{name}.{rows}": torch.ones(2, 4) for name in names}, tmp_path / "adapter_model.safetensors")
    save_file({"gpt_neox.embed_in.weight": torch.ones(3, 4)}, tmp_path / "model.safetensors")
    assert {name: len(found) for name, found in matrices(tmp_path).items()} == {
        "lm_head": 2,
        "embed_tokens": 2,
        "embed_in": 3,
    }


def test_the_head_of_gpt_neox_has_another_name_in_files(tmp_path: Path) -> None:
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    sizes = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    model = GPTNeoXForCausalLM(GPTNeoXConfig(**sizes, num_attention_heads=1))
    model.save_pretrained(tmp_path)
    found = matrices(tmp_path)
    assert found.keys() == {"embed_in", "lm_head"}
    assert torch.equal(found["lm_head"], model.get_output_embeddings().weight)
