"""`recipec init` for rows whose columns have names of the user's own: what is proposed, asked, refused and written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from recipec.cli import init

OWN = "frage,antwort\n" + "".join(f"Was ist {n}?,Das ist die Zahl {n}\n" for n in range(60))
RATED = "user_text,agent_reply,rating\n" + "".join(f"What is {n}?,It is {n},{n % 5 + 1}\n" for n in range(60))
COMMA = '"a, b",c\n' + "".join(f"What is {n}?,It is {n}\n" for n in range(60))
SILENT = "foo,bar,baz\n" + "".join(f"a {n},b {n},c {n}\n" for n in range(60))
FLAGS = ("--gpu", "h100", "--model", "Qwen/Qwen2.5-7B-Instruct", "--yes")
TOLD = {"prompt": "frage", "completion": "antwort"}


@pytest.fixture
def init_with(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def started(rows: str, *flags: str):
        (tmp_path / "rows.csv").write_text(rows)
        return run("init", "new", "--data", "rows.csv", *flags)

    return started


def written() -> dict[str, str]:
    with open("new/recipe.toml", "rb") as file:
        return tomllib.load(file)["data"]["columns"]


def test_of_two_readings_the_user_names_one(init_with, run, tmp_path):
    result = init_with(OWN, *FLAGS)
    assert result.exit_code == 2
    assert "missing --columns" in result.stderr
    assert "--columns prompt=frage,completion=antwort\n" in result.stderr
    assert "--columns prompt=antwort,completion=frage\n" in result.stderr
    assert not (tmp_path / "new").exists()

    assert init_with(OWN, *FLAGS, "--columns", "prompt=frage, completion=antwort").exit_code == 0
    assert written() == TOLD
    assert run("check", "new/recipe.toml").exit_code == 0


def test_the_only_reading_is_proposed(init_with):
    assert init_with(RATED, *FLAGS).exit_code == 0  # no text is answered with a number of a scale
    assert written() == {"prompt": "user_text", "completion": "agent_reply"}


def test_a_name_that_a_list_cannot_hold_is_named_in_a_table(init_with):
    result = init_with(COMMA, *FLAGS)
    table = '{ prompt = "a, b", completion = "c" }'
    assert f"--columns '{table}'\n" in result.stderr
    assert init_with(COMMA, *FLAGS, "--columns", table).exit_code == 0
    assert written() == {"prompt": "a, b", "completion": "c"}


@pytest.mark.parametrize(("name", "shown"), [("fra\x7fge", "u007f"), ("fra\x1bge", "u001b"), ("fra\tge", "tge")])
def test_a_name_that_no_recipe_can_hold_is_refused(init_with, tmp_path, name, shown):
    """Not proposed, and not written into a recipe that the next command would refuse."""
    rows = OWN.replace("frage", name)
    told = init_with(rows, *FLAGS).stderr
    assert f'rename "fra\\{shown}' in told and "columns =" not in told
    table = json.dumps(name).replace("\x7f", "\\u007f")
    result = init_with(rows, *FLAGS, "--columns", f'{{ prompt = {table}, completion = "antwort" }}')
    assert result.exit_code == 2 and "rename it in the rows" in result.stderr
    assert not (tmp_path / "new").exists()


def test_names_that_say_nothing_can_be_named(init_with):
    assert "add `--columns prompt=NAME,completion=NAME`" in init_with(SILENT, *FLAGS).stderr
    assert init_with(SILENT, *FLAGS, "--columns", "prompt=bar,completion=baz").exit_code == 0
    assert written() == {"prompt": "bar", "completion": "baz"}


def test_those_of_a_data_set_of_the_hub_are_written_unseen(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = [*FLAGS, "--data", "acme/rows", "--format", "prompt-completion"]
    assert run("init", "new", *flags, "--columns", "prompt=frage,completion=antwort").exit_code == 0
    assert written() == TOLD


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("question=frage,completion=antwort", "--columns: `question` is not one of prompt, chosen, "),
        ("prompt=,completion=antwort", "--columns: write it as prompt=question,completion=answer"),
        ("prompt=frage,completion=antwrt", "names `antwrt` for the completion, which no row has"),
        ("{ prompt = 1 }", "--columns: write it as"),
        ("{ prompt", "--columns: "),
    ],
)
def test_columns_that_cannot_be_read_are_refused(init_with, tmp_path, columns, says):
    result = init_with(OWN, *FLAGS, "--columns", columns)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "new").exists()


def test_the_question_shows_the_readings(init_with, monkeypatch):
    from click.testing import CliRunner

    from recipec.cli.group import recipec

    init_with(OWN)
    monkeypatch.setattr(init, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    answers = "\n".join(["rows.csv", "prompt=nope", "prompt=frage,completion=antwort", *[""] * 4, ""])
    result = CliRunner().invoke(recipec, ["init", "new", "--gpu", "h100"], input=answers)
    assert "\nprompt=frage,completion=antwort\nprompt=antwort,completion=frage\nWhich column is what" in result.output
    assert "names `nope` for the prompt, which no row has" in result.output
    assert written() == TOLD


def test_what_tickets_are_filed_under_is_no_question(init_with):
    """An id, a date and an address of who asks; of the subject and the text the user names the question."""
    rows = "".join(f"{n:06},2026-02-1{n % 9},u{n}@x.com,Re {n},Lost {n}.,So {n}.,\n" for n in range(60))
    told = init_with("Ticket ID,Created at,Requester email,Subject,Description,Agent reply,\n" + rows, *FLAGS).stderr
    assert [line.partition("--columns ")[2] for line in told.splitlines() if "prompt = " in line] == [
        f'\'{{ prompt = "{name}", completion = "Agent reply" }}\'' for name in ("Subject", "Description")
    ]


@pytest.mark.parametrize(
    ("names", "written_as"),
    [
        ("Question ID,Question Body,Answer Body", {"prompt": "Question Body", "completion": "Answer Body"}),
        ("inputTokens,userInput,modelOutput", {"prompt": "userInput", "completion": "modelOutput"}),
    ],
)
def test_a_column_is_known_by_the_words_of_its_name(init_with, names, written_as):
    assert init_with(f"{names}\n" + "".join(f"{n},Lost {n}?,So {n}.\n" for n in range(60)), *FLAGS).exit_code == 0
    assert written() == written_as


def test_one_reading_that_two_lines_speak_of_is_one(init_with):
    reviews = "review,sentiment\n" + "".join(f"Review {n},{('good', 'poor')[n % 2]}\n" for n in range(60))
    assert init_with(reviews, *FLAGS).exit_code == 0
    assert written() == {"prompt": "review", "completion": "sentiment"}


@pytest.mark.parametrize("first", ["sep=,", "SEP=,"])
def test_the_line_for_excel_is_to_be_deleted(init_with, first):
    told = init_with(f"{first}\n{OWN}", *FLAGS).stderr
    assert f"delete the first line of the file, `{first[:4]}" in told and "columns =" not in told


def test_a_column_without_a_name_is_no_reading(init_with):
    told = init_with(OWN.replace("antwort", "", 1), *FLAGS).stderr
    assert "missing --columns" not in told and "columns =" not in told


def logged(names: str, rate) -> str:
    return f"{names}\n" + "".join(f"What is {n}?,It is {n},{rate(n)}\n" for n in range(60))


@pytest.mark.parametrize("pair", [("thumbs_up", "thumbs_down"), ("up", "down"), (1, 0), ("👍", "👎")])
def test_answers_beside_prompts_are_no_mere_prompts(init_with, pair):
    """A column `question` alone would make prompts of rows whose answers have a name of the user's own."""
    result = init_with(logged("question,bot_answer,rating", lambda n: pair[n % 3 == 0]), *FLAGS)
    assert result.exit_code == 0
    with open("new/recipe.toml", "rb") as file:
        recipe = tomllib.load(file)
    assert recipe["goal"]["task"] == "align" and "preferences" in recipe["data"]
    assert written() == {"completion": "bot_answer", "label": "rating"}


def test_answers_rated_on_a_scale_are_learned(init_with):
    assert init_with(logged("question,bot_answer,rating", lambda n: n % 5 + 1), *FLAGS).exit_code == 0
    assert written() == {"completion": "bot_answer"}


@pytest.mark.parametrize("name", ["solution", "correct_answer", "final_answer", "ground_truth", "tests"])
def test_what_a_reward_compares_with_is_no_answer_of_the_log(init_with, name):
    init_with(f"prompt,{name}\n" + "".join(f"What is {n}?,{n}\n" for n in range(60)), *FLAGS)
    with open("new/recipe.toml", "rb") as file:
        assert "prompts" in tomllib.load(file)["data"]


def test_single_messages_are_no_texts(init_with, tmp_path):
    rows = "thread_id,seq,author,body\n" + "".join(
        f"t{n // 2},{n % 2},{('user', 'assistant')[n % 2]},This is message {n}.\n" for n in range(40)
    )
    result = init_with(rows, *FLAGS)
    assert result.exit_code != 0 and "is one message of a conversation" in result.output
    assert "make a row of each `thread_id`" in result.output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("names", "prompt"),
    [
        ("user_query,bot_response", "user_query"),
        ("ask,reply_text,score", "ask"),
        ("thread_body,agent_answer,csat_rating", "thread_body"),
    ],
)
def test_of_answered_questions_that_rewards_judge_the_question_is_named(init_with, run, tmp_path, names, prompt):
    beside = names.count(",") - 1
    rows = "".join(f"What is {n}?,It is {n} of them." + f",{n % 5}" * beside + "\n" for n in range(60))
    init_with(f"{names}\n{rows}", *FLAGS, "--task", "align")
    assert written() == {"prompt": prompt}
    recipe = (tmp_path / "new/recipe.toml").read_text()
    (tmp_path / "new/recipe.toml").write_text(recipe.replace("# reward =", "reward ="))
    answer = names.split(",")[1]
    reward = f"def is_right(completions, {answer}):\n    return [float(len(one)) for one in {answer}]\n"
    (tmp_path / "new/rewards.py").write_text(reward)
    result = run("check", "new/recipe.toml")
    assert result.exit_code == 0, result.output


def test_flags_beside_answers_are_labels_where_the_task_learns_them(init_with, run):
    rows = "".join(f"What is {n}?,It is {n}.,{('True', 'False', '')[n % 3]}\n" for n in range(60))
    assert init_with(f"prompt,completion,thumbs_up\n{rows}", *FLAGS, "--task", "align").exit_code == 0
    with open("new/recipe.toml", "rb") as file:
        data = tomllib.load(file)["data"]
    assert data == {"preferences": "../rows.csv", "columns": {"label": "thumbs_up"}, "incomplete": "skip"}
    assert run("check", "new/recipe.toml").exit_code == 0


def test_flags_beside_answers_are_told_with_what_some_rows_lack(init_with):
    rows = "".join(f"What is {n}?,It is {n}.,{('True', 'False', '')[n % 3]}\n" for n in range(60))
    assert init_with(f"prompt,completion,thumbs_up\n{rows}", *FLAGS).exit_code == 0
    with open("new/recipe.toml") as file:
        assert 'and `incomplete = "skip"` for rows without one' in file.read().replace("\n# ", " ")


@pytest.mark.parametrize(("task", "key"), [("continue-pretrain", "domain_text"), ("pretrain", "train")])
@pytest.mark.parametrize("beside", ["meta", "summary"])
def test_pretraining_reads_a_column_as_text_whatever_stands_beside_it(run, tmp_path, monkeypatch, task, key, beside):
    monkeypatch.chdir(tmp_path)
    texts = [{"raw_content": f"Pump {n} moves water.", "published": f"2026-01-{n + 1:02}"} for n in range(20)]
    rows = [row | {beside: {"lang": "en"} if beside == "meta" else f"Of {n}."} for n, row in enumerate(texts)]
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("init", "new", "--data", "raw.jsonl", "--task", task, "--gpu", "h100", "--yes")

    data = tomllib.loads(Path("new/recipe.toml").read_text())["data"]
    assert data[key] == "../raw.jsonl" and data["columns"] == {"text": "raw_content"}


def test_objects_beside_texts_answer_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"raw_content": f"Pump {n}.", "meta": {"number": n}} for n in range(20)]
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("init", "new", "--data", "raw.jsonl", "--gpu", "h100", "--yes")
    assert tomllib.loads(Path("new/recipe.toml").read_text())["data"]["columns"] == {"text": "raw_content"}


@pytest.mark.parametrize("names", ["question,good,bad,annotator", "query,better_reply,worse_reply,annotator"])
def test_two_answers_to_a_question_are_a_pair_and_no_prompts_alone(init_with, run, names):
    rows = "".join(f"What is {n}?,It is {n} of them.,Nobody knows {n}.,a{n % 3}\n" for n in range(60))
    assert init_with(f"{names}\n{rows}", *FLAGS).exit_code == 0
    prompt, better, worse, _ = names.split(",")
    assert written().items() >= {"chosen": better, "rejected": worse}.items()
    assert written().get("prompt", prompt) == prompt
    with open("new/recipe.toml", "rb") as file:
        recipe = tomllib.load(file)
    assert recipe["goal"]["task"] == "align" and "preferences" in recipe["data"] and "alignment" not in recipe
    assert run("check", "new/recipe.toml").exit_code == 0
