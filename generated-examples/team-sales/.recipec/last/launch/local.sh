#!/usr/bin/env bash
# team-sales (sft): data, baseline, training and evaluation on this node. Arguments go to training.
#   bash launch/local.sh --max-steps 20
set -euo pipefail
QUICK="" # with --max-steps a few rows are evaluated
for argument in "$@"; do
  case "$argument" in
    --max-steps | --max-steps=*) QUICK=--quick ;;
    --output-dir | --output-dir=*)
      echo "What follows the training reads its result from outputs: for another disk, make that folder a link to it." >&2
      exit 2
      ;;
  esac
done

BUNDLE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CONFLICTS="$(grep -slE '^(<<<<<<<|>>>>>>>) ' "$BUNDLE"/*.py "$BUNDLE"/*/*.py "$BUNDLE"/*/*/*.py || true)"
[[ -z "$CONFLICTS" ]] || { printf 'Resolve the conflict markers of recipec build first, in\n%s\n' "$CONFLICTS" >&2; exit 2; }
export DATA_ROOT="${DATA_ROOT:-$PWD}" # the folder that the paths in the recipe are relative to
export HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}" # with two visible devices the trainer would wrap DataParallel
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}" # less fragmentation with rows of many lengths

python -c "import torch; torch.ones(2, device=torch.accelerator.current_accelerator(check_available=True).type).sum().item()" || {
  echo "This run is planned for 1 x a100-80gb, and PyTorch computes on no GPU." >&2
  echo "Check the driver, and whether this build of torch is for the GPU." >&2
  exit 1
}
python "$BUNDLE/prepare_data.py" --writes-gib 0.0 0.1 15.3 4.4 # predicted: data/, datasets, models, outputs/
python "$BUNDLE/evaluate.py" before ${QUICK:+"$QUICK"}
python "$BUNDLE/train.py" "$@"
python "$BUNDLE/evaluate.py" after ${QUICK:+"$QUICK"}
