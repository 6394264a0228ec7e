"""Commands of jq and of Python that make other rows of the rows of a file, for a POSIX shell.

Names of columns and files are whatever the data say: each program and each name is quoted.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from shlex import quote

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


def jq(program: str, place: str) -> str:
    """The command that rewrites every row of the file of a place; "" for files that hold no objects."""
    file = file_of(place)
    lines, reads = file.rpartition(".")[0], _reading(place, file)
    if reads == _OF_PARQUET:
        printed = _python(_each("row", "for row in rows", place))
        return f"`{printed} | jq -c {quote(program)} > {quote(f'{lines}.new.jsonl')}`"
    if reads == _OF_LIST:
        return f"`jq -c {quote(f'.[] | {program}')} {quote(file)} > {quote(f'{lines}.jsonl')}`"
    return f"`jq -c {quote(program)} {quote(file)} > {quote(f'{lines}.new.jsonl')}`" if reads else ""


def sed(programs: Sequence[str], place: str) -> str:
    """The command that changes the text of the rows of the file of a place; Parquet is written as JSON lines."""
    file = file_of(place)
    path, _, ending = file.rpartition(".")
    changed = f"sed {' '.join(f'-e {quote(program)}' for program in programs)}"
    if _reading(place, file) == _OF_PARQUET:
        printed = _python(_each("row", "for row in rows", place))
        return f"`{printed} | {changed} > {quote(f'{path}.new.jsonl')}`"
    return f"`{changed} {quote(file)} > {quote(f'{path}.new.{ending}')}`"


def python_command(made: str, each: str, place: str, before: str = "") -> str:
    """The command that writes what is made for each; "" for files that hold no objects.

    `made` and `each` are the parts of a comprehension over `rows`, `before` is a statement before it.
    """
    file = file_of(place)
    written = quote(f"{file.rpartition('.')[0]}.new.jsonl")
    return f"`{_python(_each(made, each, place, before))} > {written}`" if _reading(place, file) else ""


def rows_command(made: str, each: str, place: str, before: str = "") -> str:
    """The command that writes rows with the columns of the file, also of CSV; "" for files that hold no rows."""
    file = file_of(place)
    if not file.endswith(".csv"):
        return python_command(made, each, place, before)
    writes = "out = csv.DictWriter(sys.stdout, rows.fieldnames); out.writeheader()"
    program = f"{_modules(made)}import sys; {_csv_rows(file)}; {before}{writes}; out.writerows({made} {each})"
    return f"`{_python(program)} > {quote(file.removesuffix('.csv') + '.new.csv')}`"


def rows_as_json(made: str, place: str, each: str = "for row in rows", before: str = "") -> str:
    """The command that writes rows of a CSV file, as text or changed, as JSON lines; `before` is a statement."""
    file = file_of(place)
    program = f"{_modules(made)}import json; {_csv_rows(file)}; {before}[print(json.dumps({made})) {each}]"
    return f"`{_python(program)} > {quote(file.removesuffix('.csv') + '.jsonl')}`"


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
    written = quote(f"{file.rpartition('.')[0]}.new.jsonl")
    return f"`{_python(program)} > {written}`"


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
    return line.rpartition(" > ")[2].partition("`")[0] if " > " in line else ""


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
    return f"`{_python(program)} > {quote(file.rpartition('.')[0] + '.new.csv')}`"


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
    path, _, ending = file.rpartition(".")
    name = "UTF-16" if utf_16 else "WINDOWS-1252"
    which = "it is UTF-16" if utf_16 else "if it is Windows-1252" + ", as Excel writes CSV" * (ending == "csv")
    yield f"{which}: `iconv -f {name} -t UTF-8 {quote(file)} > {quote(f'{path}.new.{ending}')}`"


def paragraphs(file: str) -> str:
    """The command that makes a row of each paragraph of a text file."""
    parts = f'open({json.dumps(file, ensure_ascii=False)}, encoding="utf-8").read().split("\\n\\n")'
    program = f'import json; [print(json.dumps({{"text": part}})) for part in {parts} if part.strip()]'
    return f"`{_python(program)} > {quote(file.rpartition('.')[0] + '.jsonl')}`"


def documents(pattern: str, column: str, value: str) -> str:
    """The command that makes a row of each text file of a path or glob, with a value of its `name` in a column."""
    named, beside = (json.dumps(text, ensure_ascii=False) for text in (pattern, column))
    row = f'{{"text": open(name, encoding="utf-8").read(), {beside}: {value}}}'
    found = f"sorted(glob.glob({named}, recursive=True))"
    program = f"import glob, json, os; [print(json.dumps({row})) for name in {found}]"
    return f"`{_python(program)} > documents.jsonl`"
