"""Continued pretraining: a trained model learns a domain from its raw text."""

from recipec.axes.adaptations import WITHOUT_PROMPTS
from recipec.axes.hyperparameters import Default
from recipec.axes.method import Method, Pass

_TABLE = "docs/rule-books/001.md, Key hyperparameters"
# Rule books 001 and 003 give continued pretraining 1e-5 to 5e-5 and do not say which weights train.
_LORA_RATE = f"recipec's choice; {_TABLE} (column of LoRA)"
# Continued pretraining of Llama 3.1 8B and Qwen 2.5 7B, every weight: beta_2 0.95 in both.
_FAST_LLM = "github.com/ServiceNow/Fast-LLM, docs/recipes/continue-training.md (commit 44facac)"
_LOW_END = "low end of the usual LoRA range, because continued pretraining takes many steps"

CONTINUE_PRETRAIN = Method(
    name="continue-pretrain",
    title="continued pretraining",
    learns="every token of the text",
    full_name="full fine-tuning",
    example="sequence",
    elsewhere=("pt", "cpt", "continued-pretraining", "continued_pretraining"),
    source="TRL 1.16 trainer/sft_trainer.py",
    task="continue-pretrain",
    alignment="",
    means="continued pretraining on raw text",
    section="domain_text",
    formats=("text",),
    kinds=("text",),
    after=(),
    module="trl",
    trainer="SFTTrainer",
    config="SFTConfig",
    auto_class="AutoModelForCausalLM",
    new_head="",
    random_weights=False,
    generator="",
    judge="",
    passes=(Pass(model="policy", sequences=1, gradient=True, gives="tokens"),),
    loss="supervised",
    loss_outputs=("log_probs", "entropy", "is_top1"),
    block_tokens=2048,
    packs="blocks",
    packs_because="documents are joined and cut into full blocks, so no padding is needed; documents of one block "
    "attend to each other",
    unread={},
    truncates=True,
    least_micro_batch=1,
    least_micro_batch_because="",
    sampling="random",
    sampling_because="documents are cut into blocks of one length; without packing, short ones are padded",
    unread_arguments=(),
    precomputes="",
    drops_dropout=False,
    keeps_recomputation=True,
    cached_bytes=45,
    copied_bytes=0,
    repeats="",
    adaptations=("lora", "qlora", "lora-int8", "ia3", "bottleneck", "full"),
    adaptations_because=WITHOUT_PROMPTS,
    preferred=("full", "lora", "qlora"),
    preferred_because="continued pretraining adds knowledge, so full fine-tuning is tried first",
    learning_rate=(
        Default(1e-4, _LOW_END, _LORA_RATE, accepts=(1e-4, 3e-4), adaptations=("qlora",)),
        Default(1e-4, _LOW_END, _LORA_RATE, accepts=(1e-4, 5e-4), adaptations=("lora",)),
        Default(
            2e-5,
            "usual start for continued pretraining of all weights",
            "docs/rule-books/001.md, Step 1; docs/rule-books/003.md, LR ranges",
            accepts=(1e-5, 5e-5),
            adaptations=("full",),
        ),
    ),
    warmup=(Default(0.03, "usual share for fine-tuning, of a model that is trained already", _TABLE, (0.01, 0.05)),),
    epochs=(Default(1, "each document is seen once", _TABLE, accepts=(1, 3)),),
    global_batch=(
        Default(
            128,
            "at most 100,000 blocks of text, so few in a step leave many steps",
            f"recipec's choice; {_TABLE}",
            (32, 4096),
            sizes=("<1K", "1K-10K", "10K-100K"),
        ),
        Default(512, "more than 100,000 blocks of text; small batches of pretraining", _TABLE, (32, 4096)),
    ),
    weight_decay=(
        Default(
            0.1,
            "usual for training on raw text, as in GPT-3 and LLaMA",
            f"{_TABLE}; GPT-3 (arXiv 2005.14165, 2020); LLaMA (arXiv 2302.13971, 2023)",
            accepts=(0.01, 0.1),
        ),
    ),
    adam_beta2=(
        Default(
            0.95,
            "training goes on as pretraining did, with the same weights and the same loss",
            _FAST_LLM,
            adaptations=("full",),
        ),
        Default(
            0.999,
            "default of AdamW, which averages squared gradients over about 1,000 steps",
            "docs/rule-books/002.md, Step 2; torch 2.13 optim/adamw.py",
        ),
    ),
    lora_rank=(
        Default(
            64,
            "new knowledge needs more capacity than the usual rank of 16",
            f"{_TABLE}; Anti-pattern 2 (16 to 64)",
            accepts=(8, 64),
        ),
    ),
    lora_alpha_most=128,
    lora_dropout=(
        Default(
            0.0,
            "each document is seen about once, so there is little to overfit",
            "docs/rule-books/001.md, Hyperparameter optimization (0 to 0.3); Anti-pattern 1",
            accepts=(0.0, 0.3),
        ),
    ),
    own=(),
    acts=(),
    acts_metrics=(),
    metrics=("mean_token_accuracy", "eval_mean_token_accuracy", "entropy", "perplexity"),
    proof=("loss_halves",),
)
