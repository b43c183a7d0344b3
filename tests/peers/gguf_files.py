"""GGUF files of Wan: those that kinema writes in gguf-py and diffusers, those that gguf-py writes in kinema."""

from peer import inputs, kinema, safetensors, same, same_tensors, say, verify

import gguf
import numpy as np
import torch
from diffusers import GGUFQuantizationConfig, WanTransformer3DModel
from diffusers.quantizers.gguf.utils import GGUFParameter, dequantize_gguf_tensor

# Original names, which GGUF files have, tell heads of 128 only.
torch.manual_seed(0)
network = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=128, text_dim=64, ffn_dim=512, num_layers=2)
with torch.no_grad():
    for parameter in network.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
network.save_pretrained("model")
given = inputs(network.config)


def read_by_gguf(file):
    """The file's values as gguf-py decodes them, axes in torch's order, and each tensor's type."""
    tensors = gguf.GGUFReader(file).tensors
    values = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1].tolist()) for t in tensors}
    return {name: torch.from_numpy(value.copy()) for name, value in values.items()}, {t.name: t.tensor_type.name for t in tensors}


def read_by_kinema(file):
    """The same, as kinema decodes them."""
    kinema("convert", file, file + ".safetensors", "--to", "comfyui", "--dtype", "float32")
    return {key.removeprefix("model.diffusion_model."): value
            for key, value in safetensors.torch.load_file(file + ".safetensors").items()}


def check(file, with_output=False):
    """The file in gguf-py, diffusers and kinema. Returns its values and their types."""
    values, kinds = read_by_gguf(file)
    same_tensors(read_by_kinema(file), values)

    safetensors.torch.save_file(values, "values.safetensors")
    plain = WanTransformer3DModel.from_single_file("values.safetensors", config="model", torch_dtype=torch.float32)
    codes = WanTransformer3DModel.from_single_file(file, config="model", torch_dtype=torch.float32,
                                                   quantization_config=GGUFQuantizationConfig(compute_dtype=torch.float32))
    for name, parameter in codes.named_parameters():
        expected = plain.get_parameter(name)
        if isinstance(parameter, GGUFParameter) and parameter.quant_type != gguf.GGMLQuantizationType.BF16:
            # diffusers decodes in float16: up to four roundings of 2^-11, of the largest where a block's least is taken off.
            limit = 4 * 2**-11 * expected.abs().max().item()
            same(name, dequantize_gguf_tensor(parameter).float(), expected, limit)
        else:
            same(name, dequantize_gguf_tensor(parameter).float(), expected)
    say(f"{file}: the same values in gguf-py and diffusers")
    if with_output:
        with torch.no_grad():
            rows = verify("transformer", file, {**given, "output": plain.eval()(**given).sample})
        say(f"{file}: outputs in diffusers", rows[0]["max_diff"])
    return values, kinds


# Written by kinema. Matrices alone are narrow: nothing else is decoded by diffusers and ComfyUI-GGUF.
for kind, words in [("Q8_0", []), ("F16", ["--dtype", "float16"]), ("BF16", ["--dtype", "bfloat16"])]:
    kinema("convert", "model", f"kinema-{kind}.gguf", "--to", "gguf", *words)
    values, kinds = check(f"kinema-{kind}.gguf", with_output=True)
    assert values["patch_embedding.weight"].ndim == 5
    assert kinds["blocks.0.ffn.0.weight"] == kind and {kinds[name] for name in kinds if values[name].ndim != 2} == {"F32"}

# Written by gguf-py: in the types that it encodes, and with random codes in those that it only decodes.
kinema("convert", "model", "plain.safetensors", "--to", "comfyui", "--dtype", "float32")
plain = {name.removeprefix("model.diffusion_model."): value.numpy() for name, value in safetensors.torch.load_file("plain.safetensors").items()}
random = np.random.default_rng(0)


def encoded(values, kind):
    if not kind.name.endswith("_K") and not kind.name.startswith("IQ4"):
        return gguf.quants.quantize(values, kind)
    size, width = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (values.size // size, width), dtype=np.uint8)
    scales = random.uniform(1e-5, 1e-4, (len(blocks), 2)).astype(np.float16).view(np.uint8)
    if kind.name in ("Q3_K", "Q6_K"):
        blocks[:, -2:] = scales[:, :2]
    elif kind.name == "Q2_K":
        blocks[:, -4:] = scales
    elif kind.name.startswith("IQ4"):
        blocks[:, :2] = scales[:, :2]
    else:
        blocks[:, :4] = scales
    return blocks.reshape(values.shape[0], -1)


def written(name):
    kind = gguf.GGMLQuantizationType[name]
    writer = gguf.GGUFWriter(f"gguf-{name}.gguf", "wan")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in plain.items():
        is_narrow = key.startswith("blocks.") and value.ndim == 2
        writer.add_tensor(key, encoded(value, kind) if is_narrow else value, raw_dtype=kind if is_narrow else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return f"gguf-{name}.gguf"


for name in ["BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]:
    check(written(name))
for name in ["IQ4_NL", "IQ4_XS"]:  # which diffusers does not read
    file = written(name)
    same_tensors(read_by_kinema(file), read_by_gguf(file)[0])
    say(f"{file}: the same values in gguf-py")
kinema("convert", written("TQ1_0"), "x.safetensors", "--to", "comfyui", refused="which is not supported")
say("other types are refused")
