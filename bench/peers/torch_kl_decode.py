"""Decoding with diffusers' AutoencoderKL of Stable Diffusion XL's sizes; takes bench/kl_decode.cpp's arguments."""

import argparse

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from diffusers import AutoencoderKL


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(side=256, runs=3, warmup=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    a = parser.parse_args()
    imported = peak_rss_bytes()
    kind = dict(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4)
    vae = build(a.dtype, lambda: AutoencoderKL(block_out_channels=[128, 256, 512, 512], layers_per_block=2, **kind))
    vae.encoder = vae.quant_conv = None  # decoding alone is measured
    latents = torch.randn(1, 4, a.side // 8, a.side // 8).to(DTYPES[a.dtype])
    measure(imported, a.warmup, a.runs,
            lambda: float(vae.decode(latents, return_dict=False)[0].float().abs().mean()))


main()
