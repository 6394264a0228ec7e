"""The questions of `recipec init`: what each proposes, from data, machine and catalog, and what it refuses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from recipec.axes import METHODS, NAMED_MODELS, ROW_FORMATS, methods_of, tasks
from recipec.axes.row_formats import UNPAIRED_PREFERENCE
from recipec.axes.tasks import AUTO
from recipec.cli.init_columns import misread, parsed, readings, stated
from recipec.cli.init_data import SeenRows, is_data_set, look
from recipec.cli.output import UNUSABLE, Failure
from recipec.diagnostics.printable import printable

_DRIVER = Path("/proc/driver/nvidia/gpus")  # one folder per GPU while the NVIDIA driver is loaded
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_USUAL_TASK = "instruct"

Flags = Mapping[str, str]


class ProposedAnswer(Struct, frozen=True):
    """An answer and the reason for it, "" when the user gave it."""

    value: str
    because: str


Answers = dict[str, ProposedAnswer]


def on_hub(given: Flags) -> bool:
    """Whether the data are a data set of the Hub, of whose rows the user says the format."""
    return is_data_set(given.get("data", ""))


def names_columns(given: Flags) -> bool:
    """Whether the user says which column is what: rows that no format knows by names, and where the flag is given."""
    return "columns" in given or ("data" in given and bool(readings(given["data"], given.get("task", ""))))


def _seen(given: Flags) -> SeenRows:
    """What the rows show in the answers so far; nothing where it is still open which column is what."""
    if "data" not in given or (names_columns(given) and "columns" not in given):
        return SeenRows("", "the usual task")
    return look(given["data"], parsed(given["columns"]) if "columns" in given else {})


# What is proposed; None where nobody can guess.


def _data(folder: Path, given: Flags) -> ProposedAnswer | None:
    return None


def _columns(folder: Path, given: Flags) -> ProposedAnswer | None:
    """The only reading that the columns have; of two texts nobody can guess which is the answer."""
    found = readings(given["data"], given.get("task", ""))
    return ProposedAnswer(stated(found[0]), "the only reading of these names") if len(found) == 1 else None


def _readings(given: Flags) -> list[str]:
    """Every reading of the columns, as the flag takes it."""
    return [stated(columns) for columns in readings(given["data"], given.get("task", ""))]


def _format(folder: Path, given: Flags) -> ProposedAnswer | None:
    return None


def _split(folder: Path, given: Flags) -> ProposedAnswer:
    return ProposedAnswer("train", "the usual split; the page of the data set on the Hub lists its own")


def _task(folder: Path, given: Flags) -> ProposedAnswer:
    """The task of the method that rows like these are usually for."""
    seen = _seen(given)
    format, evidence = seen.format, seen.evidence
    if stated := given.get("format"):
        format, evidence = stated, "the usual task for them"
    if seen.labeled:
        return ProposedAnswer(METHODS[UNPAIRED_PREFERENCE.usual].task, "a label says which answers are good")
    task = METHODS[ROW_FORMATS[format].usual].task if format else _USUAL_TASK
    return ProposedAnswer(task, f"{format or 'unknown'} data: {evidence}")


def _gpu(folder: Path, given: Flags) -> ProposedAnswer | None:
    """The GPU of this machine, where the catalog has it."""
    from recipec.catalog.gpus import gpu as catalog_gpu

    found = [catalog_gpu(model) for model in _devices()]
    return ProposedAnswer(found[0].name, "detected on this machine") if found and found[0] else None


def _gpus(folder: Path, given: Flags) -> ProposedAnswer:
    """As many as this machine has of the GPU in question, else one."""
    here = _gpu(folder, given)
    if here and here.value == given.get("gpu"):
        return ProposedAnswer(str(min(8, len(_devices()))), "all GPUs of this machine")
    return ProposedAnswer("1", "the default")


def _devices() -> list[str]:
    """The names of the NVIDIA GPUs in this machine, as the driver tells them."""
    texts = [path.read_text(errors="replace") for path in sorted(_DRIVER.glob("*/information"))]
    models = [re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in texts]
    return [model[1] for model in models if model]


def _model(folder: Path, given: Flags) -> ProposedAnswer:
    """The compiler's own choice, but where another model must have the same tokens."""
    needed = [name for row in methods_of(given.get("task", _USUAL_TASK)) for name in row.needs_vocabulary_of]
    if needed:
        return ProposedAnswer(
            NAMED_MODELS[needed[0]].goes_with, f"an example, with the vocabulary of the {needed[0]} below"
        )
    return ProposedAnswer(AUTO, "recipec chooses a model for the task, the data and the GPU; `recipec plan` shows it")


def _recipe_name(folder: Path, given: Flags) -> ProposedAnswer:
    """The folder's own name, in the letters that a recipe's name may have."""
    from recipec.recipe.names import as_name

    if name := as_name(folder.absolute().name):
        return ProposedAnswer(name, "the name of the folder")
    return ProposedAnswer("my-model", "the default name")


# What is wrong with an answer; "" when it is good.


def _refused_data(answer: str) -> str:
    """Why the files cannot be used: not there, unreadable, or of no known format."""
    from recipec.dataset import UnknownFormat, Unreadable

    try:
        answer.encode()
        look(answer)
    except UnicodeEncodeError:
        return "file names in a recipe must be UTF-8"
    except UnknownFormat:
        return ""  # the names of the columns may tell
    except (Unreadable, OSError, ValueError) as error:
        return str(error)
    return ""


def _refused_columns(answer: str) -> str:
    try:
        parsed(answer)
    except ValueError as error:
        return str(error)
    return ""


def _unknown_format(given: Flags) -> str:
    """Why the rows have no format where no names of columns would give them one, and the user names none."""
    from recipec.dataset import UnknownFormat

    if names_columns(given):
        return ""
    try:
        look(given["data"])
    except UnknownFormat as error:
        return str(error)
    return ""


def _misread(given: Flags) -> str:
    return "" if on_hub(given) else misread(given["data"], parsed(given["columns"]))


def _help_with_data(answer: str) -> tuple[str, ...]:
    """What to write where the rows of the files are of no known format, or cannot be read."""
    from recipec.dataset.commands import to_free_name

    return tuple(to_free_name(line, Path()) for line in _help_with_rows(answer))


def _help_with_rows(answer: str) -> tuple[str, ...]:
    from recipec.dataset import UnknownFormat, Unreadable

    try:
        look(answer)
    except UnknownFormat as error:
        return error.help or ("where the names of columns are yours, add `--columns prompt=NAME,completion=NAME`",)
    except Unreadable as error:
        return error.help
    except (OSError, ValueError):
        return ()
    return ()


def _refused_format(answer: str) -> str:
    return "" if answer in ROW_FORMATS else f"`{answer}` is not one of {', '.join(ROW_FORMATS)}"


def _refused_task(answer: str) -> str:
    return "" if answer in tasks() else f"`{answer}` is not one of {', '.join(tasks())}"


def _refused_model(answer: str) -> str:
    """A name that neither the catalog nor the Hub's cache on this machine has; a folder is looked at by `check`."""
    from recipec.catalog.config_values import UnsupportedConfig
    from recipec.catalog.hub_cache import cached_model
    from recipec.catalog.lookup import nearest
    from recipec.catalog.models import model, model_names
    from recipec.catalog.refused import why_not
    from recipec.catalog.vision import named_for_images, trained_on_text
    from recipec.recipe.extends import is_path

    if (wrong := _refused_line(answer)) or answer == AUTO or is_path(answer) or model(answer):
        return wrong
    try:
        if not (why := why_not(answer)) and cached_model(answer, None):
            return ""
    except (UnsupportedConfig, OSError, ValueError) as error:
        why = f"its config.json in the Hugging Face cache: {error}"
    if not why and named_for_images(answer):
        return "; ".join([f"no model `{answer}` in the catalog", *trained_on_text(answer)])
    close = ", ".join(nearest(answer, model_names()))
    similar = f"similar names: {close}" if close else "see `recipec list models`"
    more = "a folder begins with ./; for another model, name one of its shape and then set `like` in the recipe"
    return f"no model `{answer}` in the catalog" + (f": {why}" if why else f"; {similar}; {more}")


_GPUS = "for example rtx-4090, a100-80gb, h100 or cpu; `recipec list gpus` shows all"


def _refused_gpu(answer: str) -> str:
    """A name that the catalog does not have."""
    from recipec.catalog.gpus import gpu as catalog_gpu
    from recipec.catalog.gpus import nearest_gpus, several

    if answer == "cpu" or catalog_gpu(answer):
        return ""
    if counted := several(answer):
        return f"`{answer}` is {counted[0]} GPUs: name one, {counted[1].name}, and their number with --gpus"
    near = nearest_gpus(answer)
    return f"no GPU `{answer}` in the catalog; " + (f"similar names: {', '.join(near)}" if near else _GPUS)


def _refused_gpus(answer: str) -> str:
    return "" if re.fullmatch("[1-8]", answer) else "enter a number from 1 to 8"


def _refused_line(answer: str) -> str:
    """What cannot stand in one line of a recipe."""
    return "" if answer.strip() and answer.isprintable() else "enter a single line of text"


def _refused_name(answer: str) -> str:
    """What the recipe language does not take as a name."""
    fine = _NAME.fullmatch(answer)
    wanted = "use 1 to 63 lowercase letters, digits, dots, dashes and underscores, starting with a letter or digit"
    from recipec.recipe.names import as_name

    near = "" if fine else as_name(answer)
    return "" if fine else f"{wanted}, such as {near}" if near else wanted


class Question(Struct, frozen=True):
    """One thing that a recipe must say; `refuses` returns what is wrong with an answer, "" when it is good."""

    flag: str
    text: str
    propose: Callable[[Path, Flags], ProposedAnswer | None]
    refuses: Callable[[str], str]
    example: str = ""  # where there may be nothing to propose
    applies: Callable[[Flags], bool] = lambda given: True
    helps: Callable[[str], Sequence[str]] = lambda answer: ()  # what to do about an answer that is refused
    fits: Callable[[Flags], str] = lambda given: ""  # what is wrong with an answer beside those before it
    hints: Callable[[Flags], Sequence[str]] = lambda given: ()  # the answers there may be, where none is proposed


QUESTIONS = (
    Question(
        "data",
        "Training data (a file, a glob, or owner/name on the Hub)",
        _data,
        _refused_data,
        "for example data/train.jsonl",
        helps=_help_with_data,
        fits=_unknown_format,
    ),
    Question(
        "columns",
        "Which column is what (prompt=NAME,completion=NAME)",
        _columns,
        _refused_columns,
        "for example prompt=question,completion=answer",
        applies=names_columns,
        fits=_misread,
        hints=_readings,
    ),
    Question(
        "format",
        f"Format of its rows ({', '.join(ROW_FORMATS)})",
        _format,
        _refused_format,
        "for example chat",
        applies=on_hub,
    ),
    Question("split", "Split of the data set", _split, _refused_line, applies=on_hub),
    Question("task", f"Task ({', '.join(tasks())})", _task, _refused_task),
    Question("gpu", "GPU", _gpu, _refused_gpu, _GPUS),
    Question("gpus", "How many GPUs", _gpus, _refused_gpus),
    Question("model", "Model to start from", _model, _refused_model),
    Question("name", "Name of the recipe", _recipe_name, _refused_name),
)


def missing_flags(given: Flags) -> list[str]:
    """The flags that were not given."""
    return [f"--{question.flag}" for question in QUESTIONS if question.flag not in given and question.applies(given)]


def described(flags: list[str]) -> list[str]:
    """What each of the flags takes, where that is more than its name says."""
    texts = {f"--{question.flag}": question.text for question in QUESTIONS}
    return [f"{flag}: {texts[flag]}" for flag in flags if "(" in texts[flag]]


def propose_all(folder: Path, given: Flags) -> Answers:
    """The flags that were given, and proposals for the others; ends the command where there is none."""
    answers, missing, hints = {}, [], []
    for question in QUESTIONS:
        if _is_left_out(question, given):
            continue
        answer = _given(question, given) or question.propose(folder, given)
        if answer is None:
            missing.append(f"--{question.flag}")
            hints += [f"--{question.flag} {shlex.quote(hint)}" for hint in question.hints(given)]
        else:
            answers[question.flag] = answer
            given = given | {question.flag: answer.value}
    if missing:
        help = ("recipec cannot guess these values: pass the flags", *described(missing), *hints)
        raise Failure(f"missing {', '.join(missing)}", *help, exit_code=UNUSABLE)
    return answers


def ask(folder: Path, given: Flags) -> Answers:
    """The flags that were given, and the user's answers to the other questions."""
    answers: Answers = {}
    for question in QUESTIONS:
        if _is_left_out(question, given):
            continue
        answers[question.flag] = _given(question, given) or _prompted(question, folder, given)
        given = given | {question.flag: answers[question.flag].value}
    return answers


def _is_left_out(question: Question, given: Flags) -> bool:
    """Whether a question is not asked of these data; its flag is then refused."""
    if question.applies(given):
        return False
    if question.flag in given:
        message = f"--{question.flag} is for a data set of the Hub: recipec reads the rows of files"
        raise Failure(message, "leave the flag out", exit_code=UNUSABLE)
    return True


def _given(question: Question, given: Flags) -> ProposedAnswer | None:
    if question.flag not in given:
        return None
    if wrong := question.refuses(given[question.flag]) or question.fits(given):
        raise Failure(f"--{question.flag}: {wrong}", *question.helps(given[question.flag]), exit_code=UNUSABLE)
    return ProposedAnswer(given[question.flag], "")


def _prompted(question: Question, folder: Path, given: Flags) -> ProposedAnswer:
    """Ask until the answer can be used; the proposal's reason, or what may be answered, stands above the question."""
    proposal = question.propose(folder, given)
    shown = [f"{proposal.value}: {proposal.because}"] if proposal else question.hints(given)
    for line in shown:
        click.echo(printable(line))
    value = proposal.value if proposal else ""  # without a default, click asks again and says nothing
    check = _checked(question, given)
    answer = click.prompt(question.text, default=value, show_default=bool(value), value_proc=check)
    return proposal if proposal and answer == proposal.value else ProposedAnswer(answer, "")


def _checked(question: Question, given: Flags) -> Callable[[str], str]:
    def check(answer: str) -> str:
        wrong = question.refuses(answer) if answer else f"enter a value, {question.example}"
        wrong = wrong or question.fits({**given, question.flag: answer})
        if wrong:
            raise click.UsageError(printable("; ".join([wrong, *question.helps(answer)])))
        return answer

    return check
