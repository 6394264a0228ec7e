"""What the rule books ask for and this version does not build: said on a page instead of left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A branch or row that has no rule yet."""

    id: str
    title: str
    source: str
    why: str
    instead: str


UNBUILT = (
    Unbuilt(
        "NOT-001",
        "PPO (SFT, reward model, PPO)",
        "rule book 001, Alignment method? (KL control high; budget for three stages), Step 1",
        "the pinned TRL 1.16 has no PPO trainer (removed in 1.13, trl #7020), and there is no own loop for it yet",
        'alignment.method = "dpo", whose beta controls the KL to the reference',
    ),
    Unbuilt(
        "NOT-003",
        "Continued pretraining and instruction tuning in one recipe",
        "rule book 003, Which fine-tuning method? (domain shift)",
        "this version runs one of the two per recipe",
        "two recipes; the second names the output folder of the first as its model",
    ),
    Unbuilt(
        "NOT-004",
        "Replay of 10-30 % general data, EWC, multi-task mixing",
        "rule book 001, Rules, Anti-Pattern 6",
        "mixing sources is not in this version",
        "mix 10-30 % of general rows into data.train yourself; a lower rank and learning rate also forget less",
    ),
    Unbuilt(
        "NOT-005",
        "MinHash deduplication and quality scores",
        "rule book 003, Anti-Patterns; 001, Data Pipeline Architecture",
        "only identical rows are removed in this version",
        "run a near-duplicate filter before data.train; exact duplicates are handled",
    ),
    Unbuilt(
        "NOT-006",
        "Several adapters on one base, AdapterFusion, bottleneck adapters",
        "rule book 001, Multi-task / multi-domain?, Step 1 (Adapters)",
        "one adapter per recipe in this version; the adapters package does not import under transformers 5",
        "one recipe per task: the adapters share the base and are loaded by name",
    ),
    Unbuilt(
        "NOT-007",
        "Hyperparameter search and the learning-rate range test",
        "rule book 001, Hyperparameter Optimization; 003, Learning rate & schedule (10x LR sweep on 1 % data)",
        "tune.py is not in this version",
        "build the recipe with three values of train.learning_rate and compare eval_loss after 100 steps",
    ),
    Unbuilt(
        "NOT-008",
        "Tensor, context, expert and pipeline parallelism",
        "rule book 001, Decision Tree (> 160 GB); 000, DeepSpeed-MoE",
        "tensor, context and expert parallel layouts are planned and not built: transformers cannot resume a model "
        "that was split at load. Trainer refuses pipelines; DeepSpeed's AutoTP gives a wrong loss under SFTTrainer",
        "FSDP, HSDP or ZeRO-3 over more GPUs; `recipec plan` shows the others with their figures",
    ),
    Unbuilt(
        "NOT-009",
        "The forgetting set with its 5 % alarm, task accuracy",
        "rule book 001, Evaluation Loop Architecture",
        "evaluation measures loss on held-out rows in this version",
        "evaluate a general set before and after with evaluate.py",
    ),
    Unbuilt(
        "NOT-010",
        "Repairs that need a running job: halve the batch on OOM, halve the rate on NaN",
        "rule book 003, Learning rate & schedule, Batch size & gradient accumulation; 001, Anti-Patterns 1-7",
        "the compiler plans before the run; what went wrong in one is not read back in this version",
        "each rule's `watch` names the sign; OOM: halve train.micro_batch_size (accumulation doubles by itself); "
        "NaN: halve train.learning_rate",
    ),
    Unbuilt(
        "NOT-011",
        "Streaming data sets larger than the disk, asynchronous checkpoints, SQL sources, PII removal",
        "rule book 001, Data Pipeline Architecture, Anti-Pattern 4",
        "prepared data are memory-mapped files on disk in this version",
        "write the rows to JSONL first",
    ),
    Unbuilt(
        "NOT-012",
        "Entries sent to a model registry",
        "rule book 001, Model Registry (MLflow Style)",
        "registry/entry.json is a draft in this version; nothing is sent to a server",
        "fill in its metrics after the run and register it with your own tool",
    ),
    Unbuilt(
        "NOT-013",
        "DoRA, prompt tuning, P-tuning, prefix tuning, IA3",
        "rule book 001, description (prompt tuning, PEFT)",
        "full fine-tuning and LoRA, also on a 4-bit base, are what this version emits",
        'train.adaptation = "lora"; prompt tuning under FSDP would freeze anyway (trl #1164)',
    ),
    Unbuilt(
        "NOT-014",
        "The overfit-one-batch test before full training",
        "rule book 001, Rules (model should memorize one batch)",
        "launch scripts start the training itself in this version",
        "run train.py with --max-steps on a data file of one batch; the loss must go towards 0",
    ),
)
