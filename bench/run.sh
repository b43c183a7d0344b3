#!/usr/bin/env bash
# bench/run.sh BUILD_FOLDER [ARG...]: bench/compare.py with its peers, which live in the cache.
set -euo pipefail
build=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
cache=${KINEMA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kinema}
mkdir -p "$cache"
peers=$cache/bench-$(sha256sum requirements.txt | cut -c1-12)
if [ ! -x "$peers/bin/python" ]; then
  part=$(mktemp -d "$peers.part.XXXXXX")
  trap 'rm -rf "$part"' EXIT
  if ! python3 -m venv "$part" >/dev/null; then
    echo "bench: python3 cannot make a virtual environment" >&2
    echo "  apt-get install python3-venv" >&2
    exit 1
  fi
  if ! "$part/bin/pip" install -q --require-hashes -r requirements.txt; then
    echo "bench: the peers could not be installed; they need Python 3.11 or 3.12 and the network" >&2
    exit 1
  fi
  mv -T "$part" "$peers"
fi
# The scripts in bin/ name the temporary folder; python itself does not.
exec "$peers/bin/python" compare.py --kinema "$build" "$@"
