# Read by bash before a launch script that is only looked at: every program notes how it was called and does nothing.
# A function comes before a program of the same name, whatever the script's own commands do to the PATH.
# With FAILS=3 the third program fails, and the script's own `set -e` decides what follows.
CALLS=0
note() {
  printf '%s\0' "$#" "${CUDA_VISIBLE_DEVICES-}" "$@" >> "$NOTES"
  CALLS=$((CALLS + 1))
  [[ "$CALLS" != "${FAILS-}" ]]
}
python() { note python "$@"; }
python3() { note python "$@"; }
accelerate() { note accelerate "$@"; }
torchrun() { note torchrun "$@"; }
kill() { return 1; }
trap() { :; }
dirname() { printf '%s\n' "${1%/*}"; }
# Commands of the recipe's launch.setup are for the user's machine: here they may fail.
source() { :; }
.() { :; }
[[ -n "${FAILS-}" ]] || set() { :; }
command_not_found_handle() { :; }
readonly -f note python python3 accelerate torchrun kill trap dirname
[[ -n "${FAILS-}" ]] || readonly -f set
