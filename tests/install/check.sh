#!/usr/bin/env bash
# check.sh BUILD_FOLDER: installs it, builds a program against the installed tree and runs both.
set -euo pipefail
build=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/kinema" --version
# libparquet has an OpenSSL inside, which must not be found before the system's.
ldd "$work/prefix/bin/kinema" >"$work/libraries"
awk "/libcrypto/ { crypto = NR } /libparquet/ { parquet = NR } END { exit parquet && parquet < crypto }" \
  "$work/libraries" || { cat "$work/libraries"; exit 1; }
# Public headers and no others.
(cd "$work/prefix/include" && find kinema -name '*.h' | sort) | diff - <(sort "$build/public_headers.txt") ||
  { echo "the headers installed are not the public ones" >&2; exit 1; }
for type in Debug Release; do
  cmake -S "$here" -B "$work/$type" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=$type
  cmake --build "$work/$type"
  "$work/$type/consumer" | grep -q stablehlo
  # A run from a program of one's own is the program's, bit for bit, and nothing else is printed.
  mkdir "$work/run_$type"
  # (TF_CPP_MIN_LOG_LEVEL: XLA's plugins log by themselves.)
  (cd "$work/run_$type" && TF_CPP_MIN_LOG_LEVEL=1 "../$type/api" "$here/../../configs/tiny.yml" >said 2>errors)
  [ ! -s "$work/run_$type/errors" ] || { cat "$work/run_$type/errors" >&2; exit 1; }
  [ "$(tail -n 1 "$work/run_$type/said")" = "3 steps, 1 videos" ] || { cat "$work/run_$type/said" >&2; exit 1; }
done
(cd "$work/run_Debug" &&
  "$work/prefix/bin/kinema" train "$here/../../configs/tiny.yml" run_name=program output_dir=out max_train_steps=3 --json)
for run in Debug Release; do
  diff <(sed 's/.*"learning\/loss":\([^,]*\),.*/\1/' "$work/run_$run/out/api/metrics.jsonl") \
    <(sed 's/.*"learning\/loss":\([^,]*\),.*/\1/' "$work/run_Debug/out/program/metrics.jsonl") ||
    { echo "other losses than the program's" >&2; exit 1; }
done
if nm -D --defined-only "$work/Debug/consumer" | grep -wE 'malloc|free|realloc|aligned_alloc|malloc_usable_size'; then
  echo "the libraries replace the C library's malloc" >&2
  exit 1
fi
