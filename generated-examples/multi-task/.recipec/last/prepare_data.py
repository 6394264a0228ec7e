"""Turn the raw data of multi-task into the rows that training reads.

    python prepare_data.py [--data-root DIR]     DIR: where the paths below start; $DATA_ROOT, or the current folder

Every stage goes through the same steps: read, convert, count tokens, drop rows with nothing to learn, drop exact
duplicates, split, drop leaks, handle rows over max_length. It writes data/STAGE/SPLIT.jsonl and data/STAGE/report.json.
A leak is a training row whose question is held out for its own stage or for a later one.
What conversations say behind their last learned answer teaches nothing, and is counted as messages_behind_answers.
All answers to a prompt are on one side of a split.
Conversations that begin alike are on one side of a split, unless more of them do than are held out.
Where script, data and tokenizer are those of the last time, the rows of the last time stay.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from unicodedata import category, normalize

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # rows are shared among processes instead

import numpy as np
from datasets import Dataset, Features, List, Value, concatenate_datasets
from datasets.config import HF_CACHE_HOME, HF_DATASETS_CACHE
from datasets.exceptions import DatasetGenerationError
from pyarrow import ArrowInvalid
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl.chat_template_utils import get_training_chat_template

BUNDLE = Path(__file__).resolve().parent
DATA_ROOT = Path(os.environ.get("DATA_ROOT", ".")).resolve()
PREPARED = BUNDLE / "data" / "prepared.json"  # what the rows were made from; written last
SEED = 42
NEVER = b""  # in place of a unit of rows: they are not held out
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn")  # Unicode: control and format characters, spaces, marks on other letters
BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # drawn as a space: Hangul fillers, empty Braille
MAX_DROPPED = 0.05  # share of the rows that may be lost: too long, empty, or asking what is held out
# Why rows are left out: the name of the count in report.json, and what is said of it.
LEFT_OUT = {
    "empty": "rows with nothing to learn",
    "duplicates": "exact duplicates",
    "leaks": "rows with a held-out question",
    "too_long": "rows over max_length",
}
ROWS_OFF = 0.1  # by how much of the planned rows the prepared ones may differ


class UnreadableRow(ValueError):
    """A row that is not as the sampled rows were."""


@dataclass(frozen=True)
class Stage:
    name: str
    format: str
    train: list[dict]
    max_length: int
    eval_fraction: float
    test_fraction: float
    planned: int


@dataclass
class HeldOut:
    """What held-out rows ask: as a whole, and before each answer."""

    questions: set[bytes] = field(default_factory=set)
    beginnings: set[bytes] = field(default_factory=set)

    def add(self, *parts: Dataset) -> "HeldOut":
        for rows in parts:
            self.questions.update(values(rows, "question"))
            self.beginnings.update(*values(rows, "beginnings"))
        return self

    def shares(self, whole: bytes, begun: list[bytes], taught: frozenset[bytes] = frozenset()) -> bool:
        """Whether a conversation is held out, goes on from one that is, or is the beginning of one.

        A beginning that other rows teach, such as a greeting with which many conversations begin, shares nothing.
        """
        begins = whole in self.beginnings and whole not in taught
        return whole in self.questions or begins or not self.questions.isdisjoint(begun)


STAGES = [
    Stage(
        name="billing",
        format="chat",  # 3 of 3 sampled rows have `messages`
        train=[{"path": "data/billing_chat.jsonl"}],
        max_length=1024,
        eval_fraction=0.1,
        test_fraction=0.1,
        planned=4000,
    ),
    Stage(
        name="sales",
        format="chat",  # 3 of 3 sampled rows have `messages`
        train=[{"path": "data/sales_chat.jsonl"}],
        max_length=1024,
        eval_fraction=0.1,
        test_fraction=0.1,
        planned=1500,
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    parser.add_argument("--writes-gib", type=float, nargs=4, metavar="GIB", help="as check_room takes them")
    args = parser.parse_args()
    root = args.data_root
    tokenizer = load_tokenizer()
    if args.writes_gib:
        check_room(*args.writes_gib)
    lock_rows()
    inputs = inputs_digest(root, tokenizer)
    if up_to_date(inputs):
        print(f"{PREPARED.parent} is up to date: nothing to prepare")
        return
    try:
        held_out = HeldOut()
        for stage in reversed(STAGES):  # the last first: no earlier stage may learn what a later one is judged by
            prepare(stage, root, tokenizer, held_out)
    except UnreadableRow as error:  # of whichever process
        raise SystemExit(str(error)) from error
    except (ArrowInvalid, json.JSONDecodeError, OSError) as error:
        if isinstance(error, OSError) and (error.errno or type(error) is not OSError):
            raise  # of the system or the network, such as a full disk; pyarrow's own have no number
        raise SystemExit(f"Cached rows are damaged: {error}. Delete {HF_DATASETS_CACHE}: it is made anew.") from error
    PREPARED.write_text(json.dumps({"inputs": inputs, "rows": rows_digests()}, indent=2) + "\n", encoding="utf-8")


def inputs_digest(root: Path, tokenizer: PreTrainedTokenizerBase) -> str:
    """What the prepared rows are made from: this script, the data, the tokenizer and its template."""
    sources = [source for stage in STAGES for part in vars(stage).values() if isinstance(part, list) for source in part]
    files = [file for source in sources for file in named_files(source["path"], root)]
    script = Path(__file__).read_text(encoding="utf-8")
    return digest([script, [*map(file_digest, files)], tokenizer.get_vocab(), tokenizer.chat_template]).hex()


def up_to_date(inputs: str) -> bool:
    """Whether data/ holds what these inputs gave, unchanged."""
    try:
        found = json.loads(PREPARED.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing, or cut off while it was written
        return False
    return found["inputs"] == inputs and found["rows"] == rows_digests()


def lock_rows() -> None:
    """Wait while another start prepares these rows, and keep others out for as long as this process lives."""
    PREPARED.parent.mkdir(exist_ok=True)
    lock = os.open(PREPARED.parent / "lock", os.O_RDWR | os.O_CREAT)  # never closed: the lock ends with this process
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"Another start is preparing {PREPARED.parent}: waiting for it.", flush=True)
        fcntl.lockf(lock, fcntl.LOCK_EX)
    except OSError as error:
        print(f"{PREPARED.parent} cannot be locked ({error}). Prepare its rows once at a time.")


def rows_digests() -> dict[str, str]:
    """The prepared rows of every stage, by file."""
    files = sorted(file for stage in STAGES for file in (PREPARED.parent / stage.name).glob("*.json*"))
    return {f"{file.parent.name}/{file.name}": file_digest(file) for file in files}


def put(fresh: Path, file: Path) -> str:
    """Put new rows in their place and return their digest; equal rows stay, or training would tokenize them anew."""
    digest_of_rows = file_digest(fresh)
    if file.is_file() and file_digest(file) == digest_of_rows:
        fresh.unlink()
    else:
        fresh.replace(file)
    return digest_of_rows


def check_room(data_gib: float, cache_gib: float, models_gib: float, outputs_gib: float) -> None:
    """Refuse disks too small for what this run writes, less what is there already: they would be full after hours."""
    models = Path(os.environ.get("HF_HUB_CACHE", f"{HF_CACHE_HOME}/hub"))
    caches = {HF_DATASETS_CACHE: cache_gib, models: models_gib}
    predicted = {BUNDLE / "data": data_gib, **caches, BUNDLE / "outputs": outputs_gib}
    missing = {folder: max(0.0, gib - held_gib(folder)) for folder, gib in predicted.items()}
    disks: dict[int, list[Path]] = {}
    for folder in missing:
        folder.mkdir(parents=True, exist_ok=True)
        disks.setdefault(folder.stat().st_dev, []).append(folder)
    for folders in disks.values():
        needed, free = sum(missing[folder] for folder in folders), shutil.disk_usage(folders[0]).free / 2**30
        if free < needed:
            named = " and ".join(str(folder) for folder in folders if missing[folder])
            cached = any(missing[folder] for folder in folders if folder in caches)
            way = ", or set HF_HOME to a folder on another disk" * cached
            raise SystemExit(
                f"{needed:,.1f} GiB will be written below {named} (predicted), and the disk has {free:,.1f} GiB free. "
                f"Free some{way}. prepare_data.py without --writes-gib does not look at the disk."
            )


def held_gib(folder: Path) -> float:
    """What the files below a folder take; a link takes nothing, and another process may remove files meanwhile."""
    held = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                held += os.lstat(Path(parent, name)).st_size
    return held / 2**30


def load_tokenizer() -> PreTrainedTokenizerBase:
    """The model's tokenizer, with the chat template that training uses."""
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
    tokenizer.chat_template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    return tokenizer


def prepare(stage: Stage, root: Path, tokenizer: PreTrainedTokenizerBase, held_out: HeldOut) -> None:
    """Run one stage's data through every step; write its splits and its report."""
    report: dict = {"max_length": stage.max_length}
    splits = {"train": convert(stage.train, stage, root, tokenizer, report)}
    tell_planned(stage, len(splits["train"]))
    require(splits["train"], 3, stage, "train", report)
    splits["train"], splits["test"] = split(splits["train"], stage.test_fraction)
    splits["train"], splits["eval"] = split(splits["train"], stage.eval_fraction / (1 - stage.test_fraction))
    tested = HeldOut().add(splits["test"])
    splits["eval"] = drop_leaks(splits["eval"], tested, report.setdefault("eval", {}))  # it chooses the checkpoint
    apart = [rows for name, rows in splits.items() if name != "train"]
    splits["train"] = drop_leaks(splits["train"], HeldOut().add(*apart), report["train"])
    check_leaks(stage, splits["train"], report["train"])
    splits["train"] = drop_leaks(splits["train"], held_out, report["train"])  # what later stages are judged by
    held_out.add(*apart)
    folder = BUNDLE / "data" / stage.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in splits.items():
        require(rows, 1, stage, name, report)
        rows = fit(rows, stage, report.setdefault(name, {}))
        if name == "train":
            check_dropped(stage, report[name])
        require(rows, 1, stage, name, report)
        prove_mask(rows, tokenizer)
        rows = rows.remove_columns([mark for mark in MARKS if mark in rows.column_names])
        fresh = folder / f"{name}.new"
        rows.to_json(fresh, force_ascii=False)
        report[name]["sha256"] = put(fresh, folder / f"{name}.jsonl")  # train.py resumes only on the same rows
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"{stage.name}: {json.dumps(report, indent=2)}")
    tell_left_out(stage, report)


def require(rows: Dataset, needed: int, stage: Stage, name: str, report: dict) -> None:
    """Stop where fewer rows are left than needed, and say what dropped the others."""
    if len(rows) < needed:
        counts = report.get(name) or report["train"]
        why = ", ".join(f"{words} ({counts[reason]})" for reason, words in LEFT_OUT.items() if counts.get(reason))
        raise SystemExit(f"{stage.name}: rows left for {name}: {len(rows)}, needed: {needed}; dropped: {why or 'none'}")


def check_leaks(stage: Stage, rows: Dataset, report: dict) -> None:
    """Stop where too many of the rows to train on ask what held-out rows ask: few would be left to learn from."""
    leaks, read = report["leaks"], len(rows) + report["leaks"]
    if leaks > MAX_DROPPED * read:
        lost = f"{leaks:,} of {read:,} training rows ask what held-out rows ask, more than {MAX_DROPPED:.0%}"
        lost += f" (the first: {report['first_leak']})"
        ways = "Remove conversations that are only the beginning of others, or name files in data.eval and data.test."
        accepted = f"To accept the loss, raise MAX_DROPPED in {Path(__file__).name}."
        raise SystemExit(f"{stage.name}: {lost}. {ways} {accepted}")


def check_dropped(stage: Stage, report: dict) -> None:
    """Stop where too many of the rows to train on are lost: the rest would be other data than the recipe names."""
    if report["dropped_share"] > MAX_DROPPED:
        lost = f"{report['dropped_share']:.1%} of the rows are longer than {stage.max_length} tokens"
        ways = "Raise `max_length` under [data] (the context of the model: 32,768 tokens) and build again."
        ways += ' Or cut longer rows with `overflow = "truncate"`.'
        if report["enough_tokens"] <= 32768:  # the context of the model
            ways += f" With {report['enough_tokens']:,} tokens no more than {MAX_DROPPED:.0%} would be lost."
        accepted = f"To accept the loss, raise MAX_DROPPED in {Path(__file__).name}."
        raise SystemExit(f"{stage.name}: {lost}, more than {MAX_DROPPED:.0%}. {ways} {accepted}")


def tell_left_out(stage: Stage, report: dict) -> None:
    """Say which rows are left out, how many for each reason, and how many remain."""
    parts = {name: part for name, part in report.items() if isinstance(part, dict)}
    counts = {reason: sum(part.get(reason, 0) for part in parts.values()) for reason in LEFT_OUT}
    lost = ", ".join(f"{words} ({counts[reason]:,})" for reason, words in LEFT_OUT.items() if counts[reason])
    if lost:
        read = sum(part.get("read", 0) for part in parts.values())
        remaining = ", ".join(f"{name} {part['rows']:,}" for name, part in parts.items() if "sha256" in part)
        print(f"{stage.name}: left out of {read:,} rows: {lost}. Rows that remain: {remaining}.")


def tell_planned(stage: Stage, rows: int) -> None:
    """Say where the plan was made for clearly more or fewer rows."""
    if abs(rows - stage.planned) > ROWS_OFF * stage.planned:
        print(f"CHECK THE ROWS of {stage.name}: there are {rows:,}, planned: {stage.planned:,}. The steps between")
        print("  checkpoints and the shares that are held out are those of the planned rows. Correct `examples` in the")
        print("  recipe, or leave it out where the rows are files, and build again.")


def convert(sources: list[dict], stage: Stage, root: Path, tokenizer: PreTrainedTokenizerBase, report: dict) -> Dataset:
    """Read, bring to the trainer's columns, count tokens, drop rows with nothing to learn, then exact duplicates."""
    raw = [read(source, root) for source in sources]
    parts = [converted(part, stage, tokenizer) for part in raw]
    rows = concatenate_datasets(parts)
    taught = np.flatnonzero(np.fromiter(values(rows, "teaches"), bool, len(rows)))
    _, first = np.unique(shortened(values(rows, "itself"), len(rows))[taught], return_index=True)
    kept, teaching = np.sort(taught[first]), len(taught)
    counted = {"read": len(rows), "empty": len(rows) - teaching, "duplicates": teaching - len(kept)}
    counted["messages_behind_answers"] = sum(values(rows, "behind"))
    report["train"] = counted
    if counted["empty"]:
        tell_empty(rows, stage, counted["empty"])
    return rows.select(kept)


def tell_empty(rows: Dataset, stage: Stage, empty: int) -> None:
    """Say that rows are left out in which an answer is empty or nothing is asked, and stop where they are too many."""
    marks = zip(values(rows, "place"), values(rows, "teaches"), strict=True)
    first = next(place for place, teaches in marks if not teaches)
    lost = f"{stage.name}: {empty} of {len(rows)} rows have an empty answer, or ask nothing; the first is {first}"
    print(f"{lost}. They are left out.")
    if empty > MAX_DROPPED * len(rows):
        accepted = f"or raise MAX_DROPPED in {Path(__file__).name}"
        raise SystemExit(f"{lost}. That is more than {MAX_DROPPED:.0%}: correct or remove them, {accepted}")


def converted(raw: Dataset, stage: Stage, tokenizer: PreTrainedTokenizerBase) -> Dataset:
    """The rows of one source, in the trainer's columns, with what the later steps ask of them."""
    features = Features({**PLACE, **FEATURES[stage.format], **REFUSED})
    rows = raw.map(
        lambda row: read_row(row, features, stage),
        remove_columns=["row"],
        features=features,
        num_proc=processes(len(raw)),
    )
    rows = without_refused(rows, rows)
    found = rows.map(
        lambda batch: looked_at(batch, tokenizer),
        batched=True,
        remove_columns=rows.column_names,
        num_proc=processes(len(rows)),
    )
    found = without_refused(found, rows)
    return concatenate_datasets([rows, found], axis=1)  # what stands in the rows is not written again


def read_row(raw: dict, features: Features, stage: Stage) -> dict:
    """The row as the trainer reads it, or why it is refused: an exception would tell of one row alone."""
    try:
        return {**converted_row(raw, stage), "refused": ""}
    except UnreadableRow as error:
        return {**dict.fromkeys(features), "place": raw["place"], "refused": str(error)}


def without_refused(rows: Dataset, placed: Dataset) -> Dataset:
    """The rows, if none of them was refused; else each reason is told, with its first row."""
    refused = {said: index for index, said in enumerate(values(rows, "refused")) if said}
    reasons: dict[str, list[str]] = {}
    for said, place in zip(refused, values(placed.select([*refused.values()]), "place"), strict=True):
        reason, *_ = said.removeprefix(f"{place}: ").split(": ")  # a file's name may hold ": ", too
        reasons.setdefault(VALUES.sub("…", reason), []).append(said)
    if reasons:
        told = [first + f" ({len(others):,} more rows like it)" * bool(others) for first, *others in reasons.values()]
        more = [f"There are {len(told) - 10:,} more reasons."] * (len(told) > 10)
        raise UnreadableRow("\n".join([*told[:10], *more]))
    return rows.remove_columns("refused")


def converted_row(raw: dict, stage: Stage) -> dict:
    """The row as the trainer reads it; one that it cannot read is refused by its place."""
    try:
        row = parsed(raw["row"])
        made = CONVERTERS[stage.format](row)
        check_ended(made)
        check_thoughts(made)
        return made
    except (ValueError, RecursionError) as error:
        raise UnreadableRow(f"{raw['place']}: {error}. Correct the row, or remove it") from error


def parsed(text: bytes) -> dict:
    """A row of which nothing is left out."""
    row = json.loads(text.decode(), object_pairs_hook=once, parse_constant=no_value)
    if not isinstance(row, dict):
        raise ValueError(f"this is no JSON object: {row!r:.100}")
    if lost := [name for name, value in row.items() if name not in COLUMNS and value not in NOTHING]:
        raise ValueError(unread(lost, "this row"))
    return whole(row)


def no_value(constant: str) -> float | None:
    """NaN, which pandas writes where a value is missing, is no value; other constants are numbers."""
    return None if constant == "NaN" else float(constant)


def whole(value: object) -> object:
    """The value, if no text in it holds half a character, which has no bytes, or a NUL character."""
    said = json.dumps(value, ensure_ascii=False)
    said.encode()
    if "\\u0000" in said.replace(r"\\", ""):
        raise ValueError("a text holds a NUL character (\\u0000)")
    return value


def unread(lost: list[str], of: str) -> str:
    """What is told of names that nothing reads: with the line of the recipe that passes over them."""
    line = f"ignore = {json.dumps(lost, ensure_ascii=False)}"
    told = f"nothing reads {', '.join(lost)} of {of}; weight, tools, reasoning, system and parts belong in data.carry"
    return f"{told}; to train as if it were not there: `{line}` under [data]"


def processes(rows: int) -> int:
    """As many as there are cores for it, where the rows are many; starting them takes longer than 5,000 rows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, rows // 5_000)


def values(rows: Dataset, column: str) -> Iterator:
    """The values of a column, read by parts: one at a time is slow, and all at once take up to 900 bytes for a row."""
    for part in rows.select_columns(column).iter(batch_size=10_000):
        yield from part[column]


def shortened(digests: Iterable[bytes], count: int) -> np.ndarray:
    """So many digests in one array, 16 bytes of each: no two rows share these by chance."""
    return np.fromiter(digests, "S16", count)


def read(source: dict, root: Path) -> Dataset:
    """The rows of one source as JSON texts, each with its place."""
    files = named_files(source["path"], root)
    if not files:
        raise SystemExit(f"No file matches {source['path']} in {root.resolve()}. Set DATA_ROOT to the recipe's folder.")
    # a file that changed is read anew
    dated_files = tuple((str(file), as_written(file, root), *written_at(file)) for file in files)
    try:
        return Dataset.from_generator(rows_of, gen_kwargs={"files": dated_files}, features=RAW)
    except DatasetGenerationError as error:
        raise SystemExit(f"{source['path']} cannot be read: {error.__cause__}") from error


def rows_of(files: tuple[tuple[str, str, int, int], ...]) -> Iterator[dict]:
    """Every row of the files; it is parsed where it is converted, in as many processes as there are."""
    yield from any_of(row for name, shown, *_ in files for row in rows_in(Path(name), shown))


def written_at(file: Path) -> tuple[int, int]:
    """When a file was written by its date, which archives set, and by the file system."""
    return file.stat().st_mtime_ns, file.stat().st_ctime_ns


def any_of(rows: Iterator[dict]) -> Iterator[dict]:
    """The rows, of which there must be some."""
    first = next(rows, None)
    if first is None:
        raise ValueError("it holds no rows")
    yield first
    yield from rows


def rows_in(file: Path, shown: str) -> Iterator[dict]:
    try:
        yield from json_lines(file, shown)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from error


def json_lines(file: Path, shown: str) -> Iterator[dict]:
    """One JSON object a line."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            row = re.sub(rb"^(\xef\xbb\xbf)+", b"", line.strip())  # files that were put together have marks within
            if row.startswith(b"["):
                raise ValueError(f"a list begins on line {number}: a file that is one JSON list must be named .json")
            if row:
                yield {"row": row, "place": f"{shown}, line {number}"}


PLACE = {"place": Value("string")}  # file and line of a row, for what is said of it
REFUSED = {"refused": Value("string")}  # why a row cannot be read; "" where it can
VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d.]*")  # what a row holds, in what is said of it
RAW = Features({"row": Value("binary"), **PLACE})
NOTHING = (None, "", [], {})  # values of a column or a field that say nothing; 0 and false say something


def once(pairs: list[tuple[str, object]]) -> dict:
    """The object, if no key stands in it twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key stands twice in {[key for key, _ in pairs]}")
    return dict(pairs)


def as_written(file: Path, root: Path) -> str:
    """The path of a file as the recipe would write it: files of several folders may have one name."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def named_files(pattern: str, root: Path) -> list[Path]:
    """The file of that very name, else those that match the glob; both are looked for below the data root.

    As in a shell, only a name of the glob that begins with a dot matches one that does. Stops where the rows would be
    overwritten by the prepared ones.
    """
    if (root / pattern).is_file():
        return apart([root / pattern])
    anchor = Path(pattern).anchor
    matched = sorted(Path(anchor or root).glob(str(Path(pattern).relative_to(anchor))))
    matched = [path for path in matched if dots_in(path) == dots_in(root / pattern)]
    if gone := [path for path in matched if path.is_symlink() and not path.exists()]:
        wrong = f"{gone[0]} is a link to a file that is not here ({len(gone)} in all)"
        raise SystemExit(f"{wrong}. Fetch the files, or remove them.")
    return apart([path for path in matched if path.is_file()])


def apart(files: list[Path]) -> list[Path]:
    """The files, if this script writes none of its own beside them."""
    if lost := [file for file in files if is_written(file.parent)]:
        raise SystemExit(f"{lost[0]} is in the folder of the prepared rows, which may overwrite it. Move it elsewhere.")
    return files


def is_written(folder: Path) -> bool:
    """Whether this script writes prepared rows to the folder."""
    return folder.resolve() in {BUNDLE / "data" / stage.name for stage in STAGES}


def dots_in(path: Path) -> int:
    """How many names of the path begin with a dot."""
    return sum(part.startswith(".") for part in path.parts)


def held_in(row: dict, column: str) -> str:
    """What a column holds, as a message shows it."""
    if row.get(column) is None:
        return 'no value (`incomplete = "skip"` under [data] leaves out rows without one, and counts them)'
    return f"{row[column]!r:.100}"


def messages_of(row: dict, column: str) -> list[dict]:
    """The messages of a column."""
    if not isinstance(row.get(column), list):
        raise ValueError(f"`{column}` holds {held_in(row, column)}, which is no list of messages")
    if not row[column]:
        raise ValueError(f"`{column}` is an empty list")
    return [message_of(turn) for turn in row[column]]


def message_of(turn: dict) -> dict:
    """Who speaks, and what is said."""
    if not isinstance(turn, dict):
        raise ValueError(f"this is no message: {turn!r:.100}")
    role, content = turn.get("role"), turn.get("content")
    if role not in ("system", "user", "assistant"):
        raise ValueError(f"this message is not from system, user or assistant: {turn!s:.100}")
    if lost := [name for name, value in turn.items() if name not in FIELDS and value not in NOTHING]:
        raise ValueError(unread(lost, f"this message: {turn!s:.100}"))
    if not isinstance(content, str):
        raise ValueError(f"this message has no text, or it is in parts (see data.carry): {turn!s:.100}")
    return {"role": role, "content": content}


def conversation_of(row: dict, column: str) -> list[dict]:
    """The messages of a conversation. Where the assistant says nothing, its answer is empty: such rows are left out."""
    messages = [] if row.get(column) == [] else messages_of(row, column)
    if any(before_question(messages)):
        raise ValueError(f"`{column}` begins with an answer, before anything is asked; see data.opening_answers")
    answered = any(message["role"] == "assistant" for message in messages)
    return messages if answered else [*messages, {"role": "assistant", "content": ""}]


def before_question(messages: list[dict]) -> list[bool]:
    """Of each message whether it stands before the first question, and is no system prompt."""
    first = next((place for place, message in enumerate(messages) if message["role"] == "user"), 0)
    return [place < first and message["role"] != "system" for place, message in enumerate(messages)]


def check_ended(row: dict) -> None:
    """Refuse an answer that begins with a thought which nothing ends: it was cut."""
    turns = [turn for value in row.values() if isinstance(value, list) for turn in value if isinstance(turn, dict)]
    for text in (turn["content"] for turn in turns if turn["role"] == "assistant"):
        if text.lstrip().startswith("<think>") and "<think>" in text.rpartition("</think>")[2]:
            raise ValueError(f"an answer has a thought that no </think> ends: {text!r:.100}")


def check_thoughts(row: dict) -> None:
    """Refuse thoughts in a conversation of several answers: the recipe does not say what later ones see of them."""
    answers = [turn for turn in row.get("messages", ()) if turn["role"] == "assistant"]
    if len(answers) > 1 and (thought := next(filter(None, map(thought_of, answers)), "")):
        wrong = "a conversation of several answers holds thoughts, and it is not said how they are learned"
        ways = 'Set reasoning = "keep", "template" or "strip" under [data] and build again'
        raise ValueError(f"{wrong}: {thought!r:.60}. {ways}")


def from_chat(row: dict) -> dict:
    """A conversation: every answer of the assistant is learned."""
    return {"messages": conversation_of(row, "messages")}


CONVERTERS = {"chat": from_chat}
TURNS = List({"role": Value("string"), "content": Value("string")})
FEATURES = {"chat": Features({"messages": TURNS})}
# Columns that rows have on the way, and that training does not read.
MARKS = ["teaches", "itself", "question", "beginnings", "openings", "behind", "place"]
# What rows and messages may hold: anything else would be lost, and is refused.
COLUMNS = ["messages"]
FIELDS = ["role", "content"]


def looked_at(batch: dict[str, list], tokenizer: PreTrainedTokenizerBase) -> dict[str, list]:
    """What later steps ask of rows, and the tokens of those that teach something."""
    rows = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
    found = [marks(row) for row in rows]
    counted = iter(lengths_of([row for row, mark in zip(rows, found, strict=True) if mark["teaches"]], tokenizer))
    for mark in found:
        length = next(counted) if mark["teaches"] else 0
        refused = isinstance(length, str)
        mark |= {"length": 0, "refused": length} if refused else {"length": length, "refused": ""}
    return {name: [mark[name] for mark in found] for name in found[0]}


def lengths_of(rows: list[dict], tokenizer: PreTrainedTokenizerBase) -> list[int | str]:
    """The tokens of each row, or why it is refused: rows are parted until one that is stands alone."""
    try:
        check_texts(rows, tokenizer)
        return count_tokens(rows, tokenizer) if rows else []
    except UnreadableRow as error:
        if len(rows) == 1:
            return [str(error)]
        middle = len(rows) // 2
        return lengths_of(rows[:middle], tokenizer) + lengths_of(rows[middle:], tokenizer)


def check_texts(rows: list[dict], tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a special token in a message: it would begin or end a turn there."""
    special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    special -= {"<think>", "</think>"}  # thoughts stand in texts
    check_tags(rows, tokenizer)
    for row in rows:
        turns = [turn for value in row.values() if isinstance(value, list) for turn in value if isinstance(turn, dict)]
        said = json.dumps(turns, ensure_ascii=False)
        if held := sorted(token for token in special if token in said):
            wrong = f"a message holds {held[0]}, a special token of the tokenizer, which would begin or end a turn"
            raise UnreadableRow(f"{row['place']}: {wrong}. Write it with a space in it, or remove the row")


def check_tags(rows: list[dict], tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse thoughts between tags where the chat template writes thoughts in another way."""
    thinking = [row["place"] for row in rows if any(map(ends_thought, row.values()))]
    if thinking and (otherwise := instead_of_tags(tokenizer)):
        wrong = "a thought ends with </think>, which the chat template does not know and would show as a word"
        raise UnreadableRow(f"{thinking[0]}: {wrong}. {otherwise}")


def ends_thought(value: object) -> bool:
    """Whether an answer among the messages of a column ends a thought."""
    turns = [turn for turn in value if isinstance(turn, dict)] if isinstance(value, list) else []
    return any(parted(turn["content"])[0] for turn in turns if turn["role"] == "assistant")


def instead_of_tags(tokenizer: PreTrainedTokenizerBase) -> str:
    """What to do about <think> in texts where the chat template writes thoughts in another way, else ""."""
    asked = [{"role": "user", "content": "?"}]
    answer = {"role": "assistant", "content": "So.", "reasoning_content": "Hm."}
    shown = tokenizer.apply_chat_template([*asked, answer], tokenize=False)
    thinks, thinks_not = (
        tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True, enable_thinking=mode)
        for mode in (True, False)
    )
    if any(tag in shown + thinks + thinks_not for tag in ("<think>", "</think>")):
        return ""
    strip = 'Set reasoning = "strip" under [data] and build again'
    if "Hm." in shown:
        return f"{strip}, or write thoughts into the field `reasoning_content` of their messages"
    return strip if thinks != thinks_not else ""


def marks(row: dict) -> dict:
    """What later steps ask of a row: whether it teaches something, and which other rows it equals."""
    told = taught(row)
    content = {name: value for name, value in row.items() if name not in ("place",)}
    return {
        "teaches": all(map(says, told)) and is_asked(row),
        "itself": digest(content),
        "question": question(row),
        "beginnings": beginnings(row),
        "openings": openings(row["messages"]),
        "behind": behind_answers(row["messages"]),
    }


def says(text: str) -> bool:
    """Whether a text has a character that can be seen."""
    return any(category(letter) not in UNSEEN and letter not in BLANK for letter in text)


def taught(row: dict) -> list[str]:
    """What the row teaches, as texts."""
    return [answers(row["messages"])]


def is_asked(row: dict) -> bool:
    """Whether anything but an answer is said, and none of the questions before an answer is empty."""
    messages = row["messages"][: len(row["messages"]) - behind_answers(row["messages"])]
    told = [message for message in messages if message["role"] != "assistant"]
    questions = [message for message in told if message["role"] == "user"]
    return any(says(message["content"]) for message in told) and all(says(message["content"]) for message in questions)


def answers(messages: list[dict]) -> str:
    """What the assistant says in a conversation; nothing where an answer is empty, which would be learned, too."""
    told = [message for message in messages if message["role"] == "assistant"]
    return "".join(turn["content"] for turn in told) if all(says(spoken(turn)) for turn in told) else ""


def digest(value: object) -> bytes:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).digest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def question(row: dict) -> bytes:
    """What makes two rows the same question, whatever their answers."""
    return asked_in(row["messages"])


def asked_in(messages: list[dict]) -> bytes:
    """What the user asks in a conversation, whatever is answered, spaces around it and the form of accents aside."""
    asked = [message["content"] for message in messages if message["role"] == "user"]
    return digest([alike(content) for content in asked])


def alike(text: str) -> str:
    """What two texts have in common that differ in the spaces around them and the form of accents alone."""
    return normalize("NFC", text).strip()


def openings(messages: list[dict]) -> list[bytes]:
    """What the user has asked by each of the turns; the last is all of it."""
    turns = [turn for turn, message in enumerate(messages, 1) if message["role"] == "user"]
    return [asked_in(messages[:turn]) for turn in turns or [len(messages)]]


def behind_answers(messages: list[dict]) -> int:
    """How many messages stand behind the last answer: nothing is learned from them."""
    answers = [place for place, message in enumerate(messages, 1) if message["role"] == "assistant"]
    return len(messages) - answers[-1] if answers else 0


def beginnings(row: dict) -> list[bytes]:
    """What is asked before each answer that the row teaches."""
    messages = row["messages"]
    return [asked_in(messages[:turn]) for turn, message in enumerate(messages) if message["role"] == "assistant"]


def drop_leaks(rows: Dataset, held_out: HeldOut, report: dict) -> Dataset:
    """The rows that teach an answer to no question that is also held out."""
    taught = frozenset(
        part
        for whole, begun in zip(values(rows, "question"), values(rows, "beginnings"), strict=True)
        if not held_out.shares(whole, begun)
        for part in held_out.beginnings.intersection(begun)
    )
    asked = zip(values(rows, "question"), values(rows, "beginnings"), strict=True)
    leaks = np.fromiter((held_out.shares(whole, begun, taught) for whole, begun in asked), bool, len(rows))
    kept = np.flatnonzero(~leaks)
    report["leaks"] = report.get("leaks", 0) + len(rows) - len(kept)
    if len(kept) < len(rows):
        report.setdefault("first_leak", rows[int(leaks.argmax())]["place"])
    return rows.select(kept)


def split(rows: Dataset, fraction: float) -> tuple[Dataset, Dataset]:
    """A share of the rows is held out: prompts drawn at random, each with all its answers."""
    wanted = max(1, round(len(rows) * fraction))
    units = hashes(kept_together(rows, wanted), len(rows))
    drawable = np.flatnonzero(units != NEVER)
    units = units[drawable]
    if (units == units[0]).all():
        raise SystemExit("all rows left have one prompt: none can be held out. Use data.eval and data.test")
    held_out = drawn(units, wanted)
    if not len(held_out):
        held_out = smallest(units)
    held_out = drawable[held_out]
    stays = np.ones(len(rows), bool)
    stays[held_out] = False
    return rows.select(np.flatnonzero(stays)), rows.select(held_out)


def hashes(units: Iterable[bytes], count: int) -> np.ndarray:
    """What decides by chance which of so many rows are held out: rows of one unit have the same."""
    return shortened((NEVER if unit == NEVER else digest([SEED, unit]) for unit in units), count)


def kept_together(rows: Dataset, most: int) -> Iterator[bytes]:
    """What rows of one side share: the shortest beginning of a conversation that few enough rows have.

    A greeting with which more conversations begin than are held out does not hold them together. A conversation that is
    only this greeting is NEVER held out: all that begin with it would be leaks.
    """
    shared = Counter(chain.from_iterable(values(rows, "openings")))
    many = {opening for opening, times in shared.items() if times > most}
    del shared  # it is far larger
    begun = {opening for row in values(rows, "openings") for opening in row[:-1] if opening in many}
    for row in values(rows, "openings"):
        few = (opening for opening in row if opening not in many)
        yield next(few, NEVER if row[-1] in begun else row[-1])


def drawn(units: np.ndarray, wanted: int) -> np.ndarray:
    """The rows of whole units, taken in the order of their hashes, as many as are wanted or fewer."""
    order = np.argsort(units, kind="stable")
    hashed = units[order]
    begins = np.flatnonzero(np.append(True, hashed[1:] != hashed[:-1]))
    taken = [order[:0]]
    for begin, end in zip(begins, np.append(begins[1:], len(order)), strict=True):
        if end - begin <= wanted:
            taken.append(order[begin:end])
            wanted -= end - begin
        if not wanted:
            break
    return np.concatenate(taken)


def smallest(units: np.ndarray) -> np.ndarray:
    """The rows of the unit that has fewest; of several the first."""
    _, first, sizes = np.unique(units, return_index=True, return_counts=True)
    return np.flatnonzero(units == units[first[sizes == sizes.min()].min()])


def fit(rows: Dataset, stage: Stage, report: dict) -> Dataset:
    """Handle what is over max_length."""
    lengths = np.fromiter(values(rows, "length"), int, len(rows))
    fitting = np.flatnonzero(lengths <= stage.max_length)
    report["counted"] = len(rows)
    report["too_long"] = len(rows) - len(fitting)
    report["dropped_share"] = report["too_long"] / max(len(rows), 1)
    longest = np.sort(lengths)[::-1] if len(lengths) else [0]
    report["enough_tokens"] = int(longest[int(MAX_DROPPED * (len(longest) - 1))])  # at most MAX_DROPPED are longer
    rows = rows.select(fitting)
    report |= {"rows": len(rows), "tokens": sum(values(rows, "length"))}
    return rows


def count_tokens(rows: list[dict], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens of the longest sequence that the trainer builds from each row."""
    return lengths([rendered(row["messages"], row, tokenizer) for row in rows], tokenizer)


def lengths(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    tokens = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    return [len(part) for part in tokens]


def rendered(messages: list[dict], row: dict, tokenizer: PreTrainedTokenizerBase) -> str:
    """The text of a conversation of a row, with all that the model must see of it."""
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception as error:  # a template raises what it likes
        roles = ", ".join(message["role"] for message in messages)
        raise UnreadableRow(f"{row['place']}: the chat template refuses messages ({roles:.100}): {error}") from error
    said = [spoken(message) for message in messages]
    where = [f"the text of message {number}" for number in range(1, len(messages) + 1)]
    answers = [message for message in messages if message["role"] == "assistant"]
    said.append(thought_of(answers[-1]))
    where.append("the thought of its last answer")
    everything = "\0".join(said)
    parts = zip(said, where, strict=True)
    lost = [(part, place) for part, place in parts if part and lacks(text, part, everything.count(part))]
    if lost:
        part, place = lost[0]
        wrong = f"{row['place']}: the chat template leaves out {part!r:.100}, {place}"
        why = ", as it reads </think> as the end of a thought" if "</think>" in part else ""
        if place == where[-1]:
            strip = 'set reasoning = "strip" under [data] and build again'
            raise UnreadableRow(f"{wrong}. To train without thoughts, {strip}")
        raise UnreadableRow(f"{wrong}{why}. Correct or remove the row, or set data.template")
    return text


def spoken(message: dict) -> str:
    """What a message says, without the spaces around it and the thought before it, which templates may leave out."""
    content = message["content"]
    return (parted(content)[1] if message["role"] == "assistant" else content).strip()


def parted(text: str) -> tuple[str, str]:
    """What is thought between the tags that an answer begins with, and what it says: some only speak of tags."""
    thought, end, said = text.lstrip().partition("</think>")
    return (thought.removeprefix("<think>"), said) if end and thought.startswith("<think>") else ("", text)


def lacks(text: str, part: str, times: int) -> bool:
    """Whether something stands in a text less often: as it is, or as JSON, as some templates write results of tools."""
    found = text.count(part)
    if found < times and (as_json := json.dumps(part, ensure_ascii=False)[1:-1]) != part:
        found += text.count(as_json)
    return found < times


def thought_of(message: dict) -> str:
    """What an answer begins with: in a field of its own, or between tags."""
    return (message.get("reasoning_content") or parted(message["content"])[0]).strip()


def prove_mask(rows: Dataset, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check on 200 rows that the loss covers the assistant's answers and nothing that others say."""
    for row in rows.select(range(min(200, len(rows)))):
        encoded = tokenizer.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        tokens = list(zip(encoded["input_ids"], encoded["assistant_masks"], strict=True))
        learned = composed(tokenizer.decode([token for token, mask in tokens if mask]))
        given = composed(tokenizer.decode([token for token, mask in tokens if not mask]))
        for message in row["messages"]:
            said = composed(spoken(message))  # thoughts are the template's matter
            if said not in (learned if message["role"] == "assistant" else given):
                wrong = f"the chat template's loss mask is wrong for {message!s:.500}"
                raise SystemExit(f"{row['place']}: {wrong}; set data.template")


def composed(text: str) -> str:
    """Letters and their accents as one, as most tokenizers write them."""
    return normalize("NFC", text)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # what is printed of rows may have letters that a log cannot
    main()
