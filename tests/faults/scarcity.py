"""Small jobs where threads, or the disk of the cache, run out: nothing hangs, aborts or is lost.

threads  the n-th thread of the program's own code cannot be made, alone or with all after it, for every n that a tiny
         `train`, `prepare` and `generate` get to: the job goes on with fewer and makes the same files, or ends with an
         error of one line and its remedy, from where it goes on later
cache    a full disk under the cache is a warning

Prints a line a job and what went wrong; exits 1 when something did.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TIMEOUT = 600  # seconds for a job of one or two, where others use the machine too
TINY = ["configs/tiny.yml", "run_name=run", "max_train_steps=2", "checkpoint_every=1"]
VARYING = ("time", "perf/", "memory/")
UNEQUAL = ("config.yml", "timings.jsonl", "loss.svg", ".lock")  # they name the folder, or hold times


class Fault(Exception):
    """A job violated a requirement."""


def require(condition, message):
    if not condition:
        raise Fault(message)


class Command:
    """A job by its arguments; `into`: the key of its output folder, which already contains `begin`."""

    def __init__(self, name, words, into, begin=None):
        self.name, self.words, self.into, self.begin = name, words, into, begin

    def prepare(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        if self.begin:
            shutil.copytree(self.begin, folder)
        else:
            folder.mkdir()

    def line(self, folder):
        return [self.name, *self.words, f"{self.into}={folder}"]


class Jobs:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.count = folder / "count"

    def run(self, command, folder, **environment):
        words = [self.args.kinema, *command.line(folder), f"executable_cache={self.folder / 'programs'}"]
        try:
            done = subprocess.run(words, cwd=REPO, text=True, errors="replace", timeout=TIMEOUT,
                                  env=os.environ | environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Fault("it did not end")
        return done.returncode, done.stderr

    def limited(self, command, folder, number, all_after):
        environment = dict(LD_PRELOAD=str(self.args.threads), KINEMA_FAULT_THREAD=str(number),
                           KINEMA_FAULT_COUNT=str(self.count))
        if all_after:
            environment["KINEMA_FAULT_THREAD_ON"] = "1"
        return self.run(command, folder, **environment)


def made(folder):
    """The files that a job wrote: bytes by path, of metrics without times."""
    out = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or path.name in UNEQUAL or "tensorboard" in name:
            continue
        if path.name == "metrics.jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            out[name] = [{key: value for key, value in row.items() if not key.startswith(VARYING)} for row in rows]
        else:
            out[name] = path.read_bytes().replace(str(folder).encode(), b"")
    return out


def same(one, other):
    require(one.keys() == other.keys(), f"other files: {sorted(one.keys() ^ other.keys())}")
    different = [name for name in one if one[name] != other[name]]
    require(not different, f"{different} differ")


def is_an_error(err):
    lines = [line for line in err.splitlines() if "compiling" not in line]
    errors = [line for line in lines if line.startswith("kinema: [")]
    return len(errors) == 1 and lines[-2:] == [errors[0], lines[-1]] and lines[-1].startswith("  ")


def threads(jobs):
    train = Command("train", TINY, "output_dir")
    folder = jobs.folder / "job"
    results = jobs.folder / "trained"
    train.prepare(results)
    code, err = jobs.run(train, results)
    require(code == 0, f"train: {err}")
    commands = [
        train,
        Command("prepare", ["configs/tiny.yml", "train_data_dir=examples/shapes", "max_train_samples=4"], "tfrecords_dir"),
        Command("generate", [*TINY, f"output_dir={results}", "num_inference_steps=1"], "video_folder"),
    ]
    problems = 0
    for command in commands:
        command.prepare(folder)
        code, err = jobs.run(command, folder)  # keeps the programs
        require(code == 0, f"{command.name}: {err}")
        command.prepare(folder)
        code, err = jobs.limited(command, folder, 0, False)
        require(code == 0, f"{command.name}: {err}")
        expected = made(folder)
        count = int(jobs.count.read_text())
        require(count > 0, f"{command.name} makes no threads: is this the right binary?")
        went_on = tried = 0
        for all_after in (False, True) if command is train else (True,):
            for number in range(1, count + 1):
                tried += 1
                try:
                    command.prepare(folder)
                    code, err = jobs.limited(command, folder, number, all_after)
                    require(code in (0, 1), f"it ended with {code}: {err[-500:]}")
                    if code == 1:
                        require(is_an_error(err), f"no error of one line and its remedy: {err[-500:]}")
                        code, err = jobs.run(command, folder)
                        require(code == 0, f"it did not continue: {err[-500:]}")
                    else:
                        went_on += 1
                    same(expected, made(folder))
                except Fault as fault:
                    problems += 1
                    after = " and all after it" if all_after else ""
                    print(f"{command.name} without thread {number} of {count}{after}: {fault}", flush=True)
        print(f"{command.name}: {tried} faults, {went_on} times it continued with fewer threads", flush=True)
    return problems


def cache(jobs):
    train = Command("train", TINY, "output_dir")
    folder = jobs.folder / "job"
    full = jobs.folder / "programs"
    shutil.rmtree(full, ignore_errors=True)
    full.mkdir()
    train.prepare(folder)
    code, err = jobs.run(train, folder, LD_PRELOAD=str(jobs.args.disk), KINEMA_FAULT_FOLDER=str(full),
                         KINEMA_FAULT_BYTES="0")
    require(code == 0, f"a full disk under the cache ended train: {err}")
    require("compiled programs are not cached" in err and "No space left" in err, f"no warning: {err}")
    print("cache: a full disk is a warning", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["threads", "cache"])
    parser.add_argument("--kinema", type=Path, required=True)
    parser.add_argument("--threads", type=Path, help="few_threads.so")
    parser.add_argument("--disk", type=Path, help="full_disk.so")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kinema-scarcity-") as folder:
        try:
            problems = {"threads": threads, "cache": cache}[args.what](Jobs(args, Path(folder)))
        except Fault as fault:
            print(fault)
            problems = 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
