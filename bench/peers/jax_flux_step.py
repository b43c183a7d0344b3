"""One training step of Flux by its config.json, written plainly in jitted JAX; takes bench/image_step.cpp's arguments.

Parameters, moments and the update are f32; with --dtype bfloat16 the blocks compute in bf16, norms, modulation and loss in f32.
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


def parameters(c, rng):
    d = c["num_attention_heads"] * c["attention_head_dim"]

    def linear(out, fan_in):
        limit = math.sqrt(6 / (out + fan_in))
        return {"w": rng.uniform(-limit, limit, (out, fan_in)).astype(np.float32), "b": np.zeros(out, np.float32)}

    def embedder(fan_in):
        return {"1": linear(d, fan_in), "2": linear(d, d)}

    def scale():
        return np.ones(c["attention_head_dim"], np.float32)

    def stream():
        return {"mod": linear(6 * d, d), "q": linear(d, d), "k": linear(d, d), "v": linear(d, d), "o": linear(d, d),
                "norm_q": scale(), "norm_k": scale(), "up": linear(4 * d, d), "down": linear(d, 4 * d)}

    return {"image": linear(d, c["in_channels"]), "text": linear(d, c["joint_attention_dim"]), "time": embedder(256),
            "guidance": embedder(256), "pooled": embedder(c["pooled_projection_dim"]),
            "double": [{"image": stream(), "text": stream()} for _ in range(c["num_layers"])],
            "single": [{"mod": linear(3 * d, d), "q": linear(d, d), "k": linear(d, d), "v": linear(d, d), "norm_q": scale(), "norm_k": scale(),
                        "up": linear(4 * d, d), "out": linear(d, 5 * d)} for _ in range(c["num_single_layers"])],
            "mod": linear(2 * d, d), "head": linear(c["in_channels"], d)}


def rope(c, text, side):
    positions = np.zeros((text + side * side, 3))
    positions[text:, 1] = np.repeat(np.arange(side), side)
    positions[text:, 2] = np.tile(np.arange(side), side)
    angles = [positions[:, i:i + 1] * 10000.0 ** (-np.arange(0, width, 2) / width) for i, width in enumerate(c["axes_dims_rope"])]
    angle = np.concatenate(angles, -1)[None, :, None]
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def make_step(c, a):
    dtype = jnp.dtype(a.dtype)
    heads, head_dim = c["num_attention_heads"], c["attention_head_dim"]
    cos, sin = rope(c, a.text, a.side // 2)

    def dense(p, x):
        return jnp.einsum("...i,oi->...o", x, p["w"].astype(x.dtype)) + p["b"].astype(x.dtype)

    def layer_norm(x):
        x = x.astype(jnp.float32)
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)

    def rms_norm(w, x):
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6) * w).astype(x.dtype)

    def rotate(x):
        even, odd = x[..., 0::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
        return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape).astype(x.dtype)

    def gelu(x):
        return jax.nn.gelu(x, approximate=True)

    def heads_of(p, x):
        q, k, v = (dense(p[name], x).reshape(*x.shape[:2], heads, head_dim) for name in "qkv")
        return rms_norm(p["norm_q"], q), rms_norm(p["norm_k"], k), v

    def attention(q, k, v):
        scores = jnp.einsum("bsnd,btnd->bnst", rotate(q), rotate(k)).astype(jnp.float32) / math.sqrt(head_dim)
        weights = jax.nn.softmax(scores, -1).astype(v.dtype)
        return jnp.einsum("bnst,btnd->bsnd", weights, v).reshape(*v.shape[:2], heads * head_dim)

    def modulation(p, vector, parts):
        return jnp.split(dense(p, jax.nn.silu(vector))[:, None], parts, -1)

    def double(p, image, text, vector):
        streams = {"text": text, "image": image}
        mods = {name: modulation(p[name]["mod"], vector, 6) for name in streams}
        parts = [heads_of(p[name], (layer_norm(x) * (1 + mods[name][1]) + mods[name][0]).astype(dtype)) for name, x in streams.items()]
        joint = attention(*(jnp.concatenate(each, 1) for each in zip(*parts)))
        seen = {"text": joint[:, :a.text], "image": joint[:, a.text:]}
        out = {}
        for name, x in streams.items():
            m = mods[name]
            x = (x + dense(p[name]["o"], seen[name]) * m[2]).astype(dtype)
            h = (layer_norm(x) * (1 + m[4]) + m[3]).astype(dtype)
            out[name] = (x + dense(p[name]["down"], gelu(dense(p[name]["up"], h))) * m[5]).astype(dtype)
        return out["image"], out["text"]

    def single(p, x, vector):
        m = modulation(p["mod"], vector, 3)
        h = (layer_norm(x) * (1 + m[1]) + m[0]).astype(dtype)
        joined = jnp.concatenate([attention(*heads_of(p, h)), gelu(dense(p["up"], h))], -1)
        return (x + dense(p["out"], joined) * m[2]).astype(dtype)

    def embedded(p, x):
        return dense(p["2"], jax.nn.silu(dense(p["1"], x)))

    def sinusoid(t):
        angle = 1000 * t[:, None] * jnp.exp(-math.log(10000) * jnp.arange(128) / 128)
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)

    def forward(p, latents, sigma, text, pooled):
        b, channels, h, w = latents.shape
        x = latents.reshape(b, channels, h // 2, 2, w // 2, 2).transpose(0, 2, 4, 1, 3, 5).reshape(b, -1, 4 * channels)
        image = dense(p["image"], x.astype(dtype))
        words = dense(p["text"], text.astype(dtype))
        vector = embedded(p["time"], sinusoid(sigma)) + embedded(p["guidance"], sinusoid(jnp.ones(b))) + embedded(p["pooled"], pooled)
        for block in p["double"]:
            image, words = double(block, image, words, vector)
        x = jnp.concatenate([words, image], 1)
        for block in p["single"]:
            x = single(block, x, vector)
        scale, shift = modulation(p["mod"], vector, 2)
        y = dense(p["head"], (layer_norm(x[:, a.text:]) * (1 + scale) + shift).astype(dtype))
        return y.reshape(b, h // 2, w // 2, channels, 2, 2).transpose(0, 3, 1, 4, 2, 5).reshape(latents.shape)

    def loss(p, latents, noise, sigma, text, pooled):
        s = sigma.reshape(-1, 1, 1, 1)
        error = forward(p, (1 - s) * latents + s * noise, sigma, text, pooled).astype(jnp.float32) - (noise - latents)
        return (error ** 2).mean()

    def step(p, mu, nu, count, batch):
        value, grads = jax.value_and_grad(loss)(p, *batch)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1.0, 1.0 / norm)
        count = count + 1
        b1, b2, lr, eps = 0.9, 0.999, 1e-5, 1e-8

        def update(p, g, m, v):
            g = g * scale
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            return p - lr * (m / (1 - b1 ** count)) / (jnp.sqrt(v / (1 - b2 ** count)) + eps), m, v

        out = jax.tree.map(update, p, grads, mu, nu)
        pick = [jax.tree.map(lambda t, i=i: t[i], out, is_leaf=lambda t: isinstance(t, tuple)) for i in range(3)]
        return *pick, count, value

    return jax.jit(step, donate_argnums=(0, 1, 2, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    for name, value in dict(side=64, text=512, steps=5, warmup=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", default="float32")
    a = parser.parse_args()
    with open(a.network) as file:
        c = json.load(file)
    rng = np.random.default_rng(0)
    p = jax.tree.map(jnp.asarray, parameters(c, rng))
    mu, nu = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    shape = (1, c["in_channels"] // 4, a.side, a.side)
    batch = tuple(jnp.asarray(x, jnp.float32) for x in (
        rng.normal(size=shape), rng.normal(size=shape), np.array([0.6]), rng.normal(size=(1, a.text, c["joint_attention_dim"])),
        rng.normal(size=(1, c["pooled_projection_dim"]))))
    jax.block_until_ready((p, mu, nu, batch))
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # resets the peak: making weights is not part of what is measured
    begin = time.time()
    step = make_step(c, a).lower(p, mu, nu, jnp.float32(0), batch).compile()
    compiled = time.time() - begin
    count, seconds, cpu_seconds, first = jnp.float32(0), [], [], 0.0
    for i in range(a.warmup + a.steps):
        begin, busy = time.time(), time.process_time()
        p, mu, nu, count, value = step(p, mu, nu, count, batch)
        value.block_until_ready()
        first = first or time.time() - START
        if i >= a.warmup:
            seconds.append(time.time() - begin)
            cpu_seconds.append(time.process_time() - busy)
    print(json.dumps({"name": "jax", "compile_seconds": compiled, "seconds": seconds, "cpu_seconds": cpu_seconds, "checksum": float(value),
                      "first_seconds": first, "temp_bytes": step.memory_analysis().temp_size_in_bytes, "imported_rss_bytes": 0,
                      "peak_rss_bytes": peak_rss_bytes()}))


main()
