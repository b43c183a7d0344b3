"""What a call tells while it works."""

import logging
import sys

_log = logging.getLogger("kinema")


class Callback:
    """Base of callbacks; override what you need. An exception ends the call, after a checkpoint was saved."""

    def on_train_begin(self, folder, parameters, trained, first_step, max_steps):
        """Before the first step; `first_step` counts from 0 and is larger when a run is resumed."""

    def on_step_end(self, step):
        """After a step of training: step.step (from 1), .loss, .learning_rate, .gradient_norm, .seconds, .epoch."""

    def on_evaluation(self, step, loss):
        """After an evaluation."""

    def on_samples(self, step, files):
        """After pictures or videos of the run's prompts were written."""

    def on_train_end(self, run):
        """After the last step, with the Run that `train` returns."""


class tqdm(Callback):  # noqa: N801: the name of the bar that it shows
    """A progress bar with the loss, by the package tqdm."""

    def __init__(self, **options):
        from tqdm.auto import tqdm as bar
        self._make = lambda total, first: bar(total=total, initial=first, desc="training", **options)
        self._bar = None

    def on_train_begin(self, folder, parameters, trained, first_step, max_steps):
        self._bar = self._make(max_steps, first_step)

    def on_step_end(self, step):
        self._bar.set_postfix(loss=f"{step.loss:.4f}", refresh=False)
        self._bar.update(1)

    def on_train_end(self, run):
        self._bar.close()


class TaskBars:
    """Bars of long operations (loading, encoding, sampling), if tqdm is installed and somebody looks."""

    def __init__(self, wanted):
        self._bars = {}
        self._make = None
        if wanted is False or (wanted is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            return
        try:
            from tqdm.auto import tqdm as bar
            self._make = bar
        except ImportError:
            if wanted:
                raise

    def update(self, what, done, total, note):
        if self._make is None or total <= 0:
            return
        bar = self._bars.get(what)
        if bar is None:
            bar = self._bars[what] = self._make(total=total, desc=what, leave=False)
        bar.n = done
        bar.refresh()

    def close(self):
        for bar in self._bars.values():
            bar.close()
        self._bars = {}


def observing(bars, **more):
    """The callables of a call: log lines go to the logger `kinema`, and progress to bars."""
    return {"on_notice": _log.warning, "on_line": _log.info, "on_task": bars.update, **more}
