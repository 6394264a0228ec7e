"""What TRL, axolotl, LLaMA-Factory and papers have, and recipec does not build: said on a page."""

from __future__ import annotations

from recipec.rules.unbuilt_of_books import Unbuilt

OF_TOOLS = (
    Unbuilt(
        "NOT-021",
        "Base models quantized otherwise than to 4-bit NF4 or 8 bits: GPTQ, AWQ, FP8, FP4",
        "transformers 5.23, quantizers",
        "the memory, the merge and the evaluation of a bundle are tested with bitsandbytes' NF4 and LLM.int8() alone",
        'set `train.adaptation = "qlora"`, which stores the base model in 4-bit NF4, or `"lora-int8"`; a model that is '
        "published in GPTQ, AWQ or FP8 has an unquantized original to name in `model.name`",
        words=("gptq", "awq", "fp4", "mxfp4", "nvfp4", "hqq", "eetq", "aqlm", "quantized_model"),
    ),
    Unbuilt(
        "NOT-022",
        "Schedules with restarts, polynomials or a floor",
        "transformers 5.23, optimization.py",
        "recipec takes the schedules that the rule books and the papers of its methods use",
        'set `train.schedule` to "cosine", "linear", "constant" or "warmup-stable-decay"',
        words=(
            "polynomial",
            "inverse_sqrt",
            "cosine_with_restarts",
            "cosine_with_min_lr",
            "one_cycle",
            "rex",
            "min_lr",
            "cosine_min_lr_ratio",
            "cosine_constant_lr_ratio",
        ),
    ),
    Unbuilt(
        "NOT-023",
        "Attention and loss kernels of other packages: xFormers, FlexAttention, FlashAttention 3, Liger, Unsloth",
        "transformers 5.23, integrations; TRL 1.16 trainer/sft_config.py (use_liger_kernel)",
        "a bundle installs the packages that its tests run with, and these kernels are not among them. TRL's trainers "
        "compute the loss without whole logits and refuse Liger's fused loss: Liger would bring its norms and gates. "
        "The package index has no version of `kernels` that transformers 5.23 takes",
        "leave `train.attention` out: PyTorch's fused kernels have a flash kernel; "
        '`train.attention = "torch_varlen"` packs short examples with a kernel of PyTorch itself',
        words=(
            *("xformers", "flex_attention", "fa3", "flash_attention_3", "sage_attention", "paged_attention"),
            *("unsloth", "use_unsloth", "unsloth_checkpointing", "liger", "liger_kernel", "cut_cross_entropy", "apex"),
            *("enable_liger_kernel", "fastlanguagemodel", "fastmodel", "unsloth_zoo"),
        ),
    ),
    Unbuilt(
        "NOT-024",
        "Trackers other than TensorBoard, Weights & Biases and MLflow",
        "transformers 5.23, integrations/integration_utils.py",
        "recipec writes the project and the run name for these three trackers",
        'set `track.to` to "tensorboard", "wandb" or "mlflow"',
        words=("comet", "comet_ml", "neptune", "swanlab", "clearml", "aim", "dvclive", "dagshub", "trackio"),
    ),
    Unbuilt(
        "NOT-025",
        "Whole embeddings or other modules trained beside an adapter",
        "PEFT 0.21, modules_to_save",
        "the plan, the saved adapter and its merge have the adapter's matrices and, with `model.new_tokens`, the rows "
        "of the new tokens",
        "set `model.new_tokens` for tokens that the model lacks: LoRA trains their rows; set "
        '`train.adaptation = "full"` to train the embeddings of all tokens',
        words=("modules_to_save", "lora_modules_to_save", "additional_target", "embedding_lr"),
    ),
    Unbuilt(
        "NOT-026",
        "A longer context than the model has: RoPE scaling, YaRN, LongLoRA",
        "transformers 5.23, modeling_rope_utils.py",
        "recipec takes the context and its scaling from the model's config.json, and has no key for them; a larger "
        "`data.max_length` is trained with, and W0501 says that it is beyond the context",
        'copy the model to a folder, name that in `model.name`, and write `"rope_type": "yarn"`, `"factor": 4.0` and '
        '`"original_max_position_embeddings": 32768`, with the numbers that its makers give, into `rope_parameters` of '
        "its config.json, or into `rope_scaling` where the file has no `rope_parameters`",
        words=("rope_scaling", "rope_theta", "yarn", "long_context", "longlora", "shift_attn", "sliding_window"),
    ),
    Unbuilt(
        "NOT-027",
        "Other optimizers: Muon, GaLore, APOLLO, BAdam, LOMO, Adam-mini, Sophia, Shampoo, Schedule-Free",
        "transformers 5.23, training_args.py",
        "the memory of a plan is a law of each optimizer, and recipec has those of `train.optimizer` alone",
        'set `train.optimizer` to "adamw", "adamw-8bit", "adafactor", "lion" or "sgd"',
        words=(
            *("muon", "galore", "use_galore", "apollo", "use_apollo", "badam", "use_badam", "lomo", "adalomo"),
            *("adam_mini", "use_adam_mini", "sophia", "shampoo", "soap", "schedule_free", "schedule_free_adamw"),
            *("schedulefree", "schedule_free_sgd", "schedule_free_radam"),
            *("ademamix", "adagrad", "rmsprop", "came", "lamb", "layerwise_lr", "grokfast"),
        ),
    ),
    Unbuilt(
        "NOT-028",
        "Images, audio and video; classifiers, embedding models and rerankers",
        "TRL 1.16; transformers 5.23",
        "recipec trains models that write text, and reward models over text",
        "the language model of a checkpoint that reads images, such as google/gemma-3-4b-it, is trained on text: name "
        "one of the catalog in `model.name`, or a folder with one; "
        'for classes of texts write `columns = { prompt = "text", completion = "label" }` under [data]: a model that '
        'writes text then answers with the class; `goal.task = "reward"` trains a model that scores an answer; remove '
        "other columns from the rows, or name them in `data.ignore`",
        words=(
            *("vision", "multimodal", "vlm", "image", "images", "audio", "audios", "video", "videos", "freeze_vision"),
            *("vision_language", "vision_language_model", "vision_language_models", "vision_text", "vlms", "mllm"),
            *("image_text_to_text", "multi_modal", "visual", "freeze_vision_tower", "freeze_multi_modal_projector"),
            *(
                "classification",
                "classifier",
                "text_classification",
                "sequence_classification",
                "token_classification",
                "classify",
                "regression",
                "embedding",
                "embeddings",
                "reranker",
                "sentence_transformers",
            ),
        ),
    ),
    Unbuilt(
        "NOT-029",
        "Files and servers for serving: GGUF, ONNX, vLLM, Ollama",
        "llama.cpp (github.com/ggml-org/llama.cpp), convert_hf_to_gguf.py",
        "a bundle ends with a model that `from_pretrained` loads, and with its evaluation",
        "convert the folder of the result, after `merge_adapter.py` where an adapter was trained, with the tool of "
        "your server",
        words=("gguf", "ggml", "llama.cpp", "llama_cpp", "ollama", "onnx", "tgi", "sglang", "export"),
    ),
    Unbuilt(
        "NOT-030",
        "Other losses: BCO, NCA, RPO, SPPO, DFT, focal loss, z-loss",
        "TRL 1.16, trainer/dpo_config.py",
        "recipec has a row with range, starting value and proof for each loss that it builds",
        "see `recipec list methods`, and `recipec explain alignment.loss` for the losses of preferences",
        words=(
            "bco",
            "nca",
            "rpo",
            "rpo_alpha",
            "sppo",
            "exo_pair",
            "apo",
            "dft",
            "use_dft",
            "focal_loss",
            "z_loss",
            "eaft",
            "asft",
        ),
    ),
    Unbuilt(
        "NOT-031",
        "Training some layers of a model",
        "transformers 5.23",
        "full fine-tuning trains every weight, and adapters train beside frozen ones",
        'set `train.adaptation = "lora"`, and `train.lora.targets` to the modules that get an adapter',
        words=(
            *("freeze", "frozen", "freeze_layers", "freeze_trainable_layers", "freeze_trainable_modules"),
            *("unfrozen_parameters", "trainable_layers", "lisa", "spectrum", "llama_pro", "use_llama_pro"),
        ),
    ),
    Unbuilt(
        "NOT-033",
        "Accelerators other than GPUs of NVIDIA and AMD",
        "torch 2.13; DeepSpeed 0.19.8",
        "the plan has the memory and the speed of GPUs, and of a CPU for a trial",
        'set `hardware.gpu` to a GPU of `recipec list gpus`, or to "cpu"',
        words=("tpu", "xla", "mps", "metal", "npu", "gaudi", "trainium", "xpu"),
    ),
    Unbuilt(
        "NOT-034",
        "Files of rows other than JSON, JSON lines, CSV, Parquet and text",
        "datasets 5.2",
        "prepare_data.py reads files itself and names a bad row by file and line, and it knows these kinds",
        "write the rows as JSON lines: `Dataset.load_from_disk(FOLDER).to_json(FILE)` does it for Arrow, "
        "`gzip -d` or `zstd -d` for packed files",
        words=(
            "tsv",
            "arrow",
            "feather",
            "load_from_disk",
            "gzip",
            "gz",
            "zst",
            "zstd",
            "xlsx",
            "webdataset",
            "tfrecord",
        ),
    ),
    Unbuilt(
        "NOT-035",
        "Merges of several models and averages of weights",
        "github.com/arcee-ai/mergekit",
        "a bundle trains one model and keeps its best checkpoint",
        "merge the results of several bundles with a tool of your own",
        words=("mergekit", "merge_kit", "model_merging", "model_soup", "ema", "swa"),
    ),
    Unbuilt(
        "NOT-036",
        "ZeRO++: quantized communication and partitions within a node",
        "ZeRO++ (arXiv 2306.10209)",
        "recipec writes the DeepSpeed settings that its runs were tried with",
        'set `train.strategy = "hsdp"`, which keeps the weights\' traffic within a node',
        words=("zero++", "zeropp", "zero_plus_plus", "hpz", "zero_hpz_partition_size", "mics"),
    ),
    Unbuilt(
        "NOT-040",
        "vLLM on another node than the training, and in methods other than GRPO",
        "TRL 1.16, trainer/grpo_config.py (vllm_mode), rloo_config.py and distillation_config.py",
        "the launch scripts start the server only on the one node that trains; RLOO and "
        "distillation do not correct that vLLM's probabilities differ from those that learn",
        'set `alignment.generation.engine = "vllm-server"` for GRPO, where vLLM writes on GPUs that do not train, or '
        '"vllm" for those that do; to serve the result with vLLM, see NOT-029',
        words=("vllm_server_host", "vllm_server_base_url"),
    ),
    Unbuilt(
        "NOT-041",
        "Rollouts that a function of yours writes, and several environments in one training",
        "TRL 1.16, trainer/grpo_trainer.py (rollout_func, a dict as environment_factory)",
        "a rollout function brings tokens of its own, whose number, memory and time no plan has",
        "write the turns as one class in `alignment.environment`, whose `reset` reads what kind of task a row is",
        words=("rollout_func", "rollout_function", "environment_factories", "multi_environment"),
    ),
    Unbuilt(
        "NOT-042",
        "Judges that write a verdict",
        "TRL 1.16, trainer/grpo_trainer.py (reward_funcs)",
        "rewards are Python functions and reward models, which give each answer a number",
        "let a reward function ask the judge and read a number from its verdict; a reward model that you have is "
        "`alignment.reward.model`",
        words=("judge", "judges", "llm_judge", "pairrm"),
    ),
    Unbuilt(
        "NOT-043",
        "Other losses of GRPO: BNPO, LUSPO, VESPO, GDPO, and references that follow the policy",
        "TRL 1.16, trainer/grpo_config.py (loss_type, multi_objective_aggregation, sync_ref_model)",
        "each variant is a row with the values of its paper, and these have none yet; a synced reference is not in the "
        "checkpoint, so that a resumed run would start it again",
        "choose one of the values of `alignment.variant`",
        words=("bnpo", "luspo", "vespo", "gdpo", "lite_ppo", "reinforce++", "reinforce_plus_plus"),
    ),
    Unbuilt(
        "NOT-044",
        "Distillation on a mixture of given and written answers, and on answers of the teacher",
        "GKD (arXiv 2306.13649, 2023); TRL 1.16, experimental/gkd/gkd_config.py (lmbda, seq_kd)",
        "each method learns from one kind of answers: TRL's DistillationTrainer has no share of given ones, and its "
        "GKDTrainer draws by chance, on every process apart, which kind a batch has",
        'set `goal.task = "on-policy-distill"` for a lambda of 1 or `"distill"` for 0, one after the other in two '
        "recipes where you want both; answers of the teacher are rows of `data.train`: let it write them before",
        words=("lmbda", "seq_kd", "sequence_kd", "distillation_alpha"),
    ),
    Unbuilt(
        "NOT-045",
        "Margins of pairs in the loss of a reward model",
        "Llama 2 (arXiv 2307.09288, 2023); TRL 1.16, trainer/reward_trainer.py (margin)",
        "a reward model learns from which answer of a pair is better, and not from by how much: prepare_data.py hands "
        "no column `margin` on, so a recipe whose pairs have one is refused (E0401)",
        'train without the margins, `ignore = ["margin"]` under [data], or leave out pairs whose margin is small '
        "before you train; the target margin of SimPO is `alignment.gamma`",
        words=("margin", "reward_margin", "preference_margin"),
    ),
)
