"""Configurations: a YAML file, a model or a run, with keys as keyword arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Union

from kinema import _native
from kinema._native import Settings

Path = Union[str, "os.PathLike[str]"]


class Key(NamedTuple):
    """A key of a configuration; its default is written as YAML."""

    name: str
    group: str
    type: str
    default: str
    help: str


# Names of diffusers for keys of kinema.
_OTHER_NAMES = {"mask_image": "mask", "last_image": "last_image_url"}
_HARDWARE = {"cuda": "gpu"}


def keys() -> list[Key]:
    """All keys, which `train`, `Pipeline` and others take as keyword arguments."""
    rows: list[Any] = _native.native_keys()
    return [Key(*each) for each in rows]


def text_of(value: Any) -> str:
    """The value as `key=value` on the command line has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a scalar of numpy or torch
        return text_of(value.item())
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value)
    raise TypeError(f"a key has the value {value!r}, expected a bool, number, string, path, list or dict")


def words_of(keys: dict[str, Any]) -> list[str]:
    """Keyword arguments as words of a command line. None is as if the argument was not given."""
    words = []
    for name, value in keys.items():
        if value is None:
            continue
        if name == "device":
            kind = str(value).split(":")[0]
            name, value = "hardware", _HARDWARE.get(kind, kind)
        if name == "hardware" and "pjrt_plugin" not in keys:
            plugin = _native.installed_plugin(value)
            words += [f"pjrt_plugin={plugin}"] if plugin else []
        words.append(f"{_OTHER_NAMES.get(name, name)}={text_of(value)}")
    return words


def load(config: Path | None = None, *, on_notice: Callable[[str], None] | None = None, **keys: Any) -> Settings:
    """The settings of a command.

    config: a YAML file, the folder, file or hub id of a model, a run's `config.yml`, or Settings' YAML file; None: the
    defaults. Raises Error for an unknown key, with the nearest one, and for a value out of its range.
    """
    callbacks = {} if on_notice is None else {"on_notice": on_notice}
    return _native.native_load("" if config is None else os.fspath(config), words_of(keys), callbacks)
