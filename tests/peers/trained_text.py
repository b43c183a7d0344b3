"""Text encoders and words that kinema trained, in diffusers' pipelines: the same latents as kinema's own."""

from peer import GOLDEN, kinema, same, say

import pathlib
import shutil

import PIL.Image
import safetensors.torch
import torch
from diffusers import EulerDiscreteScheduler, StableDiffusionPipeline, StableDiffusionXLPipeline
from transformers import CLIPTextModel, CLIPTextModelWithProjection

STEPS = 3
LIMIT = 1e-4  # of the largest latent: float32 sums in another order, over three steps
PROMPT = "a red ball"
MODELS = {"sd": (StableDiffusionPipeline, GOLDEN / "control/sd15"), "xl": (StableDiffusionXLPipeline, GOLDEN / "sdxl")}

pathlib.Path("pictures").mkdir()
for i in range(4):
    PIL.Image.frombytes("RGB", (32, 32), bytes((7 * k + 60 * i) % 256 for k in range(32 * 32 * 3))).save(f"pictures/{i}.png")
    pathlib.Path(f"pictures/{i}.txt").write_text("a red ball" if i % 2 == 0 else "a blue cat")
torch.manual_seed(0)
noise = torch.randn(1, 4, 4, 4)
safetensors.torch.save_file({"latents": noise[:, :, None].contiguous()}, "noise.safetensors")


def train(name, model, *words):
    pathlib.Path("train.yml").write_text(
        "output_dir: out\ndataset_type: images\nresolution: 32\nmax_train_steps: 3\nlearning_rate_schedule_steps: 3\n"
        "num_inference_steps: 2\nper_device_batch_size: 2\nweights_dtype: float32\nactivations_dtype: float32\ntrain_data_dir: pictures\n")
    kinema("train", "train.yml", f"run_name={name}", f"pretrained_model_name_or_path={MODELS[model][1]}", *words)
    return pathlib.Path(f"out/{name}/checkpoints/3")


def compare(what, run, pipe):
    kinema("generate", f"out/{run}/config.yml", f"prompt={PROMPT}", "negative_prompt=", f"num_inference_steps={STEPS}", "height=32", "width=32",
           "initial_latents=noise.safetensors", "save_latents=latents.safetensors", "contact_sheet=false", "scheduler=euler", "guidance_scale=3")
    found = safetensors.torch.load_file("latents.safetensors")["latents"][:, :, 0]
    pipe.scheduler = EulerDiscreteScheduler.from_config(pipe.scheduler.config, timestep_spacing="leading")
    pipe.set_progress_bar_config(disable=True)
    with torch.no_grad():
        wanted = pipe(prompt=PROMPT, negative_prompt="", num_inference_steps=STEPS, height=32, width=32, latents=noise, output_type="latent",
                      guidance_scale=3.0).images
    say(what, same(what, found, wanted, absolute=LIMIT * wanted.abs().max().item()))


def pipeline(model):
    kind, folder = MODELS[model]
    return kind.from_pretrained(folder, safety_checker=None) if model == "sd" else kind.from_pretrained(folder)


for model in MODELS:
    checkpoint = train(f"lora_{model}", model, "enable_lora=true", "lora_rank=2", "lora_alpha=1", "learning_rate=0.05", "train_text_encoder=true")
    pipe = pipeline(model)
    pipe.load_lora_weights(checkpoint / "adapter")
    adapted = [name for name, module in pipe.text_encoder.named_modules() if getattr(module, "lora_A", None)]
    assert len(adapted) == 6 * pipe.text_encoder.config.num_hidden_layers, adapted
    compare(f"{model}: adapters of text encoders", f"lora_{model}", pipe)

    checkpoint = train(f"whole_{model}", model, "learning_rate=0.001", "train_text_encoder=true")
    pipe = pipeline(model)
    pipe.unet = type(pipe.unet).from_pretrained(checkpoint / "unet")
    pipe.text_encoder = CLIPTextModel.from_pretrained(checkpoint / "text_encoder")
    if model == "xl":
        pipe.text_encoder_2 = CLIPTextModelWithProjection.from_pretrained(checkpoint / "text_encoder_2")
    compare(f"{model}: whole text encoders", f"whole_{model}", pipe)

    checkpoint = train(f"words_{model}", model, "learning_rate=0.05", "textual_inversion=[ball]", "textual_inversion_start=[cat]",
                       "textual_inversion_vectors=2")
    pipe = pipeline(model)
    file = checkpoint / "textual_inversion/ball.safetensors"
    if model == "sd":
        pipe.load_textual_inversion(file, token="ball")
    else:
        rows = safetensors.torch.load_file(file)
        pipe.load_textual_inversion(rows["clip_l"], token="ball", text_encoder=pipe.text_encoder, tokenizer=pipe.tokenizer)
        pipe.load_textual_inversion(rows["clip_g"], token="ball", text_encoder=pipe.text_encoder_2, tokenizer=pipe.tokenizer_2)
    compare(f"{model}: words", f"words_{model}", pipe)
    shutil.rmtree("out")
