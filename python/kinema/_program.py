"""The program `kinema` that is installed with the package."""

import json
import os
import subprocess
import sys

from kinema._native import PROGRAM, Error


def main():
    """Becomes the program: the console script `kinema`, and `python -m kinema`."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])


def call(*words, allow=(0,)):
    """The JSON that a command prints. Raises Error with its message; Ctrl-C ends it at once."""
    child = subprocess.Popen([str(PROGRAM), *map(str, words), "--json"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        out, errors = child.communicate()
    except BaseException:
        child.kill()
        child.wait()
        raise
    lines = out.strip().splitlines()
    try:
        made = json.loads(out) if out.strip() else {}
    except json.JSONDecodeError:
        made = json.loads(lines[-1]) if lines and lines[-1].startswith(("{", "[")) else {}
    if isinstance(made, dict) and set(made) == {"error"}:
        raise Error(made["error"])
    if child.returncode not in allow:
        message = errors.strip().removeprefix("kinema: ") or f"kinema ended with status {child.returncode}"
        raise Error(message)
    return made
