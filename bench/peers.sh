# shellcheck shell=bash
# The programs that benches and tests compare with; sourced by ./dev, which has set $cache.
: "${cache:?is not set; source this from ./dev}"

# peers REQUIREMENTS: makes a virtual environment of them once, and prints its folder.
peers() {
  local folder part
  folder=$cache/bench-$(sha256sum "$1" | cut -c1-12)
  if [ ! -x "$folder/bin/python" ]; then
    part=$(mktemp -d "$folder.part.XXXXXX")
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$part'" EXIT
    if ! python3 -m venv "$part" >/dev/null; then
      echo "peers: python3 cannot make a virtual environment" >&2
      echo "  apt-get install python3-venv" >&2
      return 1
    fi
    if ! "$part/bin/pip" install -q --require-hashes -r "$1" >&2; then
      echo "peers: the peers could not be installed; they need Python 3.11 or 3.12 and the network" >&2
      return 1
    fi
    mv -T "$part" "$folder"
  fi
  # The scripts in bin/ name the temporary folder; python itself does not.
  echo "$folder"
}
