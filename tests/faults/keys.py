"""Runs kinema's commands with one configuration key after the other at values that hurt.

Every run must end with exit code 0, or with 1 and an error of at most two lines; what takes long must end when it is told to.
"""

import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PATIENCE = 60  # seconds for a run, and for ending one
MEMORY = 200 << 30  # of addresses; the plugin reserves many that it never touches
TEXTS = ["zzz", "", "/dev/null", "/proc/self/mem", "/", "~", "../../etc/passwd", "gs://", "s3://x", "gs://a b/..", "a\nb", "\u202e\u00fc" * 300]
# A plugin that is none, and folders that every run has of its own.
LEFT_OUT = {"run_name", "output_dir", "hardware", "pjrt_plugin"}


def values(kind):
    """Values of a key by what the table says it takes."""
    if kind.startswith("true"):
        return ["true", "false", "2"]
    if kind.startswith("one of"):
        return [word.strip(" '") for word in kind[6:].split(",")] + ["zzz"]
    if "list" in kind or kind == "any":
        return ["[]", "[0]", "[-1]", "[a,b]", "[1,2,3]", "[9223372036854775807]", "x", "{a: 1}", "[[[["]
    bounds = re.findall(r"-?\d+(?:\.\d+)?", kind)
    if "integer" in kind:
        return ["0", "1", "3", "-1", "2147483648", "9223372036854775807", *bounds]
    if "number" in kind:
        return ["0", "1", "-1", "1e308", "1e-308", "nan", "inf", *bounds]
    return TEXTS


def keys(kinema):
    table = subprocess.run([kinema, "config", "--docs"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^\| `(\w+)` \| (?:`.*?`)? ?\| (.*?) \|", table, re.MULTILINE)
    if len(rows) < 200:
        sys.exit(f"keys: `kinema config --docs` has only {len(rows)} keys")
    return [(key, kind) for key, kind in rows if key not in LEFT_OUT]


def commands(folder):
    tiny = str(REPO / "configs" / "tiny.yml")
    clips = [f"train_data_dir={REPO}/tests/golden/dataset", "dataset_type=videos"]
    run = ["output_dir=trained", "run_name=x", "max_train_steps=2", "checkpoint_every=1"]
    return {
        "config": ["config", tiny],
        "train": ["train", tiny, *run],
        "train on clips": ["train", tiny, *run, *clips, "eval_every=1", f"eval_data_dir={REPO}/tests/golden/dataset",
                           "enable_generate_video_for_eval=true"],
        "prepare": ["prepare", tiny, *clips, "tfrecords_dir=records", "max_train_samples=2"],
        "generate": ["generate", tiny, f"output_dir={folder}/of_generate", "run_name=x", "video_folder=videos"],
        "plan": ["plan", tiny, "target=cpu:2"],
    }


def problem_of(kinema, words, folder):
    """What the run did that it must not; nothing where it did well."""
    environment = os.environ | {"KINEMA_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", "AWS_EC2_METADATA_DISABLED": "true"}
    own = folder / "own"
    subprocess.run(["rm", "-rf", own], check=True)
    own.mkdir()
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    process = subprocess.Popen([kinema, *words], cwd=own, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, errors="replace", preexec_fn=limit)
    told = 0  # the first time it may end a step and write what it has
    while True:
        try:
            _, errors = process.communicate(timeout=PATIENCE)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if told == 2 else signal.SIGTERM)
            told += 1
    if told == 3:
        return "did not end when told to twice"
    if process.returncode == 0 or (told and process.returncode == -signal.SIGTERM):
        return ""
    # Warnings come before the error.
    error = errors[errors.rfind("kinema: "):].rstrip("\n").split("\n") if "kinema: " in errors else []
    if process.returncode != 1:
        return f"ended with {process.returncode}: {errors[-300:]}"
    if not 1 <= len(error) <= 2:
        return f"ended with an error of {len(error)} lines: {errors[-600:]}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinema", required=True, type=os.path.abspath)
    parser.add_argument("--times", type=int, default=300, help="runs, drawn at random; 0: every command with every key and value")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a command")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kinema-keys-") as name:
        folder = Path(name)
        table = commands(folder)
        problem = problem_of(args.kinema, [*table["train"], f"output_dir={folder}/of_generate"], folder)
        if problem:
            sys.exit(f"keys: the model that `generate` takes: {problem}")
        runs = [(command, key, value) for command in table if args.only in (None, command)
                for key, kind in keys(args.kinema) for value in values(kind)]
        if args.times:
            runs = random.Random(args.seed).sample(runs, min(args.times, len(runs)))
        bad = 0
        for i, (command, key, value) in enumerate(runs):
            if args.verbose:
                print(f"{command}: {key}={value!r:.60}", flush=True)
            problem = problem_of(args.kinema, [*table[command], f"{key}={value}"], folder)
            if problem:
                bad += 1
                print(f"  {command} with {key}={value!r:.60} {problem}", flush=True)
            if (i + 1) % 100 == 0:
                print(f"keys: {i + 1} of {len(runs)} runs", flush=True)
        print(f"keys: {len(runs)} runs, {bad} of them ended as none must")
        sys.exit(1 if bad else 0)


main()
