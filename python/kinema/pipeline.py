"""Pictures and videos from prompts, with a model that stays loaded."""

from __future__ import annotations

import base64
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinema import _native, _pictures
from kinema._settings import Path, Settings, load, words_of
from kinema.callbacks import TaskBars, observing

_PICTURES = ("image", "mask_image", "mask", "control_image", "last_image", "image_url", "last_image_url")


class Video(np.ndarray):  # type: ignore[type-arg]
    """The frames of a video, u8 [frames, height, width, 3]; `path` is its mp4 file."""

    path: str | None = None
    prompt: str | None = None

    def _repr_html_(self) -> str | None:
        if self.path is None or self.ndim != 4 or not pathlib.Path(self.path).is_file():
            return None
        data = base64.b64encode(pathlib.Path(self.path).read_bytes()).decode()
        return f'<video controls loop autoplay muted src="data:video/mp4;base64,{data}"></video>'


class Output:
    """What a call of a Pipeline made.

    images: PIL images (arrays with output_type="np", or without Pillow). videos: see Video. latents: f32 [c, f, h, w]
    of each. paths: their files. seconds: of the call.
    """

    def __init__(self, images: list[Any], videos: list[Video], latents: list[Any], paths: list[str],
                 seconds: float) -> None:
        self.images, self.videos, self.latents, self.paths, self.seconds = images, videos, latents, paths, seconds

    def __repr__(self) -> str:
        return f"Output({len(self.images)} images, {len(self.videos)} videos, {self.seconds:.1f} s)"


def _image(frames: Any, output_type: str) -> Any:
    if output_type != "pil":
        return frames
    try:
        import PIL.Image
    except ImportError:
        return frames
    return PIL.Image.fromarray(frames)


class Pipeline:
    """A model that makes pictures or videos, loaded at the first call and kept for the next ones.

    model: a folder, a file of weights, a hub id, a run's `config.yml`, or a YAML file. device: "cpu", "cuda" or "tpu".
    Other keyword arguments are keys for all calls. A call's pictures have the bits of `kinema generate` with the same
    keys. Files go to a temporary folder of the pipeline unless `video_folder` is given.
    """

    def __init__(self, model: Path, *, device: str | None = None, progress: bool | None = None, **keys: Any) -> None:
        self._model = model
        self._keys = dict(keys, device=device)
        self._progress = progress
        self._loras: list[tuple[str, float]] = []
        self._generator = _native.Generator()
        self._folder = tempfile.TemporaryDirectory(prefix="kinema-")
        self._calls = 0
        load(model, **self._keys)  # errors of keys and files belong here

    @classmethod
    def from_pretrained(cls, model: Path, **keys: Any) -> Pipeline:
        """The name that diffusers has for the constructor."""
        return cls(model, **keys)

    def load_lora_weights(self, path: Path, *, scale: float = 1.0) -> Pipeline:
        """Adds an adapter to those of the next calls."""
        self._loras.append((str(path), float(scale)))
        return self

    def unload_lora_weights(self) -> Pipeline:
        """Removes the adapters."""
        self._loras = []
        return self

    def release(self) -> None:
        """Frees the model's memory; the next call loads it again."""
        self._generator.release()

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._generator.is_loaded()

    def __call__(self, prompt: str | Sequence[str] | None = None, *, generator: Any = None, output_type: str = "pil",
                 callback_on_step_end: Callable[[Pipeline, int, int, dict[str, Any]], Any] | None = None,
                 **keys: Any) -> Output:
        """Makes pictures or videos of a prompt or a list of prompts.

        Keys are keyword arguments, with diffusers' names where it has others: mask_image, last_image. image, mask_image
        and control_image may be paths, PIL images or arrays. generator: a torch.Generator, of which the seed is taken.
        output_type: "pil", "np" or "latent". callback_on_step_end(pipeline, step, total, kwargs) is called after each
        step; an exception in it, or Ctrl-C, ends the call.
        """
        if output_type not in ("pil", "np", "latent"):
            raise ValueError(f'output_type is {output_type!r}, expected "pil", "np" or "latent"')
        settings = self._settings(prompt, generator, keys)
        bars = TaskBars(self._progress)
        more: dict[str, Callable[..., None]] = {}
        if (told := callback_on_step_end) is not None:
            more["on_step"] = lambda done, total: told(self, done, total, {})
        try:
            made = self._generator.generate(settings, observing(bars, **more), str(_native.PROGRAM))
        finally:
            bars.close()
        return self._output(made, output_type)

    def _settings(self, prompt: str | Sequence[str] | None, generator: Any, keys: dict[str, Any]) -> Settings:
        folder = pathlib.Path(self._folder.name) / str(self._calls)
        self._calls += 1
        folder.mkdir(exist_ok=True)
        keys = {**self._keys, **keys}
        if prompt is not None and not isinstance(prompt, str):
            if any("\n" in each for each in prompt) or not prompt:
                raise ValueError("a list of prompts is empty or has a prompt with a line break")
            prompts = folder / "prompts.txt"
            prompts.write_text("".join(each + "\n" for each in prompt), encoding="utf-8")
            keys.update(prompt_file=prompts)
        elif prompt is not None:
            keys.update(prompt=prompt)
        if generator is not None:
            keys.setdefault("seed", generator.initial_seed())
        for name in _PICTURES:
            if keys.get(name) is not None and not _pictures.is_path(keys[name]):
                keys[name] = _pictures.write_png(keys[name], folder / f"{name}.png", name)
        if self._loras:
            keys.setdefault("lora", ",".join(f"{path}:{scale:g}" for path, scale in self._loras))
        keys.setdefault("video_folder", folder / "made")
        keys.setdefault("contact_sheet", False)
        return load(self._model, **keys)

    @staticmethod
    def _output(made: Any, output_type: str) -> Output:
        images, videos, latents, paths = [], [], [], []
        for each in made.videos:
            frames = each.take_frames()
            latents.append(each.take_latents())
            paths.append(each.path)
            if output_type == "latent":
                continue
            if len(frames) == 1:
                images.append(_image(frames[0], output_type))
            else:
                video = frames.view(Video)
                video.path, video.prompt = each.path, each.prompt
                videos.append(video)
        return Output(images, videos, latents, paths, made.seconds)

    def __repr__(self) -> str:
        return f"Pipeline({str(self._model)!r}, {', '.join(words_of(self._keys))})"
