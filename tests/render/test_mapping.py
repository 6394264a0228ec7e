"""Configuration files read back as their mapping and credit each line."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from literal_values import nested, scalars, texts

from recipec.render.mapping import Leaf, render_mapping
from recipec.render.traced import Traced, plain, split, visible

READERS = {"yaml": yaml.safe_load, "json": json.loads}
MAPPING = {
    "distributed_type": Leaf("FSDP", ("strategy",)),
    "fsdp_config": Leaf({"fsdp_version": 2, "reshard": Traced(True, "reshard")}, ("strategy",), "full sharding"),
    "num_processes": Leaf(Traced(8, "world_size"), ("nodes",), "2 nodes of 4"),
    "containers": [{"name": "train", "args": ["-c", "set -e\nbash run.sh\n"]}, {}],
    "debug": "no",
}
YAML = """\
distributed_type: FSDP
fsdp_config:  # full sharding
  fsdp_version: 2
  reshard: true
num_processes: 8  # 2 nodes of 4
containers:
  - name: train
    args:
      - "-c"
      - |
        set -e
        bash run.sh
  - {}
debug: "no"
"""


def test_yaml_is_as_people_write_it() -> None:
    text, lines = split(render_mapping(MAPPING, "yaml"))

    assert text == YAML
    assert lines == {
        1: ("strategy",),
        2: ("strategy",),
        3: ("strategy",),
        4: ("reshard", "strategy"),
        5: ("nodes", "world_size"),
    }


def test_json_is_as_the_standard_library_writes_it() -> None:
    mapping = {"a": [1, {"b": Leaf("x", ("one",), "unseen")}], "empty": {}, "none": Traced(None, "two"), "list": []}

    text, lines = split(render_mapping(mapping, "json"))
    data = {"a": [1, {"b": "x"}], "empty": {}, "none": None, "list": []}
    assert text == json.dumps(data, indent=2) + "\n"
    assert lines == {5: ("one",), 9: ("two",)}


def bare(value: Any) -> Any:
    if isinstance(value, Leaf):
        return bare(value.value)
    if isinstance(value, dict):
        return {key: bare(part) for key, part in value.items()}
    return [bare(part) for part in value] if isinstance(value, list) else plain(value)


leaves = scalars | st.builds(Traced, nested(scalars), st.just("t"))
leaves |= st.builds(Leaf, nested(leaves), st.just(("id",)), texts)


@pytest.mark.parametrize("language", READERS)
@given(mapping=st.dictionaries(texts, nested(leaves), max_size=5))
def test_reads_back(language: str, mapping: dict[str, Any]) -> None:
    back = READERS[language](visible(render_mapping(mapping, language)))
    assert repr(back) == repr(bare(mapping))


@given(text=st.text(st.sampled_from("ab :#-|'\"\n"), min_size=1))
def test_block_text_reads_back(text: str) -> None:
    mapping = {"a": [text, {"b": text}], "c": text}
    assert yaml.safe_load(render_mapping(mapping, "yaml")) == mapping
