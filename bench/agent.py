"""Measures an agent's steps beside the original DreamerV3, one process each in turn, and prints ratios.

    bench/agent.py --kinema build --python VENV/bin/python --source dreamerv3 [CASE ...]

The peer and what it needs: bench/peers/jax_dreamer.py. Without --python only kinema runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SMALL = ["batch_length=16", "agent.imag_length=6", "agent.horizon=20", r".*\.rssm\.deter=128", r".*\.rssm\.hidden=32",
         r".*\.rssm\.stoch=8", r".*\.rssm\.classes=8", r".*\.units=64", r".*\.layers=2", "agent.rewhead.layers=1",
         "agent.conhead.layers=1", r".*\.bins=41", r".*\.kernel=3", r".*\.mults=2", r".*\.depth=8"]
# name: (observation, size, settings of both, of acting: environments)
CASES = {
    "catch": ("catch", "size1m", SMALL, 0),
    "size1m pixels 4 x 16": ("image64", "size1m", ["batch_size=4", "batch_length=16"], 0),
    "size1m pixels 16 x 64": ("image64", "size1m", [], 0),
    "size1m vectors 16 x 64": ("vector", "size1m", [], 0),
    "size12m vectors 16 x 64": ("vector", "size12m", [], 0),
    "acting, 1": ("image64", "size1m", [], 1),
    "acting, 16": ("image64", "size1m", [], 16),
}


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"agent: {' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinema", default="build")
    parser.add_argument("--python", help="with the original's packages")
    parser.add_argument("--source", help="a checkout of the original")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2, help="each program in turn, so often")
    parser.add_argument("--cache", default="/tmp/kinema_bench_agent", help="of compiled programs after the first round")
    parser.add_argument("cases", nargs="*", help="parts of names; all without one")
    given = parser.parse_args()
    for name, (observation, size, words, act) in CASES.items():
        if given.cases and not any(case in name for case in given.cases):
            continue
        common = ["--observation", observation, "--dtype", given.dtype, "--steps", str(given.steps), "--act", str(act)]
        ours = [Path(given.kinema) / "bench_agent_step", HERE.parent / "configs/dreamer.yml", *common]
        lists = [word.replace("mults=2", "mults=[2]") for word in words]
        ours += ["--set", f"preset={size}", *lists]
        theirs = [given.python, HERE / "peers/jax_dreamer.py", "--source", given.source, *common, "--configs", size]
        theirs += ["--set", *words]
        rows = {"kinema": [], "original": []}
        for turn in range(given.rounds):
            rows["kinema"].append(run(ours + (["--cache", given.cache] if turn else [])))
            if given.python:
                rows["original"].append(run(theirs))
        print(f"\n{name}")
        medians = {}
        for who, results in rows.items():
            if not results:
                continue
            medians[who] = [statistics.median([x for r in results for x in r[key]]) for key in ("seconds", "cpu_seconds")]
            compiled = max(r["compile_seconds"] for r in results)
            print(f"  {who:8} {medians[who][0] * 1e3:9.1f} ms, processor {medians[who][1] * 1e3:9.1f} ms, compiling "
                  f"{compiled:5.1f} s, temporaries {results[0].get('temporary_bytes', 0) / 1e6:7.1f} MB, peak "
                  f"{max(r['peak_rss_bytes'] for r in results) / 1e6:6.0f} MB")
        if len(medians) == 2:
            wall, processor = (a / b for a, b in zip(medians["kinema"], medians["original"]))
            print(f"  ratio    {wall:9.2f}   , processor {processor:9.2f}")


if __name__ == "__main__":
    main()
