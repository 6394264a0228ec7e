#!/usr/bin/env bash
# cpu-demo (sft): data, baseline, training and evaluation on this node. Arguments go to training.
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

python "$BUNDLE/prepare_data.py" --writes-gib 0.0 0.0 0.0 0.6 # predicted: data/, datasets, models, outputs/
python "$BUNDLE/evaluate.py" before ${QUICK:+"$QUICK"}
python "$BUNDLE/train.py" "$@"
python "$BUNDLE/evaluate.py" after ${QUICK:+"$QUICK"}
