"""What is told of an environment and of tools from their text alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiling import BASES, SHOP, Tables, compiled, good, texts, with_key

from recipec.compiler import Compilation
from recipec.facts.acting import _TAKEN
from recipec.facts.own_code import bound
from recipec.facts.tool_schemas import tool_problem

ONE_ENVIRONMENT = with_key(with_key(BASES["tools"], "alignment.tools", None), "alignment.reward", None)


def found(folder: Path, text: str, recipe: Tables = ONE_ENVIRONMENT) -> Compilation:
    """The recipe with a file shop.py of this text."""
    compiled(folder, recipe, only_plan=True)  # writes the data
    (folder / "shop.py").write_text(text)
    return compiled(folder, recipe, only_plan=True)


def titles(done: Compilation, code: str = "E0313") -> list[str]:
    return [finding.title for finding in done.diagnostics if finding.code == code]


def test_the_tools_of_a_class_are_its_public_methods(tmp_path: Path) -> None:
    done = found(
        tmp_path, SHOP.replace("    def get_reward", "    def _count(self, x):\n        pass\n\n    def get_reward")
    )
    assert done.plan, [str(finding) for finding in done.diagnostics]
    environment = done.facts.acting.environment
    assert environment.tools == ("buy",) and environment.judges and environment.reads.columns == ("sum",)
    assert done.plan.stages[0].decisions["rewards"].value == ["Shop x 1"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("class Shop", "class Market", "`shop.py` has no class `Shop`"),
        ("class Shop:", "class Shop(list):", "recipec cannot see all tools of `Shop`"),
        ("    def get_reward", "    order = buy\n\n    def get_reward", "recipec cannot see all tools of `Shop`"),
        ("    def reset", "    from math import sqrt\n\n    def reset", "recipec cannot see all tools of `Shop`"),
        (
            "    def get_reward",
            "    if True:\n        def order(self):\n            pass\n\n    def get_reward",
            "recipec cannot see all tools of `Shop`",
        ),
        ("def buy", "def _buy", "`Shop` has no tools"),
        ("def reset", "def start", "`Shop` has no method `reset`"),
        ("def reset", "async def reset", "`Shop.reset` is async"),
        ("def reset(self, sum: int)", "def reset(self, *rows)", "`Shop.reset` takes arguments by position"),
        ("def reset(self, sum: int)", "def reset(self, price)", "`Shop.reset` asks for `price`"),
        ("def get_reward(self)", "def get_reward(self, answer)", "`Shop.get_reward` needs arguments"),
        ("def get_reward", "def _get_reward", "nothing judges the answers"),
        ("class Shop:\n", "class Shop:\n    def __init__(self, size): pass\n", "`Shop.__init__` needs arguments"),
        ("    def buy", "    async def buy", "the tool `Shop.buy` is async"),
        ("    def buy", "    @staticmethod\n    def buy", "the tool `Shop.buy` is decorated"),
        ("amount: int)", "amount)", "the tool `Shop.buy` has no type hint for `amount`"),
        ("amount: int)", "*amounts: int)", "the tool `Shop.buy` has parameters without a name"),
        ("            amount: How many.\n", "", "the docstring of the tool `Shop.buy` does not describe `amount`"),
        ("        Buys pieces.\n", "", "the docstring of the tool `Shop.buy` does not say what it does"),
        ("class Shop", "import compiling_next_door\n\nclass Shop", ""),
        ("class Shop:", "class Shop", "`shop.py` is no Python of this version"),
    ],
)
def test_what_cannot_be_acted_in_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    done = found(tmp_path, SHOP.replace(old, new, 1))
    assert titles(done) == ([told] if told else [])
    assert bool(done.plan) is not bool(told)


def test_functions_are_tools_and_need_a_reward(tmp_path: Path) -> None:
    recipe = with_key(ONE_ENVIRONMENT, "alignment.environment", None)
    recipe = with_key(recipe, "alignment.tools", ["shop.py:add", "shop.py:minus", "shop.py"])
    done = found(tmp_path, SHOP, with_key(recipe, "alignment.reward", "judge.py:is_short"))
    assert titles(done) == ["`shop.py` has no function `minus`", "`shop.py` names nothing to call"]
    assert "missing key `reward` in [alignment]" in titles(found(tmp_path, SHOP, recipe), "E0201")


def test_two_tools_have_two_names(tmp_path: Path) -> None:
    assert titles(found(tmp_path, SHOP.replace("def buy", "def add", 1), BASES["tools"])) == [
        "two tools are called `add`"
    ]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "model.name",
            "meta-llama/Meta-Llama-3-8B-Instruct",
            "calls of tools by `meta-llama/Meta-Llama-3-8B-Instruct`",
        ),
        ("model.name", "auto", "tools need a model that is named"),
        ("data.template", "chatml", "calls of tools under the chat template `chatml`"),
    ],
)
def test_a_chat_template_without_calls_is_refused(tmp_path: Path, key: str, value: str, told: str) -> None:
    assert [title[: len(told)] for title in titles(found(tmp_path, SHOP, with_key(ONE_ENVIRONMENT, key, value)))] == [
        told
    ]


@pytest.mark.parametrize("method", ["rloo", "ppo"])
def test_a_method_whose_trainer_takes_no_tools_refuses_them(tmp_path: Path, method: str) -> None:
    done = compiled(tmp_path, with_key(BASES["tools"], "alignment.method", method), only_plan=True)
    refused = titles(done, "E0401")
    assert '`alignment.environment = "shop.py:Shop"` belongs to grpo' in refused and not done.plan


@pytest.mark.parametrize("key", ["tool_rounds", "result_tokens"])
def test_what_is_said_of_no_tools_is_refused(tmp_path: Path, key: str) -> None:
    done = compiled(tmp_path, with_key(BASES["grpo"], f"alignment.generation.{key}", 64), only_plan=True)
    assert f"`alignment.generation.{key}` without tools" in titles(done, "E0401")


def test_where_ranks_share_weights_tools_are_refused(tmp_path: Path) -> None:
    for strategy, refused in (("fsdp", True), ("zero3", True), ("ddp", False), ("zero2", False)):
        recipe = with_key(with_key(ONE_ENVIRONMENT, "hardware.gpus_per_node", 2), "train.strategy", strategy)
        done = compiled(tmp_path / strategy, recipe, only_plan=True)
        assert bool(titles(done, "E0405")) is refused and bool(done.plan) is not refused


def test_a_file_that_acts_and_judges_is_copied_once(tmp_path: Path) -> None:
    judge = "\n\ndef is_short(completions):\n    return [-len(said[-1]['content']) / 100 for said in completions]\n"
    recipe = with_key(ONE_ENVIRONMENT, "alignment.reward", "shop.py:is_short")
    found(tmp_path, SHOP + judge, recipe)
    files = texts(compiled(tmp_path, recipe))
    assert [path for path in files if path.startswith("functions/")] == ["functions/shop.py"]
    assert "from functions import shop" in files["tools.py"] and "from functions import shop" in files["rewards.py"]
    compile(files["tools.py"], "tools.py", "exec")


def test_the_digest_of_the_files_is_part_of_the_plan(tmp_path: Path) -> None:
    plans = [found(tmp_path / name, SHOP + more).plan for name, more in (("a", ""), ("b", "\nLIMIT = 3\n"))]
    digests = [plan.stages[0].decisions["tool_files"].value for plan in plans if plan]
    assert len({*digests}) == 2


DOCUMENTED = ('"""Does.\n\nArgs:\n    x: A number.\n"""', '"""Does.\n\n    Args:\n        x: A number.\n        """')
NOT = ('"""Does."""', '"""Args:\n    x: A number.\n"""', '"""Does.\n\nArgs:\n    x (int): A number.\n"""', "pass")


@pytest.mark.executes
@pytest.mark.parametrize(("said", "fine"), [*((said, True) for said in DOCUMENTED), *((said, False) for said in NOT)])
def test_a_docstring_is_read_as_the_library_reads_it(said: str, fine: bool) -> None:
    from transformers.utils import get_json_schema

    text = f"def tool(x: int):\n    {said}\n"
    assert (tool_problem(ast.parse(text).body[0], "shop.py", of="") == ()) is fine
    scope: dict = {}
    exec(text, scope)
    try:
        described = get_json_schema(scope["tool"])["function"]["parameters"]["properties"]["x"].get("description")
    except Exception:
        described = None
    assert bool(described) is fine


def test_what_a_class_holds_as_data_is_no_tool(tmp_path: Path) -> None:
    data = '    """A shop."""\n    prices = {"pen": 2}\n    limit: int\n    most = -1\n    _of = len\n\n    def reset'
    done = found(tmp_path, SHOP.replace("    def reset", data, 1))
    assert done.plan, titles(done)
    assert done.facts.acting.environment.tools == ("buy",)


def test_all_names_of_the_emitted_file_are_taken(tmp_path: Path) -> None:
    """So that no file and no class of the user's has one of them."""
    tree = ast.parse(texts(good(tmp_path, BASES["tools"]))["tools.py"])
    names = {name for node in tree.body for name in bound(node)} - {"Shop", "shop", "add"}
    assert {name for name in names if not name.startswith("rewards")} <= _TAKEN


def test_columns_of_an_environment_that_cannot_be_used_are_not_called_unread(tmp_path: Path) -> None:
    done = found(tmp_path, SHOP.replace("def buy", "def _buy"))
    assert titles(done) == ["`Shop` has no tools"]
    assert not titles(done, "W0516")
