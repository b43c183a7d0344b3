"""diffusers' WanPipeline over a folder, until its first denoising step is done: torch_first_step.py FOLDER."""

import sys

import torch
from diffusers import WanPipeline


def done(pipeline, step, timestep, values):
    print("sampling", step + 1, flush=True)
    return values


def main():
    pipeline = WanPipeline.from_pretrained(sys.argv[1], dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    pipeline(prompt="a cat", negative_prompt="", num_frames=5, height=32, width=32, num_inference_steps=2,
             guidance_scale=5.0, callback_on_step_end=done)


main()
