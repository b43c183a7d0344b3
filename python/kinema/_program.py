"""The program `kinema` that is installed with the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NoReturn

from kinema._native import PROGRAM, Error, plugin_folder


def environment() -> dict[str, str]:
    """The program's environment, with the CPU plugin of this Python's wheels."""
    plugin = os.path.join(plugin_folder(), "xla_cpu_pjrt.so")
    return {"KINEMA_PJRT_CPU": plugin, **os.environ} if os.path.isfile(plugin) else dict(os.environ)


def main() -> NoReturn:
    """Becomes the program: the console script `kinema`, and `python -m kinema`."""
    os.execve(PROGRAM, [str(PROGRAM), *sys.argv[1:]], environment())


def call(*words: Any, allow: tuple[int, ...] = (0,)) -> Any:
    """The JSON that a command prints. Raises Error with its message; Ctrl-C ends it at once."""
    child = subprocess.Popen([str(PROGRAM), *map(str, words), "--json"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                             env=environment())
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
