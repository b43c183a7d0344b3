"""Adapters that kinema trains, and what `kinema convert` makes of them, in diffusers and PEFT."""

from peer import FORWARD, GOLDEN, inputs, kinema, same, same_tensors, say, train, verify

import peft
import torch
from diffusers import UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from diffusers.loaders import WanLoraLoaderMixin

FILE = "pytorch_lora_weights.safetensors"


def additions(state, scale):
    """By module: scale B A, from diffusers' keys."""
    pairs = {key.removesuffix(".lora_A.weight"): down for key, down in state.items() if key.endswith(".lora_A.weight")}
    return {module: scale * state[f"{module}.lora_B.weight"] @ down for module, down in pairs.items()}


for name, part, scale, words in [
        ("wan21_t2v", "transformer", 6 / 3**0.5, ["lora_alpha=6", "use_rslora=true"]),
        ("wan21_i2v", "transformer", 1, ["model_type=I2V", "lora_target_modules=attention+ffn", "max_sequence_length=512"]),
        ("wan22_ti2v", "transformer", 1, ["model_type=TI2V", "lora_target_modules=all"]),
        ("wan22_t2v", "transformer_2", 1 / 3, ["train_expert=low_noise", "lora_alpha=1"])]:
    adapter = train(name, GOLDEN / name, "enable_lora=true", "lora_rank=3", *words) / "adapter"
    assert "LoRA: diffusers names, rank 3" in kinema("inspect", adapter)
    network = WanTransformer3DModel.from_pretrained(GOLDEN / name / part).eval()
    given = inputs(network.config)
    with torch.no_grad():
        tensors = {**given, "base.output": network(**given).sample}

    # The pipeline's loader, as docs/guides/lora.md has it, at two strengths; kinema computes the same from the file.
    is_second = part == "transformer_2"
    first = WanTransformer3DModel.from_pretrained(GOLDEN / name / "transformer") if is_second else network
    pipeline = WanPipeline(None, None, None, UniPCMultistepScheduler(), first, network if is_second else None)
    pipeline.load_lora_weights(adapter, adapter_name="kinema", **({"load_into_transformer_2": True} if is_second else {}))
    with torch.no_grad():
        for strength in (1.0, 0.5):
            network.set_adapters("kinema", strength)
            tensors[f"adapter.scale{strength:g}.output"] = network(**given).sample
    moved = (tensors["adapter.scale1.output"] - tensors["base.output"]).abs().max().item()
    assert moved > 100 * FORWARD, f"{name}: the adapter moves the output by {moved:.2g}, too little to see"
    rows = verify("lora", GOLDEN / name / part, tensors, {"adapter": adapter})
    say(f"{name}: outputs with the adapter in diffusers", max(row["max_diff"] for row in rows))

    # PEFT reads the configuration next to the file, and the factors with that configuration give the same.
    state, metadata = WanLoraLoaderMixin.lora_state_dict(adapter, weight_name=FILE, return_lora_metadata=True)
    config = peft.LoraConfig.from_pretrained(adapter)
    assert config.r == metadata["transformer.r"] == 3 and config.use_rslora == ("use_rslora=true" in words)
    network = peft.inject_adapter_in_model(config, WanTransformer3DModel.from_pretrained(GOLDEN / name / part)).eval()
    result = peft.set_peft_model_state_dict(network, {key.removeprefix("transformer."): each for key, each in state.items()})
    assert not result.unexpected_keys and not [key for key in result.missing_keys if "lora_" in key], result
    with torch.no_grad():
        say(f"{name}: PEFT", same(name, network(**given).sample, tensors["adapter.scale1.output"], FORWARD, FORWARD))

    # The other programs' names, through diffusers' converters, which multiply alpha into the factors: a rounding of
    # each, of products of 3. Those of kohya's names it reads only where all layers of the blocks, and no others, have some.
    expected = additions(state, scale)
    largest = max(each.abs().max().item() for each in expected.values())
    for names in ["comfyui", "diffusers"] + ["kohya"] * (name == "wan21_i2v"):
        file = f"{name}-{names}.safetensors"
        kinema("convert", adapter, file, "--to", names)
        found, metadata = WanLoraLoaderMixin.lora_state_dict(file, return_lora_metadata=True)
        if metadata:  # diffusers' names keep alpha there
            assert abs(metadata["transformer.lora_alpha"] / metadata["transformer.r"] - scale) < 1e-6 * scale
        difference = same_tensors(additions(found, scale if metadata else 1), expected, 3 * 2**-22 * largest)
        say(f"{name}: {names} names through diffusers", difference)
