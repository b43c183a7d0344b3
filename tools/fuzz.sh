# shellcheck shell=bash
# fuzz.sh [--runs N] [NAME...]: as many fuzz targets at a time as there are cores. Sourced by ./dev.
amount=(-max_total_time="${KINEMA_FUZZ_SECONDS:-60}") said="${KINEMA_FUZZ_SECONDS:-60} s"
if [ "${1:-}" = --runs ]; then
  [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--runs wants a number of inputs" "e.g. ./dev fuzz --runs 1000000 json"
  amount=(-runs="$2") said="$2 inputs"
  shift 2
fi
if [ -n "${KINEMA_FUZZ_SEED:-}" ]; then amount+=(-seed="$KINEMA_FUZZ_SEED"); fi
setup clang sanitizers
make asan fuzz_targets

names=("$@")
[ ${#names[@]} -gt 0 ] ||
  mapfile -t names < <(find build-asan/fuzz -maxdepth 1 -name '*_fuzz' -printf '%f\n' | sed 's/_fuzz$//' | sort)
[ ${#names[@]} -gt 0 ] || fail "no fuzz target in build-asan/fuzz"
for name in "${names[@]}"; do
  [ -x "build-asan/fuzz/${name}_fuzz" ] || fail "there is no fuzz target $name" "fuzz/ has them"
done

fuzz_inputs() { sed -n 's/^stat::number_of_executed_units: *//p' "build-asan/$1.log"; }

# fuzz_one NAME: until an input breaks it or the amount is reached.
fuzz_one() {
  local target=build-asan/fuzz/${1}_fuzz folders=("build-asan/corpus/$1")
  mkdir -p "${folders[0]}"
  if [ -d "fuzz/corpus/$1" ]; then folders+=("fuzz/corpus/$1"); fi
  # Inputs stay small: what breaks a reader is how its fields fit together, not how many there are.
  "$target" "${amount[@]}" -max_len=16384 -timeout=120 -rss_limit_mb=2048 -print_final_stats=1 \
    -verbosity=0 -artifact_prefix="build-asan/$1-" "${folders[@]}" 2>"build-asan/$1.log" ||
    { tail -n 40 "build-asan/$1.log" >&2
      fail "$1 found an input that breaks it: build-asan/$1-*" "give it to $target"; }
  say "$1: $(fuzz_inputs "$1") inputs, nothing found"
}

say "fuzzing: $said for each of ${names[*]}"
running=0 failed=0 total=0
for name in "${names[@]}"; do
  if [ "$running" = "$(nproc)" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz_one "$name" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || failed=1
  running=$((running - 1))
done
[ "$failed" = 0 ] || fail "fuzzing found inputs that break a reader; they are named above"
for name in "${names[@]}"; do total=$((total + $(fuzz_inputs "$name"))); done
say "fuzzing found nothing in $total inputs"
