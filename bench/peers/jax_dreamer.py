"""The original DreamerV3, jitted as it ships: one training step, or one step of acting, on random data.

Needs a checkout of github.com/danijar/dreamerv3 (--source) and jax 0.4.33, jaxlib 0.4.33, numpy below 2, elements,
ninjax, portal, optax 0.2.4, chex, einops, scope, granular and ruamel.yaml. Prints one JSON line with the members of
bench/measure.h.
"""

import argparse
import json
import pathlib
import resource
import sys
import time


def spaces(elements, np, name):
    space = elements.Space
    flags = {key: space(bool) for key in ("is_first", "is_last", "is_terminal")}
    base = {"reward": space(np.float32), **flags}
    if name == "vector":
        return {"state": space(np.float32, (24,)), **base}, {"action": space(np.float32, (6,), -1, 1)}
    side, channels, classes = (10, 1, 3) if name == "catch" else (64, 3, 17)
    image = space(np.uint8, (side, side, channels))
    return {"image": image, **base}, {"action": space(np.int32, (), 0, classes)}


def random_batch(np, agent, rows, steps):
    rng = np.random.default_rng(0)
    batch = {}
    for name, space in agent.spaces.items():
        shape = (rows, steps, *space.shape)
        if space.dtype == bool or name in ("consec", "stepid"):
            batch[name] = np.zeros(shape, space.dtype)
        elif name == "dyn/stoch":
            classes = rng.integers(0, space.shape[-1], shape[:-1])
            batch[name] = np.eye(space.shape[-1], dtype=np.float32)[classes]
        elif np.issubdtype(space.dtype, np.integer):
            batch[name] = rng.integers(0, min(256, int(space.high.max())), shape).astype(space.dtype)
        else:
            batch[name] = rng.uniform(-0.5, 0.5, shape).astype(space.dtype)
    return batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--observation", default="image64", choices=["image64", "catch", "vector"])
    parser.add_argument("--configs", nargs="*", default=[])
    parser.add_argument("--set", nargs="*", default=[], help="KEY=VALUE of the original's settings")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--act", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1)
    given = parser.parse_args()
    sys.path.insert(0, given.source)
    begin = time.time()
    import elements
    import jax
    import numpy as np
    import ruamel.yaml as yaml
    from dreamerv3.agent import Agent
    from embodied.jax import agent as wrapper
    from embodied.jax import internal

    file = pathlib.Path(given.source) / "dreamerv3/configs.yaml"
    known = yaml.YAML(typ="safe").load(file.read_text())
    config = elements.Config(known["defaults"])
    for name in given.configs:
        config = config.update(known[name])
    config = config.update({"jax.platform": "cpu", "jax.prealloc": False, "jax.compute_dtype": given.dtype})
    config = elements.Flags(config).parse([f"--{word}" for word in given.set])
    settings = elements.Config(
        **config.agent, logdir="/tmp/jax_dreamer", seed=0, jax=elements.Config({**config.jax, "profiler": False}),
        batch_size=config.batch_size, batch_length=config.batch_length, replay_context=config.replay_context,
        report_length=config.report_length, replica=0, replicas=1)
    compiling = {}
    old = wrapper.Agent._compile_train

    def timed(self, *words):
        start = time.time()
        out = old(self, *words)
        compiling["seconds"] = time.time() - start
        return out

    wrapper.Agent._compile_train = timed
    observations, actions = spaces(elements, np, given.observation)
    agent = Agent(observations, actions, settings)
    wall, processor, first = [], [], 0.0
    if given.act:
        carry = agent.init_policy(given.act)
        seen = {name: np.zeros((given.act, *space.shape), space.dtype) for name, space in observations.items()}
    else:
        carry = agent.init_train(config.batch_size)
        batch = random_batch(np, agent, config.batch_size, config.batch_length + config.replay_context)
    for i in range(given.warmup + given.steps):
        if not given.act:
            data = internal.device_put(dict(batch), agent.train_sharded)
            data["seed"] = agent._seeds(i, agent.train_mirrored)
            jax.block_until_ready(data)
        start, busy = time.time(), time.process_time()
        if given.act:
            carry, _, _ = agent.policy(carry, seen)
        else:
            carry, _, _ = agent.train(carry, data)
            jax.block_until_ready(agent.params)
        if i >= given.warmup:
            wall.append(time.time() - start)
            processor.append(time.process_time() - busy)
        first = first or time.time() - begin
    temporary = agent._train.memory_analysis().temp_size_in_bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"name": "original", "seconds": wall, "cpu_seconds": processor,
                      "compile_seconds": compiling.get("seconds", 0.0), "first_seconds": first,
                      "temporary_bytes": temporary, "peak_rss_bytes": peak}))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    __import__("os")._exit(0)  # the original's threads would wait for each other
