"""The results of `kinema plan` for published settings next to the expected ones, compiled without the devices.

One compile after the other; each report is kept in the cache under the program's bytes and the command, so that a bench
that was cut off goes on where it was. The compilers are fetched first where they are missing. Goals are written below.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
GIB = 2**30

T2V = "configs/wan21_t2v_14b.yml"
V5P = [T2V, "target=v5p:2x2x1", "ici_context_parallelism=4", "per_device_batch_size=0.25"]
OFFLOAD = "remat_policy=HIDDEN_STATE_WITH_OFFLOAD"
AS_WEIGHTS = "train_state_dtype=weights_dtype"
# Name, words of the command. 720p x 81 where nothing is said.
PLANS = {
    "v5p FULL": [*V5P, AS_WEIGHTS],
    "v5p offload": [*V5P, AS_WEIGHTS, OFFLOAD],
    "v5p FULL, f32 state": V5P,
    "v5p offload, f32 state": [*V5P, OFFLOAD],
    # 64 devices, 16 samples, ulysses within four, MaxDiffusion's flags: what is public of its tuned setting (its pull
    # request 487).
    "tpu7x": ["configs/wan22_t2v_a14b.yml", "target=tpu7x:2x4x4", "ici_fsdp_parallelism=16", "ici_context_parallelism=4",
              "attention=ulysses", "per_device_batch_size=0.25", AS_WEIGHTS, OFFLOAD,
              "flags_profile=wan-train-tpu7x"],
    "v6e": [T2V, "target=v6e:4x4", "mode=generate", "attention=ulysses", "ici_context_parallelism=4",
            "ici_tensor_parallelism=4", "guidance_scale=1"],
    "h100:8": [T2V, "target=h100:8", "ici_context_parallelism=8", "per_device_batch_size=0.125"],
    "h100": [T2V, "target=h100:1", "mode=generate", "height=480", "width=832"],
}


def expected(report):
    return report["expected"]["busy_seconds"] + report["expected"]["waiting_seconds"]


def by_memory(report):
    return report["roofline"]["hbm"]


def temporaries(report):
    return report["bytes"]["temporaries"] / GIB


def compiling(report):
    return report["compile_seconds"]


@dataclass
class Row:
    what: str
    plans: list[str]  # the worst of them counts
    value: object
    unit: str
    goal: float
    before: float | None = None  # before attention had kernels
    others: dict = field(default_factory=dict)  # who published what


MAXDIFFUSION = "MaxDiffusion"
ROWS = [
    Row("training, v5p:2x2x1, FULL, by memory", ["v5p FULL"], by_memory, "s", 16, 45.0),
    Row("  expected", ["v5p FULL"], expected, "s", 24, None, {MAXDIFFUSION: 36.0}),
    Row("  temporaries", ["v5p FULL"], temporaries, "GiB", 20, 20.94, {MAXDIFFUSION: 22.40}),
    Row("HIDDEN_STATE_WITH_OFFLOAD, by memory", ["v5p offload"], by_memory, "s", 13, 32.5),
    Row("  expected", ["v5p offload"], expected, "s", 21),
    Row("  temporaries", ["v5p offload"], temporaries, "GiB", 14.5, 15.07, {MAXDIFFUSION: 23.09}),
    Row("training, tpu7x:2x4x4, 16 samples, expected", ["tpu7x"], expected, "s", 13.5, None, {MAXDIFFUSION: 13.57}),
    Row("denoising, v6e:4x4, expected", ["v6e"], expected, "s", 0.60, None),
    Row("  by memory", ["v6e"], by_memory, "s", 0.60, 0.71),
    Row("  temporaries", ["v6e"], temporaries, "GiB", 0.70, 0.70, {MAXDIFFUSION: 0.98}),
    Row("training, h100:8, FULL, by memory", ["h100:8"], by_memory, "s", 5, 31.5),
    Row("  expected", ["h100:8"], expected, "s", 8.5),
    Row("denoising 480p with guidance, h100, expected", ["h100"], expected, "s", 5.0, None, {"LightX2V": 5.18}),
    Row("compiling a training step", ["v5p FULL", "v5p offload", "v5p FULL, f32 state", "v5p offload, f32 state"],
        compiling, "s", 90, 71.8),
]


def key_of(kinema, words):
    digest = hashlib.sha256(kinema)
    digest.update("\0".join(words).encode())
    return digest.hexdigest()[:16]


def stop(what, said):
    lines = [line for line in said.splitlines() if line.strip()]
    sys.exit(f"plan: {what}: {lines[-1] if lines else 'no output'}")


class Reports:
    """Reports by the names of PLANS, compiled when they are asked for and not kept."""

    def __init__(self, a):
        self.program = Path(a.kinema).resolve() / "kinema"
        self.bytes = self.program.read_bytes()
        self.folder = Path(a.cache) / "bench-plan"
        self.again = a.again
        self.known = {}
        self.installed = set()

    def install(self, hardware):
        if hardware not in self.installed:
            result = subprocess.run([self.program, "doctor", "--install", hardware], capture_output=True, text=True)
            if result.returncode != 0:
                stop(f"doctor --install {hardware}", result.stderr)
            self.installed.add(hardware)

    def __getitem__(self, name):
        if name not in self.known:
            self.known[name] = self.get(name, PLANS[name])
        return self.known[name]

    def get(self, name, words):
        file = self.folder / f"{key_of(self.bytes, words)}.json"
        if file.is_file() and not self.again:
            return json.loads(file.read_text())
        self.install("cuda" if name.startswith("h100") else "tpu")
        print(f"compiling: kinema plan {' '.join(words)}", file=sys.stderr, flush=True)
        result = subprocess.run([self.program, "plan", *words, "--json"], cwd=REPO, capture_output=True, text=True)
        if result.returncode != 0:
            stop(name, result.stderr)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(result.stdout)
        part.rename(file)
        return json.loads(result.stdout)


def number(value):
    return "" if value is None else f"{value:.2f}"


def report_row(row, reports):
    value = max(row.value(reports[name]) for name in row.plans)
    miss = max(0.0, value / row.goal - 1)
    others = ", ".join(f"{who} {number(theirs)}" for who, theirs in row.others.items())
    print(f"{row.what:46} {number(row.before):>7} {value:9.2f} {row.goal:7.2f} {row.unit:3} "
          f"{f'{miss:.0%} above' if miss >= 0.005 else 'met':>10}   {others}".rstrip(), flush=True)


def report_kernels(name, report):
    total = expected(report)
    parts = [(each["name"], each["seconds"]) for each in report["expected"]["kernels"]]
    parts.append(("waiting", report["expected"]["waiting_seconds"]))
    parts.append(("all else", total - sum(seconds for _, seconds in parts)))
    print(f"{name:24} {total:6.2f} s: " + ", ".join(f"{part} {seconds:.2f}" for part, seconds in parts)
          + f"; at least {report['roofline']['compute']:.2f} s by compute; {temporaries(report):.2f} GiB, "
          f"compiled in {compiling(report):.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--again", action="store_true", help="compile what is kept, too")
    parser.add_argument("--only", default="", help="plans whose name has this")
    a = parser.parse_args()
    reports = Reports(a)
    chosen = [name for name in PLANS if a.only in name]
    if not chosen:
        sys.exit(f"plan: no plan's name has `{a.only}`: {', '.join(PLANS)}")
    print(f"{'14B, 720p x 81, one device':46} {'before':>7} {'measured':>9} {'goal':>7} {'':3} {'':>10}   published")
    for row in ROWS:
        plans = [name for name in row.plans if name in chosen]
        if plans:
            report_row(row, reports)
    print("\nParts of the time to expect, seconds")
    for name in chosen:
        report_kernels(name, reports[name])


if __name__ == "__main__":
    main()
