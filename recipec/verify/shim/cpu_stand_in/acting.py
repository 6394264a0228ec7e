"""Tools for a model of chance: it never calls one by itself, and synthetic rows need not begin an episode."""

from __future__ import annotations

import sys

TURN = 16  # tokens that the model writes in a turn
KEPT = 8  # of them, before a call that is put behind


def toy_episodes(module, value):
    """An episode that cannot begin with a synthetic row begins empty, and earns nothing."""
    own = (found for found in vars(module).values() if isinstance(found, type) and found.__module__ == module.__name__)
    for parent in {type(found().played) for found in own if hasattr(found, "reset")}:
        _tolerant(parent)


def _tolerant(parent):
    begin, judge = parent.reset, getattr(parent, "get_reward", None)

    def reset(self, **row):
        self._empty = False
        try:
            return begin(self, **row)
        except Exception:
            self._empty = True
            return None

    def get_reward(self):
        return 0.0 if self._empty else judge(self)

    parent.reset = reset
    if judge is not None:
        parent.get_reward = get_reward


def scripted_calls(module, value):
    """Every second answer calls the first tool behind its first tokens; short turns of the model's come after it."""
    trainer = module.GRPOTrainer
    loop, make = trainer._tool_call_loop, trainer.__init__

    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        self.generation_config.max_new_tokens = TURN

    def _tool_call_loop(self, prompts, prompt_ids, completion_ids, completions, *others):
        for place in range(0, len(completion_ids), 2):
            said = [token for token in completion_ids[place] if token not in self.eos_token_ids][:KEPT]
            completion_ids[place] = ids = [*said, *_call(self)]
            told = {"prefix": prompt_ids[place], "tools": self.tools}
            completions[place] = [module.parse_response(self._tokenizer, ids, **told)]
        return loop(self, prompts, prompt_ids, completion_ids, completions, *others)

    trainer.__init__, trainer._tool_call_loop = __init__, _tool_call_loop


def _call(trainer):
    """The tokens of a call of the first tool with made-up arguments, as the chat template writes it."""
    tool, own = trainer.tools[0], sys.modules["tools"]
    parameters = own.description(tool)["function"]["parameters"]["properties"]
    arguments = {name: own.made_up(kind) for name, kind in parameters.items()}
    asked = [{"role": "user", "content": "?"}]
    called = [{"type": "function", "function": {"name": tool.__name__, "arguments": arguments}}]
    before = _rendered(trainer, asked, add_generation_prompt=True)
    whole = _rendered(trainer, [*asked, {"role": "assistant", "content": "", "tool_calls": called}])
    pairs = enumerate(zip(before, whole, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), len(before))
    ids = whole[same:]
    ends = [place for place, token in enumerate(ids, 1) if token in trainer.eos_token_ids]
    return ids[: ends[0]] if ends else ids


def _rendered(trainer, messages, **asked):
    told = {"chat_template": trainer.chat_template, "return_dict": False, **trainer.chat_template_kwargs}
    return trainer.processing_class.apply_chat_template(messages, **told, **asked)


PATCHES = {
    "toy-episodes": ("tools", toy_episodes),
    "scripted-calls": ("trl.trainer.grpo_trainer", scripted_calls),
}
