"""What a decision is, and how a rule takes one.

A rule is a small pure function from plain values to a `Choice`. `Ledger.decide` calls it with earlier decisions,
lets the recipe's own value win, and records the result as a `Decision` whose `inputs` name the decisions it used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from recipec.rules.watching import watched_for
from recipec.units import value_text


class Choice(Struct, frozen=True):
    """What a rule answers: the value, the reason, and the range that it accepts from a recipe."""

    value: Any
    because: str
    accepts: tuple[float, float] | None = None  # inclusive; outside it a value set in the recipe is warned about
    below: str = ""  # what a recipe gains and loses with a value under the range
    source: str = ""  # of this very value; empty where the rule's sources are
    above: str = ""  # why there is nothing over the range


class Decision(Struct, frozen=True):
    """A settled value and everything a reviewer may ask about it."""

    id: str  # short name, unique in a stage: "learning_rate"
    value: Any
    because: str
    inputs: tuple[str, ...] = ()  # ids of the decisions this one was made from
    origin: str = "rule"  # rule | recipe | catalog | data | planner
    rule: str = ""  # "OPT-001"; `recipec explain` has its page
    watch: str = ""  # what to look at while training
    source: str = ""
    key: str = ""  # the recipe key that overrides it: "train.learning_rate"
    where: str = ""  # "recipe.toml:14" when the recipe set it
    accepts: tuple[float, float] | None = None  # what a recipe may set without a warning
    dissent: str = ""  # what the rule says when the recipe's value is outside its range


class Rule(Struct, frozen=True):
    """A registered rule: its metadata and its function."""

    id: str
    decides: str
    key: str
    watch: str
    source: str
    function: Callable[..., Choice]
    defaults: str = ""  # the field of a method's row that holds its answers
    trains: bool = True  # whether another answer gives another training: a run continues only with the same ones
    sources: Mapping[Any, str] = {}  # of single answers that have their own
    combined: str = ""  # the field of a combination that it decides, where its page lists the rows that read it

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the decisions that it is asked with."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def title(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]

    def __call__(self, *values: Any) -> Choice:
        return self.function(*values)


RULES: dict[str, Rule] = {}


def rule(
    id: str,
    *,
    decides: str,
    watch: str,
    source: str,
    key: str = "",
    defaults: str = "",
    trains: bool = True,
    sources: Mapping[Any, str] | None = None,
    combined: str = "",
) -> Callable[[Callable[..., Choice]], Rule]:
    """Register a decision function under an id that is never reused.

    `key` is the recipe key that overrides the decision ("train.learning_rate"), empty when nothing does; `defaults` is
    the field of a method's row that holds the answers, empty where the function does. `trains` is false where the
    answer changes how a run is recorded, saved or fed, and no step of it. `sources` are of answers with their own.
    `combined` is the field of a combination whose known-bad rows the page lists, empty where it lists none.
    """

    def register(function: Callable[..., Choice]) -> Rule:
        assert id not in RULES, f"rule id {id} is used twice"
        RULES[id] = Rule(id, decides, key, watch, source, function, defaults, trains, sources or {}, combined)
        return RULES[id]

    return register


class Wish(Struct, frozen=True):
    """A value that the recipe sets, and where."""

    value: Any
    where: str  # "recipe.toml:14"
    implied_by: str = ""  # "train.lora": the table that says it without the key; empty where the key is written


class Ledger(Struct):
    """The decisions of one stage, in the order they were taken."""

    wishes: Mapping[str, Wish] = field(default_factory=dict)  # recipe key -> wish
    decisions: dict[str, Decision] = field(default_factory=dict)

    def decide(self, rule: Rule, *inputs: Decision) -> Decision:
        """Ask `rule`, let the recipe's own value win, and record the decision."""
        choice = rule(*(i.value for i in inputs))
        wish = self.wishes.get(rule.key)
        return self.record(_settle(rule, choice, wish, tuple(i.id for i in inputs), self.decisions))

    def record(self, decision: Decision) -> Decision:
        assert decision.id not in self.decisions, f"{decision.id} is decided twice"
        self.decisions[decision.id] = decision
        return decision

    def copied(self) -> Ledger:
        """The same decisions, for a plan that is made beside another one."""
        return Ledger(self.wishes, {**self.decisions})


def _settle(
    rule: Rule, choice: Choice, wish: Wish | None, inputs: tuple[str, ...], given: Mapping[str, Decision]
) -> Decision:
    watch = watch_of(rule, choice.value if wish is None else wish.value, given)
    source = rule.sources.get(choice.value if wish is None else wish.value) if rule.sources else choice.source
    common = {"rule": rule.id, "watch": watch, "source": source or rule.source}
    common |= {"key": rule.key, "inputs": inputs, "accepts": choice.accepts}
    if wish is None:
        return Decision(rule.decides, choice.value, choice.because, **common)
    return Decision(
        rule.decides,
        wish.value,
        _stated(choice, wish.value, wish.where),
        origin="recipe",
        where=wish.where,
        dissent=_dissent(choice, wish.value),
        **common,
    )


def _stated(choice: Choice, wished: Any, where: str) -> str:
    """Why a recipe's value is taken, and what recipec would choose."""
    if choice.value in ("", wished):  # "": only a recipe can say it
        return f"set in {where}"
    return f"set in {where}; recipec would choose {value_text(choice.value)}: {choice.because}"


def beside(stated: Decision, own: Decision) -> Decision:
    """A recipe's value with what recipec decides in its place, where a plan and not its rule alone decides that."""
    choice = Choice(own.value, own.because, accepts=own.accepts)
    because, dissent = _stated(choice, stated.value, stated.where), _dissent(choice, stated.value)
    return replace(stated, because=because, dissent=dissent, accepts=own.accepts)


def watch_of(rule: Rule, value: Any, given: Mapping[str, Decision]) -> str:
    """What to look at while training with this value, after the decisions `given`."""
    return watched_for(rule.decides, value, given) or rule.watch


def _dissent(choice: Choice, wished: Any) -> str:
    """What is said of a recipe's value outside the usual range; empty inside it."""
    if choice.accepts is None or choice.accepts[0] <= wished <= choice.accepts[1]:
        return ""
    low, high = map(value_text, choice.accepts)
    usual = f"usual range: {low} to {high}; recipec would choose {value_text(choice.value)}"
    said = f"{usual if low != high else f'usual value: {low} alone'}: {choice.because}"
    beyond = choice.below if wished < choice.accepts[0] else choice.above
    return f"{said}; {beyond}" if beyond else said
