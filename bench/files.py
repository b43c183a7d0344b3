"""How long a run on many small pictures takes to its first step: when they are new, and when they were seen before.

Pictures of 16 x 16 pixels with a caption each, latents by space_to_depth and text by hashed words, cached in
dataset_save_location: what is left is finding files, captions and cached encodings. opening_data is the time that
`train` says at its end, process_cpu the processor time of the whole process in seconds.
"""

import argparse
import json
import re
import resource
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]


def picture(shade):
    """A grey PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    side = 16
    rows = b"".join(b"\0" + bytes([shade]) * 3 * side for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write(folder, count):
    folder.mkdir()
    bytes_of = [picture(shade) for shade in range(256)]
    for i in range(count):
        (folder / f"{i:06}.png").write_bytes(bytes_of[i % 256])
        (folder / f"{i:06}.txt").write_text(f"a square of grey number {i % 100}")


def train(a, folder, name):
    words = [str(Path(a.kinema) / "kinema"), "train", "configs/tiny.yml", f"run_name={name}", f"output_dir={folder}/out", "dataset_type=images",
             f"train_data_dir={folder}/pictures", f"dataset_save_location={folder}/kept", "height=16", "width=16", "num_frames=1", "max_sequence_length=8",
             "max_train_steps=1", "eval_every=-1", "checkpoint_every=-1", "save_final_checkpoint=false", *a.words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"files: {' '.join(words)} failed:\n{done.stderr[-2000:]}")
    return {"opening_data": float(re.search(r"opening data ([0-9.]+) s", done.stdout + done.stderr).group(1)),
            "process_cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--cache", help="unused")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3, help="when seen before")
    parser.add_argument("words", nargs="*", help="keys of train")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kinema-files-") as folder:
        write(Path(folder) / "pictures", a.files)
        new = train(a, folder, "new")
        seen = [train(a, folder, f"seen{i}") for i in range(a.runs)]
    print(json.dumps({"files": a.files, "new": new, "seen_before": seen}))


if __name__ == "__main__":
    main()
