"""Calls come out as `ruff format` leaves them, evaluate to their arguments, and credit each line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from literal_values import nested, scalars, texts

from recipec.render.call import WIDTH, Arg, Call, render_call
from recipec.render.traced import Raw, Traced, plain, split, visible

CALL = Call(
    "SFTConfig",
    [
        Arg("output_dir", Raw("str(OUTPUT)")),
        Arg("learning_rate", Traced(2e-4, "learning_rate"), ("learning_rate",), "LoRA takes ten times the rate"),
        Arg("model_init_kwargs", {"dtype": Raw("torch.bfloat16"), "revision": Traced("main", "revision")}, ("model",)),
        Arg("quantization_config", Call("Quant", [Arg("bits", Traced(4, "quantization"), (), "nf4")]), ("adaptation",)),
        Arg(
            "target_modules", [f"{name}_proj" for name in ("query", "key", "value", "output", "gate", "up", "down")] * 2
        ),
        Arg("empty", Call("dict")),
        Arg("seed", 17, ("seed",), "a long reason " * 9),
    ],
)
TEXT = """\
config = SFTConfig(
    output_dir=str(OUTPUT),
    learning_rate=2e-4,  # LoRA takes ten times the rate
    model_init_kwargs={"dtype": torch.bfloat16, "revision": "main"},
    quantization_config=Quant(
        bits=4,  # nf4
    ),
    target_modules=[
        "query_proj",
        "key_proj",
        "value_proj",
        "output_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "query_proj",
        "key_proj",
        "value_proj",
        "output_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    ],
    empty=dict(),
    # a long reason a long reason a long reason a long reason a long reason a long reason a long reason a long reason a
    # long reason
    seed=17,
)
"""


def test_prints_as_people_write_it() -> None:
    text, lines = split(f"config = {render_call(CALL)}\n")

    assert text == TEXT
    assert lines == {
        3: ("learning_rate",),
        4: ("revision", "model"),
        5: ("adaptation",),
        6: ("quantization", "adaptation"),
        7: ("adaptation",),
        25: ("seed",),
        26: ("seed",),
        27: ("seed",),
    }


def record(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


calls = st.deferred(
    lambda: st.builds(
        lambda first, rest: Call(
            "record", [Arg("", v) for v in first] + [Arg(f"k{i}", *a) for i, a in enumerate(rest)]
        ),
        st.lists(values, max_size=2),
        st.lists(st.tuples(values, st.just(("id",)), texts), max_size=3),
    )
)
values = nested(scalars | st.builds(Traced, scalars, st.just("traced")) | st.tuples(scalars))
deep_calls = st.deferred(lambda: st.builds(lambda inner: Call("record", [Arg("inner", [inner, {"k": inner}])]), calls))


def evaluated(value: Any) -> Any:
    if isinstance(value, Call):
        return (
            tuple(evaluated(arg.value) for arg in value.args if not arg.name),
            {arg.name: evaluated(arg.value) for arg in value.args if arg.name},
        )
    if isinstance(value, list):
        return [evaluated(part) for part in value]
    if isinstance(value, dict):
        return {key: evaluated(part) for key, part in value.items()}
    return plain(value)


@given(call=calls | deep_calls, indent=st.sampled_from([0, 4, 8]))
def test_evaluates_to_its_arguments(call: Call, indent: int) -> None:
    code = visible(render_call(call, indent))
    assert eval(f"(\n{code}\n)", {"record": record}) == evaluated(call)  # our own output


@settings(max_examples=3)
@given(samples=st.lists(calls | deep_calls, min_size=20, max_size=30))
def test_ruff_leaves_calls_alone(samples: list[Call], tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("calls")
    source = "".join(f"if x:\n    {visible(render_call(call, 4))}\n" for call in samples)
    (folder / "x.py").write_text(source, encoding="utf-8")

    subprocess.run(["ruff", "format", f"--line-length={WIDTH}", "x.py"], cwd=folder, check=True, capture_output=True)
    assert (folder / "x.py").read_text(encoding="utf-8") == source


def test_ruff_leaves_letters_of_two_columns_alone(tmp_path: Path) -> None:
    calls = [Call("record", [Arg("k", {"a": [], "0" * n + "\u2e80\u2e80e\u0301": "漢字"})]) for n in range(60, 100)]
    source = "".join(f"{visible(render_call(call))}\n" for call in calls)
    (tmp_path / "x.py").write_text(source, encoding="utf-8")
    subprocess.run(["ruff", "format", f"--line-length={WIDTH}", "x.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "x.py").read_text(encoding="utf-8") == source
