"""Two columns of any name that stand side by side are a question and its answer: no line offered loses the answer."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiling import BASES, compiled, with_key

from recipec.diagnostics.model import Diagnostic

ROWS = [
    ({"article": "Long {}.", "highlights": "Short {}."}, [("article", "highlights")]),
    ({"document": "Bill {}.", "output": {"number": "{}"}}, [("document", "output")]),
    ({"input": "Bill {}.", "output": [{"number": "{}"}]}, [("input", "output")]),
    ({"source": "Haus {}", "target": "house {}", "source_lang": "de"}, [("source", "target")]),
    ({"review": "Text {}.", "stars": "4"}, [("review", "stars")]),
    ({"stars": "4", "review": "Text {}."}, [("review", "stars")]),
    ({"de": "Haus {}", "en": "house {}"}, [("de", "en"), ("en", "de")]),
    ({"Ticket ID": "{}", "Description": "Lost {}.", "Reply": "Found {}."}, [("Description", "Reply")]),
    ({"Requester email": "u{}@x.com", "Description": "Lost {}.", "Reply": "Found {}."}, [("Description", "Reply")]),
    ({"user": "u{}@x.com", "note": "Lost {}.", "reply": "Found {}."}, [("note", "reply")]),
    ({"question": "{}", "Issue": "Lost {}.", "reply": "Found {}."}, [("Issue", "reply")]),
    ({"requestDate": "2026-01-02T10:{}", "note": "Lost {}.", "reply": "Found {}."}, [("note", "reply")]),
    ({"task": "Tom {}", "issue": "Lost {}.", "reply": "So {}."}, [("task", "reply"), ("issue", "reply")]),
    ({"queryUuid": "q{}", "note": "Lost {}.", "reply": "Found {}."}, [("note", "reply")]),
    ({"input_tokens": "{}", "input": "Lost {}.", "output_tokens": "{}", "output": "So {}."}, [("input", "output")]),
    ({"user_notes": "No {}.", "input": "Lost {}.", "model": "m1", "output": "So {}."}, [("input", "output")]),
    (
        {"Question Title": "Lost {}", "Question Body": "Where {}?", "Answer Body": "So {}."},
        [("Question Title", "Answer Body"), ("Question Body", "Answer Body")],
    ),
    ({"problem": "{}+{}?", "solution": "As {}.", "answer": "{}"}, [("problem", "solution"), ("problem", "answer")]),
]


def errors(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> list[Diagnostic]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return found_in(folder, "rows.jsonl", **keys)


def found_in(folder: Path, file: str, **keys: Any) -> list[Diagnostic]:
    recipe = with_key(BASES["lora-single"], "data", {"train": file, "max_length": 64, **keys})
    return [found for found in compiled(folder, recipe, only_plan=True).diagnostics if found.code[0] == "E"]


def numbered(row: dict[str, Any], n: int) -> dict[str, Any]:
    return json.loads(json.dumps(row).replace("{}", str(n)))


def offered(help: tuple[str, ...]) -> list[tuple[str, str]]:
    return re.findall(r'columns = \{ prompt = "([\w ]+)", completion = "([\w ]+)" \}', "\n".join(help))


@pytest.mark.parametrize(("row", "pairs"), ROWS, ids=[" ".join(row) for row, _ in ROWS])
def test_the_line_that_has_the_answer_learned_is_offered(
    tmp_path: Path, row: dict[str, Any], pairs: list[tuple[str, str]]
) -> None:
    rows = [numbered(row, n) for n in range(40)]
    (found,) = errors(tmp_path, rows)
    assert offered(found.help) == pairs and len(found.help) == len(pairs)
    if all(isinstance(value, str) for value in row.values()):
        prompt, completion = pairs[0]
        assert not errors(tmp_path, rows, columns={"prompt": prompt, "completion": completion})


def test_texts_are_brought_out_of_an_object(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, [{"translation": {"de": f"Haus {n}", "en": f"house {n}"}} for n in range(40)])
    subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", found.help[0])[0]], cwd=tmp_path, check=True)
    assert offered(found.help) == [("de", "en"), ("en", "de")]
    assert not found_in(tmp_path, "rows.new.jsonl", columns={"prompt": "de", "completion": "en"})


def test_what_a_reading_leaves_out_is_named(tmp_path: Path) -> None:
    row = {"context": "The sky {}.", "question": "Why {}?", "answers": {"texts": ["So {}."]}}
    (found,) = errors(tmp_path, [numbered(row, n) for n in range(40)])
    assert found.help[0].endswith("under [data] (`context` is left out)")


def test_pairs_of_openai_are_rewritten(tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": "{}"}]
    asked = {"messages": [{"role": "user", "content": "Why {}?"}], "tools": [], "parallel_tool_calls": True}
    row = {"input": asked, "preferred_output": said, "non_preferred_output": [{**said[0], "content": "No {}."}]}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(numbered(row, n)) + "\n" for n in range(40)))
    recipe = with_key(BASES["dpo-full"], "data", {"preferences": "rows.jsonl", "max_length": 64})
    (found,) = [found for found in compiled(tmp_path, recipe, only_plan=True).diagnostics if found.code == "E0305"]
    subprocess.run(["bash", "-c", re.findall("`(python3 .*)`", found.help[0])[0]], cwd=tmp_path, check=True)
    written = json.loads((tmp_path / "rows.new.jsonl").read_text().splitlines()[3])
    assert written == {
        "prompt": [{"role": "user", "content": "Why 3?"}],
        "chosen": [{"role": "assistant", "content": "3"}],
        "rejected": [{"role": "assistant", "content": "No 3."}],
    }
