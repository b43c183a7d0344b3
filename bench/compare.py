"""Measures kinema beside its peer, one process each in turn, and prints ratios.

Sections: step (time and memory of a training step against plain JAX), start (process start to first
step), layers (compile time of scanned layers), remat (temporaries of FULL against NONE); and against
PyTorch: denoise, text and vae (time and memory of the parts of generating a video), first (process start
to the first denoising step); images (steps of Flux and of a level of SDXL's UNet at the published widths, and
their VAE; training of Flux against plain JAX too).
"""

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
SHAPES = {
    # 320 and 1,024 video tokens
    "a: dim 256": dict(layers=2, heads=2, head_dim=128, ffn=1024, frames=5, height=16, width=16),
    "b: dim 1536": dict(layers=2, heads=12, head_dim=128, ffn=8960, frames=4, height=32, width=32),
}
TEXT = 512


def flags(options):
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


# What PyTorch, its oneDNN and MKL, and JAX look at to use no more than an instruction set.
LIMITS = {"auto": {}, "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                               "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}}
peers_limit = {}


def run(command):
    is_peer = Path(command[0]).name == "python"
    environment = {**os.environ, **peers_limit} if is_peer else None
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def forward_and_backward_flops(s):
    """Products of the blocks, the text embedder and the ends; the backward pass counts twice."""
    d, tokens = s["heads"] * s["head_dim"], s["frames"] * s["height"] * s["width"] // 4
    block = 2 * tokens * d * (6 * d + 2 * s["ffn"]) + 4 * TEXT * d * d
    block += 4 * tokens * d * (tokens + TEXT)
    ends = 2 * TEXT * d * (4096 + d) + 4 * tokens * d * 64
    return 3 * (s["layers"] * block + ends)


def summary(results):
    seconds = [s for r in results for s in r["seconds"]]
    return min(seconds), statistics.median(seconds), max(r["peak_rss_bytes"] for r in results)


def cpu(results):
    """Processor seconds of all threads, median: what others do on the machine tells less in it."""
    return statistics.median(s for r in results for s in r["cpu_seconds"])


def steps(a, ours, peer, matmul):
    print("Training step (forward, backward, AdamW) against plain JAX, in turn; min / median of all steps")
    print(f"{'shape':12} {'dtype':9} {'kinema s':>17} {'jax s':>17} {'time ratio':>13} {'RSS GB':>11} "
          f"{'ratio':>6} {'CPU ratio':>9} {'temp ratio':>10} {'GFLOP/s':>8} {'of matmul':>9}")
    for name, shape in SHAPES.items():
        for dtype in ("float32", "bfloat16"):
            options = flags(dict(shape, dtype=dtype, steps=a.steps))
            results = {"ours": [], "jax": []}
            for _ in range(a.rounds):
                results["ours"].append(run([*ours, *options]))
                results["jax"].append(run([*peer, *options]))
            low, mid, rss = summary(results["ours"])
            jax_low, jax_mid, jax_rss = summary(results["jax"])
            speed = forward_and_backward_flops(shape) / low / 1e9
            temp = results["ours"][0]["temp_bytes"] / results["jax"][0]["temp_bytes"]
            print(f"{name:12} {dtype:9} {low:8.3f}/{mid:8.3f} {jax_low:8.3f}/{jax_mid:8.3f} "
                  f"{low / jax_low:6.2f}/{mid / jax_mid:6.2f} {rss / 1e9:5.2f}/{jax_rss / 1e9:5.2f} "
                  f"{rss / jax_rss:6.2f} {cpu(results['ours']) / cpu(results['jax']):9.2f} {temp:10.2f} {speed:8.0f} {speed / matmul[dtype]:9.0%}", flush=True)


def lora(a):
    """A step that trains adapters of rank 16 on attention: the 1.3B's widths, two layers."""
    shape = SHAPES["b: dim 1536"]
    print("LoRA training step (rank 16, attention), 2 layers of the 1.3B shape, 1,024 tokens; median of all steps, in turn. "
          "RSS is the peak of the process; PyTorch's without what its imports take is in brackets")
    for dtype in ("float32", "bfloat16"):
        options = flags(dict(shape, dtype=dtype, steps=a.steps))
        ours = [str(Path(a.kinema) / "bench_train_step"), "--isa", a.isa, *options]
        sides = {"lora": [*ours, "--lora-rank", "16"], "full": ours,
                 "jax": [a.jax, str(HERE / "peers" / "jax_train_step.py"), *options, "--lora-rank", "16"],
                 "torch": [a.torch, str(HERE / "peers" / "torch_lora_step.py"), *options, "--lora-rank", "16"]}
        results = {name: [] for name in sides}
        for _ in range(a.rounds):
            for name, command in sides.items():
                results[name].append(run(command))
        low, mid, rss = summary(results["lora"])
        imported = max(r["imported_rss_bytes"] for r in results["torch"])
        print(f"  {dtype:9} kinema {low:.3f}/{mid:.3f} s, {rss / 1e9:.2f} GB", flush=True)
        for name in ("torch", "jax", "full"):
            other_low, other_mid, other_rss = summary(results[name])
            own = f" ({(other_rss - imported) / 1e9:.2f})" if name == "torch" else ""
            print(f"    against {'our full step' if name == 'full' else name:13} {other_low:.3f}/{other_mid:.3f} s, {other_rss / 1e9:.2f}{own} GB: "
                  f"time ratio {low / other_low:.2f}/{mid / other_mid:.2f}, CPU {cpu(results['lora']) / cpu(results[name]):.2f}, "
                  f"memory {rss / other_rss:.2f}", flush=True)


def start(a, ours, peer):
    shape = flags(dict(SHAPES["a: dim 256"], steps=1, warmup=0))
    print("Process start to the end of the first step, shape a, seconds; min / median")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in (("kinema", ours), ("jax", peer)):
            cold = [run([*command, *shape])["first_step_seconds"] for _ in range(a.rounds)]
            cached = [*command, *shape, "--cache", f"{folder}/{name}"]
            run(cached)
            warm = [run(cached)["first_step_seconds"] for _ in range(a.rounds)]
            print(f"  {name:7} cold {min(cold):6.2f} / {statistics.median(cold):6.2f}   "
                  f"executable cache {min(warm):6.2f} / {statistics.median(warm):6.2f}", flush=True)


def layers(a, ours):
    shape = dict(SHAPES["a: dim 256"], steps=1, warmup=0)
    print("Compile seconds, scanned; min / median")
    lows = {}
    for count in (4, 40):
        command = [*ours, *flags(dict(shape, layers=count)), "--scan"]
        seconds = [run(command)["compile_seconds"] for _ in range(a.rounds)]
        lows[count] = min(seconds)
        print(f"  {count:3} layers {min(seconds):6.2f} / {statistics.median(seconds):6.2f}", flush=True)
    print(f"  ratio {lows[40] / lows[4]:.2f}")


def remat(a, ours):
    shape = dict(SHAPES["a: dim 256"], layers=8, frames=20, steps=1, warmup=0)
    print("Temporary bytes of a step of 8 layers and 1,280 tokens, from the compiler's statistics")
    for scan in ("--scan", "--no-scan"):
        found = {policy: run([*ours, *flags(dict(shape, remat=policy)), scan])["temp_bytes"]
                 for policy in ("NONE", "FULL")}
        print(f"  {scan[2:]:8} NONE {found['NONE'] / 1e6:8.1f} MB   FULL {found['FULL'] / 1e6:8.1f} MB   "
              f"ratio {found['FULL'] / found['NONE']:.2f}", flush=True)


# Part: (title, options of both programs, what differs between the runs).
SAMPLING = {
    "denoise": ("A denoising step without guidance, 2 layers of the 1.3B shape, 1,024 tokens",
                ("bench_denoise_step", "torch_denoise_step.py"),
                [dict(dtype=d) for d in ("float32", "bfloat16")]),
    "text": ("UMT5, 2 layers of xxl width, 512 tokens, without the embedding table",
             ("bench_text_encoder", "torch_text_encoder.py"),
             [dict(dtype=d) for d in ("float32", "bfloat16")]),
    "vae": ("Decoding 9 frames of 128 x 128 pixels",
            ("bench_vae_decode", "torch_vae_decode.py"),
            [dict(version=v, dtype=d) for v in ("2.1", "2.2") for d in ("float32", "bfloat16")]),
}


def sampling(a, part):
    title, (ours, peer), variants = SAMPLING[part]
    print(f"{title}; min / median of all runs. RSS is the peak; in brackets what PyTorch has before it begins")
    for options in variants:
        results = {"ours": [], "torch": []}
        for _ in range(a.rounds):
            results["ours"].append(run([str(Path(a.kinema) / ours), "--isa", a.isa, *flags(options)]))
            results["torch"].append(run([a.torch, str(HERE / "peers" / peer), *flags(options)]))
        low, mid, rss = summary(results["ours"])
        torch_low, torch_mid, torch_rss = summary(results["torch"])
        imported = max(r["imported_rss_bytes"] for r in results["torch"])
        print(f"  {' '.join(options.values()):14} kinema {low:7.3f}/{mid:7.3f} s   torch {torch_low:7.3f}/{torch_mid:7.3f} s   "
              f"ratio {low / torch_low:.2f}/{mid / torch_mid:.2f} (CPU {cpu(results['ours']) / cpu(results['torch']):.2f})   RSS {rss / 1e9:.2f} and {torch_rss / 1e9:.2f} "
              f"({imported / 1e9:.2f}) GB   ratio {rss / torch_rss:.2f}", flush=True)


# What: (title, our program and its words, the peers').
IMAGES = {
    "Flux, 2 + 2 blocks, 1,024 + 512 tokens": ("bench_image_step", ["networks/flux.json"], {"torch": "torch_image_step.py"}, []),
    "a level of SDXL's UNet, 64 x 64": ("bench_image_step", ["networks/sdxl_level.json", "--text", "77"], {"torch": "torch_image_step.py"}, []),
    "Kontext, 2 + 2 blocks, 2 x 1,024 + 512 tokens": ("bench_image_step", ["networks/flux.json", "--reference"], {"torch": "torch_image_step.py"}, []),
    "a level of SDXL's UNet and of its ControlNet, 64 x 64": (
        "bench_image_step", ["networks/sdxl_level.json", "--controlnet", "networks/sdxl_level_controlnet.json", "--text", "77"],
        {"torch": "torch_image_step.py"}, []),
    "VACE 1.3B, 4 + 2 blocks, 1,024 tokens": ("bench_image_step", ["networks/vace.json", "--side", "32", "--frames", "4"],
                                              {"torch": "torch_image_step.py"}, []),
    "training Flux, 2 + 2 blocks, 1,024 + 512 tokens": ("bench_image_step", ["networks/flux.json"],
                                                        {"torch": "torch_image_step.py", "jax": "jax_flux_step.py"}, ["--train"]),
    "training a level of SDXL's UNet, 64 x 64": ("bench_image_step", ["networks/sdxl_level.json", "--text", "77"],
                                                 {"torch": "torch_image_step.py"}, ["--train"]),
    "VAE of images, 256 x 256": ("bench_kl_decode", ["--side", "256"], {"torch": "torch_kl_decode.py"}, []),
    "VAE of images, 512 x 512": ("bench_kl_decode", ["--side", "512"], {"torch": "torch_kl_decode.py"}, []),
}


def images(a):
    """Each in turn, min / median of all runs. RSS is the peak; in brackets what PyTorch has before it begins."""
    python = {"torch": a.torch, "jax": a.jax}
    for title, (program, words, peers, more) in IMAGES.items():
        words = [str(HERE / w) if w.endswith(".json") else w for w in words] + more
        print(title, flush=True)
        for dtype in ("float32", "bfloat16"):
            options = [*words, "--dtype", dtype, *(["--steps", str(a.steps)] if program == "bench_image_step" else [])]
            results = {name: [] for name in ("ours", *peers)}
            for _ in range(a.rounds):
                results["ours"].append(run([str(Path(a.kinema) / program), *options, "--isa", a.isa]))
                for name, script in peers.items():
                    results[name].append(run([python[name], str(HERE / "peers" / script), *options]))
            low, mid, rss = summary(results["ours"])
            print(f"  {dtype:9} kinema {low:.3f}/{mid:.3f} s, {rss / 1e9:.2f} GB", flush=True)
            for name in peers:
                other_low, other_mid, other_rss = summary(results[name])
                imported = max(r["imported_rss_bytes"] for r in results[name])
                print(f"    {name:6} {other_low:.3f}/{other_mid:.3f} s, {other_rss / 1e9:.2f} ({imported / 1e9:.2f}) GB: time ratio "
                      f"{low / other_low:.2f}/{mid / other_mid:.2f}, CPU {cpu(results['ours']) / cpu(results[name]):.2f}, memory {rss / other_rss:.2f}", flush=True)


def seconds_until(word, command):
    """From the start of a process to the moment it shows the word on its terminal."""
    begin = time.time()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    shown, found = b"", None
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the process has closed it
            part = b""
        if not part:
            break
        shown += part
        if found is None and word in shown:
            found = time.time() - begin
    os.close(terminal)
    if os.waitpid(pid, 0)[1] != 0 or found is None:
        sys.exit(f"compare: {' '.join(command)} failed:\n{shown[-2000:].decode(errors='replace')}")
    return found


def first(a):
    print("Process start to the first denoising step of a tiny pipeline with all its parts, seconds; min / median")
    tokenizer = HERE.parent / "tests" / "golden" / "wan21_t2v" / "tokenizer"
    with tempfile.TemporaryDirectory() as folder:
        model = f"{folder}/model"
        subprocess.run([a.torch, str(HERE / "peers" / "torch_tiny_pipeline.py"), model, str(tokenizer)],
                       check=True, capture_output=True)
        config = Path(folder) / "generate.yml"
        config.write_text(f"pretrained_model_name_or_path: {model}\ntext_encoder: umt5\nprompt: a cat\n"
                          "num_frames: 5\nheight: 32\nwidth: 32\nnum_inference_steps: 2\n"
                          "guidance_scale: 5.0\n" f"video_folder: {folder}/videos\ncpu_isa: {a.isa}\n")
        ours = [str(Path(a.kinema) / "kinema"), "generate", str(config)]
        commands = {
            "kinema, nothing compiled": [*ours, "executable_cache=none"],
            "kinema, executable cache": [*ours, f"executable_cache={folder}/cache"],
            "diffusers": [a.torch, str(HERE / "peers" / "torch_first_step.py"), model],
        }
        results = {name: [] for name in commands}
        seconds_until(b"sampling", commands["kinema, executable cache"])
        for _ in range(a.rounds):
            for name, command in commands.items():
                results[name].append(seconds_until(b"sampling", command))
        for name, seconds in results.items():
            print(f"  {name:26} {min(seconds):6.2f} / {statistics.median(seconds):6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="+")
    parser.add_argument("--kinema", required=True, help="build folder with the benches")
    parser.add_argument("--jax", required=True, help="Python with requirements.txt")
    parser.add_argument("--torch", required=True, help="Python with requirements-torch.txt")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--isa", default="auto", help="the most of the instruction set that kinema uses")
    parser.add_argument("--peers-isa", default="auto", choices=LIMITS, help="the same of its peers, as far as they can be limited")
    parser.add_argument("--steps", type=int, default=5, help="counted steps of each process")
    a = parser.parse_args()
    peers_limit.update(LIMITS[a.peers_isa])
    ours = [str(Path(a.kinema) / "bench_train_step"), "--isa", a.isa]
    peer = [a.jax, str(HERE / "peers" / "jax_train_step.py")]
    if "step" in a.sections:
        matmul = run([a.jax, str(HERE / "peers" / "jax_matmul.py")])
        print("Matmul limit (2048^3, JAX): " + ", ".join(f"{k} {v:.0f} GFLOP/s" for k, v in matmul.items()))
        steps(a, ours, peer, matmul)
    if "lora" in a.sections:
        lora(a)
    if "start" in a.sections:
        start(a, ours, peer)
    if "layers" in a.sections:
        layers(a, ours)
    if "remat" in a.sections:
        remat(a, ours)
    for part in SAMPLING:
        if part in a.sections:
            sampling(a, part)
    if "first" in a.sections:
        first(a)
    if "images" in a.sections:
        images(a)


main()
