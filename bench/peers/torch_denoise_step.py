"""The forward pass of diffusers' WanTransformer3DModel under no_grad; takes bench/denoise_step.cpp's arguments."""

import argparse

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from diffusers import WanTransformer3DModel


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=2, heads=12, head_dim=128, ffn=8960, frames=4, height=32, width=32, text=512,
                            text_dim=4096, channels=16, steps=5, warmup=1).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    imported = peak_rss_bytes()
    model = build(a.dtype, lambda: WanTransformer3DModel(
        num_attention_heads=a.heads, attention_head_dim=a.head_dim, in_channels=a.channels,
        out_channels=a.channels, text_dim=a.text_dim, ffn_dim=a.ffn, num_layers=a.layers), a.device)
    dtype = DTYPES[a.dtype]
    x = torch.randn(1, a.channels, a.frames, a.height, a.width).to(dtype)
    text = torch.randn(1, a.text, a.text_dim).to(dtype)
    timestep = torch.tensor([600.0])
    measure(imported, a.warmup, a.steps,
            lambda: float(model(x, timestep, text, return_dict=False)[0].float().abs().mean()))


main()
