"""The report: its document is the truth, its text is made from it, and nothing untried is a pass."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from emitted import copy_of

from recipec.verify import verify_bundle
from recipec.verify.report import Check, Substituted, VerifyReport, line_of, summary
from recipec.verify.verify import execute, installed_problems


def example() -> VerifyReport:
    report = VerifyReport("run")
    report.add("Python compiles", [], "4 files")
    report.add("ruff check", ["train.py:3: F401", "train.py:4: F841"])
    report.facts["sft"] = {"world_size": 2}
    report.substitutions.append(Substituted("device", "h100", "this CPU", "speed"))
    report.skip("shellcheck", "it is not installed")
    report.metrics["seconds"] = 3.5
    return report


def text_of(report: VerifyReport) -> str:
    """What `recipec verify` prints."""
    return "".join(f"{line_of(check)}\n" for check in report.checks) + "\n" + summary(report.document())


def test_the_document_is_json_with_the_promised_keys() -> None:
    document = json.loads(json.dumps(example().document()))
    assert list(document) == [
        "schema_version", "level", "ok", "checks", "facts", "substitutions", "not_run", "metrics",
    ]  # fmt: skip
    assert document["checks"][1] == {"name": "ruff check", "ok": False, "detail": "train.py:3: F401; train.py:4: F841"}
    assert document["substitutions"] == [
        {"what": "device", "from": "h100", "to": "this CPU", "claim_lost": "speed"},
    ]
    assert document["not_run"] == [{"what": "shellcheck", "reason": "it is not installed"}]


def test_the_text_says_everything_that_the_document_says() -> None:
    text = text_of(example())
    for words in ("Python compiles: 4 files", "FAIL   ruff check", "world_size 2", "h100 -> this CPU", "speed"):
        assert words in text
    assert "shellcheck: it is not installed" in text
    assert text.endswith("NOT verified at level run: 1 of 2 checks failed\n")


def test_long_details_go_below_their_headline() -> None:
    report = VerifyReport("static")
    report.add("a", "x" * 200)
    report.add("b", "one\ntwo")
    assert f"a: \n         {'x' * 200}" in text_of(report)
    assert "b: \n         one\n         two" in text_of(report)


def test_every_check_is_told_when_it_is_made() -> None:
    heard: list[Check] = []
    report = VerifyReport("run", heard.append)
    report.add("Python compiles", [])
    assert heard == report.checks == [Check("Python compiles", True)]
    report.add("ruff check", ["train.py:3: F401"])
    assert heard == report.checks


def test_no_check_is_no_pass() -> None:
    assert not VerifyReport("static").ok


def test_a_folder_that_is_no_bundle_fails(tmp_path: Path) -> None:
    report = verify_bundle(tmp_path, "static")
    assert not report.ok
    assert "is not a bundle" in report.checks[0].detail


def test_a_damaged_plan_fails(tmp_path: Path) -> None:
    (tmp_path / ".recipec").mkdir()
    for text in ("{", '{"stages": [{}]}', "[]"):
        (tmp_path / ".recipec" / "plan.json").write_text(text)
        assert "is not the plan of a bundle" in verify_bundle(tmp_path, "static").checks[0].detail


def test_other_versions_than_the_pinned_ones_are_named(tmp_path: Path) -> None:
    pins = tmp_path / "requirements.txt"
    pins.write_text("pydantic==0.1\nno-such-package==1.0\nwandb==1.0\n")
    wrong, seen = installed_problems(pins)
    assert [line.split()[0] for line in wrong] == ["pydantic", "no-such-package"]
    assert seen == "pydantic 0.1, no-such-package 1.0"


def test_a_level_that_could_not_be_run_is_no_pass(tmp_path: Path) -> None:
    bundle = copy_of("sft-lora", tmp_path)
    shutil.rmtree(bundle.root / "launch")
    report = VerifyReport("run")
    report.add("a static check", [])
    execute(bundle, "run", None, report)
    assert not report.ok
    assert "NOT verified at level run: 0 of 1 checks failed, not run: the bundle has no launch" in text_of(report)
