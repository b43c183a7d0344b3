"""The C++ module, with the plugins that are installed beside it."""

from __future__ import annotations

import importlib.util
import pathlib

from kinema import _kinema
from kinema._kinema import Error, Generator, Settings, Step, Stopped, finish, graph
from kinema._kinema import keys as native_keys
from kinema._kinema import load as native_load
from kinema._kinema import train as native_train

__all__ = ["Error", "Generator", "PROGRAM", "Settings", "Step", "Stopped", "__version__", "finish", "graph",
           "installed_plugin", "native_keys", "native_load", "native_train", "plugin_folder"]

__version__: str = getattr(_kinema, "__version__")

# The plugin of a device in the wheel that `pip install kinema[cuda]` or `kinema[tpu]` brings.
_PLUGINS = {"gpu": ("jax_plugins.xla_cuda13", "xla_cuda_plugin.so"), "tpu": ("libtpu", "libtpu.so")}

PROGRAM = pathlib.Path(__file__).parent / "bin" / "kinema"


def _folder_of(module: str) -> pathlib.Path | None:
    """The folder of an installed module, which is not imported; None if it is not there."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    places = list(found.submodule_search_locations or []) if found is not None else []
    return pathlib.Path(places[0]) if places else None


def installed_plugin(hardware: str) -> pathlib.Path | None:
    """The path of the plugin for `gpu` or `tpu` that is installed in this environment; None if there is none."""
    if hardware not in _PLUGINS:
        return None
    module, file = _PLUGINS[hardware]
    folder = _folder_of(module)
    return folder / file if folder is not None and (folder / file).is_file() else None


def plugin_folder() -> str:
    """The folder with XLA's CPU plugin: that of the wheel xla-cpu-pjrt, or of the program of a build."""
    return str(_folder_of("xla_plugins.xla_cpu_pjrt") or PROGRAM.resolve().parent)


_kinema.setup(plugin_folder())
