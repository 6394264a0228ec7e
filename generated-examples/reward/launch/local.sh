#!/usr/bin/env bash
# reward (reward): data, baseline, training and evaluation on this machine. Arguments go to training.
#   bash launch/local.sh --max-steps 20
set -euo pipefail

BUNDLE="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export DATA_ROOT="${DATA_ROOT:-$PWD}" # the folder that the paths in the recipe are relative to
export HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-expandable_segments:True}" # less fragmentation with rows of many lengths

python "$BUNDLE/prepare_data.py"
python "$BUNDLE/evaluate.py" before
PROCESSES=$((${NPROC_PER_NODE:-2} * ${NNODES:-1}))
accelerate launch --config_file "$BUNDLE/configs/accelerate.yaml" \
  --num_machines "${NNODES:-1}" --machine_rank "${NODE_RANK:-0}" --num_processes "$PROCESSES" \
  --main_process_ip "${MASTER_ADDR:-127.0.0.1}" --main_process_port "${MASTER_PORT:-29500}" "$BUNDLE/train.py" "$@"
python "$BUNDLE/evaluate.py" after
