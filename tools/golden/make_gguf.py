"""Writes tests/golden/gguf: a file with a tensor of every type that is read, made by the `gguf` package
(PyPI, 0.19.0), and the values that it decodes them to. With a file as argument it prints what it reads there.

    python make_gguf.py ../../tests/golden/gguf
    python make_gguf.py FILE.gguf
"""

import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def blocks(kind, rows, columns, random):
    """Random values in the types that the package can encode, else random bits with scales of a usual size."""
    values = random.standard_normal((rows, columns), dtype=np.float32)
    if not kind.name.endswith("_K"):
        return gguf.quants.quantize(values, kind)
    size, width = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (rows * columns // size, width), dtype=np.uint8)
    halves = random.uniform(0.001, 0.1, (raw.shape[0], 2)).astype(np.float16).view(np.uint8)
    if kind.name in ("Q3_K", "Q6_K"):
        raw[:, -2:] = halves[:, :2]
    elif kind.name == "Q2_K":
        raw[:, -4:] = halves
    else:
        raw[:, :4] = halves
    return raw.reshape(rows, -1)


def make(folder):
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(folder / "types.gguf", "wan")
    writer.add_uint32("general.file_type", 7)
    writer.add_array("some.words", ["a", "b c"])
    writer.add_array("comfy.gguf.orig_shape.five_axes", [2, 4, 1, 2, 2])
    expected = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        data = blocks(kind, 3, 512, random)
        writer.add_tensor(name, data, raw_dtype=kind)
        expected[name] = gguf.quants.dequantize(data, kind).reshape(3, 512)
    five = random.standard_normal((8, 4), dtype=np.float32)
    writer.add_tensor("five_axes", five)
    expected["five_axes"] = five.reshape(2, 4, 1, 2, 2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    values = np.concatenate([random.standard_normal(96, dtype=np.float32), np.zeros(32, np.float32)])
    expected["to_q8_0"] = values
    encoded = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    save_file({**expected, "q8_0": encoded}, folder / "types.safetensors")


def show(path):
    reader = gguf.GGUFReader(path)
    print({key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")})
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        print(tensor.name, tensor.tensor_type.name, list(tensor.shape), float(np.abs(values).sum()))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    show(target) if target.is_file() else make(target)
