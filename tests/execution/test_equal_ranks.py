"""What every rank must hold alike: the random weights of a pretraining, the reference of a sharded policy.

The emitted train.py itself makes both.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiers import quick_where

from recipec.bundle.build import write_bundle
from recipec.compiler import compile_recipe
from recipec.verify.bundle import read_bundle
from recipec.verify.report import VerifyReport
from recipec.verify.run import prepare_launch
from recipec.verify.sandbox import make_sandbox

RECIPES = Path(__file__).parent / "recipes"
# What a rank sees of the weights: gathered where ZeRO-3 has sharded them.
SEEN = """
import hashlib
from pathlib import Path

from deepspeed import zero

import train

config = train.training_config(train.parse_args())
weights = list(train.random_model(config).parameters())
with zero.GatheredParameters(weights, enabled=hasattr(weights[0], "ds_tensor")):
    seen = hashlib.sha256(b"".join(weight.detach().float().numpy().tobytes() for weight in weights)).hexdigest()
    Path(f"seen-{config.process_index}").write_text(f"{seen} {max(float(weight.std()) for weight in weights):.3f}")
"""

# What a rank sees of policy and reference, both sharded: how likely they find the same answers.
LIKELIHOODS = """
import json
from pathlib import Path

import torch

import train


class Guard(train.RunGuard):
    def on_train_begin(self, args, state, control, **kwargs):
        rows = [self.trainer.train_dataset[index] for index in range(4)]
        batch = self.trainer._prepare_inputs(self.trainer.data_collator(rows))
        ids, mask = batch["input_ids"], batch["attention_mask"]
        seen = []
        for model in (self.trainer.model, self.trainer.ref_model):
            with torch.no_grad():
                logits = model.eval()(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            likely = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
            seen.append((likely * mask[:, 1:]).sum(-1).tolist())
        Path(f"seen-{args.process_index}").write_text(json.dumps(seen))
        raise SystemExit


train.RunGuard = Guard
train.main()
"""

pytestmark = pytest.mark.executes


def seen_by_ranks(folder: Path, recipe: str, script: str) -> list[str]:
    """What two ranks wrote that the bundle's launch script started with `script` in place of train.py."""
    (folder / "recipe.toml").write_text(recipe)
    (folder / "data").symlink_to(RECIPES / "data")
    done = compile_recipe(folder / "recipe.toml")
    assert done.lock is not None, done.diagnostics
    write_bundle(folder / "out", done.files, done.plan_json, done.lock)
    (folder / "sandbox").mkdir()
    sandbox = make_sandbox(read_bundle(folder / "out"), folder / "sandbox", 40)
    bundle = sandbox.bundle.root
    (bundle / "seen.py").write_text(script)
    lines = (bundle / "launch/local.sh").read_text().replace("\\\n", " ").splitlines()
    kept = [line for line in lines if 'evaluate.py"' not in line]
    (bundle / "launch/seen.sh").write_text("\n".join(kept).replace("/train.py", "/seen.py"))
    outcome = prepare_launch(sandbox, 2, False, VerifyReport("run")).start("seen", "launch/seen.sh")
    assert outcome.ok, outcome.tail()
    return [next(sandbox.root.rglob(f"seen-{rank}")).read_text() for rank in range(2)]


@pytest.mark.parametrize("strategy", quick_where({"ddp"}, ["ddp", "zero3"]))
def test_all_ranks_begin_with_the_same_weights(tmp_path: Path, strategy: str) -> None:
    recipe = (RECIPES / "from-scratch.toml").read_text().replace('"zero3"', f'"{strategy}"')
    first, second = seen_by_ranks(tmp_path, recipe, SEEN)
    assert first == second
    assert float(first.split()[1]) > 0.01, "they are random, not zero"


@pytest.mark.parametrize("method", quick_where({"dpo"}, ["dpo", "kto"]))
def test_every_rank_of_fsdp_has_its_shard_of_the_reference(tmp_path: Path, method: str, forked: None) -> None:
    """Of a model that is loaded beside the policy, TRL hands no weights out, as accelerate does of the policy's."""
    recipe = (RECIPES / "fsdp.toml").read_text()
    changes = {'"instruct"': '"align"', "train = ": "preferences = ", "chat.jsonl": "pairs.jsonl"}
    for old, new in changes.items():
        assert old in recipe, "the test is out of date"
        recipe = recipe.replace(old, new)
    recipe += f'\n[alignment]\nmethod = "{method}"\nprecompute_reference = false\n'
    first, second = map(json.loads, seen_by_ranks(tmp_path, recipe, LIKELIHOODS))
    assert first == second, "the ranks see the same models"
    policy, reference = first
    assert reference == policy, "the reference is the policy that training begins with"
    assert len(set(reference)) > 1
