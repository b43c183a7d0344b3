"""Decoding with diffusers' AutoencoderKLWan of the published sizes; takes bench/vae_decode.cpp's arguments."""

import argparse

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from diffusers import AutoencoderKLWan

SIZES = {
    "2.1": {},
    "2.2": dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12,
                patch_size=2, scale_factor_spatial=16, latents_mean=[0.0] * 48, latents_std=[1.0] * 48),
}


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(frames=9, height=128, width=128, runs=3, warmup=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--version", default="2.1", choices=SIZES)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    a = parser.parse_args()
    imported = peak_rss_bytes()
    vae = build(a.dtype, lambda: AutoencoderKLWan(**SIZES[a.version]))
    vae.encoder = vae.quant_conv = None  # decoding alone is measured
    channels, cell = (16, 8) if a.version == "2.1" else (48, 16)
    latents = torch.randn(1, channels, (a.frames - 1) // 4 + 1, a.height // cell, a.width // cell)
    latents = latents.to(DTYPES[a.dtype])
    measure(imported, a.warmup, a.runs,
            lambda: float(vae.decode(latents, return_dict=False)[0].float().abs().mean()))


main()
