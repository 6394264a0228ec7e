"""Proximal policy optimization (arXiv 1707.06347): answers are written, judged token by token, and learned from."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object, set_seed
from peft import get_peft_model
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.data import DataLoader, Sampler
from transformers import AutoTokenizer, Trainer, TrainingArguments

from advantages import Answers, adapted, advantages_of, answer_mask, clipped_losses, distinct_pairs, token_rewards
from critic import add_value_head, estimated, estimated_by_parts, load
from rows import opening

STATE = "ppo.safetensors"  # of a checkpoint: the value head, and the weight of the KL


@dataclass
class PPOConfig(TrainingArguments):
    """What PPO is told beside what every training is; train.py says it."""

    model_init_kwargs: dict = field(default_factory=dict)
    remove_unused_columns: bool = False  # rewards may look at any column
    num_generations: int = 1  # answers to a prompt
    minibatches: int = 1  # optimizer steps of a pass over the answers of a generation
    answer_passes: int = 1  # over them
    max_completion_length: int = 512
    temperature: float = 1.0
    beta: float = 0.05  # weight of the KL to the reference
    target_kl: float = 0.0  # nats of an answer for which the weight is adapted; 0: it stays
    clip_range: float = 0.2
    value_clip_range: float = 0.2
    value_weight: float = 0.1
    gae_lambda: float = 0.95
    missing_eos_penalty: float = 1.0
    reward_weights: list[float] = field(default_factory=list)

    @property
    def generation_batch_size(self) -> int:
        """Answers that all ranks write before they learn from them."""
        return self.train_batch_size * self.gradient_accumulation_steps * self.minibatches * self.world_size


class AnswerOrder(Sampler[int]):
    """The prompts of a generation on all ranks, again for each micro step that learns from its answers.

    Only the seed and the epoch decide the order, so that a resumed run goes on with the prompts that are left.
    """

    def __init__(self, trainer: "PPOTrainer") -> None:
        self.trainer, args = trainer, trainer.args
        self.prompts = args.generation_batch_size // args.num_generations
        self.generations = len(trainer.train_dataset) // self.prompts

    def __len__(self) -> int:
        args = self.trainer.args
        return self.generations * self.prompts * args.num_generations * self.trainer.micro_steps

    def __iter__(self) -> Iterator[int]:
        rows = list(range(len(self.trainer.train_dataset)))
        random.Random(f"{self.trainer.args.seed} {int(self.trainer.state.epoch or 0)}").shuffle(rows)
        for start in range(0, self.generations * self.prompts, self.prompts):
            for _ in range(self.trainer.micro_steps):
                for row in rows[start : start + self.prompts]:
                    yield from [row] * self.trainer.args.num_generations


class PPOTrainer(Trainer):
    """transformers' Trainer for rows that are prompts: it writes the answers, and learns from them in several passes.

    The policy is its own critic: a head on its last hidden states estimates what is still to be earned before a token.
    The reference is the policy with its adapter switched off.
    """

    def __init__(
        self, model: str, args: PPOConfig, reward_funcs: list[Callable[..., list[float | None]]], **kwargs: Any
    ) -> None:
        tokenizer = kwargs.pop("processing_class", None) or AutoTokenizer.from_pretrained(model)
        tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.pad_token or tokenizer.eos_token
        set_seed(args.seed)  # of the adapter's first weights
        policy = load(model, args.model_init_kwargs, args.temperature)
        trained = get_peft_model(policy, kwargs.pop("peft_config"))
        if args.activation_checkpointing:
            trained.enable_input_require_grads()
        self.value_head = add_value_head(policy)
        super().__init__(trained, args, data_collator=list, processing_class=tokenizer, **kwargs)
        ends = policy.generation_config.eos_token_id
        ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
        self.ends = torch.tensor(sorted(ends), device=args.device)
        self.reward_funcs, self.beta = reward_funcs, args.beta
        self.model_accepts_loss_kwargs = False  # the loss is a mean over the answers' tokens: see compute_loss
        self.minibatch_micro_steps = args.gradient_accumulation_steps
        self.answers_at_once = args.generation_batch_size // args.world_size
        self.micro_steps = self.minibatch_micro_steps * args.minibatches * args.answer_passes  # of a generation
        self.micro_step, self.waiting = 0, []  # of this process; checkpoints are saved between generations alone
        self.noted: dict[str, list[torch.Tensor]] = defaultdict(list)
        self.told: dict[str, list[float]] = defaultdict(list)  # by reward functions
        set_seed(args.seed, device_specific=True)  # ranks draw their own answers

    def get_train_dataloader(self) -> DataLoader:
        """Each batch is what a rank answers at once; the micro steps that learn from it get it again."""
        batches = DataLoader(
            self.train_dataset, batch_size=self.answers_at_once, sampler=AnswerOrder(self), collate_fn=list
        )
        return self.accelerator.prepare(batches)

    def _prepare_inputs(self, inputs: list[dict]) -> tuple[Answers, torch.Tensor]:
        """The answers of the next micro step, and how many tokens its optimizer step learns from on all ranks."""
        if self.micro_step % self.micro_steps == 0:
            self.answers = self.generation(inputs)
        if not self.waiting:
            self.waiting = list(self.a_pass())
        self.micro_step += 1
        return self.waiting.pop(0)

    def a_pass(self) -> Iterator[tuple[Answers, torch.Tensor]]:
        """The answers in another order, as micro batches; every minibatch has the count of its tokens."""
        args, order = self.args, torch.randperm(self.answers_at_once, device=self.args.device)
        for minibatch in order.chunk(args.minibatches):
            tokens = self.accelerator.reduce(self.answers.mask[minibatch].sum(), "sum").clamp(min=1)
            for rows in minibatch.chunk(self.minibatch_micro_steps):
                yield self.answers.part(rows), tokens

    @torch.no_grad()
    def generation(self, rows: list[dict]) -> Answers:
        """Write an answer to each row, judge it, and say of every token how much better than expected it was."""
        self.model.eval()
        tokens, attended, mask = self.written(rows)
        found, divergences = self.compared(tokens, attended, mask)
        scores, ended, distinct = self.judged(rows, tokens[:, -mask.shape[1] :], mask)
        mask = mask * scores.isfinite()[:, None]  # answers that no function judged teach nothing
        divergences = divergences * mask
        earned = scores.nan_to_num() - self.args.missing_eos_penalty * ~ended
        rewards = token_rewards(earned, divergences, mask, self.beta)
        advantages, returns = advantages_of(rewards, found["estimates"], mask, self.args.gae_lambda)
        self.note(scores, ended, distinct, divergences, found["entropy"], mask)
        self.state.num_input_tokens_seen += int(self.accelerator.reduce(attended.sum(), "sum"))
        if self.args.target_kl:
            nats, judged = self.accelerator.reduce(torch.stack([divergences.sum(), mask[:, 0].sum()]), "sum")
            self.beta = adapted(self.beta, float(nats / judged.clamp(min=1)), self.args.target_kl)
        self.model.train()
        advantages = self.whitened(advantages, mask)
        return Answers(tokens, attended, mask, found["log_probs"], found["estimates"], advantages, returns)

    def compared(
        self, tokens: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """What the policy says of every token of the answers, and its log-probability minus that of the reference."""
        parts = (self.args.per_device_train_batch_size, tokens, attended, mask)
        with self.accelerator.autocast():
            found = estimated_by_parts(self.model, *parts)
            with self.model.disable_adapter():
                expected = estimated_by_parts(self.model, *parts)
        return found, found["log_probs"] - expected["log_probs"]

    def written(self, rows: list[dict]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Prompts with answers, what of both is attended to, and which columns of the answers are theirs."""
        prompts = {"input_ids": [opening(row, self.processing_class) for row in rows]}
        prompts = self.processing_class.pad(prompts, return_tensors="pt").to(self.args.device)
        with self.accelerator.autocast():
            tokens = self.model.generate(
                **prompts,
                do_sample=True,
                temperature=self.args.temperature,
                top_p=1.0,
                top_k=0,
                repetition_penalty=1.0,
                max_new_tokens=self.args.max_completion_length,
                eos_token_id=self.ends.tolist(),
                pad_token_id=self.processing_class.pad_token_id,
            )
        mask = answer_mask(tokens[:, prompts["input_ids"].shape[1] :], self.ends)
        return tokens, torch.cat([prompts["attention_mask"], mask.long()], dim=1), mask

    def judged(
        self, rows: list[dict], tokens: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, float]:
        """The weighted sum of each answer's rewards, NaN where none is given; whether it ends; their distinct pairs."""
        answers = [row[kept].tolist() for row, kept in zip(tokens.cpu(), mask.bool().cpu(), strict=True)]
        given = torch.tensor(self.rewards(rows, answers), device=self.args.device)
        weights = torch.tensor(self.args.reward_weights, device=self.args.device)
        scores = (given * weights).nansum(1).masked_fill(given.isnan().all(1), torch.nan)
        counted = [answer for answer, judged in zip(answers, scores.isfinite().tolist(), strict=True) if judged]
        return scores, torch.isin(tokens, self.ends).any(1), distinct_pairs(counted)

    def rewards(self, rows: list[dict], answers: list[list[int]]) -> list[list[float]]:
        """What each function gives to each answer; NaN where it leaves one out."""
        texts = self.processing_class.batch_decode(answers, skip_special_tokens=True)
        given = {name: [row[name] for row in rows] for name in rows[0]} | {"prompts": [row["prompt"] for row in rows]}
        given |= {"completion_ids": answers, "trainer_state": self.state}
        given |= {"log_extra": lambda column, values: None}
        given |= {"log_metric": lambda name, value: self.told[name].append(value)}
        completions = [[{"role": "assistant", "content": text}] for text in texts]
        found = [reward(completions, **given) for reward in self.reward_funcs]
        return [[torch.nan if value is None else value for value in row] for row in zip(*found, strict=True)]

    def metrics_of_rewards(self, own: dict[str, float]) -> dict[str, float]:
        """The means over all ranks of what the reward functions logged with `log_metric` since the last call.

        A name that a metric of the trainer has gets `rewards/` before it.
        """
        parts = gather_object([dict(self.told)])
        self.told.clear()
        values = {name: [value for part in parts for value in part.get(name, [])] for part in parts for name in part}
        names = {name: f"rewards/{name}" if name in own else name for name in values}
        return {names[name]: sum(each) / len(each) for name, each in values.items()}

    def whitened(self, advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """With mean 0 and variance 1 over the tokens of all ranks."""
        sums = torch.stack([mask.sum(), (advantages * mask).sum(), (advantages**2 * mask).sum()])
        tokens, total, squares = self.accelerator.reduce(sums, "sum")
        mean = total / tokens.clamp(min=1)
        spread = (squares / tokens.clamp(min=1) - mean**2).clamp(min=0).sqrt()
        return (advantages - mean) / (spread + 1e-8) * mask

    def compute_loss(
        self,
        model: nn.Module,
        inputs: tuple[Answers, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: None = None,
    ) -> torch.Tensor:
        """The mean over all tokens of the optimizer step: the Trainer then divides by micro steps, and DDP by ranks."""
        answers, tokens = inputs
        found = estimated(model, answers.tokens, answers.attended, answers.mask)
        ratio = torch.exp((found["log_probs"] - answers.log_probs) * answers.mask)
        ranges = self.args.clip_range, self.args.value_clip_range
        policy, value = clipped_losses(ratio, found["estimates"], answers, *ranges)
        share = self.args.world_size * self.current_gradient_accumulation_steps / tokens
        clipped = ((ratio - 1).abs() > self.args.clip_range).float()
        changed = ratio - 1 - ratio.log()  # the KL from the policy that wrote the answers, never below 0
        parts = {"policy_loss": policy, "value_loss": value, "clip_fraction": clipped, "approx_kl": changed}
        for name, part in parts.items():
            self.noted[name].append((part.detach() * answers.mask).sum() * share)
        return ((policy + self.args.value_weight * value) * answers.mask).sum() * share

    def note(
        self,
        scores: torch.Tensor,
        ended: torch.Tensor,
        distinct: float,
        divergences: torch.Tensor,
        entropy: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        """What the logs say of the answers that were judged, as tensors: only a log waits for them."""
        count = mask[:, 0].sum().clamp(min=1)
        reward = scores.nansum() / count
        found = {
            "reward": reward,
            "reward_std": ((scores - reward) ** 2).nansum().div(count).sqrt(),
            "kl": divergences.sum() / count,
            "kl_weight": scores.new_tensor(self.beta),
            "distinct_2": scores.new_tensor(distinct),
            "entropy": (entropy * mask).sum() / mask.sum().clamp(min=1),
            "completions/mean_length": mask.sum() / count,
            "completions/clipped_ratio": (~ended & scores.isfinite()).sum() / count,
        }
        for name, value in found.items():
            self.noted[name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means over ranks of what was noted since the last log of training."""
        if "loss" in logs and self.noted:
            means = torch.stack([torch.stack(values).float().mean() for values in self.noted.values()])
            means = self.accelerator.reduce(means, "mean").tolist()
            logs |= dict(zip(self.noted, means, strict=True)) | {"num_tokens": self.state.num_input_tokens_seen}
            logs |= self.metrics_of_rewards(logs)
            self.noted.clear()
        super().log(logs, start_time)

    @torch.no_grad()
    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        """What training raises, of an answer to each held-out prompt: the reward less the costs of KL and open ends.

        Every rank answers its share of the prompts, as in training, but with the same random numbers each time. The KL
        has the weight that training began with. So checkpoints differ by their weights alone.
        """
        self.model.eval()
        args, every = self.args, self.eval_dataset
        rows = every.select(range(args.process_index, len(every), args.world_size))  # perhaps none
        sums, in_training, self.told = torch.zeros(4, device=args.device), self.told, defaultdict(list)
        devices = [] if args.device.type == "cpu" else [args.device]
        with torch.random.fork_rng(devices, device_type=args.device.type):
            torch.manual_seed(args.seed + args.process_index)
            for start in range(0, len(rows), args.per_device_eval_batch_size):
                some = rows.select(range(start, min(start + args.per_device_eval_batch_size, len(rows))))
                sums += self.sums_of(some.to_list())
        *parts, judged = self.accelerator.reduce(sums, "sum")
        reward, kl, cut = (float(part / judged.clamp(min=1)) for part in parts)
        objective = reward - args.beta * kl - args.missing_eos_penalty * cut
        found = {"objective": objective, "reward": reward, "kl": kl, "clipped_ratio": cut, "loss": -objective}
        found |= self.metrics_of_rewards(found)
        self.told = in_training
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(args, self.state, self.control, metrics)
        return metrics

    def sums_of(self, rows: list[dict]) -> torch.Tensor:
        """Of the answers that a function judged: their rewards, nats of KL, open ends, and how many they are."""
        tokens, attended, mask = self.written(rows)
        _, divergences = self.compared(tokens, attended, mask)
        scores, ended, _ = self.judged(rows, tokens[:, -mask.shape[1] :], mask)
        judged = scores.isfinite()
        nats = (divergences * mask).sum(1)
        return torch.stack([scores[judged].sum(), nats[judged].sum(), (~ended & judged).sum(), judged.sum()])

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # of lists of prompts, which the Trainer cannot count

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        """The policy as transformers loads it, and beside it what only training goes on with."""
        weights = self.model.state_dict() if state_dict is None else state_dict
        super()._save(output_dir, {name: weight for name, weight in weights.items() if "value_head." not in name})
        if not self.args.should_save:  # every rank is asked to save, and one does
            return
        state = {name: weight.contiguous() for name, weight in self.value_head.state_dict().items()}
        save_file(state | {"beta": torch.tensor(self.beta)}, Path(output_dir or self.args.output_dir, STATE))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        state = load_file(Path(resume_from_checkpoint, STATE))
        self.beta = float(state.pop("beta"))
        self.value_head.load_state_dict(state)
