#!/usr/bin/env bash
# new-domain (continue-pretrain, sft): data, baseline, training and evaluation on this node. Arguments go to training.
#   bash launch/local.sh --max-steps 20
set -euo pipefail
QUICK="" # with --max-steps a few rows are evaluated
for argument in "$@"; do
  case "$argument" in
    --max-steps | --max-steps=*) QUICK=--quick ;;
    # every stage would get the same folder and the same checkpoint
    --output-dir | --output-dir=* | --resume | --resume=*)
      echo "The bundle has several stages. Give --output-dir and --resume to one stage's train.py." >&2
      exit 2
      ;;
  esac
done

BUNDLE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CONFLICTS="$(grep -slE '^(<<<<<<<|>>>>>>>) ' "$BUNDLE"/*.py "$BUNDLE"/*/*.py "$BUNDLE"/*/*/*.py || true)"
[[ -z "$CONFLICTS" ]] || { printf 'Resolve the conflict markers of recipec build first, in\n%s\n' "$CONFLICTS" >&2; exit 2; }
export DATA_ROOT="${DATA_ROOT:-$PWD}" # the folder that the paths in the recipe are relative to
export HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false
if [[ -z "${HF_TOKEN:-}" && ! -f "${HF_HOME:-$HOME/.cache/huggingface}/token" && -z "${HF_HUB_OFFLINE:-}" ]]; then
  echo 'meta-llama/Llama-3.2-3B is gated. Accept its license on the Hub, and set HF_TOKEN.' >&2
  exit 1
fi
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}" # with two visible devices the trainer would wrap DataParallel
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}" # less fragmentation with rows of many lengths

python -c "import torch; torch.ones(2, device=torch.accelerator.current_accelerator(check_available=True).type).sum().item()" || {
  echo "This run is planned for 1 x h100, and PyTorch computes on no GPU." >&2
  echo "Check the driver, and whether this build of torch is for the GPU." >&2
  exit 1
}
python "$BUNDLE/prepare_data.py" --writes-gib 0.1 2.1 6.0 79.3 6.0 # predicted: data/, datasets, models, outputs/, extended-model/
python "$BUNDLE/vocabulary.py"
python "$BUNDLE/stages/1-continue-pretrain/evaluate.py" before ${QUICK:+"$QUICK"}
python "$BUNDLE/stages/1-continue-pretrain/train.py" "$@"
python "$BUNDLE/stages/1-continue-pretrain/evaluate.py" after ${QUICK:+"$QUICK"}
python "$BUNDLE/stages/2-sft/evaluate.py" before ${QUICK:+"$QUICK"}
python "$BUNDLE/stages/2-sft/train.py" "$@"
python "$BUNDLE/stages/2-sft/evaluate.py" after ${QUICK:+"$QUICK"}
