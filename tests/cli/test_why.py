"""why: from lines of a bundle, edited or not, and from keys."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from compiling import BASES, good
from small_recipe import line_of

from recipec.cli.inputs import open_bundle
from recipec.cli.provenance import Emitted, explain_key, reason, reasons


def ask(run, *arguments):
    result = run("why", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def ids(tree):
    return [tree["id"], *(id for each in tree["from"] for id in ids(each))]


def test_a_line_has_its_decision_with_the_chain_down_to_the_recipe(run, out):
    line = line_of(out / "train.py", "num_train_epochs=")

    document = ask(run, f"out/train.py:{line}")

    assert document["kind"] == "decided"
    assert [decision["id"] for decision in document["decisions"]] == ["sft.epochs"]
    chain = ids(document["decisions"][0])
    assert {"sft.adaptation", "sft.data_rows", "sft.gpu"} <= set(chain)
    assert len(chain) == len(set(chain))
    text = run("why", f"out/train.py:{line}").stdout
    assert text.startswith(f"train.py:{line}\n  num_train_epochs=")
    assert "sft.gpu = rtx-4090" not in text, "a line shows what its decision was made from, and no more"
    assert "sft.gpu = rtx-4090: set in recipe.toml:14" in run("why", "out", "sft.epochs", "--full").stdout
    assert "rule     SCHED-003 (recipec explain SCHED-003)" in text


def test_the_line_is_found_from_every_folder(run, out, monkeypatch):
    absolute = ask(run, f"{out}/train.py:1")
    monkeypatch.chdir(out / "launch")

    assert ask(run, "../train.py:1") == absolute
    assert ask(run, "local.sh:1")["file"] == "launch/local.sh"


def test_commands_typed_in_the_folder_of_a_bundle(run, out, folder, monkeypatch):
    line, key, same = run("why", "out/train.py:57"), run("why", "out", "epochs"), run("diff", "out", "out")
    monkeypatch.chdir(out)

    for command, there in ((["train.py:57"], line), ([".", "epochs"], key)):
        here = run("why", *command)
        assert (here.exit_code, here.stdout) == (0, there.stdout)
    assert run("diff", ".", "../out").stdout == same.stdout == "no differences\n"
    assert open_bundle(Path(".")).built.keys() == open_bundle(out).built.keys()  # as verify opens it
    assert run("build", "../recipe.toml", "-o", ".", "--check").exit_code == 0


def test_fixed_text_names_what_chose_the_file(run, out):
    line = line_of(out / "train.py", "import argparse")

    document = ask(run, f"out/train.py:{line}")

    assert document["kind"] == "fixed"
    assert "fixed text of the template, chosen by sft.stage = sft" in run("why", f"out/train.py:{line}").stdout
    pins = run("why", "out/requirements.txt:1").stdout
    assert "fixed text of the template" in pins


def test_a_file_that_is_no_longer_part_of_the_bundle_is_told(run, out):
    train = out / "train.py"
    line, text = line_of(train, "num_train_epochs="), train.read_text()
    train.write_text(re.sub("num_train_epochs=.*", "num_train_epochs=9,", text))
    records = out / ".recipec/source_map.json"
    kept = json.loads(records.read_text())
    del kept["files"]["train.py"]  # as a build with another layout leaves it
    records.write_text(json.dumps(kept))

    said = run("why", f"out/train.py:{line}").stdout

    assert ask(run, f"out/train.py:{line}")["kind"] == "left"
    assert "you changed this line" in said and "train.py is no longer part of the bundle" in said
    assert "fixed text of the template" not in said


def test_edited_lines(run, out):
    train = out / "train.py"
    lines = train.read_text().splitlines(keepends=True)
    line = line_of(train, "num_train_epochs=")
    built = lines[line - 1].strip()
    lines[line - 1] = "        num_train_epochs=9,\n"
    train.write_text("# mine\n" + "".join(lines))

    changed, added = ask(run, f"out/train.py:{line + 1}"), ask(run, "out/train.py:1")

    assert (changed["edited"], changed["text"].strip()) == (True, "num_train_epochs=9,")
    assert changed["built"]["text"].strip() == built
    assert [decision["id"] for decision in changed["decisions"]] == ["sft.epochs"]
    assert f"it was generated as: {built}" in run("why", f"out/train.py:{line + 1}").stdout
    assert (added["kind"], added["decisions"]) == ("yours", [])
    assert "you added this line" in run("why", "out/train.py:1").stdout
    reached = ask(run, "out", "epochs")["decisions"][0]["lines"]
    assert {"file": "train.py", "edited": True, "first": line + 1, "last": line + 1} in reached
    assert [place["file"] for place in reached if place["edited"]] == ["train.py"] and len(reached) > 1
    assert f"train.py:{line + 1} (you edited it)" in run("why", "out", "epochs").stdout


def test_lines_of_a_conflict_are_said_to_be_of_one(run, out):
    train = out / "train.py"
    train.write_text(train.read_text().replace("learning_rate=2e-4", "learning_rate=3e-3"))
    run("build", "faster.toml", "-o", "out")
    first = line_of(train, "<<<<<<<")

    found = [ask(run, f"out/train.py:{number}")["conflict"] for number in range(first - 1, first + 9)]

    sides = ["your edit", "a marker", "the last build", "a marker", "the new build", "a marker"]
    assert list(dict.fromkeys(found)) == ["", "a marker", "your edit", "the last build", "the new build"]
    assert [side for side in found if side][1::][: len(sides)] == sides
    text = run("why", f"out/train.py:{first + 1}").stdout
    assert "your edit, in a conflict that is not resolved" in text and "rebuilds keep it" not in text


def test_a_copy_of_a_users_file_names_it(run, folder):
    (folder / "judge").mkdir()
    (folder / "judge" / "short.py").write_text("def is_short(completions):\n    return [1.0 for _ in completions]\n")
    (folder / "prompts.jsonl").write_text("".join(f'{{"prompt": "Say {n}."}}\n' for n in range(200)))
    recipe = (folder / "recipe.toml").read_text().replace("instruct", "align", 1)
    recipe = recipe.replace('train = "rows.jsonl"', 'prompts = "prompts.jsonl"').replace("learning_rate = 2e-4", "")
    alignment = '\n[alignment]\nmethod = "grpo"\nreward = "judge/short.py:is_short"\nvariant = "dr_grpo"\n'
    (folder / "judged.toml").write_text(recipe + alignment)
    built = run("build", "judged.toml", "-o", "judged")
    assert built.exit_code == 0, built.output

    assert ask(run, "judged/functions/short.py:1")["kind"] == "copied"
    text = run("why", "judged/functions/short.py:2").stdout
    assert "copied from your file judge/short.py" in text and "fixed text" not in text
    assert "functions/ has a copy of your judge/short.py" in (folder / "judged" / "README.md").read_text()
    assert ask(run, "judged", "grpo.variant")["decisions"][0]["source"].startswith("Dr. GRPO (arXiv 2503.20783, 2025)")
    assert "DAPO" not in ask(run, "judged", "grpo.variant")["decisions"][0]["source"]


@pytest.mark.parametrize("name", ["seed", "lora_alpha", "warmup", "learning_rate"])
def test_what_takes_no_time_decides_no_time(run, out, name):
    """A step takes as long with any of these."""
    assert not {"sft.training_seconds", "sft.checkpoint_seconds"} & {*ask(run, "out", name)["decisions"][0]["leads_to"]}
    assert "sft.training_seconds" in ask(run, "out", "micro_batch_size")["decisions"][0]["leads_to"]


@pytest.mark.parametrize(
    "key", ["learning_rate", "sft.learning_rate", "train.learning_rate", "train.sft.learning_rate", "lr"]
)
@pytest.mark.parametrize("target", ["out", "recipe.toml"])
def test_a_decision_answers_to_its_names(run, out, key, target):
    decision = ask(run, target, key)["decisions"][0]

    assert (decision["id"], decision["value"], decision["where"]) == ("sft.learning_rate", 2e-4, "recipe.toml:17")
    line = line_of(out / "train.py", "learning_rate=")
    assert {"file": "train.py", "edited": False, "first": line, "last": line} in decision["lines"]
    text = run("why", target, key).stdout
    assert f"train.py:{line}" in text
    assert "`train.learning_rate` in the recipe, set at recipe.toml:17" in text


@pytest.mark.parametrize("kind", ["tensor", "context", "expert"])
def test_a_key_that_is_not_set_has_its_answer(run, out, kind):
    decision = ask(run, "recipe.toml", f"train.{kind}_parallel")["decisions"][0]

    assert (decision["value"], decision["where"]) == (1, "")
    assert decision["because"].startswith("every rank computes ")


def test_a_fact_says_what_it_leads_to(run, out):
    assert "sft.learning_rate" in ask(run, "out", "examples")["decisions"][0]["leads_to"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["out/train.py:9999"], "`train.py` has "),
        (["out/train.py:0"], "`train.py` has "),
        (["out/nothing.py:1"], "`nothing.py` is not a file that recipec built"),
        (["out/evaluate.py:1"], "`evaluate.py` is no longer there"),
        (["out", "learning_rte"], "did you mean `learning_rate`"),
        (["out", "rlaif"], "`recipec explain NOT-001`"),
    ],
)
def test_what_is_not_there(run, out, arguments, says):
    (out / "evaluate.py").unlink()

    result = run("why", *arguments)

    assert result.exit_code == 1
    assert says in result.stderr


@pytest.mark.parametrize("arguments", [["out/train.py:1"], ["out", "learning_rate"]])
def test_a_pipe_is_not_waited_for(run, out, arguments):
    (out / "train.py").unlink()
    os.mkfifo(out / "train.py")

    result = run("why", *arguments)

    assert result.exit_code == 2
    assert "train.py` cannot be read: it is a pipe or a device, not a file" in result.stderr


DAMAGES = {
    "empty": lambda text: "",
    "an empty table": lambda text: "{}",
    "a list": lambda text: "[]",
    "another version": lambda text: '{"schema_version": 99}',
    "half": lambda text: text[: len(text) // 2],
    "deep": lambda text: "[" * 100_000,
    "no number": lambda text: re.sub(r"(: |    )([0-9]+|\[)", r"\1NaN", text),
    "other types": lambda text: re.sub(r'"[^"]*"(,?)$', r"7\1", text, flags=re.MULTILINE),
    "other names": lambda text: re.sub(r'"(decisions|files|inputs)":', '"others":', text),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["plan.json", "source_map.json", "lock.json"])
def test_a_damaged_bundle_is_said_to_be_one(run, out: Path, file, damage):
    record = out / ".recipec" / file
    good = record.read_text()
    record.write_text(DAMAGES[damage](good))

    for command in (["why", "out/train.py:1"], ["why", "out", "epochs"], ["diff", "out", "out"], ["verify", "out"]):
        result = run(*command)
        assert result.exit_code == 1
        assert f"`out/.recipec/{file}` is damaged" in result.stderr
    if file == "lock.json":  # it names the recipe of the bundle: no build may put its own name there
        assert "E0704" in run("build", "recipe.toml", "-o", "out").stderr
        record.unlink()
    assert run("build", "recipe.toml", "-o", "out", "--check").exit_code == 1
    assert run("build", "recipe.toml", "-o", "out").exit_code == 0
    assert record.read_text() == good


def test_a_record_that_cannot_be_read_is_named(run, out: Path):
    with (out / ".recipec/last/train.py").open("ab") as file:
        file.truncate(65 * 2**20)
    result = run("why", "out", "epochs")
    assert result.exit_code == 1
    assert ".recipec/last/train.py` cannot be read: it is larger than" in result.stderr


def test_links_among_the_records_are_not_read(run, out, folder):
    (out / ".recipec/last").rename(folder / "elsewhere")
    (out / ".recipec/last").symlink_to("../../elsewhere")

    assert ".recipec/last is a symbolic link" in run("why", "out", "epochs").stderr
    assert run("build", "recipe.toml", "-o", "out").exit_code == 2


def test_an_interrupted_build_is_not_read(run, out):
    (out / ".recipec" / "next").mkdir()

    assert "was interrupted" in run("why", "out", "epochs").stderr


def test_a_tree_names_each_decision_once_and_as_near_to_the_top_as_it_can():
    decisions = {
        f"s.{id}": {"inputs": inputs} for id, inputs in {"a": ["b", "c"], "b": ["c", "d"], "c": ["d"], "d": []}.items()
    }

    assert reason("s.a", decisions)["from"] == [
        {"id": "s.b", "inputs": ["c", "d"], "from": [{"id": "s.d", "inputs": [], "from": []}]},
        {"id": "s.c", "inputs": ["d"], "from": []},
    ]
    assert [each["id"] for each in reasons(["s.b", "s.d", "s.b", "s.unknown"], decisions)] == ["s.b", "s.d"]


def test_decisions_that_rest_on_each_other_without_an_end_in_sight_are_refused(run, out):
    record = out / ".recipec/plan.json"
    plan = json.loads(record.read_text())
    stage = plan["stages"][0]
    links = [stage["decisions"][0] | {"id": f"link_{i}", "inputs": [f"link_{i + 1}"]} for i in range(3_000)]
    stage["decisions"] += links
    record.write_text(json.dumps(plan))
    for arguments in (["link_0"], ["link_0", "--full"], ["link_0", "--format", "json"]):
        result = run("why", "out", *arguments)
        assert result.exit_code == 1
        assert "rest on each other more than 100 deep" in result.stderr
    assert run("why", "out", "link_2950").exit_code == 0


PREDICTED = r"sft\.prediction = whole run [\d. a-z]+; .*; cost \$[\d.]+; host memory [\d.]+ GiB; .*weights [\d.]+ GiB"


def test_a_prediction_is_told_in_units_of_people(run, out):
    said = run("why", "out", "sft.prediction").stdout
    assert re.search(PREDICTED, said) and "{" not in said


def test_a_line_is_told_in_short(run, out):
    for number in range(1, len((out / "launch" / "local.sh").read_text().splitlines()) + 1):
        text = run("why", f"out/launch/local.sh:{number}").stdout
        assert len(text.splitlines()) <= 24, text
    hint = next(line for line in text.splitlines() if "recipec why OUT" in line)

    whole = run(*hint.partition("`recipec ")[2].partition("`")[0].replace("OUT", "out").split()).stdout

    assert whole.startswith(hint.split()[3])


@pytest.mark.parametrize("target", [["out", "learning_rate"], ["recipe.toml", "learning_rate"]])
def test_a_key_is_told_with_what_it_was_made_from_and_in_full_when_asked(run, out, target):
    short, whole = run("why", *target).stdout, run("why", *target, "--full").stdout

    (decision,) = ask(run, *target)["decisions"]
    direct = {each["id"] for each in decision["from"]}
    told = {id for id in ids(decision)[1:] if f"    {id} = " in short}
    assert told and told <= direct
    assert all(f"    {id} = " in whole for id in ids(decision)[1:])
    assert len(short.splitlines()) <= 17 < len(whole.splitlines())
    assert short.endswith("`recipec why OUT sft.learning_rate --full` shows everything that it depends on\n")


def test_a_line_is_told_in_full_when_asked(run, out):
    line = line_of(out / "train.py", "num_train_epochs=")

    assert "sft.gpu = rtx-4090: set in recipe.toml:14" in run("why", f"out/train.py:{line}", "--full").stdout


@pytest.mark.parametrize(
    ("word", "decision"),
    [("sft", "sft.stage"), ("load_in_4bit", "sft.adaptation"), ("cosine", "sft.schedule"), ("lr", "sft.learning_rate")],
)
def test_why_knows_stages_values_and_the_words_of_other_tools(run, out, word, decision):
    result = run("why", "out", word)
    assert result.exit_code == 0 and result.stdout.startswith(f"{decision} = ")


def test_why_points_to_the_page_of_a_word_that_no_decision_is_about(run, out):
    result = run("why", "out", "W0503")
    assert result.exit_code and "`recipec explain W0503` says what it is" in result.stderr


def test_why_tells_what_judges_by_its_key(tmp_path):
    """And not the task, which has a value of that name."""
    compilation = good(tmp_path, BASES["grpo"])
    emitted = Emitted(json.loads(compilation.plan_json), compilation.source_map)

    assert [found["id"] for found in explain_key("reward", emitted)["decisions"]] == ["grpo.rewards"]
    assert [found["id"] for found in explain_key("alignment.reward", emitted)["decisions"]] == ["grpo.rewards"]
