#!/bin/sh
# run.sh ENVIRONMENT SCRIPT KINEMA: the script in the virtual environment; 77 where that is not there.
if [ ! -x "$1/bin/python" ]; then
  echo "skipped: $1 is not there; ./dev peers fetches it"
  exit 77
fi
environment=$1
shift
exec "$environment/bin/python" "$@"
