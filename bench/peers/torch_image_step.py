"""diffusers' FluxTransformer2DModel, UNet2DConditionModel (alone or with a ControlNet) or WanVACETransformer3DModel by
its config.json: the forward pass under no_grad or, with --train, a step with clipping and AdamW, in bf16 by autocast over float32 weights. Takes bench/image_step.cpp's arguments.
With --lora RANK adapters of PEFT on attention are trained, in float32 beside a network frozen in the dtype."""

import argparse
import json

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from diffusers import ControlNetModel, FluxTransformer2DModel, UNet2DConditionModel, WanVACETransformer3DModel

ATTENTION = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out"]


def tokens_of(side, index):
    """Positions of a picture's tokens; index tells pictures apart."""
    ids = torch.zeros(side // 2, side // 2, 3)
    ids[..., 0] = index
    ids[..., 1] = torch.arange(side // 2)[:, None]
    ids[..., 2] = torch.arange(side // 2)[None]
    return ids.reshape(-1, 3)


def flux(config, a):
    tokens = (a.side // 2) ** 2
    ids = tokens_of(a.side, 0)
    reference = torch.randn(1, tokens, config["in_channels"])
    words = torch.randn(1, a.text, config["joint_attention_dim"])
    pooled = torch.randn(1, config["pooled_projection_dim"])
    if a.reference:
        ids = torch.cat([ids, tokens_of(a.side, 1)])
    return torch.randn(1, tokens, config["in_channels"]), lambda model, x, dtype: model(
        hidden_states=(torch.cat([x, reference], dim=1) if a.reference else x).to(dtype),
        encoder_hidden_states=words.to(dtype), pooled_projections=pooled.to(dtype),
        timestep=torch.tensor([0.6]), img_ids=ids, txt_ids=torch.zeros(a.text, 3),
        guidance=torch.tensor([3.5]), return_dict=False)[0][:, :tokens]


def unet(config, a):
    words = torch.randn(1, a.text, config["cross_attention_dim"])
    pooled = torch.randn(1, config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"])
    ids = torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]])
    picture = torch.rand(1, 3, 8 * a.side, 8 * a.side)

    def predict(model, x, dtype):
        given = dict(sample=x.to(dtype), timestep=torch.tensor([600]), encoder_hidden_states=words.to(dtype),
                     added_cond_kwargs={"text_embeds": pooled.to(dtype), "time_ids": ids}, return_dict=False)
        if not a.controlnet:
            return model(**given)[0]
        down, middle = model.control(**given, controlnet_cond=picture.to(dtype), conditioning_scale=1.0)
        return model(**given, down_block_additional_residuals=down, mid_block_additional_residual=middle)[0]
    return torch.randn(1, config["in_channels"], a.side, a.side), predict


def vace(config, a):
    words = torch.randn(1, a.text, config["text_dim"])
    control = torch.randn(1, config["vace_in_channels"], a.frames, a.side, a.side)
    scale = torch.ones(len(config["vace_layers"]))
    return torch.randn(1, config["in_channels"], a.frames, a.side, a.side), lambda model, x, dtype: model(
        hidden_states=x.to(dtype), timestep=torch.tensor([600]), encoder_hidden_states=words.to(dtype),
        control_hidden_states=control.to(dtype), control_hidden_states_scale=scale.to(dtype), return_dict=False)[0]


# Class: the model, and a function (config, arguments) -> latents, and a call of the model on them.
FAMILIES = {"FluxTransformer2DModel": (FluxTransformer2DModel, flux), "UNet2DConditionModel": (UNet2DConditionModel, unet),
            "WanVACETransformer3DModel": (WanVACETransformer3DModel, vace)}


def read(path):
    with open(path) as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    for name, value in dict(side=64, frames=1, text=512, steps=5, warmup=1).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--controlnet", help="config.json of a ControlNet")
    parser.add_argument("--reference", action="store_true", help="with the tokens of another picture")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing")
    parser.add_argument("--compile", action="store_true", help="torch.compile, its defaults")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    a = parser.parse_args()
    imported = peak_rss_bytes()
    config = read(a.network)
    family, inputs = FAMILIES[config["_class_name"]]
    stored = "float32" if a.train and not a.lora else a.dtype
    model = build(stored, lambda: family.from_config(config), a.device)
    if a.controlnet:
        model.control = build(stored, lambda: ControlNetModel.from_config(read(a.controlnet)), a.device)
    latents, predict = inputs(config, a)
    dtype = DTYPES[stored]
    if not a.train:
        if a.compile:
            model.compile()
        measure(imported, a.warmup, a.steps, lambda: float(predict(model, latents, dtype).float().abs().mean()))
        return
    torch.set_grad_enabled(True)
    model.train()
    if a.checkpointing:
        model.enable_gradient_checkpointing()
    if a.lora:
        from peft import LoraConfig

        # PyTorch 2.11 chooses cuDNN's attention for Flux on an H200, whose backward pass ends with an error.
        torch.backends.cuda.enable_cudnn_sdp(False)
        model.requires_grad_(False)
        model.add_adapter(LoraConfig(r=a.lora, lora_alpha=a.lora, target_modules=ATTENTION))
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float()
    if a.compile:
        model.compile()
    optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=1e-2)
    noise = torch.randn_like(latents)

    def step():
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.dtype == "bfloat16"):
            out = predict(model, 0.4 * latents + 0.6 * noise, dtype)
        loss = torch.nn.functional.mse_loss(out.float(), noise - latents)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    measure(imported, a.warmup, a.steps, step)


main()
