"""tests/golden/optimizers.safetensors: three updates each by bitsandbytes' AdamW8bit (0.50.2) and by transformers'
Adafactor (5.23.0), 20 by lion-pytorch's Lion (0.2.5), bitsandbytes' Lion8bit and came-pytorch's CAME (0.1.3), with
torch 2.15.0 on CPU. Parameters and gradients are formulas.

bitsandbytes' CPU code looks float32 up in a table of 65536 shares, which is coarser than its map near zero; of wider
types it takes the nearest number of the map, as its GPU code does, and that is what is asked for here.
"""

import pathlib

import bitsandbytes as bnb
import numpy as np
import torch
from bitsandbytes.backends.cpu import ops
from safetensors.numpy import save_file
from came_pytorch import CAME
from lion_pytorch import Lion
from transformers.optimization import Adafactor

def nearest(values, code, absmax_out, codes_out, blocksize):
    codes, absmax = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
    codes_out.copy_(codes)
    absmax_out.copy_(absmax)


ops._quant_blockwise_fp32_direct = nearest

RATE, DECAY, UPDATES, MORE_UPDATES = 1e-2, 0.1, 3, 20


def numbers(shape, seed):
    """From -1 to 1, of nine sizes."""
    i = np.arange(np.prod(shape), dtype=np.int64)
    values = ((i * 7919 + seed * 104729) % 10007 - 5003) / 5003.0 * 2.0 ** -(i % 9).astype(np.float64)
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def trained(shape, make, updates=UPDATES):
    """The parameter after the updates, and the optimizer's state of it."""
    parameter = torch.nn.Parameter(numbers(shape, 0))
    optimizer = make([parameter])
    for step in range(1, updates + 1):
        parameter.grad = numbers(shape, step)
        optimizer.step()
    return parameter.detach(), optimizer.state[parameter]


out = {}
parameter, state = trained((8, 512), lambda p: bnb.optim.AdamW8bit(p, lr=RATE, weight_decay=DECAY))
out["adamw8bit.p"] = parameter
for name in ("state1", "state2", "absmax1", "absmax2"):
    out["adamw8bit." + name] = state[name]
out["map.signed"] = bnb.functional.create_dynamic_map(signed=True)
out["map.unsigned"] = bnb.functional.create_dynamic_map(signed=False)

for name, shape, b1 in [("matrix", (6, 5), None), ("vector", (7,), None), ("filter", (3, 2, 4, 5), None),
                        ("momentum", (6, 5), 0.9)]:
    parameter, state = trained(
        shape,
        lambda p: Adafactor(p, lr=RATE, weight_decay=DECAY, beta1=b1, scale_parameter=False, relative_step=False,
                            warmup_init=False))
    out[f"adafactor.{name}.p"] = parameter
    for key, ours in [("exp_avg_sq_row", "row"), ("exp_avg_sq_col", "col"), ("exp_avg_sq", "nu"), ("exp_avg", "mu")]:
        if key in state:
            out[f"adafactor.{name}.{ours}"] = state[key]

for name, shape, make in [("lion", (6, 5), Lion), ("lion8bit", (8, 512), bnb.optim.Lion8bit)]:
    parameter, state = trained(shape, lambda p: make(p, lr=RATE, betas=(0.9, 0.99), weight_decay=DECAY), MORE_UPDATES)
    out[f"{name}.p"] = parameter
    for key in ("exp_avg", "state1", "absmax1"):
        if key in state:
            out[f"{name}.{key}"] = state[key]

for name, shape in [("matrix", (6, 5)), ("vector", (7,)), ("filter", (3, 2, 4, 5))]:
    parameter, state = trained(
        shape, lambda p: CAME(p, lr=RATE, weight_decay=DECAY, betas=(0.9, 0.999, 0.9999), eps=(1e-30, 1e-16)), MORE_UPDATES)
    out[f"came.{name}.p"] = parameter
    out.update({f"came.{name}.{key}": value for key, value in state.items() if isinstance(value, torch.Tensor) and value.dim()})

folder = pathlib.Path(__file__).parents[2] / "tests/golden"
save_file({name: value.detach().contiguous().numpy() for name, value in out.items()},
          folder / "optimizers.safetensors")
