"""tests/golden/global_optimizers.safetensors: 20 updates each of a matrix, a filter and a vector together, by prodigyopt's
Prodigy (1.1.2), schedulefree's AdamWScheduleFree (1.4.1), torch's Muon with AdamW for the vector (2.15.0), and
transformers' Adafactor with rates of its own (5.23.0), on CPU. Parameters and gradients are formulas.
"""

import pathlib

import numpy as np
import torch
from prodigyopt import Prodigy
from safetensors.numpy import save_file
from schedulefree import AdamWScheduleFree
from transformers.optimization import Adafactor

RATE, DECAY, UPDATES = 1e-2, 0.1, 20
SHAPES = {"matrix": (6, 5), "tall": (3, 8), "vector": (7,)}


def numbers(shape, seed):
    """From -1 to 1, of nine sizes; as in optimizers.py."""
    i = np.arange(np.prod(shape), dtype=np.int64)
    values = ((i * 7919 + seed * 104729) % 10007 - 5003) / 5003.0 * 2.0 ** -(i % 9).astype(np.float64)
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def gradient(shape, step):
    """One direction with a part that changes, so that Prodigy's estimate grows."""
    return numbers(shape, 100) + 0.25 * numbers(shape, step)


out = {}


def train(name, make, rates=None):
    """`make` returns the optimizers of the parameters, which together update all of them."""
    parameters = {key: torch.nn.Parameter(numbers(shape, 0)) for key, shape in SHAPES.items()}
    optimizers = make(parameters)
    estimates = []
    for step in range(1, UPDATES + 1):
        for key, parameter in parameters.items():
            parameter.grad = gradient(SHAPES[key], step)
        for optimizer in optimizers:
            if hasattr(optimizer, "train"):
                optimizer.train()
            if rates is not None:
                for group in optimizer.param_groups:
                    group["lr"] = rates[step - 1]
            optimizer.step()
            if "d" in optimizer.param_groups[0]:
                estimates.append(optimizer.param_groups[0]["d"])
            if hasattr(optimizer, "eval"):
                optimizer.eval()
    for key, parameter in parameters.items():
        out[f"{name}.{key}.p"] = parameter.detach()
        for optimizer in optimizers:
            for kind, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.dim():
                    out[f"{name}.{key}.{kind}"] = value.reshape(SHAPES[key]) if value.numel() == parameter.numel() else value
    if estimates:
        out[f"{name}.d"] = torch.tensor(estimates, dtype=torch.float32)


# Of the default d0, 1e-6, the first distances are mostly float32 roundings of parameters near 1.
train("prodigy", lambda p: [Prodigy(p.values(), lr=1.0, d0=0.1)])
train("prodigy_guarded", lambda p: [Prodigy(p.values(), lr=1.0, weight_decay=DECAY, d_coef=0.8, growth_rate=1.5, d0=1e-3,
                                            use_bias_correction=True, safeguard_warmup=True)])
train("schedule_free", lambda p: [AdamWScheduleFree(p.values(), lr=RATE, weight_decay=DECAY)])
# A warmup and a fall: the weights of the average depend on the largest rate so far.
train("schedule_free_rates", lambda p: [AdamWScheduleFree(p.values(), lr=RATE, weight_decay=DECAY)],
      [RATE * min(k, 8, 24 - k) / 8 for k in range(UPDATES)])


def muon(nesterov, adjust):
    return lambda p: [torch.optim.Muon([v for v in p.values() if v.dim() == 2], lr=RATE, weight_decay=DECAY, nesterov=nesterov,
                                       adjust_lr_fn=adjust),
                      torch.optim.AdamW([v for v in p.values() if v.dim() != 2], lr=RATE, weight_decay=DECAY)]


train("muon", muon(True, "match_rms_adamw"))
train("muon_original", muon(False, "original"))
for name, scale, relative, warmup in [("scaled", True, False, False), ("relative", True, True, False), ("warmup", True, True, True),
                                      ("relative_only", False, True, False)]:
    train(f"adafactor_{name}", lambda p: [Adafactor(p.values(), lr=None if relative else RATE, weight_decay=DECAY, scale_parameter=scale,
                                                    relative_step=relative, warmup_init=warmup)])

folder = pathlib.Path(__file__).parents[2] / "tests/golden"
save_file({name: value.detach().contiguous().float().numpy() for name, value in out.items()},
          folder / "global_optimizers.safetensors")
