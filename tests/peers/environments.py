"""Environments of PyPI: kinema's observations, rewards and flags are those of the packages' own calls.

    environments.py STEP_ENVIRONMENTS [TASK...]

Equal means equal in every bit, after the conversion to float32, uint8 or int32 that kinema documents.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(MUJOCO_GL="disable", SDL_VIDEODRIVER="dummy", OMP_NUM_THREADS="1")

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SEED = 12
COUNT = 2


def seed_of(index):
    """As envs.py documents it: of (seed, index, restarts)."""
    return int(np.random.SeedSequence([SEED, index, 0]).generate_state(1)[0]) >> 1


def stepped(task, settings, actions):
    with tempfile.TemporaryDirectory(prefix="kinema-peers-") as folder:
        given, result = pathlib.Path(folder) / "actions", pathlib.Path(folder) / "result"
        safetensors.numpy.save_file(actions, given)
        words = [PROGRAM, task, json.dumps(settings), str(COUNT), str(SEED), sys.executable, given, result]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"{task}: {done.stderr}"
        return safetensors.numpy.load_file(result)


class Own:
    """Steps an environment by the package's own calls. reset() and act() return values, and act() also a reward, and
    whether the episode ends and is in a terminal state."""

    def run(self, actions, steps):
        over, rows = True, []
        for i in range(steps):
            if over:
                values, reward, over, terminal, first = self.reset(), 0.0, False, False, True
            else:
                values, reward, over, terminal = self.act({k: v[i] for k, v in actions.items()})
                first = False
            rows.append((values, reward, first, over, terminal))
        return rows


class Gymnasium(Own):
    def __init__(self, name, index, values, action=int, limit=None, **options):
        import gymnasium
        import minigrid  # noqa: F401: registers its environments
        self.env = gymnasium.make(name, **options)
        self.values, self.action, self.seed = values, action, seed_of(index)

    def reset(self):
        seed, self.seed = self.seed, None
        return self.values(self.env.reset(seed=seed)[0])

    def act(self, action):
        value, reward, terminated, truncated, _ = self.env.step(self.action(action["action"]))
        return self.values(value), reward, terminated or truncated, terminated


class Atari(Own):
    """After the description of the original's wrapper: frames are joined, resized, then turned grey."""

    def __init__(self, game, index, size, gray, sticky, needed, noops, length=108000, lives="unused"):
        import ale_py
        self.rng = np.random.default_rng(seed_of(index))
        self.ale = ale_py.ALEInterface()
        self.ale.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale.setInt("random_seed", int(self.rng.integers(0, 2**31)))
        self.ale.setFloat("repeat_action_probability", 0.25 if sticky else 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path(game))
        self.moves = self.ale.getMinimalActionSet() if needed else self.ale.getLegalActionSet()
        self.size, self.gray, self.noops, self.length, self.on_lives = size, gray, noops, length, lives

    def look(self, frames):
        from PIL import Image
        image = np.asarray(Image.fromarray(np.maximum(*frames)).resize(self.size[::-1], Image.BILINEAR))
        if self.gray:
            weights = np.array([0.299, 0.587, 1 - (0.299 + 0.587)])
            image = (image * weights).sum(-1).astype(np.uint8)[:, :, None]
        return {"image": image}

    def reset(self):
        self.ale.reset_game()
        for _ in range(self.rng.integers(self.noops + 1)):
            self.ale.act(0)
            if self.ale.game_over():
                self.ale.reset_game()
        self.frames, self.steps, self.lives = [self.ale.getScreenRGB()] * 2, 0, self.ale.lives()
        return self.look(self.frames)

    def act(self, action):
        total, over, terminal = 0.0, False, False
        for i in range(4):
            total += self.ale.act(self.moves[int(action["action"])])
            self.steps += 1
            if i >= 2:
                self.frames = [self.ale.getScreenRGB(), self.frames[0]]
            terminal = self.ale.game_over()
            over = terminal or self.steps >= self.length
            if 0 < self.ale.lives() < self.lives and self.on_lives != "unused":
                terminal, over = True, over or self.on_lives == "reset"
            self.lives = self.ale.lives()
            if over or terminal:
                break
        return self.look(self.frames), total, over, terminal


class Crafter(Own):
    def __init__(self, index):
        import crafter
        self.env = crafter.Env(size=(64, 64), seed=seed_of(index))

    def reset(self):
        return {"image": self.env.reset()}

    def act(self, action):
        image, reward, done, info = self.env.step(int(action["action"]))
        return {"image": image}, reward, done, info["discount"] == 0


class Suite(Own):
    """dm_control. Actions come from [-1, 1]."""

    def __init__(self, domain, task, index, repeat=1):
        from dm_control import suite
        self.env = suite.load(domain, task, task_kwargs={"random": seed_of(index)})
        self.repeat = repeat

    def reset(self):
        return dict(self.env.reset().observation)

    def act(self, action):
        spec = self.env.action_spec()
        value = np.clip(action["action"], -1, 1).astype(np.float64)
        value = (value + 1) / 2 * (spec.maximum - spec.minimum) + spec.minimum
        total = 0.0
        for _ in range(self.repeat):
            now = self.env.step(value)
            total += now.reward
            if now.last():
                break
        return dict(now.observation), total, now.last(), now.discount == 0


def discrete(classes):
    return lambda rng, steps: rng.integers(0, classes, (steps, COUNT), np.int32)


def continuous(size):
    # A third beyond [-1, 1], which is clipped.
    return lambda rng, steps: rng.uniform(-1.5, 1.5, (steps, COUNT, size)).astype(np.float32)


def vector(value):
    return {"vector": value}


def torque(value):
    """Of a Box [-2, 2] in float32."""
    clipped = np.clip(value, -1, 1)
    return (clipped + np.float32(1)) / np.float32(2) * np.float32(4) - np.float32(2)


def clipped(value):
    # Mapping [-1, 1] to itself is exact but for its roundings, which the original has too.
    value = np.clip(value, -1, 1)
    return (value + np.float32(1)) / np.float32(2) * np.float32(2) + np.float32(-1)


def grid(value):
    return {"image": value["image"], "direction": value["direction"]}


def black_jack(value):
    return {"0": value[0], "1": value[1], "2": value[2]}


# Name: settings, steps, actions, the environment of an index.
CASES = {
    "gymnasium_CartPole-v1": ({}, 300, discrete(2), lambda i: Gymnasium("CartPole-v1", i, vector)),
    "gymnasium_Acrobot-v1": ({}, 600, discrete(3), lambda i: Gymnasium("Acrobot-v1", i, vector)),
    "gymnasium_FrozenLake-v1": ({}, 300, discrete(4), lambda i: Gymnasium("FrozenLake-v1", i, vector)),
    "gymnasium_Blackjack-v1": ({}, 300, discrete(2), lambda i: Gymnasium("Blackjack-v1", i, black_jack)),
    "gymnasium_Pendulum-v1": ({}, 450, continuous(1), lambda i: Gymnasium("Pendulum-v1", i, vector, torque)),
    "gymnasium_MountainCarContinuous-v0": (
        {}, 300, continuous(1), lambda i: Gymnasium("MountainCarContinuous-v0", i, vector, clipped)),
    "minigrid_MiniGrid-DoorKey-6x6-v0": ({}, 800, discrete(7), lambda i: Gymnasium("MiniGrid-DoorKey-6x6-v0", i, grid)),
    "minigrid_MiniGrid-FourRooms-v0": ({}, 300, discrete(7), lambda i: Gymnasium("MiniGrid-FourRooms-v0", i, grid)),
    "atari_pong": ({"length": 1000}, 600, discrete(18),
                   lambda i: Atari("pong", i, (96, 96), True, True, False, 30, 1000)),
    "atari_breakout": ({"lives": "discount", "size": [64, 80]}, 300, discrete(18),
                       lambda i: Atari("breakout", i, (64, 80), True, True, False, 30, lives="discount")),
    "atari100k_breakout": ({"lives": "reset"}, 300, discrete(4),
                           lambda i: Atari("breakout", i, (64, 64), False, False, True, 30, lives="reset")),
    # Crafter iterates over sets of objects, so another process plays another episode from the first step on.
    "crafter_reward": ({}, 1, discrete(17), Crafter),
    "dmc_walker_walk": ({"image": False}, 200, continuous(6), lambda i: Suite("walker", "walk", i)),
    "dmc_cup_catch": ({"image": False, "repeat": 4}, 600, continuous(2), lambda i: Suite("ball_in_cup", "catch", i, 4)),
}


def check(task, settings, steps, make_actions, own):
    actions = {"action": make_actions(np.random.default_rng(5), steps)}
    result = stepped(task, settings, actions)
    ends = terminals = 0
    for index in range(COUNT):
        rows = own(index).run({k: v[:, index] for k, v in actions.items()}, steps)
        for i, (values, reward, first, over, terminal) in enumerate(rows):
            where = f"{task}: step {i} of environment {index}"
            for name, value in values.items():
                mine = result[f"observation.{name}"][i, index]
                other = np.asarray(value).astype(mine.dtype)
                assert mine.shape == other.shape and (mine == other).all(), f"{where}: {name} is {mine}, not {other}"
            flags = [int(result[name][i, index]) for name in ("is_first", "is_last", "is_terminal")]
            assert flags == [first, over, terminal], f"{where}: flags are {flags}, not {[first, over, terminal]}"
            mine, other = result["reward"][i, index], np.float32(reward)
            assert mine == other, f"{where}: the reward is {mine}, not {other}"
            ends, terminals = ends + bool(over), terminals + bool(terminal)
    names = sorted(name for name in result if name.startswith("observation."))
    assert len(names) == len(values), f"{task} has {names}, not those of {sorted(values)}"
    print(f"{task}: {COUNT} x {steps} steps are equal; {ends} episodes end, {terminals} steps are terminal", flush=True)


for task, case in CASES.items():
    if len(sys.argv) < 3 or task in sys.argv[2:]:
        check(task, *case)
