"""Updates of whole runs, against transformers' Adafactor and torch's AdamW with kinema's gradients.

Each update is a run of one step that begins with weights and optimizer of the last one. Its gradients are read off
another run of the same step: with adam_b1=0 the first moment is the gradient.

    optimizers.py KINEMA [UPDATES]
"""

from peer import SOURCE, kinema, pathlib, safetensors, same, say

import sys

import torch
from transformers.optimization import Adafactor

RATE, DECAY = 1e-2, 0.1
UPDATES = int(sys.argv[2]) if len(sys.argv) > 2 else 2
WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"
# Ten float32 roundings (6e-8) an update, of a state's largest; numbers of parameters and rates are of order one.
ROUNDING = 1e-6


def step(name, seed, *words):
    """The checkpoint of a run of one step; the seed selects its batch."""
    kinema("train", SOURCE / "configs/tiny.yml", f"run_name={name}", f"seed={seed}", "max_train_steps=1", f"learning_rate={RATE}",
           "learning_rate_schedule_steps=100", "warmup_steps_fraction=0", "checkpoint_every=-1", *words)
    return pathlib.Path(f"outputs/{name}/checkpoints/1")


def tensors(checkpoint, file):
    return safetensors.torch.load_file(checkpoint / file)


def check_states(last, parameters, optimizer):
    """Moments of every parameter under kinema's names for them."""
    names = {"exp_avg": ("mu", ""), "exp_avg_sq": ("nu", ""), "exp_avg_sq_row": ("nu", ".row"), "exp_avg_sq_col": ("nu", ".col")}
    files = {part: tensors(last, f"optimizer/{part}.safetensors") for part in ("mu", "nu") if (last / f"optimizer/{part}.safetensors").exists()}
    for key, parameter in parameters.items():
        for theirs, (part, end) in names.items():
            if isinstance(value := optimizer.state[parameter].get(theirs), torch.Tensor):
                found = files[part].pop(key + end).reshape(value.shape)
                same(f"{part} of {key}{end}", found, value, UPDATES * ROUNDING * value.abs().max().item())
    assert not any(files.values()), f"kinema stores more: {files}"


def check(name, words, make):
    start = last = step(f"{name}-0", 0, "learning_rate=1e-30", "adam_b1=0")
    parameters = {key: torch.nn.Parameter(value) for key, value in tensors(start, WEIGHTS).items()}
    optimizer = make(list(parameters.values()))
    for update in range(1, UPDATES + 1):
        gradient = step(f"{name}-{update}-gradient", update, f"init_from={last}", "adam_b1=0")
        last = step(f"{name}-{update}", update, f"init_from={last}", f"init_optimizer={str(update > 1).lower()}",
                    f"adam_weight_decay={DECAY}", *words)
        for key, value in tensors(gradient, "optimizer/mu.safetensors").items():
            parameters[key].grad = value
        optimizer.step()
    check_states(last, parameters, optimizer)
    found = tensors(last, WEIGHTS)
    moved = max((found[key] - value).abs().max().item() for key, value in tensors(start, WEIGHTS).items())
    assert moved > RATE, f"{name}: nothing moved by more than {moved:.2g}"
    difference = max(same(key, found[key], p.detach(), UPDATES * ROUNDING) for key, p in parameters.items())
    say(f"{name}: {UPDATES} updates, which moved numbers by up to {moved:.2g}", difference)


def adafactor(b1):
    return lambda parameters: Adafactor(parameters, lr=RATE, weight_decay=DECAY, beta1=b1, scale_parameter=False, relative_step=False,
                                        warmup_init=False)


check("adafactor-momentum", ["optimizer=adafactor", "adafactor_b1=0.9"], adafactor(0.9))
if UPDATES > 2:  # only on request: each takes as long
    check("adafactor", ["optimizer=adafactor"], adafactor(None))
    check("adamw", ["optimizer=adamw"], lambda parameters: torch.optim.AdamW(parameters, RATE, (0.9, 0.999), 1e-8, DECAY))
