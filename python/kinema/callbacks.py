"""What a call tells while it works."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema._kinema import Step
    from kinema.training import Run

_log = logging.getLogger("kinema")


class Callback:
    """Base of callbacks; override what you need. An exception ends the call, after a checkpoint was saved."""

    def on_train_begin(self, folder: str, parameters: int, trained: int, first_step: int, max_steps: int) -> None:
        """Before the first step; `first_step` counts from 0 and is larger when a run is resumed."""

    def on_step_end(self, step: Step) -> None:
        """After a step of training: step.step (from 1), .loss, .learning_rate, .gradient_norm, .seconds, .epoch."""

    def on_evaluation(self, step: int, loss: float) -> None:
        """After an evaluation."""

    def on_samples(self, step: int, files: list[str]) -> None:
        """After pictures or videos of the run's prompts were written."""

    def on_train_end(self, run: Run) -> None:
        """After the last step, with the Run that `train` returns."""


class tqdm(Callback):  # noqa: N801: the name of the bar that it shows
    """A progress bar with the loss, by the package tqdm."""

    def __init__(self, **options: Any) -> None:
        from tqdm.auto import tqdm as bar
        self._make = lambda total, first: bar(total=total, initial=first, desc="training", **options)
        self._bar: Any = None

    def on_train_begin(self, folder: str, parameters: int, trained: int, first_step: int, max_steps: int) -> None:
        self._bar = self._make(max_steps, first_step)

    def on_step_end(self, step: Step) -> None:
        self._bar.set_postfix(loss=f"{step.loss:.4f}", refresh=False)
        self._bar.update(1)

    def on_train_end(self, run: Run) -> None:
        self._bar.close()


class TaskBars:
    """Bars of long operations (loading, encoding, sampling), if tqdm is installed and somebody looks."""

    def __init__(self, wanted: bool | None) -> None:
        self._bars: dict[str, Any] = {}
        self._make: Any = None
        if wanted is False or (wanted is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            return
        try:
            from tqdm.auto import tqdm as bar
            self._make = bar
        except ImportError:
            if wanted:
                raise

    def update(self, what: str, done: int, total: int, note: str) -> None:
        if self._make is None or total <= 0:
            return
        bar = self._bars.get(what)
        if bar is None:
            bar = self._bars[what] = self._make(total=total, desc=what, leave=False)
        bar.n = done
        bar.refresh()

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars = {}


def observing(bars: TaskBars, **more: Callable[..., None]) -> dict[str, Callable[..., None]]:
    """The callables of a call: log lines go to the logger `kinema`, and progress to bars."""
    return {"on_notice": _log.warning, "on_line": _log.info, "on_task": bars.update, **more}
