"""Pictures from Python: PIL images, and arrays of numpy, torch or jax."""

from __future__ import annotations

import os
import pathlib
import struct
import zlib
from typing import Any

import numpy as np


def _png(pixels: Any) -> bytes:
    """An 8-bit PNG of u8 [h, w, 3] or [h, w, 4]."""
    height, width, channels = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1))
            + chunk(b"IEND", b""))


def pixels_of(picture: Any, name: str) -> Any:
    """u8 [h, w, 3 or 4] of a PIL image or an array: u8, or floats from 0 to 1; [h, w], [h, w, c] or, as torch has it,
    [c, h, w]."""
    if hasattr(picture, "convert") and hasattr(picture, "mode"):  # PIL
        picture = picture.convert("RGBA" if picture.mode in ("RGBA", "LA", "PA") else "RGB")
    elif hasattr(picture, "detach"):
        picture = picture.detach().cpu()
    array = np.asarray(picture)
    if array.ndim == 2:
        array = np.stack([array] * 3, axis=-1)
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = np.repeat(array, 3, axis=-1)
    if array.ndim != 3 or array.shape[-1] not in (3, 4) or 0 in array.shape:
        raise ValueError(f"{name} has the shape {np.shape(picture)}, expected [height, width, 3]")
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ValueError(f"{name} has floats outside of 0 to 1")
        return np.round(array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ValueError(f"{name} has elements of {array.dtype}, expected uint8 or floats from 0 to 1")
    return np.ascontiguousarray(array)


def is_path(picture: Any) -> bool:
    return isinstance(picture, (str, os.PathLike))


def write_png(picture: Any, path: pathlib.Path, name: str) -> pathlib.Path:
    """Writes a picture from Python as a file, which kinema reads with the same pixels."""
    path.write_bytes(_png(pixels_of(picture, name)))
    return path
