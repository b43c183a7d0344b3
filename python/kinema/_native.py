"""The C++ module, with the plugins that are installed beside it."""

import importlib.util
import pathlib

from kinema import _kinema
from kinema._kinema import Error, Generator, Stopped, __version__, finish, graph  # noqa: F401
from kinema._kinema import keys as native_keys  # noqa: F401
from kinema._kinema import load as native_load  # noqa: F401
from kinema._kinema import train as native_train  # noqa: F401

PROGRAM = pathlib.Path(__file__).parent / "bin" / "kinema"


def _plugin_folder():
    """The folder with XLA's CPU plugin: that of the wheel xla-cpu-pjrt, or of the program of a build."""
    try:
        found = importlib.util.find_spec("xla_plugins.xla_cpu_pjrt")
    except ModuleNotFoundError:
        found = None
    if found is not None and found.submodule_search_locations:
        return list(found.submodule_search_locations)[0]
    return str(PROGRAM.resolve().parent)


_kinema.setup(_plugin_folder())
