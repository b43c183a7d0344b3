"""A LoRA training step as diffusers' training scripts make it: PEFT's adapters on attention in f32, the network frozen in
the dtype, autocast in bf16, clipping, AdamW. Takes bench/train_step.cpp's arguments."""

import argparse

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from diffusers import WanTransformer3DModel
from peft import LoraConfig


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=2, heads=12, head_dim=128, ffn=8960, frames=4, height=32, width=32, text=512,
                            text_dim=4096, channels=16, steps=5, warmup=1, lora_rank=16).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    a = parser.parse_args()
    imported = peak_rss_bytes()
    model = build(a.dtype, lambda: WanTransformer3DModel(
        num_attention_heads=a.heads, attention_head_dim=a.head_dim, in_channels=a.channels,
        out_channels=a.channels, text_dim=a.text_dim, ffn_dim=a.ffn, num_layers=a.layers))
    torch.set_grad_enabled(True)
    model.requires_grad_(False)
    model.add_adapter(LoraConfig(r=a.lora_rank, lora_alpha=a.lora_rank, target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float()
    optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=1e-2)
    latents = torch.randn(1, a.channels, a.frames, a.height, a.width)
    noise = torch.randn_like(latents)
    text = torch.randn(1, a.text, a.text_dim)
    timestep = torch.tensor([600.0])
    noisy = 0.4 * latents + 0.6 * noise

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.dtype == "bfloat16"):
            out = model(noisy.to(DTYPES[a.dtype]), timestep, text.to(DTYPES[a.dtype]), return_dict=False)[0]
        loss = torch.nn.functional.mse_loss(out.float(), noise - latents)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    measure(imported, a.warmup, a.steps, step)


main()
