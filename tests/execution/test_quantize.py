"""quantize.py: the folder that a training with shared weights starts from holds the model in 4 bits, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compiling import BASES, good, texts, with_key

from recipec.catalog.models import model
from recipec.verify.stand_in import hub_folder, stand_in_tokenizer, write_stand_in

pytestmark = pytest.mark.matrix
NAME = "Qwen/Qwen2.5-0.5B-Instruct"
SHARDED = with_key(with_key(BASES["qlora"], "model.name", NAME), "hardware", {"gpu": "rtx-4090", "gpus_per_node": 2})
SHARDED = with_key(SHARDED, "train", {"adaptation": "qlora", "strategy": "fsdp"})


@pytest.mark.executes
def test_the_folder_holds_the_model_that_is_trained_in_4_bits(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    known, hub = model(NAME), hub_folder(tmp_path / "hub", NAME, None)
    write_stand_in(known, stand_in_tokenizer(known, ["one two three"], "{{ messages }}"), hub)
    bundle = texts(good(tmp_path, SHARDED))
    (tmp_path / "quantize.py").write_text(bundle["quantize.py"], encoding="utf-8")
    record = tmp_path / "base-4bit" / "taken_from.txt"
    record.parent.mkdir()
    record.write_text("Qwen/Qwen2.5-1.5B-Instruct")
    (record.parent / "model-00001-of-00005.safetensors").touch()
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"]}
    command = [sys.executable, "quantize.py"]
    done = [subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True) for _ in range(2)]
    assert b"in 4 bits" in done[0].stdout and done[1].stdout == b""  # the second time it is there
    assert record.read_text() == NAME
    assert [file.name for file in record.parent.glob("*.safetensors")] == ["model.safetensors"]

    how = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    loaded = AutoModelForCausalLM.from_pretrained(hub, dtype=torch.bfloat16, quantization_config=how)
    stored = AutoModelForCausalLM.from_pretrained(record.parent, device_map={"": "cpu"})
    wanted, found = loaded.state_dict(), stored.state_dict()
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[key], found[key]) for key in wanted)
