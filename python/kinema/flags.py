"""Compiler flags: whether they are safe, and what they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinema import _program


def check(flags: str | Sequence[str], *, target: str | None = None) -> dict[str, Any]:
    """Findings about a list of flags (LIBTPU_INIT_ARGS, XLA_FLAGS) for a target such as "v6e:4x4"."""
    words = [*([f"target={target}"] if target else []), *(flags.split() if isinstance(flags, str) else flags)]
    return _program.call("flags", "check", *words, allow=(0, 1))
