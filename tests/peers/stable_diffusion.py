"""Stable Diffusion 1 and 2 with random weights: what diffusers' pipelines make of them, and of files that kinema writes."""

from peer import GOLDEN, kinema, same, same_tensors, say

import PIL.Image
import safetensors.torch
import torch
from diffusers import (AutoencoderKL, DDIMScheduler, EulerDiscreteScheduler, PNDMScheduler, StableDiffusionInpaintPipeline,
                       StableDiffusionPipeline, UNet2DConditionModel)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
STEPS = 4
LIMIT = 1e-4  # of the largest latent: float32 sums in another order, over four steps
PROMPT, NEGATIVE = "a red fox in the snow", "blurry"


def unet(width, linear, heads, channels=4):
    return UNet2DConditionModel(
        sample_size=8, in_channels=channels, out_channels=4, block_out_channels=(8, 16, 16, 16), layers_per_block=2, norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",), up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        cross_attention_dim=width, attention_head_dim=heads, use_linear_projection=linear)


def pipeline(kind, scheduler, channels=4, activation="quick_gelu", linear=False, heads=2):
    text = CLIPTextModel(CLIPTextConfig(vocab_size=610, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
                                        hidden_act=activation, projection_dim=16, bos_token_id=0, eos_token_id=2, pad_token_id=1))
    vae = AutoencoderKL(block_out_channels=(4, 4, 8, 8), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                        latent_channels=4, norm_num_groups=2, layers_per_block=1)
    made = kind(vae=vae, text_encoder=text, tokenizer=CLIPTokenizer.from_pretrained(GOLDEN / "sdxl/tokenizer"),
                unet=unet(16, linear, heads, channels), scheduler=scheduler, safety_checker=None, feature_extractor=None,
                requires_safety_checker=False)
    made.set_progress_bar_config(disable=True)
    return made


def sampled(folder, *words):
    kinema("generate", folder, f"prompt={PROMPT}", f"negative_prompt={NEGATIVE}", f"num_inference_steps={STEPS}", "height=64", "width=32",
           "weights_dtype=float32", "activations_dtype=float32", "save_latents=latents.safetensors", "video_folder=out", "contact_sheet=false",
           *words)
    return safetensors.torch.load_file("latents.safetensors")["latents"][:, :, 0]


def compare(name, found, wanted):
    say(name, same(name, found, wanted, absolute=LIMIT * wanted.abs().max().item()))


torch.manual_seed(0)
noise = torch.randn(1, 4, 8, 4)
safetensors.torch.save_file({"latents": noise[:, :, None].contiguous()}, "noise.safetensors")
common = {"prompt": PROMPT, "negative_prompt": NEGATIVE, "num_inference_steps": STEPS, "output_type": "latent"}
first = pipeline(StableDiffusionPipeline, PNDMScheduler(skip_prk_steps=True, **BETAS))
second = pipeline(StableDiffusionPipeline, DDIMScheduler(prediction_type="v_prediction", clip_sample=False, set_alpha_to_one=False, **BETAS),
                  activation="gelu", linear=True, heads=(1, 2, 2, 2))
for name, pipe, more, words in (("sd15", first, {}, []), ("sd21", second, {"guidance_rescale": 0.7}, ["guidance_rescale=0.7"])):
    pipe.save_pretrained(name)
    with torch.no_grad():
        wanted = pipe(height=64, width=32, latents=noise, **common, **more).images
    compare(f"{name}: its own scheduler", sampled(name, "initial_latents=noise.safetensors", *words), wanted)
with torch.no_grad():
    first.scheduler = EulerDiscreteScheduler(timestep_spacing="leading", **BETAS)
    wanted = first(height=64, width=32, latents=noise, **common, guidance_scale=3.0).images
compare("sd15: Euler", sampled("sd15", "initial_latents=noise.safetensors", "scheduler=euler", "guidance_scale=3"), wanted)

# Inpainting at strength 1 encodes the masked picture alone. Zero variance makes its sample the mean in both programs.
third = pipeline(StableDiffusionInpaintPipeline, DDIMScheduler(clip_sample=False, set_alpha_to_one=False, **BETAS), channels=9)
with torch.no_grad():
    third.vae.quant_conv.weight[4:] = 0
    third.vae.quant_conv.bias[4:] = -30
third.save_pretrained("inpaint")
picture = PIL.Image.frombytes("RGB", (32, 64), bytes(range(256)) * 24)
mask = PIL.Image.new("L", (32, 64))
mask.paste(255, (8, 16, 24, 48))
picture.save("picture.png")
mask.save("mask.png")
with torch.no_grad():
    wanted = third(image=picture, mask_image=mask, height=64, width=32, latents=noise, strength=1.0, **common).images
compare("a UNet of nine channels", sampled("inpaint", "image=picture.png", "mask=mask.png", "strength=1", "initial_latents=noise.safetensors"), wanted)

# Adapters of UNet and text encoder.
random = torch.Generator().manual_seed(1)
adapter = {}
for prefix, model, ends in (("lora_unet", first.unet, ("to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2", "proj_in", "proj_out")),
                            ("lora_te", first.text_encoder, ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"))):
    for name, module in model.named_modules():
        if name.endswith(ends):
            inside = name if prefix == "lora_unet" or name.startswith("text_model.") else f"text_model.{name}"
            key, weight = f"{prefix}_{inside.replace('.', '_')}", module.weight
            kernel = [1, 1] if weight.dim() == 4 else []
            adapter[f"{key}.lora_down.weight"] = torch.randn(2, weight.shape[1], *kernel, generator=random)
            adapter[f"{key}.lora_up.weight"] = torch.randn(weight.shape[0], 2, *kernel, generator=random) * 0.1
            adapter[f"{key}.alpha"] = torch.tensor(1.0)
safetensors.torch.save_file(adapter, "kohya.safetensors")


def additions(file):
    """By module of both models, what diffusers adds to its weight."""
    pipe = StableDiffusionPipeline.from_pretrained("sd15")
    pipe.load_lora_weights(file, adapter_name="kinema")
    return {f"{part}.{name}": module.get_delta_weight("kinema").detach() for part in ("unet", "text_encoder")
            for name, module in getattr(pipe, part).named_modules() if getattr(module, "lora_A", None)}


wanted = additions("kohya.safetensors")
assert len(wanted) == len(adapter) // 3, (len(wanted), len(adapter) // 3)
for names in ("kohya", "diffusers"):
    kinema("convert", "kohya.safetensors", f"lora-{names}.safetensors", "--to", names)
    say(f"an adapter in {names} names in diffusers", same_tensors(additions(f"lora-{names}.safetensors"), wanted, 1e-6))
