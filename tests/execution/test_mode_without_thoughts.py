"""With `data.reasoning = "off"`, train.py tells the trainer of each row that its prompt ends with an empty thought."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key
from datasets import Dataset

pytestmark = pytest.mark.executes


@pytest.mark.parametrize("method", ["lora-single", "dpo-full", "kto"])
def test_the_mode_is_a_column_that_no_rank_maps_rows_for(tmp_path: Path, method: str) -> None:
    recipe = with_key(with_key(BASES[method], "model.name", "Qwen/Qwen3-0.6B"), "data.reasoning", "off")
    main = ast.parse(texts(good(tmp_path, recipe))["train.py"]).body[-2]
    assert isinstance(main, ast.FunctionDef)
    start = next(at for at, line in enumerate(main.body) if ast.unparse(line).startswith("mode ="))
    rows = Dataset.from_list([{"length": length} for length in (3, 5)])
    rows.map = None
    made = {"rows": {"train": rows}}
    exec(compile(ast.Module(main.body[start : start + 2], []), "train.py", "exec"), made)
    mode = {"chat_template_kwargs": {"enable_thinking": False}}
    assert made["rows"]["train"].to_list() == [{"length": 3} | mode, {"length": 5} | mode]
