#!/usr/bin/env bash
# pretrain-mixture (pretrain): data, baseline, training and evaluation on this node. Arguments go to training.
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
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}" # less fragmentation with rows of many lengths
[[ "${NNODES:-1}" == 1 ]] || { echo "NNODES is $NNODES, and this script is for one node. Unset it, or set hardware.nodes." >&2; exit 2; }
PORT="${MASTER_PORT:-29500}" # where the processes of a stage meet; set another if it is taken

# The plan's numbers count, whatever a cluster exports. OTHER_RANKS=1 takes the environment's instead.
planned() { # NAME NUMBER STAGE
  local given="${!1:-$2}"
  if [[ "$given" != "$2" && "${OTHER_RANKS:-}" != 1 ]]; then
    echo "$1 is $given, and stage $3 is planned for $2. Unset $1, or set OTHER_RANKS=1 to run with $given." >&2
    return 2
  fi
  echo "$given"
}

PRETRAIN_PROCESSES="$(planned NPROC_PER_NODE 8 pretrain)"

python -c "import torch; torch.ones(2, device=torch.accelerator.current_accelerator(check_available=True).type).sum().item()" || {
  echo "This run is planned for 8 x h200, and PyTorch computes on no GPU." >&2
  echo "Check the driver, and whether this build of torch is for the GPU." >&2
  exit 1
}
python "$BUNDLE/prepare_data.py" --writes-gib 38.7 573.0 0.0 1649.4 # predicted: data/, datasets, models, outputs/
torchrun --standalone --nproc-per-node "$PRETRAIN_PROCESSES" "$BUNDLE/evaluate.py" before ${QUICK:+"$QUICK"}
accelerate launch --config_file "$BUNDLE/configs/accelerate.yaml" --deepspeed_config_file "$BUNDLE/configs/deepspeed.json" \
  --num_machines 1 --machine_rank 0 --num_processes "$PRETRAIN_PROCESSES" \
  --main_process_ip 127.0.0.1 --main_process_port "$PORT" "$BUNDLE/train.py" "$@"
torchrun --standalone --nproc-per-node "$PRETRAIN_PROCESSES" "$BUNDLE/evaluate.py" after ${QUICK:+"$QUICK"}
