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
(cd "$work/prefix/include/kinema" && find . -name '*.h' | cut -c3- | sort) | diff - <(sort "$build/public_headers.txt") ||
  { echo "the headers installed are not the public ones" >&2; exit 1; }
cmake -S "$here" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Debug
cmake --build "$work/consumer"
"$work/consumer/consumer" | grep -q stablehlo
if nm -D --defined-only "$work/consumer/consumer" | grep -wE 'malloc|free|realloc|aligned_alloc|malloc_usable_size'; then
  echo "the libraries replace the C library's malloc" >&2
  exit 1
fi
