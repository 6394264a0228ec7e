"""Make what recipes/cpu-demo.toml trains on.

Question/answer pairs from the docstrings of the Python standard library, a tokenizer trained on them, and a model of
9 million parameters with random weights.

    python recipes/make_demo.py DIR     writes DIR/data/docstrings.jsonl and DIR/demo-model/
"""

import ast
import json
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, set_seed

CONFIG = Path(__file__).parent / "demo-model"
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "site-packages", "turtledemo", "ensurepip", "__pycache__"}
MAX_CHARACTERS = 160  # a longer first paragraph explains history, not the function
SEED = 17


def main() -> None:
    folder = Path(sys.argv[1])
    rows = list(docstring_rows(Path(sysconfig.get_path("stdlib"))))
    (folder / "data").mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "data" / "docstrings.jsonl").write_text(text, encoding="utf-8")
    config = AutoConfig.from_pretrained(CONFIG)
    tokenizer = train_tokenizer([value for row in rows for value in row.values()], config.vocab_size)
    set_seed(SEED)
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder / "demo-model")
    tokenizer.save_pretrained(folder / "demo-model")
    print(f"{len(rows)} rows, {model.num_parameters():,} parameters, in {folder}")


def docstring_rows(library: Path) -> Iterator[dict[str, str]]:
    """A question and an answer for every documented module, class and function; files are parsed, not imported."""
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if SKIPPED.isdisjoint(parts) and not parts[0].startswith("_"):
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            module = ".".join(part for part in parts if part != "__init__")
            yield from documented(tree, module)


def documented(node: ast.AST, name: str) -> Iterator[dict[str, str]]:
    """The row of a definition, and those of what is defined in it."""
    answer = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    if 20 <= len(answer) <= MAX_CHARACTERS:
        kind = {ast.Module: "the module ", ast.ClassDef: "the class "}.get(type(node), "")
        yield {"prompt": f"What does {kind}{name} do?", "completion": answer}
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and child.name[0] != "_":
            yield from documented(child, f"{name}.{child.name}")


def train_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on the texts themselves."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|pad|>")


if __name__ == "__main__":
    main()
