"""What is told of a reward function from its text alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from compiling import BASES, compiled, good, texts, with_key, write_data

from recipec.compiler import Compilation
from recipec.facts import acting, rewards

GRPO = BASES["grpo"]


def found(folder: Path, text: str, reward: object = "judge.py:f") -> Compilation:
    """The recipe of GRPO with a reward file of this text."""
    compiled(folder, GRPO)  # writes the data
    (folder / "judge.py").write_text(text)
    (folder / "near.py").write_text("")
    return compiled(folder, with_key(GRPO, "alignment.reward", reward), only_plan=True)


def asks(folder: Path, definition: str) -> tuple[str, ...]:
    done = found(folder, f"{definition}\n    return [1.0 for _ in completions]\n")
    assert done.plan, [str(finding) for finding in done.diagnostics]
    (reward,) = done.facts.rewards.functions
    return (*reward.reads.given, *reward.reads.columns)


@pytest.mark.parametrize(
    ("definition", "wanted"),
    [
        ("def f(completions):", ("completions",)),
        ("def f(completions, sum):", ("completions", "sum")),
        ("def f(completions, sum, scale=2):", ("completions", "sum")),
        ("def f(completions, trainer_state=None, *, sum):", ("completions", "trainer_state", "sum")),
        ('def f(completions, **kwargs):\n    kwargs["sum"]', ("completions", "sum")),
        ("def f(completions, **kwargs):", ("completions",)),
    ],
)
def test_a_function_is_given_what_its_parameters_name(tmp_path: Path, definition: str, wanted: tuple[str, ...]) -> None:
    assert asks(tmp_path, definition) == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(completions) return 1\n", "`judge.py` is no Python of this version"),
        ("f = len\n", "`f` of `judge.py` is no function"),
        ("def g(completions):\n    pass\n", "`judge.py` has no function `f`"),
        ("def f(completions):\n    pass\n\n\nf = 3\n", "`f` of `judge.py` is no function"),
        ("def f(completions):\n    pass\n\n\nfrom math import pi as f\n", "`f` of `judge.py` is no function"),
        ("from . import near\n\n\ndef f(completions):\n    pass\n", "`judge.py` imports `.`, a file beside it"),
        (
            "from pathlib import Path\n\nT = Path(__file__).parent / 't.json'\n\n\ndef f(completions):\n    pass\n",
            "`judge.py` looks for files beside it with `__file__`",
        ),
        ("def f(completions):\n    import near.by\n", "`judge.py` imports `near.by`, a file beside it"),
        ("class f:\n    pass\n", "`f` of `judge.py` is no function"),
        ("def f(*completions):\n    pass\n", "`f` takes arguments by position"),
        ("def f(completions, /):\n    pass\n", "`f` takes arguments by position"),
        ("def f(sum):\n    pass\n", "`f` does not look at answers"),
        ("async def f(completions):\n    pass\n", "`f` is async"),
        ("def f(completions, total):\n    pass\n", "`f` asks for `total`"),
        (f"x = {'-' * 5_000}1\n\n\ndef f(completions):\n    pass\n", "`judge.py` cannot be read as Python"),
        (f"x = {'-' * 200_000}1\n\n\ndef f(completions):\n    pass\n", "`judge.py` cannot be read as Python"),
        (f"x = 1{' + 1' * 3_000}\n\n\ndef f(completions):\n    pass\n", "`judge.py` cannot be read as Python"),
    ],
)
def test_what_cannot_judge_is_refused(tmp_path: Path, text: str, told: str) -> None:
    assert told in [finding.title for finding in found(tmp_path, text).diagnostics if finding.code == "E0310"]


@pytest.mark.parametrize(
    ("method", "asked", "refused"),
    [("ppo", "log_extra", True), ("ppo", "log_metric", False), ("grpo", "log_extra", False)],
)
def test_columns_for_a_table_that_the_trainer_does_not_write_are_refused(
    tmp_path: Path, method: str, asked: str, *, refused: bool
) -> None:
    write_data(tmp_path)
    judge = f"def is_right(completions, {asked}):\n    return [1.0 for _ in completions]\n"
    (tmp_path / "judge.py").write_text(judge)
    codes = [finding.code for finding in compiled(tmp_path, BASES[method]).diagnostics]
    assert ("E0310" in codes) is refused


def test_what_a_file_reads_as_a_script_does_not_count(tmp_path: Path) -> None:
    text = "def f(completions):\n    return [1.0 for _ in completions]\n"
    tried = "\n\nif __name__ == '__main__':\n    import near\n\n    print(near.rows(__file__))\n"
    assert found(tmp_path, text + tried).plan
    refused = found(tmp_path, f"{text}{tried}else:\n    print(__file__)\n")
    assert "E0310" in [finding.code for finding in refused.diagnostics]


@pytest.mark.parametrize(
    ("definition", "wanted"),
    [
        ("def f(completions, sum=None):", ("sum",)),
        ("def f(completions, *, sum=None, unknown=2):", ("sum",)),
        ('def f(completions, **kwargs):\n    kwargs.get("sum")', ("sum",)),
        ('def f(completions, **kwargs):\n    kwargs.get("unknown")', ()),
        ("def f(completions, **kwargs):\n    print(kwargs)", ("sum", "length")),
        ("def f(completions, **kwargs):", ()),
        ("def f(completions, prompt, length=0):", ("prompt", "length")),
    ],
)
def test_a_function_is_handed_what_it_can_do_without(tmp_path: Path, definition: str, wanted: tuple[str, ...]) -> None:
    rows = [{"prompt": f"What is {n} and 1?", "sum": n + 1, "length": n} for n in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    compiled(tmp_path, GRPO)
    (tmp_path / "judge.py").write_text(f"{definition}\n    return [1.0 for _ in completions]\n")
    recipe = with_key(with_key(GRPO, "alignment.reward", "judge.py:f"), "data.prompts", "rows.jsonl")
    done = compiled(tmp_path, recipe, only_plan=True)
    assert done.facts.data["prompts"].shape.handed == wanted
    unread = [finding for finding in done.diagnostics if finding.code == "W0516"]
    assert bool(unread) == bool({"sum", "length"} - {*wanted})


@pytest.mark.parametrize(
    "names", [("json.py", "json_rewards"), ("math.py", "math_rewards"), ("class.py", "class_rewards")]
)
def test_a_file_does_not_hide_a_module_of_the_bundle(tmp_path: Path, names: tuple[str, str]) -> None:
    file, module = names
    (tmp_path / file).write_text("def f(completions):\n    return [1.0 for _ in completions]\n")
    compiled(tmp_path, GRPO)
    done = compiled(tmp_path, with_key(GRPO, "alignment.reward", f"{file}:f"), only_plan=True)
    assert [reward.module for reward in done.facts.rewards.functions] == [module]


def test_a_function_is_listed_once(tmp_path: Path) -> None:
    done = found(
        tmp_path, "def f(completions):\n    return []\n", ["judge.py:f", {"function": "judge.py:f", "weight": 2}]
    )
    assert "`judge.py:f` judges twice" in [finding.title for finding in done.diagnostics]


def test_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    text = "def f(completions):\n    return []\n"
    (tmp_path / "other.py").write_text(text)
    done = found(tmp_path, text, ["judge.py:f", {"function": "other.py:f", "weight": 2}])
    assert [(one.name, one.weight) for one in done.facts.rewards.functions] == [("judge.f", 1), ("other.f", 2)]


def test_another_text_is_another_training(tmp_path: Path) -> None:
    one, other = (found(tmp_path, f"def f(completions):\n    return [{n}]\n") for n in (1, 2))
    digests = {done.plan.stages[0].decisions["reward_files"].value for done in (one, other) if done.plan}
    assert len(digests) == 2


@pytest.mark.parametrize("reward", ["judge.py:wrong", "judge.f", ["judge.py:f", "judge.py:wrong"], "judge.py:asking"])
def test_no_column_is_to_be_ignored_that_a_reward_may_need(tmp_path: Path, reward: object) -> None:
    """One that is misspelt, or that asks for a column by another name, would have read it."""
    text = "def f(completions):\n    return [0.0]\n\n\ndef asking(completions, solution):\n    return [0.0]\n"
    codes = {finding.code for finding in found(tmp_path, text, reward).diagnostics}
    assert "E0310" in codes and "W0516" not in codes


def test_a_column_that_is_missing_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    done = found(tmp_path, "def f(completions, solution):\n    return [0.0]\n")
    (label,) = next(finding.labels for finding in done.diagnostics if finding.code == "E0310")
    assert label.message == "no row has `solution`; the rows have `sum`"


def test_a_file_with_a_byte_order_mark_is_read_and_copied_without_it(tmp_path: Path) -> None:
    """As Python imports it."""
    text = "def f(completions):\n    return [1.0 for _ in completions]\n"
    done = found(tmp_path, f"\ufeff{text}")
    assert done.plan, [str(finding) for finding in done.diagnostics]
    assert done.facts.rewards.files == {"judge": text}


def test_a_file_may_be_called_as_what_rewards_py_has(tmp_path: Path) -> None:
    """Its copy in the bundle is then called otherwise: a loop over `reward` would hide the file reward.py."""
    own: dict[str, set[str]] = {"rewards.py": set(), "tools.py": set()}
    for recipe in ("grpo", "tools", "ppo"):
        for path, text in texts(good(tmp_path, BASES[recipe])).items():
            if "functions/" not in path and (name := path.rpartition("/")[2]) in own:
                own[name] |= _named(ast.parse(text))
    assert {"reward", "held"} <= own["rewards.py"] - {"judge"} <= rewards._TAKEN
    assert own["tools.py"] - {"Shop", "shop", "add"} <= acting._TAKEN


def _named(tree: ast.Module) -> set[str]:
    """What a program names at its top, and in its loops."""
    loops = [node.target for node in ast.walk(tree) if isinstance(node, ast.For)]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    found = {name.id for each in (*loops, *targets) for name in ast.walk(each) if isinstance(name, ast.Name)}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    brought = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return found | defined | {name.asname or name.name for node in brought for name in node.names}


def test_rows_without_a_right_answer_can_be_left_out_or_judged_with_none(tmp_path: Path) -> None:
    found(tmp_path, "def f(completions, sum):\n    return [0.0]\n")  # writes the data
    file = tmp_path / GRPO["data"]["prompts"]
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"answer": n % 2 or None}) + "\n" for n, row in enumerate(rows)))
    (tmp_path / "judge.py").write_text("def f(completions, answer):\n    return [0.0]\n")
    done = compiled(tmp_path, with_key(GRPO, "alignment.reward", "judge.py:f"), only_plan=True)
    skip, keep = next(finding.help for finding in done.diagnostics if finding.code == "E0310")
    assert '`incomplete = "skip"` under [data]' in skip and "return None for such a row" in keep
