"""What the plan decides must stand as it was built; what a bundle's owner may change is named and passes."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from compiling import BASES, compiled

from recipec.bundle.build import write_bundle
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.static.as_built import check_built
from recipec.verify.static.planned import argument_problems

_SHARED = TemporaryDirectory(prefix="recipec-test-")
RESUMED = "trainer.train(resume_from_checkpoint=checkpoint)"

CONTRADICTIONS = [  # bundle, file, text, what replaces it, words of the finding
    *(
        ("zero3-offload", file, old, new, words)
        for file, old, new, words in [
            ("configs/deepspeed.json", '"stage": 3', '"stage": 2', "zero_optimization.stage is 2, and was built as 3"),
            ("configs/deepspeed.json", 'save": true', 'save": false', "save is False, and was built as True"),
            ("configs/deepspeed.json", '"device": "cpu"', '"device": "nvme"', "device is nvme, and was built as cpu"),
            ("configs/deepspeed.json", '"stage": 3', '"stage": 3, "round_robin_gradients": true', "built without it"),
            ("configs/deepspeed.json", '"overlap_comm": true,', "", "overlap_comm is not set, and was built as True"),
            ("configs/accelerate.yaml", "init_flag: true", "init_flag: false", "zero3_init_flag is False"),
            ("train.py", "    trainer.save_model()\n", "", "it never calls trainer.save_model(), and was built with"),
            ("train.py", "    guard.finish()\n", "", "it never calls guard.finish()"),
            ("train.py", "    best_of_saved(trainer)", "    print(trainer)", "it never calls best_of_saved()"),
            ("train.py", "Instruct\"\nDATA", "Base\"\nDATA", "MODEL is 'Qwen/Qwen2.5-7B-Base', and was"),
            ("train.py", 'DATA = BUNDLE / "data" / "sft"', 'DATA = BUNDLE / "data" / "dpo"', "DATA is BUNDLE /"),
            ("train.py", "EVAL_ROWS = ", "EVAL_ROWS = 5  # ", "EVAL_ROWS is 5, and was built as"),
            ("train.py", 'train_dataset=rows["train"]', 'train_dataset=rows["eval"]', "train_dataset of SFTTra"),
            ("train.py", RESUMED, "trainer.train(resume_from_checkpoint=None)", "of trainer.train() is None, and was"),
            ("train.py", RESUMED, "trainer.train()", "resume_from_checkpoint of trainer.train() is not set, and was"),
            ("train.py", "is_finished(args.output_dir", "is_finished(BUNDLE", "an argument of is_finished() is BUNDLE"),
            ("train.py", '("train", "eval")', '("eval", "train")', "rows is {"),
            ("train.py", "trainer._get_train_sampler", "sampler", "it never sets trainer._get_train_sampler"),
            ("train.py", "checkpoint is None", "False", "eval_on_start is False, and was built as checkpoint is None"),
            ("train.py", "type=int, default=-1", "type=int, default=4", "default of parser.add_argument() is 4"),
            ("train.py", '"--max-steps"', '"--most-steps"', "it has no option '--max-steps'"),
            ("train.py", '__name__ == "__main__"', '__name__ == "main"', "it does not call main()"),
            ("prepare_data.py", "    test_fraction=", "    test_fraction=0.4 or ", "STAGES has test_fraction=0.4 or"),
            ("prepare_data.py", "SEED = 42", "SEED = 43", "prepare_data.py:38: SEED is 43, and was built as 42"),
            ("prepare_data.py", 'ed("Qwen/Qwen2.5-7B-Instruct"', 'ed("Qwen/Qwen3-8B"', "an argument of AutoTokenizer."),
            ("prepare_data.py", "    PREPARED.write_text(", "    print(", "it never calls PREPARED.write_text()"),
            ("evaluate.py", 'BASE = "Qwen/Qwen2.5-7B-Instruct"', 'BASE = "Qwen/Qwen2.5-7B"', "evaluate.py:36: BASE is"),
            ("evaluate.py", "dtype=torch.bfloat16", "dtype=torch.float16", "dtype of AutoModelForCausalLM.from_pretr"),
            ("evaluate.py", 'reduction="none"', 'reduction="mean"', "reduction of torch.nn.functional.cross_entropy()"),
        ]
    ),
    ("lora-single", "train.py", "LoraConfig(\n", "LoraConfig(\n use_dora=True,\n", "use_dora of LoraConfig() is True"),
    ("full-fsdp", "configs/fsdp.yaml", "TRANSFORMER_BASED_WRAP", "NO_WRAP", "fsdp_auto_wrap_policy is NO_WRAP"),
]  # fmt: skip

HARMLESS = [  # file, text, what replaces it, where the report says that something was edited
    ("train.py", "    trainer.save_model()\n", "    trainer.save_model()\n    print('Saved.')\n", "main()"),
    ("train.py", "callbacks=[", "callbacks=[PrinterCallback(), ", "main()"),
    ("train.py", "{PREDICTED_PEAK_GIB} predicted", "{PREDICTED_PEAK_GIB} as planned", "main()"),
    ("train.py", "def main() -> None:", "def twice(x):\n    return 2 * x\n\n\ndef main() -> None:", "twice()"),
    ("train.py", "MODEL = ", "# the chat model\nMODEL = ", ""),
    ("train.py", "import argparse\n", "import argparse\nimport json\n", "imports"),
    ("train.py", "    parser.add", "    parser.add_argument('--note')\n    parser.add", "parse_args()"),
    ("train.py", 'help="stop after', 'help="end after', "parse_args()"),
    ("train.py", "report_to=", "logging_first_step=True, report_to=", "training_config()"),
    ("train.py", "    args = parse_args()\n", "    args = parse_args()\n    seen = len(MODEL)\n", "main()"),
    ("evaluate.py", "SAMPLES = 5", "SAMPLES = 8", "SAMPLES"),
    ("evaluate.py", '"""Loss and perplexity', '"""Mean loss and perplexity', ""),
    ("evaluate.py", "NEW_TOKENS = 128", "NEW_TOKENS = 256", "NEW_TOKENS"),
    ("prepare_data.py", "MAX_DROPPED = 0.05", "MAX_DROPPED = 0.2", "MAX_DROPPED"),
    ("prepare_data.py", '"\\n\\n".join(filter(says', '"\\n".join(filter(says', "from_instruction()"),
    ("prepare_data.py", "nothing to prepare", "nothing to do", "main()"),
    ("configs/deepspeed.json", '"steps_per_print": 100', '"steps_per_print": 10', "line"),
    ("configs/deepspeed.json", '"steps_per_print"', '"wall_clock_breakdown": true, "steps_per_print"', "line"),
    ("launch/local.sh", "set -euo pipefail", "set -euo pipefail\nmodule load cuda", "line 5"),
    ("launch/local.sh", "set -euo pipefail", "# our cluster\nset -euo pipefail", ""),
    ("README.md", "# ", "# Our ", ""),
]  # fmt: skip


@cache
def built(name: str) -> Path:
    folder = Path(_SHARED.name) / name
    folder.mkdir()
    done = compiled(folder, BASES[name])
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    return folder / "out"


def report_of(root: Path) -> VerifyReport:
    report = VerifyReport("static")
    check_built(read_bundle(root), report)
    return report


def edit(folder: Path, name: str, file: str, old: str, new: str) -> Path:
    root = Path(shutil.copytree(built(name), folder / "bundle"))
    before = (root / file).read_text(encoding="utf-8")
    assert old in before, f"the test is out of date: {file} has no {old!r}"
    (root / file).write_text(before.replace(old, new, 1), encoding="utf-8")
    return root


@pytest.mark.parametrize("name", ["zero3-offload", "sft-dpo", "full-fsdp", "grpo", "ppo", "served", "fusion", "auto"])
def test_what_was_built_passes_and_names_no_edit(name: str) -> None:
    report = report_of(built(name))
    assert report.ok and not report.not_run, report.checks


@pytest.mark.parametrize(("name", "file", "old", "new", "words"), CONTRADICTIONS)
def test_an_edit_that_contradicts_the_plan_or_breaks_the_bundle_fails(
    tmp_path: Path, name: str, file: str, old: str, new: str, words: str
) -> None:
    (check,) = report_of(edit(tmp_path, name, file, old, new)).checks
    assert not check.ok and file in check.detail and words in check.detail, check.detail
    assert check.detail.endswith("change the recipe and build again")


@pytest.mark.parametrize(("file", "old", "new", "named"), HARMLESS)
def test_an_edit_that_no_decision_stands_behind_passes_and_is_named(
    tmp_path: Path, file: str, old: str, new: str, named: str
) -> None:
    root = edit(tmp_path, "zero3-offload", file, old, new)
    report = report_of(root)
    assert report.ok, report.checks
    assert [*argument_problems(read_bundle(root).stages[0])] == []
    assert [row.what for row in report.not_run] == [f"edits of {file}"] * bool(named)
    assert not named or named in report.not_run[0].reason


def test_results_must_be_written_to_where_they_are_looked_for(tmp_path: Path) -> None:
    root = edit(tmp_path, "zero3-offload", "train.py", "output_dir=str(args.output_dir)", 'output_dir="elsewhere"')
    assert any("output_dir is 'elsewhere'" in said for said in argument_problems(read_bundle(root).stages[0]))


def test_a_file_whose_built_text_is_gone_is_named_as_not_compared(tmp_path: Path) -> None:
    root = edit(tmp_path, "zero3-offload", "train.py", "EVAL_ROWS = ", "EVAL_ROWS = 5  # ")
    (root / ".recipec/last/train.py").unlink()
    report = report_of(root)
    assert report.ok and [row.what for row in report.not_run] == ["train.py"]
