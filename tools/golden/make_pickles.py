"""Writes tests/golden/pickles: files of torch.save in both of its formats and pickles of numpy arrays, and beside
them the same tensors as safetensors. Needs torch, numpy and safetensors.

    python make_pickles.py ../../tests/golden/pickles
"""

import collections
import pathlib
import pickle
import sys

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file as save_tensors

TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.uint16, torch.uint32,
]  # fmt: skip


def tensors():
    """One of each dtype, views of one storage that are not in order, a parameter, no elements, a scalar."""
    random = torch.Generator().manual_seed(7)
    out = collections.OrderedDict()
    for dtype in TYPES:
        out[str(dtype).split(".")[1]] = (torch.rand((3, 5), generator=random) * 9).to(dtype)
    base = torch.rand((4, 6), generator=random)
    out["shared.whole"] = base
    out["shared.rows"] = base[1:3]
    out["shared.columns"] = base[:, 2:4]
    out["shared.transposed"] = base.t()
    out["shared.every_second"] = base[::2, 1::2]
    out["parameter"] = torch.nn.Parameter(torch.rand(3, generator=random))
    out["empty"] = torch.zeros((0, 4))
    out["scalar"] = torch.tensor(2.5)
    return out


def arrays():
    random = np.random.default_rng(7)
    out = {f"types/{np.dtype(t)}": (random.random((2, 3)) * 9).astype(t) for t in "bhilBHILefd?"}
    out["order/fortran"] = np.asfortranarray(random.random((3, 4), dtype=np.float32))
    out["order/view"] = random.random((4, 4), dtype=np.float32)[1::2, ::2]
    out["scalar"] = np.float32(1.5)
    out["empty"] = np.zeros((2, 0), np.float32)
    return out


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    state = tensors()
    torch.save({"state_dict": state, "global_step": 1200, "note": "a text"}, folder / "checkpoint.ckpt")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    save_tensors({name: each.detach().contiguous().clone() for name, each in state.items()}, folder / "torch.safetensors")
    torch.save(load_file(folder / "../lora/adapter.safetensors"), folder / "lora.bin")
    params = arrays()
    agent = {"params": params, "counters": {"updates": 7, "batches": 9, "actions": 1 << 40}}
    for protocol in (0, 2, 3, 4, 5):
        with open(folder / f"agent_{protocol}.pkl", "wb") as file:
            pickle.dump(agent, file, protocol)
    save_arrays({name: np.ascontiguousarray(each).reshape(np.shape(each)) for name, each in params.items()}, folder / "numpy.safetensors")


main(pathlib.Path(sys.argv[1]))
