# Read by bash before a launch script that is only looked at: every program notes how it was called and does nothing.
# A function comes before a program of the same name, whatever the script's own commands do to the PATH.
# With RECIPEC_FAILS=3 the third program fails, and the script's own `set -e` decides what follows.
note() {
  printf '%s\0' "$#" "${CUDA_VISIBLE_DEVICES-}" "$@" >> "$RECIPEC_NOTES"
  printf . >> "$RECIPEC_NOTES.calls" # in a file: a script may start a program in the background and wait for it
  local calls
  calls="$(< "$RECIPEC_NOTES.calls")"
  [[ "${#calls}" != "${RECIPEC_FAILS-}" ]]
}
python() { note python "$@"; }
python3() { note python "$@"; }
accelerate() { note accelerate "$@"; }
torchrun() { note torchrun "$@"; }
kill() { return 1; }
trap() { :; }
dirname() { printf '%s\n' "${1%/*}"; }
# A variable that cannot be set ends the script, as under its own `set -e`.
export() { builtin export "$@" || exit; }
# Commands of the recipe's launch.setup are for the user's machine: here they may fail.
source() { :; }
.() { :; }
[[ -n "${RECIPEC_FAILS-}" ]] || set() { :; }
command_not_found_handle() { :; }
readonly -f note python python3 accelerate torchrun kill trap dirname export
[[ -n "${RECIPEC_FAILS-}" ]] || readonly -f set
