"""What the model acts with in stage grpo: the environment Shop, each call bounded."""

import json
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path

from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOTrainer

from functions import shop

SECONDS = 60  # that a call may take
CHARACTERS = 192  # of a result: 48 tokens of about 4 characters
CUT = " [cut]"  # behind a result that was longer
CLAMP = 100.0  # a reward of 1e30 would make the gradient of its whole batch 0, and no log would say so
SHOWN = 505  # tokens of a prompt that describe the tools, in the plan
TRIED = 8  # rows whose episodes are played before a model is loaded
# Arguments of the calls that are tried, by type, where the row has no column of the name.
MADE_UP = {"string": "", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


def bounded(tool: Callable, name: str) -> Callable:
    """The tool with its signature and docstring, stopped where it hangs, and its result a text of bounded length."""

    @wraps(tool)
    def call(*given, **arguments) -> str:
        try:
            with within(SECONDS, name):
                result = tool(*given, **arguments)
        except TimeoutError:
            raise
        except (Exception, SystemExit) as error:  # the model reads why, and the trainer counts a failed call
            raise RuntimeError(cut(f"{type(error).__name__}: {error}")) from error
        return text_of(result, name)

    return call


def text_of(result: object, name: str) -> str:
    """A result as the model reads it; nothing, or an object without a text of its own, is a mistake in the tool."""
    if not isinstance(result, str | int | float | dict | list):
        raise TypeError(f"{name} returned {result!r:.80}. A tool returns text, a number, or JSON.")
    return cut(json.dumps(result, ensure_ascii=False) if isinstance(result, dict | list) else str(result))


def cut(text: str) -> str:
    """A longer text would find no room: the trainer drops it whole, and the answer ends with the call."""
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - len(CUT)] + CUT


def number(value: object, where: str) -> float | None:
    """A reward within CLAMP; None where the function leaves the answer out."""
    if value is None:
        return None
    if isinstance(value, str) or not math.isfinite(float(value)):
        raise ValueError(f"{where}: {value!r} is no finite number.")
    return max(-CLAMP, min(CLAMP, float(value)))


class Overdue(BaseException):
    """Passes through the `except Exception` of a call that tries again and again."""


@contextmanager
def within(seconds: int, name: str) -> Iterator[None]:
    """Stop a call that hangs: every process would wait for it."""

    def stop(*_: object) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # and every second after that
    try:
        yield
    except Overdue:
        raise TimeoutError(f"{name} took longer than {seconds} s.") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def of_episode(tool: Callable, name: str) -> Callable:
    """A method of Shop that plays in shop.Shop, where methods call each other unbounded."""
    limited = bounded(tool, name)

    @wraps(tool)
    def call(self: "Shop", *given, **arguments) -> str:
        return limited(self.played, *given, **arguments)

    return call


class Shop:
    """The episode of one answer; the trainer uses an instance again for another answer, which reset begins."""

    def __init__(self) -> None:
        self.played = shop.Shop()

    def reset(self, judged_by: str, **_: object) -> str | None:
        row = json.loads(judged_by)
        with within(SECONDS, "Shop.reset"):
            said = self.played.reset(item=row["item"], amount=row["amount"], limit=row["limit"])
        return None if said is None else text_of(said, "Shop.reset")

    def get_reward(self) -> float | None:
        with within(SECONDS, "Shop.get_reward"):
            return number(self.played.get_reward(), "Shop.get_reward")

    price = of_episode(shop.Shop.price, "Shop.price")
    buy = of_episode(shop.Shop.buy, "Shop.buy")


def tools_of(episode: Shop) -> list[Callable]:
    """What the model may call in an episode."""
    return [episode.price, episode.buy]


def check_tools(rows: Dataset, prompts: int, file: Path) -> None:
    """Stop before a model is loaded: a tool without a description, or an episode that cannot be played and cleared."""
    if len(rows) < prompts:
        raise SystemExit(f"{len(rows)} prompts are left, and one generation answers {prompts}. Lower the global batch.")
    for tool in tools_of(Shop()):
        print(json.dumps(description(tool)["function"], ensure_ascii=False))
    for place in range(min(TRIED, len(rows))):
        play(rows[place], f"row {place + 1} of {file}")


def description(tool: Callable) -> dict:
    """What the model is told of a tool."""
    try:
        return get_json_schema(tool)
    except Exception as error:
        raise SystemExit(f"The tool {tool.__name__} cannot be described to the model: {error}") from error


def tried(tool: Callable, known: dict) -> None:
    """Call a tool once: it may refuse the arguments, and must neither hang nor return what is no text."""
    parameters = description(tool)["function"]["parameters"]
    types = {name: parameters["properties"][name] for name in parameters.get("required", [])}
    with suppress(RuntimeError):
        tool(**{name: known.get(name, made_up(kind)) for name, kind in types.items()})


def made_up(kind: dict) -> object:
    """An argument of a type; of the first where several will do."""
    if "enum" in kind:
        return kind["enum"][0]
    named = kind.get("type", "string")
    return MADE_UP.get(named if isinstance(named, str) else named[0], "")


def play(row: dict, where: str) -> None:
    """Play an episode, a call of each tool, and begin it again: what another instance does not have was left behind."""
    known = json.loads(row.get("judged_by", "{}"))
    try:
        used, fresh = Shop(), Shop()
        used.reset(**row)
        begun = state(used)
        for tool in tools_of(used):
            tried(tool, known)
        used.get_reward()
        used.reset(**row)
        fresh.reset(**row)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise SystemExit(f"An episode of Shop cannot be played with {where}: {what}") from error
    same = {name: value for name, value in state(fresh).items() if begun.get(name) == value}  # not drawn by chance
    names = {*same, *state(used).keys() - begun.keys()}
    if left := sorted(name for name in names if state(used)[name] != same.get(name)):
        raise SystemExit(f"Shop.reset does not clear {', '.join(left)} ({where}): set it there.")


def state(episode: Shop) -> dict[str, str]:
    """The attributes that an episode changes; names that begin with _ may keep what all episodes share."""
    return {name: repr(value) for name, value in vars(episode.played).items() if not name.startswith("_")}


def check_shown(trainer: GRPOTrainer) -> None:
    """Say before step 1 how many tokens of every prompt describe the tools."""
    told = trainer.args.chat_template_kwargs or {}
    asked = {"conversation": [{"role": "user", "content": ""}], "add_generation_prompt": True, "return_dict": False}
    without, told_of = (
        len(trainer.processing_class.apply_chat_template(**asked, tools=tools, **told))
        for tools in (None, trainer.tools)
    )
    print(f"The tools take {told_of - without} tokens of every prompt; the plan has {SHOWN}.")
    if told_of - without > SHOWN:
        print("NOTE: prompts are longer than planned and take more memory: shorten the docstrings of the tools.")
