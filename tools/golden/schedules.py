"""tests/golden/schedules.json: learning rates by optax (0.2.8 made them)."""

import json
import pathlib

import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import optax

RATE, STEPS, FINAL = 2e-3, 200, 0.05


def rise(warmup):
    return optax.linear_schedule(0.0, RATE, warmup)


def joined(warmup, decay, fall):
    """A rise, the rate, and `fall`, a schedule of the last `decay` steps."""
    parts, ends = [rise(warmup)], [warmup]
    if warmup + decay < STEPS:
        parts.append(optax.constant_schedule(RATE))
        ends.append(STEPS - decay)
    return optax.join_schedules(parts + [fall], ends)


def line(decay):
    return optax.linear_schedule(RATE, RATE * FINAL, decay)


def cosine(decay):
    return optax.cosine_decay_schedule(RATE, decay, alpha=FINAL)


CASES = {
    # name: warmup steps, decay steps, schedule
    "constant": (20, 0, optax.join_schedules([rise(20), optax.constant_schedule(RATE)], [20])),
    "linear": (20, 180, joined(20, 180, line(180))),
    "cosine": (20, 180, optax.warmup_cosine_decay_schedule(0.0, RATE, 20, STEPS, RATE * FINAL)),
    "wsd": (20, 20, joined(20, 20, line(20))),
    "wsd_cosine": (20, 60, joined(20, 60, cosine(60))),
}
at = sorted({0, 1, 7, 19, 20, 21, 60, 100, 139, 140, 150, 179, 180, 181, 190, 199, 200, 260})
out = {"learning_rate": RATE, "steps": STEPS, "final_fraction": FINAL, "at": at, "cases": {}}
for name, (warmup, decay, schedule) in CASES.items():
    rates = [float(schedule(jnp.asarray(step, jnp.float64))) for step in at]
    out["cases"][name] = {"warmup_steps": warmup, "decay_steps": decay, "rates": rates}
folder = pathlib.Path(__file__).parents[2] / "tests/golden"
(folder / "schedules.json").write_text(json.dumps(out, indent=1) + "\n")
