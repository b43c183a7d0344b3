"""Commands that return a report. Each runs the program, so that memory comes back and Ctrl-C ends a compiler."""

from __future__ import annotations

import html
import os
import subprocess
from typing import Any

from kinema import _program
from kinema._native import PROGRAM, Error
from kinema._settings import Path, words_of


def _config(config: Path | None) -> list[str]:
    return [] if config is None else [os.fspath(config)]


class Plan:
    """The report of `plan`: fits, seconds of a step (expected), and every figure of `kinema plan --json` by name."""

    def __init__(self, report: dict[str, Any], text: str) -> None:
        self.report = report
        self._text = text

    @property
    def fits(self) -> bool:
        """Whether the step fits the devices' memory."""
        return bool(self.report["fits"])

    @property
    def seconds(self) -> float | None:
        """The expected time of a step; None where the chip's rate is not known."""
        expected = self.report["expected"]
        return expected["busy_seconds"] + expected["waiting_seconds"] or None

    def as_dict(self) -> dict[str, Any]:
        """All figures."""
        return dict(self.report)

    def __getitem__(self, name: str) -> Any:
        return self.report[name]

    def __repr__(self) -> str:
        return f"Plan({'fits' if self.fits else 'does not fit'})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"


def plan(config: Path, *, target: str, mode: str | None = None, **keys: Any) -> Plan:
    """Compiles a step for devices that are not here: whether it fits, and how fast it is.

    target: such as "v5p:2x2x1" or "h100:8". mode: "train" or "generate".
    """
    words = [*_config(config), f"target={target}", *([f"mode={mode}"] if mode else []), *words_of(keys)]
    report = _program.call("plan", *words, allow=(0, 1))
    if "fits" not in report:
        raise Error(f"[python] plan printed no report: {report}")
    return Plan(report, "\n".join(f"{name}: {value}" for name, value in report.items()
                                  if not isinstance(value, (dict, list))))


def verify(folder: Path, config: Path | None = None, *, filter: str | None = None, **keys: Any) -> Any:
    """Compares this build with reference cases: rows with case, value, difference, limit and status."""
    words = [os.fspath(folder), *_config(config), *words_of(keys)]
    return _program.call("verify", *words, *(["--filter", filter] if filter else []), allow=(0, 1))


def inspect(path: Path, *, check: bool = False) -> dict[str, Any]:
    """What a file or folder is; with check, whether commands take it."""
    return _program.call("inspect", os.fspath(path), *(["--check"] if check else []), allow=(0, 1))


def prepare(config: Path, **keys: Any) -> dict[str, Any]:
    """Encodes clips and captions as TFRecords."""
    return _program.call("prepare", *_config(config), *words_of(keys))


def evaluate(config: Path, **keys: Any) -> dict[str, Any]:
    """The loss of a run's checkpoint, or of a model, on eval_data_dir."""
    return _program.call("evaluate", *_config(config), *words_of(keys))


def convert(source: Path, target: Path, *, to: str, dtype: str | None = None, shard_gib: float | None = None) -> str:
    """Writes a model or an adapter with the names and layout of another program; returns the target's path."""
    words = [os.fspath(source), os.fspath(target), "--to", to]
    words += ["--dtype", dtype] if dtype else []
    words += ["--shard-gib", str(shard_gib)] if shard_gib else []
    done = subprocess.run([str(PROGRAM), "convert", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", env=_program.environment())
    if done.returncode:
        raise Error(done.stderr.strip().removeprefix("kinema: "))
    return os.fspath(target)
