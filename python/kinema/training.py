"""Training runs."""

from __future__ import annotations

import html
import json
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kinema import _native
from kinema._settings import Path, load
from kinema.callbacks import Callback, TaskBars, observing
from kinema.data import written_folder


class Run:
    """A finished or stopped training run.

    folder: its files. steps: completed ones, also of earlier parts of the run. stopped: before max_train_steps.
    history: arrays f64 [steps of this call] by name: step, loss, learning_rate, gradient_norm, seconds.
    """

    def __init__(self, trained: Any) -> None:
        self.folder = pathlib.Path(trained.folder)
        self.steps: int = trained.steps
        self.stopped: bool = trained.stopped
        self.history: dict[str, Any] = trained.history()
        self.result: dict[str, Any] = json.loads(trained.json)

    @property
    def losses(self) -> Any:
        """f64 [steps of this call]"""
        return self.history["loss"]

    @property
    def checkpoints(self) -> list[pathlib.Path]:
        """The folders of its checkpoints, by step."""
        found = (self.folder / "checkpoints").glob("*")
        return sorted((each for each in found if each.name.isdigit()), key=lambda each: int(each.name))

    @property
    def adapter(self) -> pathlib.Path | None:
        """The newest checkpoint's LoRA file; None if the run trains all weights."""
        found = self.checkpoints
        files = sorted(found[-1].rglob("pytorch_lora_weights.safetensors")) if found else []
        return files[0] if files else None

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.steps} steps{', stopped' if self.stopped else ''})"

    def _repr_html_(self) -> str:
        curve = self.folder / "loss.svg"
        drawn = curve.read_text(encoding="utf-8") if curve.is_file() else ""
        return f"<p>{html.escape(repr(self))}</p>{drawn}"


def train(config: Path | None = None, *, data: Iterable[Any] | None = None, callbacks: Sequence[Callback] = (),
          progress: bool | None = None, **keys: Any) -> Run:
    """Trains with a configuration, or resumes the run with its name.

    config: a YAML file; keyword arguments are keys. data: samples from Python (see kinema.data) in place of
    train_data_dir. callbacks: see Callback. Returns a Run. Ctrl-C stops after the current step, with a checkpoint: the
    same call resumes. An exception in a callback does the same, and is raised.
    """
    if data is not None:
        keys["train_data_dir"] = written_folder(data, config, keys)
    settings = load(config, **keys)
    bars = TaskBars(progress)

    def each(name: str) -> Callable[..., None]:
        def call(*values: Any) -> None:
            for callback in callbacks:
                getattr(callback, name)(*values)
        return call

    observers = observing(bars, on_start=each("on_train_begin"), on_step=each("on_step_end"),
                          on_evaluation=each("on_evaluation"), on_samples=each("on_samples"))
    try:
        run = Run(_native.native_train(settings, observers, str(_native.PROGRAM)))
    finally:
        bars.close()
    each("on_train_end")(run)
    return run
