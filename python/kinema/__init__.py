"""Trains and samples diffusion models on XLA: Wan video, Flux and Stable Diffusion images.

    import kinema as k
    image = k.Pipeline("stabilityai/stable-diffusion-xl-base-1.0", device="cuda")("a red fox", seed=0).images[0]
    run = k.train("configs/sdxl_lora.yml", train_data_dir="photos")

Every key of a configuration (`kinema.keys()`) is a keyword argument.
"""

import atexit as _atexit

from kinema import flags
from kinema._native import Error, Stopped, __version__, finish, graph
from kinema._settings import Key, Settings, keys, load
from kinema.callbacks import Callback, tqdm
from kinema.pipeline import Output, Pipeline, Video
from kinema.tools import Plan, convert, evaluate, inspect, plan, prepare, verify
from kinema.training import Run, train

_atexit.register(finish)

__all__ = ["Callback", "Error", "Key", "Output", "Pipeline", "Plan", "Run", "Settings", "Stopped", "Video",
           "__version__", "convert", "evaluate", "flags", "graph", "inspect", "keys", "load", "plan", "prepare", "tqdm",
           "train", "verify"]
