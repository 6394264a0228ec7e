"""Add the tokens of new_tokens.txt to meta-llama/Llama-3.2-3B.

The model and the tokenizer with them are then in extended-model/, which every stage begins with or goes back to. Run it
once, before training; prepare_data.py adds the tokens likewise. A new token begins as the mean of the tokens that its
text was before, in the embedding and in the head: about what the model has read so far, and no two begin alike (Fast
Vocabulary Transfer, arXiv 2402.09977).
"""

import json
import shutil
from pathlib import Path

import torch
from transformers import AddedToken, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

BUNDLE = Path(__file__).resolve().parent
MODEL = "meta-llama/Llama-3.2-3B"
EXTENDED = BUNDLE / "extended-model"
RECORD = EXTENDED / "taken_from.txt"  # of what the folder was made from; train.py and evaluate.py look at it
NUMBERS = EXTENDED / "new_tokens.json"  # token: number
MULTIPLE = 64  # that an embedding which grows has rows of: products on tensor cores are slower on odd sizes


def main() -> None:
    wanted = "meta-llama/Llama-3.2-3B\n" + (BUNDLE / "new_tokens.txt").read_text(encoding="utf-8")
    if RECORD.is_file() and RECORD.read_text(encoding="utf-8") == wanted:
        return
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    before = [tokenizer(token, add_special_tokens=False)["input_ids"] for token in new_tokens()]
    numbers = dict(zip(new_tokens(), with_new_tokens(tokenizer).convert_tokens_to_ids(new_tokens()), strict=True))
    model = AutoModelForCausalLM.from_pretrained(
        MODEL,
        dtype="auto",
    )
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:  # else the model has rows that no token uses yet
        model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=MULTIPLE, mean_resizing=False)
    with torch.no_grad():
        for weight in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
            weight[rows:] = weight[:rows].mean(0, dtype=torch.float32).to(weight.dtype)
            for number, tokens in zip(numbers.values(), before, strict=True):
                weight[number] = weight[tokens].mean(0, dtype=torch.float32).to(weight.dtype)
    unfinished = EXTENDED.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    (unfinished / NUMBERS.name).write_text(json.dumps(numbers, ensure_ascii=False, indent=0), encoding="utf-8")
    (unfinished / RECORD.name).write_text(wanted, encoding="utf-8")
    shutil.rmtree(EXTENDED, ignore_errors=True)  # of another model, or with other tokens
    unfinished.rename(EXTENDED)
    rows = model.get_input_embeddings().num_embeddings
    print(f"{EXTENDED} has {len(numbers):,} new tokens, and {rows:,} rows for all tokens.")


def new_tokens() -> list[str]:
    return (BUNDLE / "new_tokens.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")


def with_new_tokens(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer with the new tokens, each of which is found wherever its very text stands; refuses known ones."""
    tokens = new_tokens()
    texts = tokenizer(tokens, add_special_tokens=False)["input_ids"]
    unknown = [tokenizer.unk_token_id]
    if known := [token for token, text in zip(tokens, texts, strict=True) if len(text) < 2 and text != unknown]:
        raise SystemExit(
            f"The tokenizer has these as one token already: {', '.join(map(repr, known))}. Remove them from "
            "model.new_tokens of the recipe, and build again."
        )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    return tokenizer


if __name__ == "__main__":
    main()
