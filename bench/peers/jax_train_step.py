"""One training step of a Wan transformer, written plainly in jitted JAX: the peer of train_step.

Prints one JSON line: compile seconds, seconds per step, peak resident bytes. Parameters, moments and
the update are f32; with --dtype bfloat16 the blocks compute in bf16, norms, modulation and loss in f32.
With --lora-rank only adapters on attention are trained, in f32, and the network stays as it is, in the dtype.
"""

import argparse
import json
import math
import time

START = time.time()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def arguments():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=2, heads=2, head_dim=128, ffn=1024, frames=5, height=16, width=16,
                            text=512, text_dim=4096, channels=16, steps=5, warmup=1, lora_rank=0).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--cache", default="")
    return parser.parse_args()


def parameters(a, rng):
    d, c = a.heads * a.head_dim, a.channels

    def matrix(out, fan_in):
        limit = math.sqrt(6 / (out + fan_in))
        return rng.uniform(-limit, limit, (out, fan_in)).astype(np.float32)

    def linear(out, fan_in):
        return {"w": matrix(out, fan_in), "b": np.zeros(out, np.float32)}

    def attention():
        return {"q": linear(d, d), "k": linear(d, d), "v": linear(d, d), "o": linear(d, d),
                "norm_q": np.ones(d, np.float32), "norm_k": np.ones(d, np.float32)}

    def table(rows):
        return (rng.normal(size=(1, rows, d)) / math.sqrt(d)).astype(np.float32)

    blocks = [{"attn1": attention(), "attn2": attention(), "table": table(6),
               "norm2": {"w": np.ones(d, np.float32), "b": np.zeros(d, np.float32)},
               "ffn1": linear(a.ffn, d), "ffn2": linear(d, a.ffn)} for _ in range(a.layers)]
    return {"patch": linear(d, 4 * c), "time1": linear(d, 256), "time2": linear(d, d),
            "time_proj": linear(6 * d, d), "text1": linear(d, a.text_dim), "text2": linear(d, d),
            "blocks": blocks, "table": table(2), "head": linear(4 * c, d)}


def adapters(a, rng):
    d = a.heads * a.head_dim

    def pair():
        limit = 1 / math.sqrt(d)
        return {"a": rng.uniform(-limit, limit, (a.lora_rank, d)).astype(np.float32),
                "b": np.zeros((d, a.lora_rank), np.float32)}

    return [{name: {part: pair() for part in "qkvo"} for name in ("attn1", "attn2")} for _ in range(a.layers)]


def with_adapters(p, pairs):
    """The network, whose attention layers have their pair beside their weight."""
    blocks = [{**block, **{name: {**block[name], **{part: {**block[name][part], "lora": pair[name][part]} for part in "qkvo"}}
                           for name in ("attn1", "attn2")}} for block, pair in zip(p["blocks"], pairs)]
    return {**p, "blocks": blocks}


def rope(a):
    width = a.head_dim // 6 * 2
    sizes = (a.frames, a.height // 2, a.width // 2)
    angles = []
    for axis, (size, w) in enumerate(zip(sizes, (a.head_dim - 2 * width, width, width))):
        inverse = 10000.0 ** (-np.arange(0, w, 2) / w)
        shape = [1, 1, 1, w // 2]
        shape[axis] = size
        angles.append(np.broadcast_to((np.arange(size)[:, None] * inverse).reshape(shape),
                                      (*sizes, w // 2)))
    angle = np.concatenate(angles, -1).reshape(1, -1, 1, a.head_dim // 2)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def make_step(a):
    dtype = jnp.dtype(a.dtype)
    cos, sin = rope(a)
    heads, head_dim = a.heads, a.head_dim

    def dense(p, x):
        y = jnp.einsum("...i,oi->...o", x, p["w"].astype(x.dtype)) + p["b"].astype(x.dtype)
        if "lora" in p:  # alpha is the rank: the sum counts once
            low = jnp.einsum("...i,ri->...r", x, p["lora"]["a"].astype(x.dtype))
            y = y + jnp.einsum("...r,or->...o", low, p["lora"]["b"].astype(x.dtype))
        return y

    def layer_norm(x):
        x = x.astype(jnp.float32)
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)

    def rms_norm(w, x):
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)

    def rotate(x):
        even, odd = x[..., 0::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
        return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape).astype(
            x.dtype)

    def attention(p, x, context, rotary):
        b, s, d = x.shape
        q = rms_norm(p["norm_q"], dense(p["q"], x)).reshape(b, s, heads, head_dim)
        k = rms_norm(p["norm_k"], dense(p["k"], context)).reshape(b, -1, heads, head_dim)
        v = dense(p["v"], context).reshape(b, -1, heads, head_dim)
        if rotary:
            q, k = rotate(q), rotate(k)
        scores = jnp.einsum("bsnd,btnd->bnst", q, k).astype(jnp.float32) / math.sqrt(head_dim)
        weights = jax.nn.softmax(scores, -1).astype(x.dtype)
        return dense(p["o"], jnp.einsum("bnst,btnd->bsnd", weights, v).reshape(b, s, d))

    def block(p, x, text, time_proj):
        m = jnp.split(p["table"] + time_proj, 6, 1)
        h = (layer_norm(x) * (1 + m[1]) + m[0]).astype(dtype)
        x = (x + attention(p["attn1"], h, h, True) * m[2]).astype(dtype)
        h = (layer_norm(x) * p["norm2"]["w"] + p["norm2"]["b"]).astype(dtype)
        x = x + attention(p["attn2"], h, text, False)
        h = (layer_norm(x) * (1 + m[4]) + m[3]).astype(dtype)
        h = dense(p["ffn2"], jax.nn.gelu(dense(p["ffn1"], h), approximate=True))
        return (x + h * m[5]).astype(dtype)

    def forward(p, latents, timestep, text):
        b, c, f, h, w = latents.shape
        x = latents.astype(dtype).reshape(b, c, f, h // 2, 2, w // 2, 2)
        x = x.transpose(0, 2, 3, 5, 1, 4, 6).reshape(b, -1, 4 * c)
        x = dense(p["patch"], x)
        angle = timestep[:, None] * jnp.exp(-math.log(10000) * jnp.arange(128) / 128)
        temb = jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)
        temb = dense(p["time2"], jax.nn.silu(dense(p["time1"], temb)))
        time_proj = dense(p["time_proj"], jax.nn.silu(temb)).reshape(b, 6, -1)
        context = dense(p["text2"], jax.nn.gelu(dense(p["text1"], text), approximate=True)).astype(dtype)
        for layer in p["blocks"]:
            x = block(layer, x, context, time_proj)
        shift, scale = jnp.split(p["table"] + temb[:, None], 2, 1)
        y = dense(p["head"], (layer_norm(x) * (1 + scale) + shift).astype(dtype))
        y = y.reshape(b, f, h // 2, w // 2, 2, 2, c).transpose(0, 6, 1, 2, 4, 3, 5)
        return y.reshape(b, c, f, h, w)

    def loss(p, latents, noise, timestep, text):
        sigma = (timestep / 1000).reshape(-1, 1, 1, 1, 1)
        noisy = (1 - sigma) * latents + sigma * noise
        error = forward(p, noisy, timestep, text).astype(jnp.float32) - (noise - latents)
        return (error ** 2).mean()

    def lora_loss(pairs, p, *batch):
        return loss(with_adapters(p, pairs), *batch)

    def step(p, mu, nu, count, batch, frozen=None):
        if frozen is None:
            value, grads = jax.value_and_grad(loss)(p, *batch)
        else:
            value, grads = jax.value_and_grad(lora_loss)(p, frozen, *batch)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1.0, 1.0 / norm)
        count = count + 1
        b1, b2, lr, eps = 0.9, 0.999, 1e-5, 1e-8

        def update(p, g, m, v):
            g = g * scale
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            p = p - lr * (m / (1 - b1 ** count)) / (jnp.sqrt(v / (1 - b2 ** count)) + eps)
            return p, m, v

        out = jax.tree.map(update, p, grads, mu, nu)
        pick = [jax.tree.map(lambda t, i=i: t[i], out, is_leaf=lambda t: isinstance(t, tuple))
                for i in range(3)]
        return *pick, count, value

    return jax.jit(step, donate_argnums=(0, 1, 2, 3))


def main():
    a = arguments()
    if a.cache:
        jax.config.update("jax_compilation_cache_dir", a.cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    rng = np.random.default_rng(0)
    p = jax.tree.map(jnp.asarray, parameters(a, rng))
    frozen = ()
    if a.lora_rank > 0:
        frozen = (jax.tree.map(lambda x: jnp.asarray(x, a.dtype), p),)
        p = jax.tree.map(jnp.asarray, adapters(a, rng))
    mu, nu = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    shape = (1, a.channels, a.frames, a.height, a.width)
    batch = tuple(jnp.asarray(x, jnp.float32) for x in (
        rng.normal(size=shape), rng.normal(size=shape), np.array([600.0]),
        rng.normal(size=(1, a.text, a.text_dim))))
    jax.block_until_ready((p, frozen, mu, nu, batch))
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # resets the peak: making weights is not part of what is measured
    begin = time.time()
    step = make_step(a).lower(p, mu, nu, jnp.float32(0), batch, *frozen).compile()
    compiled = time.time() - begin
    memory = step.memory_analysis()
    count, seconds, cpu_seconds, first = jnp.float32(0), [], [], 0.0
    for i in range(a.warmup + a.steps):
        begin, busy = time.time(), time.process_time()
        p, mu, nu, count, value = step(p, mu, nu, count, batch, *frozen)
        value.block_until_ready()
        first = first or time.time() - START
        if i >= a.warmup:
            seconds.append(time.time() - begin)
            cpu_seconds.append(time.process_time() - busy)
    print(json.dumps({
        "name": "jax", "compile_seconds": compiled, "seconds": seconds, "cpu_seconds": cpu_seconds, "loss": float(value),
        "first_step_seconds": first, "temp_bytes": memory.temp_size_in_bytes,
        "peak_rss_bytes": peak_rss_bytes()}))


main()
