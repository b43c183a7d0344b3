"""Files of torch.save and pickles of numpy: the same bits in kinema, whatever the dtype, view or format."""

from peer import kinema, safetensors, same_tensors, say

import pickle

import numpy as np
import torch

torch.manual_seed(0)

TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool, torch.uint16, torch.uint32,
]  # fmt: skip


def bits(tensors):
    """Tensors as bytes, which compare where floats of eight bits do not."""
    return {name: each.detach().contiguous().clone().reshape(-1).view(torch.uint8) if each.numel() else torch.zeros(0)
            for name, each in tensors.items()}


def check(file, wanted):
    """What kinema writes of the file, bit for bit."""
    kinema("convert", file, file + ".safetensors")
    found = safetensors.torch.load_file(file + ".safetensors")
    assert {n: (t.dtype, t.shape) for n, t in found.items()} == {n: (t.dtype, t.shape) for n, t in wanted.items()}, file
    same_tensors(bits(found), bits(wanted))
    say(f"{file}: {len(wanted)} tensors, the same bits")


state = {str(dtype): (torch.rand(3, 50) * 9).to(dtype) for dtype in TYPES}
base = torch.randn(6, 8, 4)
state |= {
    "whole": base, "part": base[2:4], "columns": base[:, 1:5], "permuted": base.permute(2, 0, 1), "step": base[::2, :, ::3],
    "parameter": torch.nn.Parameter(base[0].t()), "empty": base[:0], "one": base[0, 0, 0],
    "flat": base.flatten()[5:77].view(8, 9).t(), "last": base.permute(1, 2, 0).to(torch.bfloat16),
}  # fmt: skip
for end in ("pth", "pt", "bin", "ckpt"):
    torch.save(state, f"zip.{end}")
    check(f"zip.{end}", state)
torch.save(state, "old.pth", _use_new_zipfile_serialization=False)
check("old.pth", state)
for protocol in (2, 3, 4, 5):
    torch.save(state, f"protocol_{protocol}.pt", pickle_protocol=protocol)
    check(f"protocol_{protocol}.pt", state)
    torch.save(state, f"old_protocol_{protocol}.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=False)
    check(f"old_protocol_{protocol}.pt", state)

# Training checkpoints, and a whole module's dict with the versions of its layers.
module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8), torch.nn.Flatten(), torch.nn.LazyLinear(5))
module(torch.zeros(1, 3, 8, 8))
optimizer = torch.optim.AdamW(module.parameters())
module(torch.zeros(1, 3, 8, 8)).sum().backward()
optimizer.step()
torch.save({"state_dict": module.state_dict(), "optimizer_states": [optimizer.state_dict()], "global_step": 3}, "run.ckpt")
check("run.ckpt", module.state_dict())
torch.serialization.set_crc32_options(False)
torch.save(module.state_dict(), "no_checksums.pt")
check("no_checksums.pt", module.state_dict())

arrays = {str(dtype): np.random.rand(4, 5).astype(dtype) for dtype in "float32 float16 float64 int8 int64 uint8 bool".split()}
arrays |= {"fortran": np.asfortranarray(arrays["float32"]), "rows": arrays["float32"][1:3], "scalar": np.float32(3)}
for protocol in range(6):
    with open(f"agent_{protocol}.pkl", "wb") as file:
        pickle.dump({"params": arrays, "counters": {"updates": 5}}, file, protocol)
    check(f"agent_{protocol}.pkl", {name: torch.from_numpy(np.array(each)) for name, each in arrays.items()})

# What is refused, by name.
torch.save(module, "module.pt")
kinema("convert", "module.pt", "a.safetensors", refused="needs `torch.nn.modules.container.Sequential`")
torch.jit.save(torch.jit.trace(module, torch.zeros(1, 3, 8, 8)), "script.pt")
kinema("convert", "script.pt", "a.safetensors", refused="torch.jit.save")
torch.save({"w": torch.zeros(1).expand(9)}, "expanded.pt")
kinema("convert", "expanded.pt", "a.safetensors", refused="overlap")
torch.save({"w": torch.zeros(3, dtype=torch.complex64)}, "complex.pt")
kinema("convert", "complex.pt", "a.safetensors", refused="torch.ComplexFloatStorage")
torch.save({"w": torch.eye(3).to_sparse()}, "sparse.pt")
kinema("convert", "sparse.pt", "a.safetensors", refused="_rebuild_sparse_tensor")
