"""Whole networks that kinema trains, and folders of checkpoints, in diffusers; diffusers' folders in kinema."""

from peer import GOLDEN, inputs, json, kinema, pathlib, safetensors, same, same_tensors, say, train, verify

import shutil

import torch
from diffusers import DiffusionPipeline, UniPCMultistepScheduler, WanTransformer3DModel


def tensors_of(folder):
    return {key: value for file in pathlib.Path(folder).glob("*.safetensors") for key, value in safetensors.torch.load_file(file).items()}


def loaded(folder):
    """The network as diffusers loads it: every tensor that is there and no other, bit for bit."""
    network, report = WanTransformer3DModel.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    same_tensors(network.state_dict(), tensors_of(folder))
    return network.eval()


checkpoint = train("whole", GOLDEN / "wan21_t2v", "ema_decay=0.9")
assert tensors_of(checkpoint / "transformer")["proj_out.bias"].ne(tensors_of(checkpoint / "transformer_ema")["proj_out.bias"]).any()
for part in ("transformer", "transformer_ema"):
    network = loaded(checkpoint / part)
    given = inputs(network.config)
    with torch.no_grad():
        rows = verify("transformer", checkpoint / part, {**given, "output": network(**given).sample})
    say(f"{part}/ in diffusers: equal bits, outputs", rows[0]["max_diff"])
    original = json.loads((GOLDEN / "wan21_t2v/transformer/config.json").read_text())
    assert {**original, "_diffusers_version": None} == {**json.loads((checkpoint / part / "config.json").read_text()), "_diffusers_version": None}

# As shards, of a size that the file has several of, and in half the bytes.
for name, words, dtype in [("sharded", ["--shard-gib", "0.0001"], torch.float32), ("narrow", ["--dtype", "bfloat16"], torch.bfloat16)]:
    kinema("convert", checkpoint, name, "--to", "diffusers", *words)
    network = WanTransformer3DModel.from_pretrained(name)
    same_tensors(tensors_of(name), {key: value.to(dtype) for key, value in tensors_of(checkpoint / "transformer").items()})
    same_tensors(network.state_dict(), {key: value.float() for key, value in tensors_of(name).items()})
assert len(list(pathlib.Path("sharded").glob("*.safetensors"))) > 2
say("shards and bfloat16 in diffusers: equal bits")

# A pipeline with the trained transformer in its place, as docs/guides/training.md says how one is made.
shutil.copytree(GOLDEN / "wan21_t2v", "pipeline", ignore=shutil.ignore_patterns("transformer"))
shutil.copytree(checkpoint / "transformer", "pipeline/transformer")
assert UniPCMultistepScheduler.from_pretrained(checkpoint / "scheduler").config == UniPCMultistepScheduler.from_pretrained("pipeline/scheduler").config
pipeline = DiffusionPipeline.from_pretrained("pipeline")
pipeline.set_progress_bar_config(disable=True)
same_tensors(pipeline.transformer.state_dict(), tensors_of(checkpoint / "transformer"))
latents = torch.randn(1, 16, 2, 4, 6, generator=torch.Generator().manual_seed(0))
safetensors.torch.save_file({"latents": latents}, "noise.safetensors")
expected = pipeline("a red circle", "a blur", 32, 48, 5, 3, 4.0, latents=latents, max_sequence_length=32, output_type="latent").frames
kinema("generate", "pipeline", "prompt=a red circle", "negative_prompt=a blur", "height=32", "width=48", "num_frames=5",
       "num_inference_steps=3", "guidance_scale=4", "max_sequence_length=32", "initial_latents=noise.safetensors",
       "save_latents=out.safetensors", "weights_dtype=float32", "activations_dtype=float32", "text_encoder_dtype=float32")
# Six forward passes of 1e-5 of the largest each, guidance times four.
say("a pipeline with it in diffusers: latents of three steps",
    same("latents", safetensors.torch.load_file("out.safetensors")["latents"], expected, 1e-4 * expected.abs().max().item()))

# Folders that diffusers saves: shards, another dtype.
pipeline.transformer.save_pretrained("theirs", max_shard_size="100KB")
kinema("convert", "theirs", "ours", "--to", "diffusers")
same_tensors(tensors_of("ours"), tensors_of(checkpoint / "transformer"))
pipeline.transformer.to(torch.float16).save_pretrained("theirs16", variant="fp16")
kinema("convert", "theirs16", "ours16", "--to", "diffusers")
same_tensors(tensors_of("ours16"), pipeline.transformer.state_dict())
say("folders of diffusers in kinema: equal bits")
