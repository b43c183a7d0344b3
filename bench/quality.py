"""What quantization costs in quality: PSNR and SSIM of videos against those of bfloat16 weights and activations.

The same noise, prompts and sampler each time; frames as PNG, so that no video codec is measured. The models are the demo's
(`./dev demo` trains it) and a pipeline folder, if one is named. A PSNR of 40 dB is a difference of one part in a hundred;
what float32 differs from bfloat16 is the size of a difference that means nothing.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

REPO = Path(__file__).resolve().parents[1]
MODES = {
    "float32": ["weights_dtype=float32", "activations_dtype=float32"],
    "products int8": ["use_qwix_quantization=true", "quantization=int8"],
    "products fp8": ["use_qwix_quantization=true", "quantization=fp8"],
    "products fp8_full": ["use_qwix_quantization=true", "quantization=fp8_full"],
    "stored int8": ["weights_storage=int8"],
    "stored float8_e4m3fn": ["weights_storage=float8_e4m3fn"],
    "both int8": ["weights_storage=int8", "use_qwix_quantization=true", "quantization=int8"],
}
BASE = ["weights_dtype=bfloat16", "activations_dtype=bfloat16", "save_frames=true", "contact_sheet=false", "seed=0"]
WINDOW = 7


def videos(kinema, model, words):
    """[video, frame, row, column, channel] of 0 to 255."""
    with tempfile.TemporaryDirectory() as folder:
        command = [kinema, "generate", *model, f"video_folder={folder}", *BASE, *words]
        result = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"quality: {' '.join(map(str, command))}\n{result.stderr[-1000:]}")
        frames = sorted(Path(folder).rglob("*.png"))
        if not frames:
            sys.exit(f"quality: no frames in {folder}: {result.stdout[-500:]}")
        return np.stack([np.asarray(Image.open(f).convert("RGB"), np.float64) for f in frames])


def psnr(a, b):
    error = np.mean((a - b) ** 2)
    return np.inf if error == 0 else 10 * np.log10(255**2 / error)


def ssim(a, b):
    """Mean over windows of 7 x 7, frames and channels (Wang et al. 2004, with a box for the window)."""
    def mean(x):
        view = np.lib.stride_tricks.sliding_window_view(x, (WINDOW, WINDOW), axis=(1, 2))
        return view.mean(axis=(-2, -1))

    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    mean_a, mean_b = mean(a), mean(b)
    var_a, var_b = mean(a * a) - mean_a**2, mean(b * b) - mean_b**2
    both = mean(a * b) - mean_a * mean_b
    value = (2 * mean_a * mean_b + c1) * (2 * both + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    return value.mean()


def report(name, kinema, model):
    reference = videos(kinema, model, [])
    print(f"{name}: {len(reference)} frames of {reference.shape[2]} x {reference.shape[1]}; against bfloat16", flush=True)
    for mode, words in MODES.items():
        found = videos(kinema, model, words)
        print(f"  {mode:22} PSNR {psnr(found, reference):6.2f} dB   SSIM {ssim(found, reference):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--run", default="outputs/shapes", help="the demo's run")
    parser.add_argument("--pipeline", help="a diffusers folder; needs no more than tiny weights")
    a = parser.parse_args()
    kinema = Path(a.kinema).resolve() / "kinema"
    run = REPO / a.run
    if not (run / "config.yml").is_file():
        sys.exit(f"quality: {run} is not a run\n  ./dev demo makes it")
    report("demo", kinema, ["configs/shapes.yml", f"run_name={run.name}", f"output_dir={run.parent}"])
    if a.pipeline:
        model = json.loads((Path(a.pipeline) / "model_index.json").read_text())["_class_name"]
        report(model, kinema, [a.pipeline, "prompt=a red fox in the snow", "num_inference_steps=20",
                               "height=64", "width=64", "num_frames=9"])


main()
