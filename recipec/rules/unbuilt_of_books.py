"""What the rule books want and recipec does not build: said on a page instead of left out."""

from __future__ import annotations

from msgspec import Struct


class Unbuilt(Struct, frozen=True):
    """A branch or row of a rule book that has no rule, or a word of the field that has no key."""

    id: str
    title: str
    source: str
    why: str
    instead: str
    words: tuple[str, ...] = ()  # what people type for it, as a key or a value of a recipe; in lower case


OF_BOOKS = (
    Unbuilt(
        "NOT-001",
        "Other methods that learn from answers they write",
        "TRL 1.16, experimental/ (online_dpo, nash_md, xpo, minillm, gold)",
        "each is another way to use rewards or a judge, and GRPO, RLOO and PPO have their place",
        'set `alignment.method = "grpo"`, `"rloo"` or `"ppo"` with prompts and a reward function, or `"dpo"` with '
        "preferences; each has a beta that controls the distance to the reference model",
        words=(
            "online_dpo",
            "rlaif",
            "rlhf_ppo",
            "iterative_dpo",
            "rejection_sampling",
            "best_of_n",
            "nash",
            "nash_md",
            "xpo",
            "spin",
            "self_play",
            "minillm",
            "gold",
        ),
    ),
    Unbuilt(
        "NOT-005",
        "MinHash deduplication and quality scores",
        "docs/rule-books/003.md, Anti-patterns; docs/rule-books/001.md, Data pipeline architecture; Rules",
        "recipec removes identical rows only",
        "run a filter for similar or bad rows on the files of `data.train`",
        words=("minhash", "near_dedup", "quality_score"),
    ),
    Unbuilt(
        "NOT-006",
        "X-LoRA: a learned mix of LoRA adapters",
        "docs/rule-books/001.md, Decision tree: multi-task / multi-domain",
        "`[fusion]` mixes bottleneck adapters alone, for which AdapterFusion is defined. X-LoRA needs hidden states "
        "that the loss of TRL's SFTTrainer does not return (PEFT 0.21.2, TRL 1.16)",
        "write an empty table `[fusion]` beside `[[adapters]]`, which trains bottleneck adapters and a learned mix of "
        "them; or leave it out: combine.py of the bundle merges, ensembles and routes LoRA adapters without further "
        "training",
        words=("x_lora", "xlora"),
    ),
    Unbuilt(
        "NOT-007",
        "Hyperparameter search and the learning rate range test",
        "docs/rule-books/001.md, Hyperparameter optimization; docs/rule-books/002.md, Step 4; Best practices; "
        "Anti-patterns; docs/rule-books/003.md, Learning rate & schedule; docs/rule-books/000.md, Description",
        "recipec does not emit a search script",
        "build the recipe with three values of `train.learning_rate` and compare `eval_loss` after 100 steps",
        words=(
            *("hyperparameter_search", "hyperparameter_optimization", "hyperparameter_tuning", "hpo", "grid_search"),
            *("random_search", "bayesian_optimization", "sweep", "optuna", "lr_finder", "learning_rate_finder"),
        ),
    ),
    Unbuilt(
        "NOT-008",
        "Tensor, context and pipeline parallelism, and experts spread over ranks by FSDP",
        "docs/rule-books/001.md, Decision tree: available compute; docs/rule-books/004.md, Parallelism types",
        "recipec plans tensor, context and expert parallelism and cannot build it, because transformers cannot "
        "resume a model that was split at load. The Trainer refuses pipelines, and DeepSpeed's tensor parallelism "
        "gives a wrong loss with SFTTrainer. Experts alone are spread over ranks, by DeepSpeed-MoE, in pretraining "
        'with `train.loop = "deepspeed"` (MOE-001)',
        "use FSDP2, HSDP or ZeRO-3 over more GPUs; `recipec plan` shows the other layouts with their figures. The "
        "Trainer trains mixtures of experts so, all weights or adapters, with a loss that keeps the load of the "
        "experts balanced, and drops no token",
        words=(
            "pipeline_parallel",
            "pipeline_parallel_size",
            "pp_size",
            "pp",
            "pipeline",
            "pipeline_parallelism",
            "tensor_parallelism",
            "tp",
            "cp",
            "sp",
            "sequence_parallel",
            "sequence_parallel_degree",
            "sequence_parallel_size",
            "ulysses",
            "ring_attention",
            "drop_tokens",
        ),
    ),
    Unbuilt(
        "NOT-009",
        "Task accuracy, and checks on tasks of what was forgotten",
        "docs/rule-books/001.md, Evaluation loop architecture; docs/rule-books/002.md, Step 1 (accuracy)",
        "evaluate.py reports what the method measures on held-out rows, and with `data.general` the loss on rows of it "
        "(REPLAY-002), and answers no benchmark",
        "evaluate the model on tasks of your own before and after training",
        words=(
            "lm_eval",
            "lm_eval_tasks",
            "benchmarks",
            "rouge",
            "bleu",
            "accuracy",
            "mmlu",
            "do_bench_eval",
            "predict_with_generate",
            "compute_accuracy",
            "compute_metrics",
        ),
    ),
    Unbuilt(
        "NOT-010",
        "Automatic recovery from out-of-memory errors and NaN",
        "docs/rule-books/003.md, Learning rate & schedule; Batch size & gradient accumulation; "
        "docs/rule-books/001.md, Anti-patterns; docs/rule-books/000.md, Description (debugging "
        "of loss curves)",
        "recipec plans before the run and does not read the results of a failed run",
        "each rule's `Watch` line names the sign and the key. Out of memory: halve `train.micro_batch_size`, and "
        "gradient accumulation follows. NaN: halve `train.learning_rate`",
        words=("auto_find_batch_size", "auto_recovery"),
    ),
    Unbuilt(
        "NOT-011",
        "Training on rows that are never on the disk, asynchronous checkpoints, SQL sources, removal of personal data",
        "docs/rule-books/001.md, Data pipeline architecture; Anti-pattern 4",
        "training reads prepared rows, which are checked, split and counted on the disk first; the Trainer writes "
        "checkpoints synchronously",
        "if a data set of the Hub is larger than the disk, stream its first rows: "
        '`train = { hub = "HuggingFaceFW/fineweb-edu", take = 1_000_000 }`; export the rows of a database to JSONL, '
        "without personal data",
        words=(
            "streaming",
            "async_checkpoint",
            "async_save",
            "pii",
            "stream",
            "s3",
            "gcs",
            "gs",
            "object_store",
            "buffer_size",
            "sql",
        ),
    ),
    Unbuilt(
        "NOT-012",
        "Registering the model on a server",
        "docs/rule-books/001.md, Model registry; Storage requirements; docs/rule-books/002.md, Step 5",
        "`registry/entry.json` is a draft, and recipec sends nothing to a server",
        "fill in its metrics after the run and register it with your own tool",
        words=("register", "registry_uri", "registered_model_name"),
    ),
    Unbuilt(
        "NOT-013",
        "AdaLoRA, LoftQ, VeRA and other variants of LoRA",
        "docs/rule-books/001.md, Description",
        "recipec supports full fine-tuning, LoRA, QLoRA, of their variants rsLoRA, DoRA, PiSSA and LoRA+, IA3, prompt "
        "tuning, P-tuning, prefix tuning and bottleneck adapters",
        'set `train.adaptation = "lora"`, with `train.lora.variant` for a variant that is built',
        words=(
            "loftq",
            "loftq_config",
            "adalora",
            "vera",
            "oft",
            "boft",
            "relora",
            "layer_replication",
            "layers_to_transform",
            "peft_layers_to_transform",
            *("loha", "lokr", "ln_tuning", "fourierft", "hra", "vblora", "eva", "olora", "corda", "lora_fa"),
        ),
    ),
    Unbuilt(
        "NOT-014",
        "The overfit-one-batch test before training",
        "docs/rule-books/001.md, Rules",
        "the launch script starts the training itself",
        "run `train.py --max-steps 50` on a data file of one batch; the loss must fall towards 0",
        words=("overfit_batches", "overfit_one_batch"),
    ),
    Unbuilt(
        "NOT-015",
        "Training loops of your own on FSDP",
        "docs/rule-books/002.md, Step 3",
        "`train.loop` writes loops on Accelerate for one device and DDP, on PyTorch for one device, and on DeepSpeed's "
        "engine for ZeRO; sharded checkpoints of FSDP are only in the Trainer's bundles",
        'set `train.loop = "deepspeed"`, whose ZeRO-3 shards as much, or leave it out and edit the `train.py` of the '
        "trainer; a rebuild merges your edit",
        words=("fsdp_loop",),
    ),
    Unbuilt(
        "NOT-016",
        "Megatron-LM, Lightning and Horovod",
        "docs/rule-books/004.md, Ecosystem",
        "bundles run on the Hugging Face Trainer; these frameworks have checkpoints and launchers of their own",
        "use FSDP2, HSDP or ZeRO-3, which the planner lays out over all GPUs",
        words=("megatron", "megatron_lm", "lightning", "horovod", "mpirun"),
    ),
    Unbuilt(
        "NOT-018",
        "Jobs for SLURM, Kubernetes, Ray and cloud services, container images",
        "docs/rule-books/004.md, Ecosystem (schedulers)",
        "recipec writes `launch/local.sh` or `launch/nodes.sh` and no job file",
        "set `hardware.nodes` and start `launch/nodes.sh` on every node from your own job, with its NODE_RANK; under "
        "`srun` it takes node and address from Slurm, and README.md has the line",
        words=(
            "slurm",
            "sbatch",
            "srun",
            "kubernetes",
            "k8s",
            "kubeflow",
            "docker",
            "ray",
            "ray_train",
            "sagemaker",
            "skypilot",
            "modal",
            "runpod",
            "vertex",
            "azureml",
        ),
    ),
    Unbuilt(
        "NOT-019",
        "Offload to NVMe (ZeRO-Infinity)",
        "docs/rule-books/004.md, FSDP and DeepSpeed compared; docs/rule-books/001.md, Storage requirements",
        "DeepSpeed 0.19.8 saved such a run and resumed it from the wrong weights when it was tried: loss 5.21 without "
        "a break, 5.83 resumed",
        'set `train.offload = "cpu"` with `hardware.host_memory_gib`; NVMe disks for rows and checkpoints need no key',
        words=("nvme", "nvme_path", "nvme_offload", "offload_nvme", "zero_infinity"),
    ),
    Unbuilt(
        "NOT-020",
        "A change of style as a goal of its own",
        "docs/rule-books/001.md, Decision tree: fine-tuning or continued pre-training",
        "the rule book sends a change of style where it sends a new domain, and the number of rows decides alone: full "
        "fine-tuning over 100,000 rows, LoRA below (ADPT-001). `goal.new_domain` also raises the rank of adapters, "
        "for words that the model does not know",
        'leave `goal.new_domain` out; set `train.adaptation = "full"` to train every weight on fewer rows',
        words=("style", "style_change", "new_style", "change_of_style"),
    ),
)
