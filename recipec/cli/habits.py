"""Words that people type as commands who come from other tools, and the command or script that does it."""

from __future__ import annotations

from recipec.cli.output import UNUSABLE, Failure

_BUILD = "`recipec build RECIPE -o FOLDER` writes the training code"
_RUN = f"{_BUILD}; in that folder, `bash launch/local.sh` prepares the data, trains and evaluates"
_RESULT = 'README.md of a bundle, section "The result", says what the run leaves and how to use it'
# What it does here -> the words for it.
_WORDS = {
    _RUN: "train run launch start fit finetune fine-tune tune cli distributed",
    f"{_BUILD}; a new `bash launch/local.sh` goes on from the newest complete checkpoint": "resume continue",
    f"{_BUILD}; its `prepare_data.py` reads, splits and checks the rows": "preprocess prepare tokenize dataset data",
    f"{_BUILD}; its `merge_adapter.py` merges an adapter into its model": "merge merge-lora merge-adapter",
    f"{_BUILD}; its `evaluate.py` measures a model before and after training": "evaluate eval evaluation test bench",
    f"recipec serves no model; {_RESULT}": "inference infer generate predict chat serve deploy webchat webui api",
    f"recipec converts no model to other formats; {_RESULT}": "export convert quantize push upload",
    "`recipec check RECIPE` looks for errors and writes nothing": "validate lint verify-recipe",
    f"{_BUILD} of a recipe": "compile make render emit codegen",
    "`recipec init FOLDER` writes a recipe": "new create setup scaffold config template quickstart",
    "`recipec plan RECIPE` predicts memory, time and cost": "estimate memory estimate-memory cost dry-run dryrun",
    "`recipec list` shows models, GPUs, methods, rules and more": "models gpus methods rules search",
    "`recipec --help` lists the commands": "help",
    "`recipec --version` prints it": "version",
}
ELSEWHERE = {word: does for does, words in _WORDS.items() for word in words.split()}


def no_such_command(word: str, known: tuple[str, ...]) -> Failure:
    """The end of a command line that begins with no command: what to type for the word instead."""
    return Failure(f"recipec has no command `{word}`", _instead(word.lower(), known), exit_code=UNUSABLE)


def _instead(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    if does := ELSEWHERE.get(word.replace("_", "-")):
        return does
    if meant := _method(word):
        return meant
    if near := get_close_matches(word, [*known, *ELSEWHERE], n=1, cutoff=0.7):
        return ELSEWHERE.get(near[0]) or f"did you mean `recipec {near[0]}`?"
    if word.endswith(".toml"):
        return f"name a command first, for example `recipec plan {word}`"
    return ELSEWHERE["help"]


def _method(word: str) -> str:
    """How to ask for a method, which other tools start by its name."""
    from recipec.axes import METHODS
    from recipec.recipe.foreign_values import instead_of

    row = METHODS.get(word)
    asked = f'set `goal.task = "{row.task}"`' if row else " or ".join(instead_of("goal.task", word)[:1])
    named = f' and `alignment.method = "{row.alignment}"`' if row and row.alignment else ""
    return f"{asked}{named} in a recipe; {_RUN}" if asked.startswith("set ") else asked
