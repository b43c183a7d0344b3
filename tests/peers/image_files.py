"""Files of Stable Diffusion XL and Flux that `kinema convert` writes, in diffusers: a whole checkpoint as a folder, and adapters."""

from peer import GOLDEN, kinema, same_tensors, say

import pathlib
import shutil

import safetensors.torch
import torch
from diffusers import DiffusionPipeline
from diffusers.loaders import FluxLoraLoaderMixin

PARTS = ("unet", "vae", "text_encoder", "text_encoder_2")

# A single file has no configuration, and the sizes of a tiny model are not those of the released one.
for part in PARTS:
    pathlib.Path(part).mkdir()
    shutil.copy(GOLDEN / "sdxl" / part / "config.json", part)
shutil.copy(GOLDEN / "single/sdxl.safetensors", ".")
kinema("convert", "sdxl.safetensors", "whole", "--to", "diffusers")
for part in ("tokenizer", "tokenizer_2"):
    shutil.copytree(GOLDEN / "sdxl" / part, f"whole/{part}")
pipeline = DiffusionPipeline.from_pretrained("whole", dtype=torch.float32)
original = DiffusionPipeline.from_pretrained(GOLDEN / "sdxl", dtype=torch.float32)
for part in PARTS:
    # The single file is in half precision.
    same_tensors(getattr(pipeline, part).state_dict(),
                 {key: value.half().to(value.dtype) if value.is_floating_point() else value
                  for key, value in getattr(original, part).state_dict().items()})
say("a whole checkpoint as a folder in diffusers: equal bits")


def additions(file):
    """What the pipeline's loader makes of a file: by module of every model, what is added to its weight."""
    pipe = DiffusionPipeline.from_pretrained(GOLDEN / "sdxl", dtype=torch.float32)
    pipe.load_lora_weights(file, adapter_name="kinema")
    return {f"{part}.{name}": module.get_delta_weight("kinema").detach()
            for part in PARTS for name, module in getattr(pipe, part).named_modules() if getattr(module, "lora_A", None)}


for name in ("sdxl_diffusers", "sdxl_kohya", "sdxl_kohya_conv", "sdxl_kohya_diffusers_names"):
    expected = additions(GOLDEN / f"lora/{name}.safetensors")
    for names in ("diffusers", "kohya", "comfyui"):
        kinema("convert", GOLDEN / f"lora/{name}.safetensors", f"{name}-{names}.safetensors", "--to", names)
        # Alpha is multiplied in before or after the product.
        say(f"{name}: {names} names in diffusers", same_tensors(additions(f"{name}-{names}.safetensors"), expected, 1e-6))

# diffusers divides Flux's joined layers at the released model's width. Attention alone, and queries and values alone.
random = torch.Generator().manual_seed(0)
given = {}
for module in ([f"transformer_blocks.0.attn.{each}" for each in ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_v_proj")]
               + [f"single_transformer_blocks.3.attn.{each}" for each in ("to_q", "to_v")]):
    given[f"transformer.{module}.lora_A.weight"] = torch.randn(2, 3072, generator=random)
    given[f"transformer.{module}.lora_B.weight"] = torch.randn(3072, 2, generator=random)
safetensors.torch.save_file(given, "attention.safetensors")


def products(state):
    """By module: B A, where that is not zero."""
    out = {key.removesuffix(".lora_A.weight"): state[key.replace("lora_A", "lora_B")] @ down
           for key, down in state.items() if key.endswith(".lora_A.weight")}
    return {module: each for module, each in out.items() if each.any()}


for names in ("kohya", "comfyui"):
    kinema("convert", "attention.safetensors", f"attention-{names}.safetensors", "--to", names)
    found = products(FluxLoraLoaderMixin.lora_state_dict(f"attention-{names}.safetensors"))
    say(f"attention of Flux: {names} names in diffusers", same_tensors(found, products(given), 1e-5))
    kinema("convert", f"attention-{names}.safetensors", f"back-{names}.safetensors", "--to", "diffusers")
    say("and back", same_tensors(products(FluxLoraLoaderMixin.lora_state_dict(f"back-{names}.safetensors")), products(given), 1e-5))
