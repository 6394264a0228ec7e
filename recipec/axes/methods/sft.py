"""Supervised fine-tuning."""

from recipec.axes.method import Default, Method, Pass

_TABLE = "docs/rule-books.md, 001, Key Hyperparameter Rules"
_SIZES = "docs/rule-books.md, 001, Data size for instruction tuning"

SFT = Method(
    name="sft",
    title="supervised fine-tuning",
    learns="the answers, not the questions",
    full_name="full fine-tuning",
    source="TRL 1.16 trainer/sft_trainer.py",
    task="instruct",
    alignment="",
    means="follow instructions: supervised fine-tuning",
    section="train",
    formats=("chat", "instruction", "prompt-completion", "text"),
    kinds=("chat", "completion", "text"),
    after=(),
    module="trl",
    trainer="SFTTrainer",
    config="SFTConfig",
    auto_class="AutoModelForCausalLM",
    peft_task="CAUSAL_LM",
    random_weights=False,
    passes=(Pass(model="policy", sequences=1, gradient=True, gives="tokens"),),
    head="chunked",
    loss="supervised",
    loss_outputs=("log_probs", "entropy", "is_top1"),
    generates=False,
    block_tokens=None,
    packs="examples",
    packs_because="",
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="group_by_length",
    sampling_because="rows of similar length leave little padding, and the longest batch comes first, in step 1",
    drops_dropout=False,
    keeps_recomputation=True,
    accumulates_by_tokens=True,
    adaptations=("lora", "qlora", "full"),
    adaptations_because="",
    preferred=(),
    preferred_because="",
    learning_rate=(
        Default(
            3e-4,
            "fewer than 1,000 rows give few steps, so they may be larger",
            f"{_SIZES} (3e-4)",
            accepts=(1e-4, 3e-4),
            adaptations=("qlora",),
            sizes=("<1K",),
        ),
        Default(
            2e-4,
            "usual start for supervised training of an adapter on a 4-bit base",
            f"{_TABLE}, Step 1 (QLoRA)",
            accepts=(1e-4, 3e-4),
            adaptations=("qlora",),
        ),
        Default(
            3e-4,
            "fewer than 1,000 rows give few steps, so they may be larger",
            f"{_SIZES} (3e-4)",
            accepts=(1e-4, 5e-4),
            adaptations=("lora",),
            sizes=("<1K",),
        ),
        Default(
            2e-4,
            "usual start for supervised LoRA training",
            f"{_TABLE}, Step 1; 003, Learning rate & schedule",
            accepts=(1e-4, 5e-4),
            adaptations=("lora",),
        ),
        Default(
            2e-5,
            "usual start for supervised training of all weights",
            f"{_TABLE}, Step 1",
            accepts=(1e-5, 5e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(
        Default(
            0.1,
            "fewer than 1,000 rows give a few dozen steps, and a smaller share of them is hardly a step",
            _TABLE,
            accepts=(0.03, 0.1),
            sizes=("<1K",),
        ),
        Default(0.03, "usual share for fine-tuning", f"{_TABLE}; 003, Learning rate & schedule", accepts=(0.03, 0.1)),
    ),
    epochs=(
        Default(
            5, "fewer than 1,000 rows, and adapters", _SIZES, (1, 9), adaptations=("lora", "qlora"), sizes=("<1K",)
        ),
        Default(3, "fewer than 1,000 rows, which all weights can memorize", _SIZES, (1, 9), sizes=("<1K",)),
        Default(3, "1,000 to 10,000 rows", _SIZES, (1, 5), sizes=("1K-10K",)),
        Default(2, "10,000 to 100,000 rows", _SIZES, (1, 5), sizes=("10K-100K",)),
        Default(1, "more than 100,000 rows", _SIZES, (1, 3), sizes=(">100K",)),
    ),
    global_batch=(
        Default(64, "common global batch for training all weights", _TABLE, accepts=(32, 512), adaptations=("full",)),
        Default(
            32,
            "common global batch for supervised LoRA training",
            f"{_TABLE}; 003, Quality Gates",
            accepts=(16, 128),
        ),
    ),
    weight_decay=(Default(0.01, "usual start for fine-tuning", _TABLE, accepts=(0.01, 0.1)),),
    adam_beta2=(Default(0.999, "the default of AdamW: a memory of about 1,000 steps", "torch 2.13 optim/adamw.py"),),
    lora_rank=(
        Default(
            32, "more than 100,000 rows hold more than a rank of 16 can take up", _TABLE, (8, 64), sizes=(">100K",)
        ),
        Default(16, "usual start; harder tasks take more", f"{_TABLE}, Step 3; 003, Stack Defaults", (8, 64)),
    ),
    lora_alpha_most=128,
    lora_dropout=(
        Default(
            0.1,
            "fewer than 1,000 rows are repeated five times",
            f"{_TABLE}, Anti-Pattern 1",
            (0.0, 0.3),
            sizes=("<1K",),
        ),
        Default(0.05, "usual start against overfitting", "docs/rule-books.md, 001, Step 3", (0.0, 0.3)),
    ),
    own=(),
    metrics=("mean_token_accuracy", "eval_mean_token_accuracy", "entropy", "perplexity"),
    proof=("loss_halves",),
)
