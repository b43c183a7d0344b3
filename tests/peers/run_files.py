"""A run's files other than weights, and the files next to a video, in the readers that Python's users have."""

from peer import GOLDEN, json, kinema, pathlib, safetensors, same, say, train

import math
import os
import stat

import numpy as np
import PIL.Image
import torch
import yaml
from diffusers import DiffusionPipeline

previous = os.umask(0o027)  # files are as open as their maker asks for
checkpoint = train("run", GOLDEN / "wan21_t2v")
run = checkpoint.parents[1]

rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
assert [row["step"] for row in rows] == [0, 1]
assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))
assert {"learning/loss", "learning/grad_norm", "learning/current_learning_rate"} <= set(rows[0]) == set(rows[1])
settings = yaml.safe_load((run / "config.yml").read_text())
assert settings["max_train_steps"] == 2 and math.isclose(settings["learning_rate"], 0.02)
for file in [*run.rglob("*.json"), *run.rglob("*.jsonl")]:
    [json.loads(line) for line in (file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()])]
say("metrics, settings and states are JSON and YAML")

for file in run.rglob("*.safetensors"):
    with safetensors.safe_open(file, "pt") as opened:
        assert opened.keys(), file
        # transformers refuses weights that do not say so.
        assert file.parent.name == "optimizer" or opened.metadata()["format"] == "pt", file
for path in run.rglob("*"):
    allowed = 0o750 if path.is_dir() else 0o640
    assert stat.S_IMODE(path.stat().st_mode) == allowed, f"{path} has mode {stat.S_IMODE(path.stat().st_mode):o}"
os.umask(previous)
say("weights say whose tensors they are; modes follow the umask")

# Frames as PNG, and what is said of the video; diffusers' frames of the same noise.
noise = torch.randn(1, 16, 2, 4, 6, generator=torch.Generator().manual_seed(0))
safetensors.torch.save_file({"latents": noise}, "noise.safetensors")
kinema("generate", GOLDEN / "wan21_t2v", "prompt=a red circle", "negative_prompt=a blur", "height=32", "width=48", "num_frames=5",
       "num_inference_steps=2", "guidance_scale=4", "max_sequence_length=32", "initial_latents=noise.safetensors", "save_frames=true",
       "weights_dtype=float32", "activations_dtype=float32", "text_encoder_dtype=float32")
(video,) = pathlib.Path("outputs/samples").rglob("*.mp4")
about = json.loads(video.with_suffix(".json").read_text())
assert (about["prompt"], about["num_frames"], about["height"], about["width"]) == ("a red circle", 5, 32, 48)
files = sorted(video.with_suffix("").glob("*.png"))
found = torch.stack([torch.from_numpy(np.array(PIL.Image.open(file).convert("RGB"))) for file in files])
pipeline = DiffusionPipeline.from_pretrained(GOLDEN / "wan21_t2v")
pipeline.set_progress_bar_config(disable=True)
frames = pipeline("a red circle", "a blur", 32, 48, 5, 2, 4.0, latents=noise, max_sequence_length=32, output_type="np").frames
# A value in the middle between two levels may fall to either.
say("frames in diffusers, in levels of 255", same("frames", found, torch.from_numpy(255 * frames[0]).round(), 1))
