"""The commands at published sizes: Wan 2.1 T2V 1.3B and UMT5-XXL in bfloat16, the Wan VAE, random weights.

They are written once into the cache, some 15 GB, the same bytes for the same seed. Then, one process each:

generate  17 frames of 256 x 256, 4 steps
prepare   4 clips to that size
train     a training step on them, in bfloat16
load      the transformer from a warm page cache, against diffusers, and what else comes before the first step

and of each the time, the peak of memory, and what the command itself said that it would take. Memory is what the process
has beside the page cache: files that are mapped and read come and go as the system likes.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
GB = 1e9
SIZE = dict(height=256, width=256, num_frames=17)
BF16 = dict(weights_dtype="bfloat16", activations_dtype="bfloat16", text_encoder_dtype="bfloat16")


def anonymous_bytes(pid):
    """Of a process; 0 when it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def measured(command, most):
    """Runs a command: its output, wall and processor seconds, and most bytes beside the page cache. It is ended when it
    takes more than `most`."""
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, cwd=REPO)
        peak = 0
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid != 0:
                break
            peak = max(peak, anonymous_bytes(child.pid))
            if peak > most:
                child.send_signal(signal.SIGKILL)
            time.sleep(0.02)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            why = f"it took {peak / GB:.1f} GB and was ended" if peak > most else err.read()[-2000:]
            sys.exit(f"real: {' '.join(map(str, command))} failed:\n{why}")
        return dict(out=out.read(), err=err.read(), seconds=seconds, cpu=usage.ru_utime + usage.ru_stime, peak=peak)


def pipeline(a):
    """The folder of the weights, written when it is not there."""
    name = f"published-{a.seed}" if (a.layers, a.text_layers) == (30, 24) else f"published-{a.seed}-{a.layers}-{a.text_layers}"
    folder = Path(a.cache) / name
    if folder.is_dir():
        return folder
    wanted = 4.5e9 + 0.39e9 * a.text_layers
    free = shutil.disk_usage(a.cache).free
    if free < wanted + 2e9:
        sys.exit(f"real: the weights take {wanted / GB:.1f} GB, {free / GB:.1f} GB are free in {a.cache}\n"
                 "  KINEMA_CACHE names another folder")
    part = Path(tempfile.mkdtemp(prefix=f"{name}.part.", dir=a.cache))
    try:
        begin = time.monotonic()
        subprocess.run([Path(a.kinema) / "bench_published_model", part, "--seed", str(a.seed), "--layers", str(a.layers),
                        "--text-layers", str(a.text_layers), "--tokenizer", REPO / "tests/golden/wan21_t2v/tokenizer"],
                       check=True)
        seconds = time.monotonic() - begin
        size = sum(f.stat().st_size for f in part.rglob("*") if f.is_file())
        part.chmod(0o755)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    print(f"weights: {size / GB:.1f} GB written to {folder} in {seconds:.0f} s", flush=True)
    return folder


def words(keys):
    return [f"{key}={value}" for key, value in keys.items()]


def report(what, run, memory):
    said = memory.get("predicted_bytes")
    print(f"{what:9} {run['seconds']:8.1f} {run['cpu']:8.1f} {run['peak'] / GB:8.2f} "
          + (f"{said / GB:10.2f} {said / run['peak']:6.2f}" if said else f"{'':10} {'':6}"), flush=True)


def back_memory(size):
    """A virtual machine's first touch of memory is its host's work, ten times as slow as the machine's own."""
    touched = b"\1" * size
    del touched


def load(a, kinema, model, most, dtype):
    """Three processes of each side in turn; seconds. The file is in bfloat16."""
    tiny = words(dict(pretrained_model_name_or_path=model, height=64, width=64, num_frames=5) | BF16
                 | dict(weights_dtype=dtype))
    ours, rest, theirs = [], [], []
    with tempfile.TemporaryDirectory(prefix="kinema-load-") as folder:
        generate = [kinema, "generate", *tiny, "prompt=a red ball", "num_inference_steps=1",
                    f"video_folder={folder}", *a.set, "--json"]
        measured(generate, most)  # fills the executable cache, and the page cache with the text encoder
        for _ in range(3):
            for file in (model / "transformer").iterdir():
                file.read_bytes()
            back_memory(8 << 30)
            run = measured(generate, most)
            timings = json.loads(run["out"])["timings"]
            ours.append(timings["load"])
            rest.append(run["seconds"] - sum(timings[part] for part in ("load", "text", "denoise", "decode")))
            if a.torch:
                back_memory(8 << 30)
                peer = measured([a.torch, REPO / "bench/peers/torch_load.py", model / "transformer", dtype], most)
                theirs.append(json.loads(peer["out"].splitlines()[-1])["read_seconds"])
    print(f"loading the transformer as {dtype}: kinema {min(ours):.2f} / {statistics.median(ours):.2f} s"
          + (f", diffusers {min(theirs):.2f} / {statistics.median(theirs):.2f} s, "
             f"ratio {min(ours) / min(theirs):.2f} / {statistics.median(ours) / statistics.median(theirs):.2f}" if theirs else ""))
    print(f"start and end of the process, executable from the cache: {min(rest):.2f} / {statistics.median(rest):.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("runs", nargs="*", help="generate, prepare, train, load; all when none is named")
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--torch", help="Python with requirements-torch.txt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=30, help="of the transformer")
    parser.add_argument("--text-layers", type=int, default=24, help="of UMT5")
    parser.add_argument("--most-gb", type=float, default=20, help="a process that takes more is ended")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the commands, above their own")
    a = parser.parse_args()
    runs = a.runs or ["generate", "prepare", "train", "load"]
    model = pipeline(a)
    kinema = Path(a.kinema) / "kinema"
    most = a.most_gb * GB
    with tempfile.TemporaryDirectory(prefix="kinema-real-") as folder:
        common = words(dict(pretrained_model_name_or_path=model, **SIZE, **BF16))
        records = Path(folder) / "records"
        if "load" in runs:
            for dtype in ("bfloat16", "float32"):
                load(a, kinema, model, most, dtype)
        if runs == ["load"]:
            return
        print(f"{'':9} {'wall s':>8} {'CPU s':>8} {'peak GB':>8} {'predicted':>10} {'ratio':>6}", flush=True)
        if "generate" in runs:
            run = measured([kinema, "generate", *common, "prompt=a red ball rolls over the grass", "num_inference_steps=4",
                            f"video_folder={folder}/videos", *a.set, "--json"], most)
            made = json.loads(run["out"])
            report("generate", run, made.get("memory", {}))
            print("          " + ", ".join(f"{k} {v:.1f} s" for k, v in made["timings"].items()), flush=True)
        if "prepare" in runs or "train" in runs:
            run = measured([kinema, "prepare", "configs/wan21_t2v_1_3b.yml", *common, "train_data_dir=tests/golden/dataset",
                            "max_train_samples=4", f"tfrecords_dir={records}", *a.set, "--json"], most)
            made = json.loads(run["out"])["folders"][0]
            report("prepare", run, {})
            print("          " + ", ".join(f"{k} {v:.1f} s" for k, v in made["seconds"].items()), flush=True)
        if "train" in runs:
            run = measured([kinema, "train", "configs/wan21_t2v_1_3b.yml", *common, f"train_data_dir={records}", "caption_dropout=0",
                            f"output_dir={folder}", "run_name=real", "max_train_steps=1", "checkpoint_every=-1",
                            "per_device_batch_size=1", "train_state_dtype=weights_dtype", "save_final_checkpoint=false", *a.set, "--json"], most)
            report("train", run, json.loads(run["out"]).get("memory", {}))


if __name__ == "__main__":
    main()
