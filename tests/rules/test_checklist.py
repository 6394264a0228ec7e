"""The completion checklist: every line of the rule books, and nothing ticked without a fact."""

from __future__ import annotations

from recipec.rules.checklist import CHECKLIST, completion


def test_all_criteria_of_001_and_gates_of_003_are_there():
    assert sum("001.md" in item.source for item in CHECKLIST) == 9
    assert sum("003.md" in item.source for item in CHECKLIST) == 7  # six gates; deduplication and samples are two lines
    assert [item.after for item in CHECKLIST] == [item.unmet.startswith("known ") for item in CHECKLIST]
    assert all(item.source.startswith("docs/rule-books/00") for item in CHECKLIST)


def test_without_facts_nothing_is_met_and_every_line_says_what_is_missing():
    checked = completion({}, batch="{batch}")
    assert not any(line.met for line in checked)
    assert [line.how for line in checked] == [item.unmet for item in CHECKLIST]


def test_a_fact_meets_its_own_line_only():
    assert CHECKLIST
    for item in CHECKLIST:
        found = completion({item.fact: True}, batch="{batch}")
        assert [line.text for line in found if line.met] == [item.text] * (not item.by_run)
        assert [line.how for line in found if line.text == item.text] == [item.met]


def test_what_only_a_run_does_is_not_ticked_before_it():
    done = {line.text for line in completion({item.fact: True for item in CHECKLIST}) if line.met}
    assert not done & {"Deduplication run", "Evaluation before, during and after training"}


def test_a_false_fact_is_unmet():
    line = next(line for line in completion({"registry_entry": False}) if "registry" in line.text)
    assert not line.met and "by hand" in line.how


def test_items_about_evaluations_name_what_judges_them():
    for judged_by, named, other in (
        ("eval_loss", "loss", "reward"),
        ("eval_reward", "reward", "loss"),
        ("eval_objective", "reward", "loss"),
    ):
        text = " ".join(f"{line.text} {line.how}" for line in completion({"best_checkpoint": True}, {judged_by}))
        assert f"Best checkpoint by validation {named} kept" in text and f"read {judged_by}" in text
        assert f"validation {other}" not in text and f"eval_{other}" not in text
    both = [line.text for line in completion({}, {"eval_loss", "eval_reward"})]
    assert len(both) == len({*both}) + 1, "one line is alike in both and is about the anti-patterns"
