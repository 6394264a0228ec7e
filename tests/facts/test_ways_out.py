"""Data that hold what training needs in another form are refused with a command that works."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic


def errors(folder: Path, file: str, **keys: Any) -> list[Diagnostic]:
    recipe = with_key(BASES["lora-single"], "data.train", file)
    recipe["data"] = {"train": file, "max_length": 64, **keys}
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code[0] == "E"]


def run(folder: Path, help: tuple[str, ...]) -> str:
    """Run the first command of the help; the file that it writes."""
    command = next(found[1] for line in help if (found := re.search("`((?:jq|python3|iconv) .*?)`", line)))
    if "jq -c" in command and not shutil.which("jq"):
        pytest.skip("jq is not installed")
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    return command.rpartition("> ")[2]


def jsonl(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "rows.jsonl"


def talk(n: int, speaker: str = "role", said: str = "content", words: tuple[str, str] = ("user", "assistant")) -> Any:
    return [{speaker: words[0], said: f"Why {n}?"}, {speaker: words[1], said: "So."}]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_file_of_another_encoding_is_written_as_utf_8(tmp_path: Path, encoding: str) -> None:
    lines = ["prompt,completion", *(f"Größe {n}?,schön" for n in range(40)), ""]
    (tmp_path / "rows.csv").write_text("\n".join(lines), encoding=encoding)
    (found,) = errors(tmp_path, "rows.csv")
    written = run(tmp_path, found.help)
    assert not errors(tmp_path, written) and "Größe 0?" in (tmp_path / written).read_text(encoding="utf-8")


@pytest.mark.parametrize("column", ["dialog", "messages"])
@pytest.mark.parametrize("words", [("customer", "agent"), ("A", "B")])
def test_messages_of_other_fields_are_rewritten(tmp_path: Path, column: str, words: tuple[str, str]) -> None:
    (found,) = errors(tmp_path, jsonl(tmp_path, [{column: talk(n, "speaker", "text", words)} for n in range(40)]))
    assert any(f"if '{words[0]}' asks and '{words[1]}' answers" in line for line in found.help)
    written = run(tmp_path, found.help)
    assert json.loads((tmp_path / written).read_text().splitlines()[0]) == {"messages": talk(0)}
    assert not errors(tmp_path, written)


@pytest.mark.parametrize("speaker", ["role", "speaker"])
@pytest.mark.parametrize("column", ["dialog", "messages"])
def test_words_that_are_read_stay_where_fields_have_other_names(tmp_path: Path, column: str, speaker: str) -> None:
    rows = [{column: [{speaker: "system", "text": "Be kind."}, *talk(n, speaker, "text")]} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert any(line.startswith("to read ") and "`text` as `content`, rewrite" in line for line in found.help)
    written = run(tmp_path, found.help)
    first = json.loads((tmp_path / written).read_text().splitlines()[0])
    assert first == {"messages": [{"role": "system", "content": "Be kind."}, *talk(0)]}


def test_a_system_prompt_is_no_question_and_no_answer(tmp_path: Path) -> None:
    (found,) = errors(
        tmp_path, jsonl(tmp_path, [{"messages": talk(n, "role", "text", ("system", "assistant"))} for n in range(40)])
    )
    assert not any(" asks and " in line for line in found.help)


SPEAKERS = {
    "if 'user' asks and 'agent' answers": ["system", "user", "agent"],
    "if 'Customer' asks and 'Bot' and 'Agent' answer": ["system", "Customer", "Bot", "Customer", "Agent"],
    "if 'user' asks and 'system' answers": ["user", "system", "user", "system"],
}
ROLES = {"Customer": "user", "Bot": "assistant", "Agent": "assistant", "agent": "assistant"}


@pytest.mark.parametrize("said", SPEAKERS)
@pytest.mark.parametrize("speaker", ["role", "speaker"])
def test_speakers_that_are_known_have_roles_and_one_of_them_answers(tmp_path: Path, said: str, speaker: str) -> None:
    words = SPEAKERS[said]
    rows = [{"dialog": [{speaker: word, "text": f"{n} {word}."} for word in words]} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert any(f"{said}, rewrite" in line for line in found.help)
    written = run(tmp_path, found.help)
    first = json.loads((tmp_path / written).read_text().splitlines()[0])["messages"]
    roles = {"system": "system" if words[0] == "system" else "assistant"} | ROLES
    assert first == [{"role": roles.get(word, word), "content": f"0 {word}."} for word in words]
    assert not errors(tmp_path, written)


def test_a_system_prompt_before_the_user_answers_nothing(tmp_path: Path) -> None:
    rows = [{"dialog": talk(n, "role", "text", ("system", "user"))} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, [{"dialog": [talk(0, "role", "text")[0]]}, *rows]))
    assert not any("answers" in line for line in found.help)


def test_a_speaker_that_nobody_knows_has_no_role_beside_two_others(tmp_path: Path) -> None:
    rows = [{"dialog": [{"speaker": word, "text": "So."} for word in ("user", "agent", "Ann")]} for _ in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert not any("jq" in line for line in found.help)


def test_who_answers_is_known_by_name_also_where_it_speaks_first(tmp_path: Path) -> None:
    rows = [{"dialog": talk(n, "speaker", "text", ("agent", "customer"))} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert any("if 'customer' asks and 'agent' answers" in line for line in found.help)


@pytest.mark.parametrize("fields", [("speaker", "text"), ("role", "text"), ("speaker", "content")])
def test_what_messages_of_other_fields_say_beside_is_kept(tmp_path: Path, fields: tuple[str, str]) -> None:
    rows = [{"dialog": talk(n, *fields, ("customer", "agent"))} for n in range(40)]
    for row in rows:
        row["dialog"][1]["weight"] = 0
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    first = json.loads((tmp_path / run(tmp_path, found.help)).read_text().splitlines()[0])
    asked, said = talk(0)
    assert first == {"messages": [asked, {**said, "weight": 0}]}


@pytest.mark.parametrize("beside", [{"system": "Be kind."}, {"system": "Be kind.", "channel": "mail"}])
def test_what_an_object_holds_beside_its_messages_becomes_columns(tmp_path: Path, beside: dict[str, str]) -> None:
    rows = [{"number": n, "log": beside | {"turns": talk(n)}} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    first = json.loads((tmp_path / run(tmp_path, found.help)).read_text().splitlines()[0])
    assert {name: held for name, held in first.items() if held != talk(0)} == {"number": 0} | beside
    assert talk(0) in first.values()
    taken = [row | {"system": "Be rude."} for row in rows]
    assert not any("|= .turns" in line for found in errors(tmp_path, jsonl(tmp_path, taken)) for line in found.help)


def test_messages_in_an_object_are_taken_out(tmp_path: Path) -> None:
    rows = [{"conversation": {"id": n, "messages": talk(n)}} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert not errors(tmp_path, run(tmp_path, found.help))


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_messages_that_are_written_as_texts_are_read_by_a_command(tmp_path: Path, kind: str) -> None:
    rows = [{"messages": json.dumps(talk(n))} for n in range(40)]
    if kind == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), tmp_path / "rows.parquet")
    elif kind == "csv":
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            out = csv.DictWriter(file, ["messages"])
            out.writeheader()
            out.writerows(rows)
    else:
        jsonl(tmp_path, rows)
    (found,) = errors(tmp_path, f"rows.{kind}")
    assert not errors(tmp_path, run(tmp_path, found.help))


def test_a_column_in_an_object_is_brought_out_of_it(tmp_path: Path) -> None:
    rows = [{"messages": talk(n), "info": {"customer": f"c{n % 9}"}} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows), split={"group": "info.customer"})
    assert '`group = "customer"`' in found.help[-1]
    assert not errors(tmp_path, run(tmp_path, found.help), split={"group": "customer"}, ignore=["info"])


def test_a_text_file_becomes_rows_of_its_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("\n\n".join(f"Paragraph {n}.\nIt goes on." for n in range(40)))
    (found,) = errors(tmp_path, "rows.txt")
    written = run(tmp_path, found.help)
    assert len((tmp_path / written).read_text().splitlines()) == 40 and not errors(tmp_path, written)


@pytest.mark.parametrize("column", ["of", "text"])
@pytest.mark.parametrize("named", ["docs/*.txt", "docs/*"])
@pytest.mark.parametrize("key", ["group", "time", "stratify"])
def test_text_files_become_rows_with_the_column_that_rows_are_split_by(
    tmp_path: Path, key: str, named: str, column: str
) -> None:
    (tmp_path / "docs").mkdir()
    for n in range(20):
        (tmp_path / f"docs/{n}.txt").write_text(f"Chapter {n}.")
    values = {"group": "c{}", "time": "2026-01-{:02}", "stratify": "c"}
    held = values[key]
    chats = jsonl(tmp_path, [{"messages": talk(n), column: held.format(n % 9 + 1)} for n in range(40)])
    found, *others = errors(tmp_path, chats, domain_text=named, split={key: column})
    assert found.title == f"`data.split.{key}` splits text files of data.domain_text, which have no columns"
    assert (
        not others
        and [label.message for label in found.labels][1] == "each file is one row, which holds its text alone"
    )
    own = {"group": "file", "time": "changed", "stratify": "kind"}[key] if column == "text" else column
    assert (f'`{key} = "{own}"`' in found.help[0]) is (own != column)
    chats = jsonl(tmp_path, [{"messages": talk(n), own: held.format(n % 9 + 1)} for n in range(40)])
    left = errors(tmp_path, chats, domain_text=run(tmp_path, found.help), split={key: own})
    assert {finding.code for finding in left} <= {"E0411"}  # so little text is one step


@pytest.mark.parametrize("key", ["group", "time", "stratify"])
def test_text_files_that_are_not_read_are_not_split_by_a_column(tmp_path: Path, key: str) -> None:
    stated = {"train": "elsewhere/*.txt", "format": "text", "examples": 900, "tokens_per_example": 300}
    recipe = BASES["text"] | {"data": stated | {"split": {key: "text"}}}
    (found,) = [one for one in compiled(tmp_path, recipe, only_plan=True).diagnostics if one.code[0] == "E"]
    assert found.code == "E0401" and "elsewhere/*.txt" in found.help[0]


def test_results_are_written_in_the_order_of_their_calls(tmp_path: Path) -> None:
    def turns(n: int, order: tuple[str, ...]) -> list[dict[str, Any]]:
        calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in "abc"]
        results = [{"role": "tool", "tool_call_id": id, "content": f"{id}{n}"} for id in order]
        return [talk(n)[0], {"role": "assistant", "content": None, "tool_calls": calls}, *results, talk(n)[1]]

    rows = [{"messages": turns(n, ("b", "c", "a") if n % 2 else ("a", "b", "c")) * 2} for n in range(40)]
    (found,) = errors(tmp_path, jsonl(tmp_path, rows))
    assert found.code == "E0304" and any("in the order of their calls" in line for line in found.help)
    written = run(tmp_path, found.help)
    ordered = [json.loads(line)["messages"] for line in (tmp_path / written).read_text().splitlines()]
    assert ordered == [turns(n, ("a", "b", "c")) * 2 for n in range(40)]
    assert not errors(tmp_path, written)
