"""The training methods, in the order in which a recipe may chain them. A method is a file here and a line below."""

from recipec.axes.methods.continue_pretrain import CONTINUE_PRETRAIN
from recipec.axes.methods.cpo import CPO
from recipec.axes.methods.distill import DISTILL
from recipec.axes.methods.dpo import DPO
from recipec.axes.methods.grpo import GRPO
from recipec.axes.methods.kto import KTO
from recipec.axes.methods.on_policy_distill import ON_POLICY_DISTILL
from recipec.axes.methods.orpo import ORPO
from recipec.axes.methods.ppo import PPO
from recipec.axes.methods.pretrain import PRETRAIN
from recipec.axes.methods.reward import REWARD
from recipec.axes.methods.rloo import RLOO
from recipec.axes.methods.sft import SFT
from recipec.axes.methods.simpo import SIMPO

METHODS = {
    row.name: row
    for row in (
        *(PRETRAIN, CONTINUE_PRETRAIN, SFT, DPO, KTO, ORPO, CPO, SIMPO, GRPO, RLOO, REWARD, PPO),
        *(DISTILL, ON_POLICY_DISTILL),
    )
}
