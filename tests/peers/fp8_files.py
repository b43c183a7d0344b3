"""Checkpoints with one byte per weight, as in ComfyUI: kinema's in torch, torch's in kinema."""

from peer import inputs, json, kinema, safetensors, same_tensors, say, verify

import torch
from diffusers import WanTransformer3DModel

PREFIX = "model.diffusion_model."
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

# Original names, as in ComfyUI's files, imply a head width of 128.
torch.manual_seed(0)
network = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=128, text_dim=64, ffn_dim=512, num_layers=2)
with torch.no_grad():
    for parameter in network.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
network.save_pretrained("model")
given = inputs(network.config)
kinema("convert", "model", "plain.safetensors", "--to", "comfyui")
plain = safetensors.torch.load_file("plain.safetensors")
narrow = [key for key, value in plain.items() if ".blocks." in key and key.endswith(".weight") and value.ndim == 2]


def module_of(key):
    return key.removesuffix("weight")


def check(file, values, with_output=False):
    """kinema reads these values, bit for bit, and computes the same outputs as diffusers."""
    kinema("convert", file, "read-" + file, "--to", "comfyui", "--dtype", "float32")
    same_tensors(safetensors.torch.load_file("read-" + file), values)
    if with_output:
        safetensors.torch.save_file(values, "values.safetensors")
        loaded = WanTransformer3DModel.from_single_file("values.safetensors", config="model", torch_dtype=torch.float32).eval()
        with torch.no_grad():
            rows = verify("transformer", file, {**given, "output": loaded(**given).sample})
        say(f"{file}: the same values in torch, outputs", rows[0]["max_diff"])
    else:
        say(f"{file}: the same values")


# kinema's files: codes times scales, within half a code of the weights, and no other tensors.
for to, codes in [("fp8", E4M3), ("int8", torch.int8)]:
    file = f"kinema-{to}.safetensors"
    kinema("convert", "model", file, "--to", to)
    found = safetensors.torch.load_file(file)
    if to == "fp8":  # ComfyUI requires the mark and its dtype
        mark = found.pop(PREFIX + "scaled_fp8")
        assert mark.dtype == E4M3 and mark.numel() == 0
    for key in narrow:
        scale = found.pop(module_of(key) + "scale_weight")
        assert found[key].dtype == codes and scale.dtype == torch.float32
        assert scale.shape == (() if to == "fp8" else (len(plain[key]), 1))
        found[key] = found[key].float() * scale
        # e4m3 has steps of an eighth of a number's power of two, and of 2^-9 below 2^-6; int8 saturates half a step more.
        half = scale if to == "int8" else torch.maximum(plain[key].abs() / 16, 2.0**-10 * scale)
        assert ((found[key] - plain[key]).abs() <= 1.0001 * half).all(), key
    check(file, found, with_output=True)


def scaled(dtype=E4M3):
    """Codes and scales as made with torch, and their dequantized values."""
    codes, scales, values = {}, {}, dict(plain)
    for key in narrow:
        scales[key] = plain[key].abs().max() / torch.finfo(dtype).max
        codes[key] = (plain[key] / scales[key]).to(dtype)
        values[key] = codes[key].float() * scales[key]
    return codes, scales, values


# ComfyUI's files, older and newer; scales of activations, which products in floats have no use for; another prefix.
def described(word):
    return torch.tensor(list(json.dumps({"format": word}).encode()), dtype=torch.uint8)


codes, scales, values = scaled()
for name, more in {
        "older": {PREFIX + "scaled_fp8": torch.empty(2, dtype=E4M3), **{module_of(key) + "scale_weight": scale.reshape(1) for key, scale in scales.items()},
                  **{module_of(key) + "scale_input": torch.tensor(1.0) for key in narrow}},
        "newer": {module_of(key) + end: value for key, scale in scales.items()
                  for end, value in [("weight_scale", scale), ("input_scale", torch.tensor(1.0)), ("comfy_quant", described("float8_e4m3fn"))]}}.items():
    safetensors.torch.save_file({**plain, **codes, **more}, f"{name}.safetensors", {"format": "pt"})
    check(f"{name}.safetensors", values)
    safetensors.torch.save_file({key.removeprefix(PREFIX): value for key, value in {**plain, **codes, **more}.items()}, f"{name}-bare.safetensors")
    check(f"{name}-bare.safetensors", values)
codes, scales, values = scaled(E5M2)
safetensors.torch.save_file({**plain, **codes, **{module_of(key) + "weight_scale": scale for key, scale in scales.items()}}, "e5m2.safetensors",
                            {"_quantization_metadata": json.dumps({"layers": {module_of(key)[:-1]: {"format": "float8_e5m2"} for key in narrow}})})
check("e5m2.safetensors", values)

# Codes without scales, as `.to(torch.float8_e4m3fn)` leaves them.
for dtype in (E4M3, E5M2):
    file = f"cast-{str(dtype)[6:]}.safetensors"
    cast = {key: value.to(dtype) if value.ndim > 1 else value for key, value in plain.items()}
    safetensors.torch.save_file(cast, file)
    check(file, {key: value.float() for key, value in cast.items()})

# Layers in packed or rotated formats are refused.
for where, more, metadata in [("tensor", {module_of(narrow[0]) + "comfy_quant": described("nvfp4")}, None),
                              ("metadata", {}, {"_quantization_metadata": json.dumps({"layers": {narrow[0]: {"format": "int8_convrot"}}})})]:
    safetensors.torch.save_file({**plain, **codes, **{module_of(key) + "weight_scale": scale for key, scale in scales.items()}, **more}, "other.safetensors", metadata)
    kinema("convert", "other.safetensors", "x.safetensors", "--to", "comfyui", refused="nvfp4" if where == "tensor" else "int8_convrot")
say("layers in other formats: refused")
