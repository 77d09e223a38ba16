# Running the steps of .ci/run: one after the other, or two at a time. Not the steps themselves. Needs bash; sourced.
# shellcheck shell=bash

logs=$PWD/target/ci
rm -rf "$logs"
mkdir -p "$logs"

# Steps that run: their process groups by name.
declare -A running=()

# start NAME COMMAND...: runs a step in the background. Its output goes to a file, and at the end its time.
start() {
    : >"$logs/$1"
    # Job control gives the step a process group of its own.
    set -m
    (
        name=$1 SECONDS=0
        trap 'echo "-- $name: $SECONDS s"' EXIT
        "${@:2}"
    ) >>"$logs/$1" 2>&1 &
    set +m
    running[$1]=$!
}

# await NAME: waits for the end of a step, and prints its output, unless a second word says that it was shown. A failure ends
# the run.
await() {
    local status=0
    wait "${running[$1]}" || status=$?
    unset "running[$1]"
    [ -n "${2-}" ] || { printf '\n== %s\n' "$1"; cat "$logs/$1"; }
    [ "$status" -eq 0 ] || { printf '\n== FAILED with exit code %s: %s\n' "$status" "$1"; exit "$status"; }
}

# step NAME COMMAND...: runs a step, and shows its output meanwhile.
step() {
    printf '\n== %s\n' "$1"
    start "$@"
    tail -n +1 -s 0.2 -f --pid="${running[$1]}" "$logs/$1"
    await "$1" shown
}

# beside NAME COMMAND...: starts a step as soon as fewer than two run.
beside() {
    while [ "${#running[@]}" -ge 2 ]; do await_any; done
    start "$@"
}

# Waits for the end of any step.
await_any() {
    local name
    while sleep 0.2; do
        for name in "${!running[@]}"; do
            kill -0 "${running[$name]}" 2>/dev/null || { await "$name"; return; }
        done
    done
}

await_all() { while [ "${#running[@]}" -gt 0 ]; do await_any; done; }

# Stops the steps that still run. First as Ctrl-C does: then they stop what they have started.
stop_all() {
    local groups=("${running[@]/#/-}")
    [ "${#groups[@]}" -eq 0 ] || kill -INT -- "${groups[@]}" 2>/dev/null || return 0
    for _ in {1..100}; do
        kill -0 -- "${groups[@]}" 2>/dev/null || return 0
        sleep 0.2
    done
    kill -KILL -- "${groups[@]}" 2>/dev/null || true
}
trap stop_all EXIT

# optional REASON LOSS COMMAND...: exit code 69 means that something is missing, and skips the step.
optional() {
    local status=0
    "${@:3}" || status=$?
    [ "$status" -ne 69 ] || { echo "SKIPPED: $1. $2"; status=0; }
    return "$status"
}

# Every line of a step that says what it did not check.
skipped() { grep -h '^SKIPPED' "$logs"/* || echo "nothing"; }
