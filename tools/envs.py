#!/usr/bin/env python3
"""Environments in Python for kinema, which starts this file itself, or connects to it on another host:

    python3 envs.py --listen HOST:PORT --token-file FILE

Only numpy is needed, and the package of the environment. A task is SUITE_NAME (gymnasium, atari, atari100k, crafter,
dmc, procgen, minigrid, bsuite) or module:make, a function of yours that returns an environment. That is an object with
reset() and step() as in gymnasium, and with the attributes `observations` and `actions`:

    class Walk:
        observations = {"vector": ("float32", (1,))}  # dtype, shape[, low, high]; a range of integers ends before high
        actions = {"action": ("int32", (), 0, 2)}

        def reset(self): return {"vector": [0.0]}
        def step(self, action): return {"vector": [0.5]}, reward, terminated, truncated

or an environment of gymnasium or dm_env. docs/guides/environments.md has more.

Protocol, version 1. kinema sends a line of JSON {protocol, task, count, first, seed, restarts, settings}, and receives
{observations, actions, log, repeat}, or {error} here and later instead of any other reply. It sends {layout}: where in
a record each array [count, ...] is. From then on it sends the byte `s` for each step, and receives the byte `k`; the
record is in shared memory, or, over TCP, its requests follow the `s` and its replies the `k`. Instead of `k` comes `e`
and a line {error}.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # environments run in several processes already

import argparse
import hmac
import importlib
import inspect
import json
import mmap
import socket
import subprocess
import sys
import threading
import time
import traceback

import numpy as np

PROTOCOL = 1
LINE_LIMIT = 1 << 20
TOKEN_SECONDS = 10


class Refused(Exception):
    """What makes an environment unusable: it is not started again."""


# ---- Spaces ---------------------------------------------------------------------------------


class Space:
    """The values of one entry, limits by element: `high` of integers is one above the largest."""

    def __init__(self, dtype, shape=(), low=None, high=None):
        self.dtype = np.dtype(dtype)
        self.shape = tuple(int(n) for n in shape)
        if self.dtype.kind not in "fiub" or any(n < 0 for n in self.shape):
            raise Refused(f"a space is {self.dtype}{list(self.shape)}, expected numbers, and no size below 0")
        if self.dtype == bool:
            low, high = 0, 2
        if self.dtype.kind in "iu" and (low is None or high is None):
            info = np.iinfo(self.dtype)
            low, high = info.min if low is None else low, info.max + 1 if high is None else high
        kind = object if self.dtype.kind in "iub" else float  # integers beyond int64 do not overflow
        low = np.asarray(-np.inf if low is None else low, kind)
        high = np.asarray(np.inf if high is None else high, kind)
        self.least, self.most = (low.min(), high.max()) if low.size and high.size else (0, 1)
        self.low, self.high = np.broadcast_to(low, self.shape), np.broadcast_to(high, self.shape)

    @property
    def is_integer(self):
        return self.dtype.kind in "iub"

    @property
    def is_too_wide(self):
        """Integers that are numbers rather than classes."""
        return self.is_integer and self.dtype != np.uint8 and self.limits()[1] - self.limits()[0] > 65536

    @property
    def stored(self):
        """The dtype in records: float32, uint8 or int32."""
        if self.dtype.kind == "f" or self.is_too_wide:
            return np.dtype(np.float32)
        return self.dtype if self.dtype == np.uint8 else np.dtype(np.int32)

    def limits(self):
        return self.least, self.most

    def describe(self):
        low, high = self.limits()
        if self.stored == np.float32 and self.is_integer:
            low, high = -np.inf, np.inf
        number = float if self.stored == np.float32 else int
        return {"dtype": self.stored.name, "shape": list(self.shape),
                "low": number(low) if np.isfinite(float(low)) else None,
                "high": number(high) if np.isfinite(float(high)) else None}


class NormalAction:
    """A continuous action in [-1, 1], mapped to its limits where it has some."""

    def __init__(self, space):
        self.space = space
        self.mask = np.isfinite(space.low) & np.isfinite(space.high)
        self.low = np.where(self.mask, space.low, -1).astype(space.dtype)
        self.high = np.where(self.mask, space.high, 1).astype(space.dtype)

    def describe(self):
        return {"dtype": "float32", "shape": list(self.space.shape), "low": -1.0, "high": 1.0}

    def __call__(self, value):
        value = value.astype(self.space.dtype)
        return np.where(self.mask, (value + 1) / 2 * (self.high - self.low) + self.low, value)


class DiscreteAction:
    def __init__(self, space):
        self.space = space
        self.start, self.classes = int(space.limits()[0]), int(space.limits()[1] - space.limits()[0])
        if space.is_too_wide:
            raise Refused(f"an action has {self.classes} values, expected at most 65536")

    def describe(self):
        return {"dtype": "int32", "shape": list(self.space.shape), "low": 0, "high": self.classes}

    def __call__(self, value):
        return (value + self.start).astype(self.space.dtype)


def converted_action(space):
    return DiscreteAction(space) if space.is_integer else NormalAction(space)


def spaces_of_gymnasium(space, name, alone):
    """Spaces by name, nested ones joined by `/`. Text is skipped, since agents cannot read it."""
    kind = type(space).__name__
    if hasattr(space, "spaces"):
        nested = space.spaces.items() if hasattr(space.spaces, "items") else enumerate(space.spaces)
        out = {}
        for key, inner in nested:
            out.update(spaces_of_gymnasium(inner, f"{name}/{key}" if name else str(key), alone))
        return out
    if hasattr(space, "nvec"):
        return {name or alone: Space(space.dtype, space.nvec.shape, 0, space.nvec)}
    if kind == "MultiBinary" or (hasattr(space, "n") and space.shape):
        return {name or alone: Space(space.dtype, space.shape, 0, 2)}
    if hasattr(space, "n"):
        start = int(getattr(space, "start", 0))
        return {name or alone: Space(np.int64, (), start, start + int(space.n))}
    if hasattr(space, "low"):
        is_integer = np.dtype(space.dtype).kind in "iu"
        high = space.high.astype(object) + 1 if is_integer else space.high
        if not name and np.dtype(space.dtype) == np.uint8 and len(space.shape) in (2, 3):
            name = "image" if alone == "vector" else ""
        return {name or alone: Space(space.dtype, space.shape, space.low, high)}
    if hasattr(space, "charset") or hasattr(space, "characters") or kind == "MissionSpace":
        return {}
    raise Refused(f"the space {kind} of `{name or alone}` is not one that agents can have")


def flattened(value, name, alone, wanted):
    """Values by the names of spaces_of_gymnasium."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, tuple) and name + alone not in wanted:
        items = enumerate(value)
    else:
        return {name or alone: value}
    out = {}
    for key, inner in items:
        out.update(flattened(inner, f"{name}/{key}" if name else str(key), alone, wanted))
    return out


def resized(image, size):
    """Bilinear, as Pillow does it."""
    from PIL import Image
    if image.shape[:2] == tuple(size):
        return image
    return np.array(Image.fromarray(image).resize((size[1], size[0]), Image.BILINEAR))


# ---- Environments ---------------------------------------------------------------------------
# Each has `observations` and `actions` (spaces by name), `log` (names of statistics), `repeat`,
# reset() -> values, and step(action) -> values, reward, is_last, is_terminal.


class Plain:
    """An object with `observations`, `actions`, reset() and step()."""

    repeat = 1

    def __init__(self, env):
        self.env = env
        self.log = list(getattr(env, "log", ()))
        self.observations = {k: Space(*v) for k, v in env.observations.items()}
        self.actions = {k: Space(*v) for k, v in env.actions.items()}

    def reset(self):
        out = self.env.reset()
        return out[0] if isinstance(out, tuple) else out

    def step(self, action):
        values, reward, terminated, truncated = self.env.step(action)[:4]
        return values, reward, bool(terminated or truncated), bool(terminated)

    def close(self):
        getattr(self.env, "close", lambda: None)()


class Gymnasium:
    """An environment of gymnasium. `image` adds what it renders, with `size` rows and columns."""

    log = ()
    repeat = 1

    def __init__(self, env, seed, image=False, size=(64, 64)):
        self.env, self.seed, self.image, self.size = env, seed, image, tuple(size)
        self.observations = spaces_of_gymnasium(env.observation_space, "", "vector")
        self.grey = [k for k, v in self.observations.items() if v.dtype == np.uint8 and len(v.shape) == 2]
        for name in self.grey:
            space = self.observations[name]
            self.observations[name] = Space(space.dtype, (*space.shape, 1), 0, 256)
        if image:
            self.observations["image"] = Space(np.uint8, (*self.size, 3), 0, 256)
        self.starts = {k: v.low for k, v in self.observations.items()
                       if v.is_integer and v.dtype != np.uint8 and not v.is_too_wide}
        for name, low in self.starts.items():
            space = self.observations[name]
            self.observations[name] = Space(space.dtype, space.shape, 0, space.high - low)
        self.actions = spaces_of_gymnasium(env.action_space, "", "action")
        self.split = {}  # actions whose elements have different numbers of values
        for name, space in list(self.actions.items()):
            if space.is_integer and space.shape and len(set((space.high - space.low).flat)) > 1:
                del self.actions[name]
                self.split[name] = space
                for i, at in enumerate(np.ndindex(space.shape)):
                    self.actions[f"{name}_{i}"] = Space(space.dtype, (), space.low[at], space.high[at])

    def reset(self):
        seed, self.seed = self.seed, None  # later episodes go on from it
        return self.values(self.env.reset(seed=seed)[0])

    def step(self, action):
        for name, space in self.split.items():
            parts = [action.pop(f"{name}_{i}") for i in range(int(np.prod(space.shape)))]
            action[name] = np.array(parts, space.dtype).reshape(space.shape)
        value, reward, terminated, truncated = self.env.step(self.nested(action))[:4]
        return self.values(value), reward, bool(terminated or truncated), bool(terminated)

    def nested(self, action):
        def build(space, name):
            if hasattr(space, "spaces"):
                if hasattr(space.spaces, "items"):
                    return {k: build(v, f"{name}/{k}" if name else str(k)) for k, v in space.spaces.items()}
                return tuple(build(v, f"{name}/{i}" if name else str(i)) for i, v in enumerate(space.spaces))
            value = action[name or "action"]
            return int(value) if value.shape == () and value.dtype.kind in "iu" else value
        return build(self.env.action_space, "")

    def values(self, value):
        alone = "image" if "image" in self.observations and not self.image else "vector"
        out = flattened(value, "", alone, self.observations)
        out = {k: v for k, v in out.items() if not isinstance(v, str)}
        for name in self.grey:
            out[name] = np.asarray(out[name])[..., None]
        for name, low in self.starts.items():
            out[name] = np.asarray(out[name]) - low.astype(np.int64)
        if self.image:
            out["image"] = resized(np.asarray(self.env.render()), self.size)
        return out

    def close(self):
        self.env.close()


class DmEnv:
    """An environment of dm_env: a time limit ends an episode with discount 1, a terminal state with 0."""

    log = ()
    repeat = 1

    def __init__(self, env, flatten=False):
        self.env, self.flatten = env, flatten
        observations, actions = env.observation_spec(), env.action_spec()
        self.alone = not isinstance(observations, dict)
        self.act_alone = not isinstance(actions, dict)
        observations = {"vector": observations} if self.alone else observations
        self.observations = {self.name(k): self.space(v) for k, v in observations.items() if np.prod(v.shape) > 0}
        self.actions = {k: self.space(v, True) for k, v in ({"action": actions} if self.act_alone else actions).items()}

    @staticmethod
    def name(key):
        return "obs_reward" if key == "reward" else key.replace("/", "_")

    def space(self, spec, is_action=False):
        shape = spec.shape
        if self.flatten and not is_action and len(shape) == 2:
            shape = (shape[0] * shape[1],)
        if hasattr(spec, "num_values"):
            return Space(spec.dtype, (), 0, spec.num_values)
        if hasattr(spec, "minimum"):
            is_integer = np.dtype(spec.dtype).kind in "iu"
            low, high = (np.broadcast_to(x, spec.shape).reshape(shape) for x in (spec.minimum, spec.maximum))
            return Space(spec.dtype, shape, low, high.astype(object) + 1 if is_integer else high)
        return Space(spec.dtype, shape)

    def reset(self):
        return self.values(self.env.reset().observation)

    def step(self, action):
        now = self.env.step(action["action"] if self.act_alone else action)
        if now.first():
            raise RuntimeError("the environment started an episode by itself")
        if not now.last():
            return self.values(now.observation), now.reward or 0.0, False, now.discount == 0
        return self.values(now.observation), now.reward or 0.0, True, now.discount == 0

    def values(self, observation):
        items = [("vector", observation)] if self.alone else observation.items()
        out = {self.name(k): np.asarray(v) for k, v in items if np.size(v) > 0}
        return {k: v.reshape(self.observations[k].shape) if self.flatten else v for k, v in out.items()}

    def close(self):
        self.env.close()


class Embodied:
    """An environment of the original DreamerV3: one step() that also resets."""

    repeat = 1

    def __init__(self, env):
        self.env = env
        flags, logs = ("reward", "is_first", "is_last", "is_terminal"), ("log/", "log_")
        convert = lambda s: Space(s.dtype, s.shape, s.low, s.high)
        self.observations = {k: convert(v) for k, v in env.obs_space.items()
                             if k not in flags and not k.startswith(logs)}
        self.log = [k for k, v in env.obs_space.items() if k.startswith(logs) and v.shape == ()]
        self.actions = {k: convert(v) for k, v in env.act_space.items() if k != "reset"}
        self.zeros = {k: np.zeros(v.shape, v.dtype) for k, v in self.actions.items()}

    def reset(self):
        return self.env.step({**self.zeros, "reset": True})

    def step(self, action):
        out = self.env.step({**action, "reset": False})
        return out, out["reward"], bool(out["is_last"]), bool(out["is_terminal"])

    def close(self):
        getattr(self.env, "close", lambda: None)()


class Atari:
    """ALE. The frames of an action are joined by their maximum before they are resized and turned grey."""

    log = ()

    def __init__(self, name, seed, size=(96, 96), repeat=4, sticky=True, gray=True, actions="all", lives="unused",
                 noops=30, autostart=False, pooling=2, aggregate="max", resize="pillow", clip_reward=False,
                 length=108000):
        import ale_py
        from ale_py import roms
        one_of("actions", actions, ("all", "needed"))
        one_of("lives", lives, ("unused", "discount", "reset"))
        one_of("aggregate", aggregate, ("max", "mean"))
        one_of("resize", resize, ("pillow",))
        self.repeat, self.size, self.gray, self.lives, self.noops = repeat, tuple(size), gray, lives, noops
        self.aggregate, self.clip_reward, self.length, self.autostart = aggregate, clip_reward, length, autostart
        self.rng = np.random.default_rng(seed)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", int(self.rng.integers(0, 2**31)))
        self.ale.setFloat("repeat_action_probability", 0.25 if sticky else 0.0)
        rom = {"james_bond": "jamesbond"}.get(name, name)
        folder = os.environ.get("ALE_ROM_PATH")
        path = os.path.join(folder, f"{rom}.bin") if folder else roms.get_rom_path(rom)
        if path is None:
            raise Refused(f"ALE has no game `{name}`; there are: {', '.join(sorted(roms.get_all_rom_ids()))}")
        self.ale.loadROM(str(path))
        self.legal = self.ale.getLegalActionSet() if actions == "all" else self.ale.getMinimalActionSet()
        self.fire = next((a for a in self.legal if a.name == "FIRE"), None)
        self.noop, self.up = ale_py.Action.NOOP, ale_py.Action.UP
        rows, columns = self.ale.getScreenDims()
        self.frames = [np.zeros((rows, columns, 3), np.uint8) for _ in range(pooling)]
        self.actions = {"action": Space(np.int64, (), 0, len(self.legal))}
        self.observations = {"image": Space(np.uint8, (*self.size, 1 if gray else 3), 0, 256)}

    def act_safely(self, action):
        self.ale.act(action)
        if self.ale.game_over():
            self.ale.reset_game()

    def reset(self):
        self.ale.reset_game()
        for _ in range(self.rng.integers(self.noops + 1)):
            self.act_safely(self.noop)
        if self.autostart and self.fire is not None:
            self.act_safely(self.fire)
            self.act_safely(self.up)
        self.steps, self.left = 0, self.ale.lives()
        self.ale.getScreenRGB(self.frames[0])
        for frame in self.frames[1:]:
            frame[:] = self.frames[0]
        return {"image": self.picture()}

    def step(self, action):
        move = self.legal[int(action["action"])]
        reward, last, terminal = 0.0, False, False
        for i in range(self.repeat):
            reward += self.ale.act(move)
            self.steps += 1
            if i >= self.repeat - len(self.frames):
                self.frames.insert(0, self.frames.pop())
                self.ale.getScreenRGB(self.frames[0])
            lost, self.left = 0 < self.ale.lives() < self.left, self.ale.lives()
            over = self.ale.game_over() or (self.lives == "reset" and lost)
            terminal = over or (self.lives == "discount" and lost)
            last = over or self.steps >= self.length
            if last or terminal:
                break
        return {"image": self.picture()}, np.sign(reward) if self.clip_reward else reward, last, terminal

    def picture(self):
        image = np.max(self.frames, 0) if self.aggregate == "max" else np.mean(self.frames, 0).astype(np.uint8)
        image = resized(image, self.size)
        if self.gray:
            image = (image * np.array([0.299, 0.587, 1 - (0.299 + 0.587)])).sum(-1).astype(np.uint8)[..., None]
        return image

    def close(self):
        pass


class Crafter:
    repeat = 1

    def __init__(self, task, seed, size=(64, 64), logs=False):
        import crafter
        one_of("the task", task, ("reward", "noreward"))
        self.env = crafter.Env(size=tuple(size), reward=task == "reward", seed=seed)
        self.achievements = list(crafter.constants.achievements) if logs else []
        self.log = ["log/reward", *(f"log/achievement_{name}" for name in self.achievements)]
        self.observations = {"image": Space(np.uint8, (*size, 3), 0, 256)}
        self.actions = {"action": Space(np.int64, (), 0, int(self.env.action_space.n))}

    def reset(self):
        return {"image": self.env.reset(), **dict.fromkeys(self.log, 0.0)}

    def step(self, action):
        image, reward, done, info = self.env.step(int(action["action"]))
        log = {f"log/achievement_{name}": info["achievements"][name] for name in self.achievements}
        return {"image": image, "log/reward": info["reward"], **log}, reward, bool(done), info["discount"] == 0

    def close(self):
        pass


class Procgen:
    """Without gym. An episode's last picture is the next one's first: the games draw no other."""

    log = ()
    repeat = 1

    def __init__(self, task, seed, size=(96, 96), **options):
        import procgen
        self.size = tuple(size)
        self.large = self.size != (64, 64)
        if self.large:
            options["render_mode"] = "rgb_array"
        self.env = procgen.ProcgenGym3Env(num=1, env_name=task, rand_seed=seed, **options)
        self.observations = {"image": Space(np.uint8, (*self.size, 3), 0, 256)}
        self.actions = {"action": Space(np.int64, (), 0, 15)}
        self.is_first = True

    def picture(self):
        if self.large:
            return {"image": resized(self.env.get_info()[0]["rgb"], self.size)}
        return {"image": self.env.observe()[1]["rgb"][0]}

    def reset(self):
        if not self.env.observe()[2][0]:
            self.env.act(np.array([-1]))  # ends the episode
        return self.picture()

    def step(self, action):
        self.env.act(np.array([int(action["action"])]))
        reward, _, first = self.env.observe()
        return self.picture(), float(reward[0]), bool(first[0]), bool(first[0])

    def close(self):
        self.env.close()


class WithImage:
    """dm_control's observations, and a picture of the scene."""

    log = ()
    repeat = 1

    def __init__(self, inner, size, camera, proprio):
        self.inner, self.size, self.camera, self.proprio = inner, tuple(size), camera, proprio
        self.actions = inner.actions
        self.observations = dict(inner.observations) if proprio else {}
        self.observations["image"] = Space(np.uint8, (*self.size, 3), 0, 256)

    def picture(self, values):
        image = self.inner.env.physics.render(*self.size, camera_id=self.camera)
        return {**(values if self.proprio else {}), "image": image}

    def reset(self):
        return self.picture(self.inner.reset())

    def step(self, action):
        values, *rest = self.inner.step(action)
        return self.picture(values), *rest

    def close(self):
        self.inner.close()


class Repeat:
    """Takes each action several times; rewards are added."""

    def __init__(self, env, times):
        self.env, self.times = env, times
        self.repeat = env.repeat * times
        self.observations, self.actions, self.log = env.observations, env.actions, env.log
        self.reset, self.close = env.reset, env.close

    def step(self, action):
        total = 0.0
        for _ in range(self.times):
            values, reward, last, terminal = self.env.step(dict(action))
            total += reward
            if last:
                break
        return values, total, last, terminal


# ---- Suites ---------------------------------------------------------------------------------


def one_of(name, value, words):
    if value not in words:
        raise Refused(f"{name} is {value!r}, expected one of {', '.join(words)}")


def make_gymnasium(name, seed, image=False, size=(64, 64), **options):
    import gymnasium
    if name.startswith("ALE/"):
        import ale_py
        gymnasium.register_envs(ale_py)
    if image:
        options["render_mode"] = "rgb_array"
    return Gymnasium(gymnasium.make(name, **options), seed, image, size)


def make_minigrid(name, seed, pixels=False, full=False, size=(64, 64), **options):
    import gymnasium
    import minigrid
    env = gymnasium.make(name, **options)
    if pixels:
        tile = max(1, min(size) // (env.unwrapped.width if full else env.unwrapped.agent_view_size))
        kind = minigrid.wrappers.RGBImgObsWrapper if full else minigrid.wrappers.RGBImgPartialObsWrapper
        env = kind(env, tile_size=tile)
    elif full:
        env = minigrid.wrappers.FullyObsWrapper(env)
    return Gymnasium(env, seed)


def make_dmc(name, seed, size=(64, 64), repeat=1, image=True, proprio=True, camera=-1):
    os.environ.setdefault("MUJOCO_GL", "egl" if image else "disable")
    domain, _, task = name.partition("_")
    if camera == -1:
        camera = {"quadruped": 2, "rodent": 4}.get(domain, 0)
    from dm_control import suite
    env = suite.load({"cup": "ball_in_cup"}.get(domain, domain), task, task_kwargs={"random": seed})
    inner = DmEnv(env)
    env = WithImage(inner, size, camera, proprio) if image else inner
    return Repeat(env, repeat) if repeat > 1 else env


def make_bsuite(name, seed):
    if not hasattr(np, "int"):
        np.int = int  # which bsuite still uses
    import bsuite
    return DmEnv(bsuite.load_from_id(name if "/" in name else f"{name}/0"), flatten=True)


def make_atari100k(name, seed, size=(64, 64), sticky=False, gray=False, actions="needed", **settings):
    return Atari(name, seed, size=size, sticky=sticky, gray=gray, actions=actions, **settings)


SUITES = {
    "gymnasium": make_gymnasium,
    "atari": Atari,
    "atari100k": make_atari100k,
    "crafter": Crafter,
    "dmc": make_dmc,
    "procgen": Procgen,
    "minigrid": make_minigrid,
    "bsuite": make_bsuite,
}
REPEAT_THEMSELVES = ("atari", "atari100k", "dmc")


def make_own(task, index, seed, settings):
    module, _, name = task.partition(":")
    make = getattr(importlib.import_module(module), name)
    accepted = inspect.signature(make).parameters
    given = {"index": index, "seed": seed, **settings}
    if not any(p.kind == p.VAR_KEYWORD for p in accepted.values()):
        unknown = [key for key in settings if key not in accepted]
        if unknown:
            raise Refused(f"{task} does not accept the setting `{unknown[0]}`; it accepts: {', '.join(accepted)}")
        given = {key: value for key, value in given.items() if key in accepted}
    env = make(**given)
    if hasattr(env, "observations") and hasattr(env, "actions"):
        return Plain(env)
    if hasattr(env, "observation_space") and hasattr(env, "action_space"):
        return Gymnasium(env, seed)
    if hasattr(env, "observation_spec") and hasattr(env, "action_spec"):
        return DmEnv(env)
    if hasattr(env, "obs_space") and hasattr(env, "act_space"):
        return Embodied(env)
    raise Refused(f"{task} returned a {type(env).__name__}, expected an object with the attributes `observations` and "
                  "`actions`, or an environment of gymnasium or dm_env")


def make_environment(task, index, seed, settings):
    settings = dict(settings)
    suite, _, name = task.partition("_")
    repeat = 1 if suite in REPEAT_THEMSELVES else settings.pop("repeat", 1)
    if suite in SUITES:
        env = SUITES[suite](name, seed, **settings)
    elif ":" in task:
        env = make_own(task, index, seed, settings)
    else:
        raise Refused(f"there is no suite `{suite}`; there are: {', '.join(SUITES)}, and module:make")
    return Repeat(env, repeat) if repeat > 1 else env


# ---- Stepping -------------------------------------------------------------------------------


def last_line(error):
    """The last line of a traceback, with the place in the environment's own code."""
    text = traceback.format_exception_only(error)[-1].strip().splitlines()[-1]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def checked(name, space, value):
    """The value of an observation, if it is one of its space. kinema checks the limits of other numbers."""
    array = np.asarray(value)
    if array.shape != space.shape:
        raise Refused(f"the observation `{name}` has shape {list(array.shape)}, expected {list(space.shape)}")
    if array.dtype.kind not in ("iub" if space.is_integer else "fiub"):
        raise Refused(f"the observation `{name}` is {array.dtype}, expected {space.dtype}")
    if space.is_integer and array.dtype != space.stored and array.size:
        low, high = space.limits()
        if array.min() < low or array.max() >= high:
            raise Refused(f"the observation `{name}` has values from {array.min()} to {array.max()}, expected integers "
                          f"from {low} to {high - 1}")
    return array


class Member:
    """One environment, made again when it raises an exception."""

    def __init__(self, task, index, seed, restarts, settings):
        settings = dict(settings)
        self.limit = settings.pop("limit", 0)
        self.failures = settings.pop("restart_failures", 2)
        self.window = settings.pop("restart_window", 300)
        self.wait = settings.pop("restart_wait", 1)
        self.make = lambda: make_environment(task, index, self.seed_of(seed, index), settings)
        self.restarts, self.failed, self.since = restarts, 0, -np.inf
        self.env = self.make()
        self.spaces = self.env.observations
        self.actions = {k: converted_action(v) for k, v in self.env.actions.items()}
        self.over = True

    def seed_of(self, seed, index):
        """Environments and restarts have seeds of their own."""
        return int(np.random.SeedSequence([seed, index, self.restarts]).generate_state(1)[0]) >> 1

    def describe(self):
        return {"observations": {k: v.describe() for k, v in self.spaces.items()},
                "actions": {k: v.describe() for k, v in self.actions.items()},
                "log": list(self.env.log), "repeat": self.env.repeat}

    def step(self, actions, reset):
        """Values, reward, is_first, is_last, is_terminal, whether it was made again."""
        again = False
        while True:
            try:
                if self.env is None:
                    before = self.describe_before
                    self.env = self.make()
                    now = {k: v.describe() for k, v in self.env.observations.items()}
                    if now != before:
                        name = next(k for k in {**before, **now} if before.get(k) != now.get(k))
                        raise Refused(f"the space of the observation `{name}` was {before.get(name)}, and is now "
                                      f"{now.get(name)}")
                return *self.advance(actions, reset or again), again
            except Refused:
                raise
            except Exception as error:
                traceback.print_exc()
                self.fail(error)
                again = True

    def fail(self, error):
        now = time.monotonic()
        if now > self.since + self.window:
            self.since, self.failed = now, 0
        self.failed += 1
        if self.failed > self.failures:
            raise Refused(f"{last_line(error)}; it failed {self.failed} times within {self.window} s") from error
        if self.env is not None:
            self.describe_before = {k: v.describe() for k, v in self.env.observations.items()}
            try:
                self.env.close()
            except Exception:
                traceback.print_exc()
        self.env = None
        self.restarts += 1
        time.sleep(self.wait)

    def advance(self, actions, reset):
        if reset or self.over:
            self.steps, self.over = 0, False
            return self.env.reset(), 0.0, True, False, False
        action = {name: convert(actions[name]) for name, convert in self.actions.items()}
        values, reward, last, terminal = self.env.step(action)
        self.steps += 1
        last = bool(last) or self.steps == self.limit
        self.over = last
        return values, reward, False, last, bool(terminal)


# ---- Serving --------------------------------------------------------------------------------


class Channel:
    """Bytes and lines over a socket. Everything ends when the other side closes it."""

    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.rest = b""

    def read_into(self, view):
        take = min(len(self.rest), len(view))
        view[:take] = self.rest[:take]
        self.rest, view = self.rest[take:], view[take:]
        while view:
            count = self.socket.recv_into(view)
            if not count:
                sys.exit(0)
            view = view[count:]

    def line(self):
        while b"\n" not in self.rest:
            more = self.socket.recv(65536)
            if not more or len(self.rest) > LINE_LIMIT:
                sys.exit(0)
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def send(self, value, before=b""):
        self.socket.sendall(before + json.dumps(value).encode() + b"\n")


class Record:
    """The arrays of a step, in shared memory or in this process."""

    def __init__(self, layout, members, count, shared):
        self.replies = layout["replies"]
        self.memory = mmap.mmap(shared, layout["bytes"]) if shared >= 0 else bytearray(layout["bytes"])
        self.view = memoryview(self.memory)

        def array(offset, dtype, shape=()):
            size = int(np.prod(shape)) * count
            return np.frombuffer(self.memory, dtype, size, offset).reshape((count, *shape))

        first = members[0]
        self.actions = {k: array(layout["actions"][k], v.describe()["dtype"], v.space.shape)
                        for k, v in first.actions.items()}
        self.observations = {k: array(layout["observations"][k], v.stored, v.shape) for k, v in first.spaces.items()}
        self.log = {k: array(layout["log"][k], np.float32) for k in first.env.log}
        self.reset, self.first, self.last, self.terminal, self.again = (
            array(layout[k], np.uint8) for k in ("reset", "is_first", "is_last", "is_terminal", "restarted"))
        self.reward = array(layout["reward"], np.float32)

    def step(self, members):
        for i, member in enumerate(members):
            try:
                actions = {k: v[i].copy() for k, v in self.actions.items()}
                values, self.reward[i], self.first[i], self.last[i], self.terminal[i], self.again[i] = (
                    member.step(actions, bool(self.reset[i])))
                for name, space in member.spaces.items():
                    if name not in values:
                        raise Refused(f"the observation `{name}` is missing")
                    self.observations[name][i] = checked(name, space, values[name])
                for name, out in self.log.items():
                    out[i] = values.get(name, 0.0)
            except Refused as error:
                return {"error": str(error), "environment": i}
            except Exception as error:  # of values that are not arrays
                traceback.print_exc()
                return {"error": last_line(error), "environment": i}
        return None


def make_members(request):
    if request["protocol"] != PROTOCOL:
        raise Refused(f"kinema speaks protocol {request['protocol']}, this envs.py {PROTOCOL}: use the one of the same "
                      "version")
    members = []
    for i in range(request["count"]):
        members.append(Member(request["task"], request["first"] + i, request["seed"], request["restarts"],
                              request["settings"]))
        if members[i].describe() != members[0].describe():
            raise Refused(f"the spaces of environment {i} differ from those of environment 0")
    return members


def serve(channel, shared=-1):
    request = channel.line()
    try:
        members = make_members(request)
        channel.send(members[0].describe())
    except Refused as error:
        return channel.send({"error": str(error)})
    except BaseException as error:
        traceback.print_exc()
        return channel.send({"error": last_line(error)})
    record = Record(channel.line()["layout"], members, len(members), shared)
    inline = shared < 0
    wake = bytearray(1)
    while True:
        channel.read_into(memoryview(wake))
        if wake != b"s":
            return None
        if inline:
            channel.read_into(record.view[:record.replies])
        failure = record.step(members)
        if failure:
            channel.send(failure, before=b"e")
        else:
            channel.socket.sendall(b"k")
            if inline:
                channel.socket.sendall(record.view[record.replies:])


def read_token(path):
    with open(path, encoding="utf-8") as file:
        token = file.read().strip()
    if len(token) < 16:
        sys.exit(f"envs.py: the token in {path} has {len(token)} characters, expected at least 16\n"
                 "  python3 -c 'import secrets; print(secrets.token_hex())' makes one")
    return token


def serve_connection(fd, token):
    """One connection of a remote group, which must present the token first."""
    channel = Channel(fd)
    channel.socket.settimeout(TOKEN_SECONDS)
    given = channel.line()
    if not isinstance(given, dict) or not hmac.compare_digest(str(given.get("token")).encode(), token.encode()):
        return channel.send({"error": "the token is another one"})
    channel.send({})
    channel.socket.settimeout(None)
    channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    channel.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return serve(channel)


def listen(address, token_file, most):
    read_token(token_file)
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.create_server((host.strip("[]"), int(port)), family=family, backlog=128) as server:
        print(f"envs.py: listening at {host}:{server.getsockname()[1]}", flush=True)
        running = []
        while True:
            connection, _ = server.accept()
            running = [process for process in running if process.poll() is None]
            with connection:
                if len(running) < most:
                    fd = connection.fileno()
                    running.append(subprocess.Popen([sys.executable, __file__, "--connection", str(fd), "--token-file",
                                                     token_file], stdin=subprocess.DEVNULL, pass_fds=[fd]))


def end_with(parent):
    """An environment that never returns ends with the process that started it."""
    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description="Steps environments for kinema on another host.")
    parser.add_argument("--listen", metavar="HOST:PORT")
    parser.add_argument("--token-file", metavar="FILE", help="whose text kinema must present")
    parser.add_argument("--connections", type=int, default=256, help="at most; each is a process (256)")
    parser.add_argument("--connection", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--shared", type=int, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if (words.listen or words.shared is None) and not words.token_file:
        parser.error("--listen needs --token-file")
    sys.path[0] = os.getcwd()  # instead of this file's folder: modules of the user
    if words.listen:
        listen(words.listen, words.token_file, words.connections)
    elif words.connection is None:
        parser.error("--listen is missing")
    else:
        end_with(os.getppid())
        if words.shared is None:
            serve_connection(words.connection, read_token(words.token_file))
        else:
            serve(Channel(words.connection), words.shared)


if __name__ == "__main__":
    main()
