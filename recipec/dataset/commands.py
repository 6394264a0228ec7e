"""Commands of jq and of Python that make other rows of the rows of a file, for a POSIX shell.

Names of columns and files are whatever the data say: each program and each name is quoted. A command writes its rows to
a new file: `new_file` names it, and `to_free_name` gives it another name where a file of this name is there.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath
from shlex import quote, split

# How rows are read that stand one a line, in one JSON list, or in Parquet.
_OF_LINES = 'import json; rows = map(json.loads, filter(bytes.strip, open({file}, "rb")))'
_OF_LIST = 'import json; rows = json.load(open({file}, "rb"))'
_OF_PARQUET = (
    "import json, pyarrow.parquet as parquet; "
    "rows = (row for part in parquet.ParquetFile({file}).iter_batches() for row in part.to_pylist())"
)
_DATES = ", default=str"  # of Parquet, which JSON has not got
# The same with each row twice: as it is, and with its numbers as the texts that they are written as.
_AS_WRITTEN = "parse_int=str, parse_float=str"
_BOTH = {
    _OF_LINES: 'import json; lines = filter(bytes.strip, open({file}, "rb")); '
    f"both = ((json.loads(line), json.loads(line, {_AS_WRITTEN})) for line in lines)",
    _OF_LIST: 'import json; whole = open({file}, "rb").read(); '
    f"both = zip(json.loads(whole), json.loads(whole, {_AS_WRITTEN}))",
    _OF_PARQUET: f"{_OF_PARQUET}; both = ((row, row) for row in rows)",
}
_TEXT = (
    "text = lambda row, said, names, *kinds: {name: said[name] if isinstance(said[name], str) "
    "else json.dumps(row[name], ensure_ascii=False) for name in names if isinstance(row.get(name), kinds) "
    "and row[name] == row[name]}"  # NaN is no value
)
# What a message says in parts, such as texts and images, is no list to write as text.
_PARTS = (
    'parts = lambda said: isinstance(said, list) and all(isinstance(part, dict) and "type" in part for part in said)'
)
# Nor is a list of messages, or one of them, that stands where other rows have an answer as text.
_TALKS = (
    'talks = lambda said: any(isinstance(turn, dict) and any({*pair} <= {*turn} for pair in (("role", "content"), '
    '("from", "value"))) for turn in (said if isinstance(said, list) else [said]))'
)

AT_THE_TOP = "columns are read at the top level of a row"
_NEXT = "then name the new file in the recipe: recipec prints what else is to be rewritten for its rows"
_UNPACK = {"gz": "gzip -dk", "bz2": "bzip2 -dk", "xz": "xz -dk", "zst": "zstd -dk"}  # by the ending; the file stays
_WORD = r"(?:[\w@%+=:,./-]+|'(?:[^']|'\"'\"')*')"  # as `quote` writes it
_WRITES = re.compile(rf"`(?:iconv|jq|python3|sed|tr) .* > ({_WORD})`", re.ASCII | re.DOTALL)


def jq(program: str, place: str) -> str:
    """The command that rewrites every row of the file of a place; "" for files that hold no objects."""
    file = file_of(place)
    if not (reads := _reading(place, file)):
        return ""
    if reads == _OF_PARQUET:
        printed = _python(_each("row", "for row in rows", place))
        return f"`{printed} | jq -c {quote(program)} > {new_file(file)}`"
    each = f".[] | {program}" if reads == _OF_LIST else program
    return f"`jq -c {quote(each)} {quote(file)} > {new_file(file)}`"


def sed(programs: Sequence[str], place: str) -> str:
    """The command that changes the text of the rows of the file of a place; Parquet is written as JSON lines."""
    file = file_of(place)
    changed = f"sed {' '.join(f'-e {quote(program)}' for program in programs)}"
    if _reading(place, file) == _OF_PARQUET:
        printed = _python(_each("row", "for row in rows", place))
        return f"`{printed} | {changed} > {new_file(file)}`"
    return f"`{changed} {quote(file)} > {new_file(file, _ending(file))}`"


def python_command(made: str, each: str, place: str, before: str = "") -> str:
    """The command that writes what is made for each; "" for files that hold no objects.

    `made` and `each` are the parts of a comprehension over `rows`, `before` is a statement before it.
    """
    file = file_of(place)
    return f"`{_python(_each(made, each, place, before))} > {new_file(file)}`" if _reading(place, file) else ""


def rows_command(made: str, each: str, place: str, before: str = "") -> str:
    """The command that writes rows with the columns of the file, also of CSV; "" for files that hold no rows."""
    file = file_of(place)
    if not file.endswith(".csv"):
        return python_command(made, each, place, before)
    writes = "out = csv.DictWriter(sys.stdout, rows.fieldnames); out.writeheader()"
    program = f"{_modules(made)}import sys; {_csv_rows(file)}; {before}{writes}; out.writerows({made} {each})"
    return f"`{_python(program)} > {new_file(file, _ending(file))}`"


def rows_as_json(made: str, place: str, each: str = "for row in rows", before: str = "") -> str:
    """The command that writes rows of a CSV file, as text or changed, as JSON lines; `before` is a statement."""
    file = file_of(place)
    program = f"{_modules(made)}import json; {_csv_rows(file)}; {before}[print(json.dumps({made})) {each}]"
    return f"`{_python(program)} > {new_file(file)}`"


def _modules(made: str) -> str:
    """The statements that import what a part of a program needs beside what reads and prints rows."""
    return "".join(f"import {name}; " for name in ("ast", "re") if f"{name}." in made)


def _csv_rows(file: str) -> str:
    """The statements that read the rows of a CSV file, also fields that are longer than csv usually takes."""
    opened = f'open({json.dumps(file, ensure_ascii=False)}, newline="", encoding="utf-8-sig")'
    return f"import csv; csv.field_size_limit(2**22); rows = csv.DictReader({opened})"


def text_command(
    columns: Sequence[str], fields: Mapping[str, Sequence[str]], place: str, talks: Collection[str] = ()
) -> str:
    """The command that writes as text what columns hold, and fields of the messages of others; "" without objects.

    Numbers are written as they stand in the file, everything else as JSON; parts of messages stay, and messages in
    columns that hold some in other rows, the `talks`.
    """
    file = file_of(place)
    if not (reads := _BOTH.get(_reading(place, file), "")):
        return ""
    names = f"[name for name in {_listed(columns)} if not talks(row.get(name))]" if talks else _listed(columns)
    parts = [f"text(row, said, {names}, int, float, list, dict)"] * bool(columns)
    for name, keys in fields.items():
        column = json.dumps(name, ensure_ascii=False)
        said = f"[name for name in {_listed(keys)} if not parts(turn.get(name))]"
        turn = f"turn | text(turn, told, {said}, int, float, list, dict)"
        parts.append(f"{{{column}: [{turn} for turn, told in zip(row[{column}] or [], said[{column}] or [])]}}")
    made = f"json.dumps({' | '.join(('row', *parts))}{_DATES * file.endswith('.parquet')})"
    opened = reads.format(file=json.dumps(file, ensure_ascii=False))
    helpers = "; ".join([_TEXT, *[_PARTS] * bool(fields), *[_TALKS] * bool(talks)])
    program = f"{opened}; {helpers}; [print({made}) for row, said in both]"
    return f"`{_python(program)} > {new_file(file)}`"


def _listed(names: Sequence[str]) -> str:
    return json.dumps([*names], ensure_ascii=False)


def _python(program: str) -> str:
    return f"python3 -c {quote(program)}"


def _each(made: str, each: str, place: str, before: str = "") -> str:
    """The program that prints what is made for each."""
    file = file_of(place)
    reads = _reading(place, file)
    dates = _DATES * (reads == _OF_PARQUET)
    opened = reads.format(file=json.dumps(file, ensure_ascii=False))
    return f"{_modules(made)}{opened}; {before}[print(json.dumps({made}{dates})) {each}]"


def _reading(place: str, file: str) -> str:
    """The statement that reads the rows; "" for files that hold no objects."""
    if file.endswith(".parquet"):
        return _OF_PARQUET
    if file.endswith(".json") and ", row " in place:
        return _OF_LIST
    return _OF_LINES if file.endswith((".jsonl", ".json")) else ""


def leaving_out(left: Mapping[str, int], sampled: int) -> str:
    """That a command leaves these rows or parts of them out: each with the number of sampled rows of which it does."""
    told = [what + f" ({number:,} of {sampled:,} sampled)" * bool(number) for what, number in left.items()]
    return f", and leave out {' and '.join(told)}" * bool(told)


def one_at_a_time(*steps: Iterable[str]) -> Iterator[str]:
    """Yield the lines of steps that rewrite rows: of steps that would write the same file the first alone.

    Each of them reads the old rows, so that the second would write over what the first wrote. The lines of one step are
    ways of which one is taken.
    """
    written: set[str] = set()
    waiting = False
    for step in steps:
        lines = [*step]
        files = {written_by(line) for line in lines} - {""}
        waiting |= _NEXT in lines or not files.isdisjoint(written)
        yield from (line for line in lines if line != _NEXT and files.isdisjoint(written))
        written |= files
    if waiting:
        yield _NEXT


def written_by(line: str) -> str:
    """The file that the command at the end of a line writes, as the shell has its name; "" where it writes none."""
    found = _WRITES.search(line)
    return found[1] if found else ""


def new_file(file: str, ending: str = "jsonl") -> str:
    """The file that a command writes of another one, as the shell has its name."""
    return quote(f"{file.rpartition('.')[0] or file}.new.{ending}")


def _ending(file: str) -> str:
    return file.rpartition(".")[2]


def to_free_name(line: str, folder: Path) -> str:
    """The line; a command in it writes a file that is not in the folder yet, with a number where there is one."""
    if not (found := _WRITES.search(line)):
        return line
    free = quote(free_name(*split(found[1]), folder))
    return f"{line[: found.start(1)]}{free}{line[found.end(1) :]}"


def free_name(file: str, folder: Path) -> str:
    """The name of a file, or of one with a number behind it, that is not in the folder."""
    path = PurePosixPath(file)
    names = (str(path.with_stem(f"{path.stem}{number}" if number > 1 else path.stem)) for number in count(1))
    return next(name for name in names if not (folder / name).exists())


def file_of(place: str) -> str:
    """The file of a place, which names a line or a row behind it."""
    return re.sub(r":\d+$|, row \d+$", "", place)


def path_of(name: str) -> str:
    """A column, as jq calls it."""
    return f".{name}" if name.isidentifier() and name.isascii() else f".[{json.dumps(name, ensure_ascii=False)}]"


def with_commas(file: str, mark: str) -> str:
    """The command that writes a file as CSV whose fields have another mark between them."""
    named, between = (json.dumps(text, ensure_ascii=False) for text in (file, mark))
    reads = f'csv.reader(open({named}, newline="", encoding="utf-8-sig"), delimiter={between})'
    program = f"import csv, sys; csv.field_size_limit(2**22); csv.writer(sys.stdout).writerows({reads})"
    return f"`{_python(program)} > {new_file(file, 'csv')}`"


def unpacked(pattern: str) -> str:
    """How to unpack the files that a path or glob names, and what the recipe then names; "" of files that are not."""
    path, _, ending = pattern.rpartition(".")
    if ending not in _UNPACK:
        return ""
    files = re.sub(r"([^\w./*?\[\]-])", r"\\\1", pattern)  # the shell still has to find what a glob names
    return f"unpack with `{_UNPACK[ending]} {files}`, and name `{path}` in the recipe"


def recoded(file: str, head: bytes) -> Iterator[str]:
    """Yield the command that writes a file as UTF-8: UTF-16 by its first bytes, or what Windows and Excel write."""
    utf_16 = head.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    try:
        head.decode("utf-16" if utf_16 else "cp1252", "ignore" if utf_16 else "strict")
    except UnicodeDecodeError:
        return
    name = "UTF-16" if utf_16 else "WINDOWS-1252"
    which = "it is UTF-16" if utf_16 else "if it is Windows-1252" + ", as Excel writes CSV" * file.endswith(".csv")
    yield f"{which}: `iconv -f {name} -t UTF-8 {quote(file)} > {new_file(file, _ending(file))}`"


def kept_lines(file: str) -> str:
    """The command that keeps the lines of a file which hold a JSON object, as they are."""
    program = (
        f'import json, sys\nfor line in open({json.dumps(file, ensure_ascii=False)}, "rb"):\n try: isinstance('
        "json.loads(line), dict) and sys.stdout.buffer.write(line)\n except (ValueError, RecursionError): pass"
    )
    return f"`{_python(f'exec({json.dumps(program, ensure_ascii=False)})')} > {new_file(file)}`"


def paragraphs(file: str) -> str:
    """The command that makes a row of each paragraph of a text file."""
    parts = f'open({json.dumps(file, ensure_ascii=False)}, encoding="utf-8").read().split("\\n\\n")'
    program = f'import json; [print(json.dumps({{"text": part}})) for part in {parts} if part.strip()]'
    return f"`{_python(program)} > {new_file(file)}`"


def documents(pattern: str, column: str, value: str) -> str:
    """The command that makes a row of each text file of a path or glob, with a value of its `name` in a column."""
    named, beside = (json.dumps(text, ensure_ascii=False) for text in (pattern, column))
    row = f'{{"text": open(name, encoding="utf-8").read(), {beside}: {value}}}'
    found = f"sorted(glob.glob({named}, recursive=True))"
    program = f"import glob, json, os; [print(json.dumps({row})) for name in {found}]"
    return f"`{_python(program)} > documents.jsonl`"
