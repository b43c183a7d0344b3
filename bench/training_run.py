"""What a whole training run costs beside its steps. kinema against itself, one process each in turn.

checkpoint  runs that write checkpoints, while steps go on and between them, against one that writes none
data        steps on videos and on TFRecords against steps on synthetic samples of the same shape
store       steps of runs that send checkpoints, metrics and events to s3:// against steps of runs that write them here, or
            nothing; the server (moto) has a core, and the run another
processes   steps of two processes with one device each, by mpirun and by coordinator_address, against one process with two
"""

import argparse
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
# examples/shapes, with a model whose step takes some tens of milliseconds on two cores.
SETTINGS = dict(num_layers=4, num_attention_heads=4, attention_head_dim=64, ffn_dim=1024, per_device_batch_size=8,
                caption_dropout=0, save_final_checkpoint="false", checkpoint_every=-1)


def held_to(number, nice=0):
    """Makes a child run on one core, so that it takes none of another's time."""
    core = sorted(os.sched_getaffinity(0))[number]
    return lambda: (os.sched_setaffinity(0, {core}), os.nice(nice))


def words_of(a, command, keys):
    return [str(Path(a.kinema) / "kinema"), command, "configs/shapes.yml", *(f"{k}={v}" for k, v in keys.items())]


def kinema(a, command, keys, prepare=None, **environment):
    words = words_of(a, command, keys)
    begin = time.monotonic()
    result = subprocess.run(words, cwd=REPO, capture_output=True, text=True, env=os.environ | environment,
                            preexec_fn=prepare)
    if result.returncode != 0:
        sys.exit(f"training_run: {' '.join(words)} failed:\n{result.stderr[-2000:]}")
    return time.monotonic() - begin


def train(a, folder, name, **more):
    """Seconds of the process, and of each step but the first ones."""
    keys = SETTINGS | dict(output_dir=folder, run_name=name, max_train_steps=a.steps) | more
    run = Path(folder) / name
    subprocess.run(["rm", "-rf", run], check=True)
    seconds = kinema(a, "train", keys)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return seconds, [record["perf/step_time_seconds"] for record in records[10:]], run


def processor_seconds():
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def share(run, phase):
    """Of the loop's time, what passes in a phase beside the steps."""
    rows = [json.loads(line) for line in (run / "timings.jsonl").read_text().splitlines()]
    seconds = {row["phase"]: row["seconds"] for row in rows}
    return seconds[phase] / (seconds[phase] + seconds["steps"])


def checkpoint(a, folder):
    every = a.steps * 3 // 10  # three of them, none of them last
    kinds = {"none": {}, "in the background": dict(checkpoint_every=every),
             "between steps": dict(checkpoint_every=every, background_checkpoints="false")}
    wall, used, waits = ({kind: [] for kind in kinds} for _ in range(3))
    train(a, folder, "run")  # compiles
    size = 0
    steps = []
    for _ in range(a.rounds):
        for kind, keys in kinds.items():
            begin = processor_seconds()
            seconds, step_seconds, run = train(a, folder, "run", **keys)
            used[kind].append(processor_seconds() - begin)
            wall[kind].append(seconds)
            waits[kind].append(share(run, "checkpoints"))
            if kind == "none":
                steps += step_seconds
            else:
                newest = max((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
                size = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    step = statistics.median(steps)
    print(f"Checkpoints of {size / 1e6:.1f} MB every {every} steps of {1e3 * step:.1f} ms; seconds of {a.steps} steps with start, "
          "min / median; share of the time that the loop stands still for them; processor time")
    for kind, seconds in wall.items():
        cost = (statistics.median(seconds) - statistics.median(wall["none"])) / (a.steps * step)
        more = statistics.median(used[kind]) / statistics.median(used["none"]) - 1
        print(f"  {kind:18} {min(seconds):7.2f} / {statistics.median(seconds):7.2f}   {100 * cost:+5.1f} % of the steps' time   "
              f"stands still {100 * statistics.median(waits[kind]):.2f} %   {statistics.median(used[kind]):6.1f} s {100 * more:+5.1f} %", flush=True)


def data(a, folder):
    kinema(a, "prepare", SETTINGS | dict(tfrecords_dir=f"{folder}/records", run_name="prepare", output_dir=folder))
    kinds = {"synthetic": dict(dataset_type="synthetic"), "videos": {},
             "TFRecords": dict(dataset_type="tfrecord", train_data_dir=f"{folder}/records")}
    steps, used, waits = ({kind: [] for kind in kinds} for _ in range(3))
    for kind, keys in kinds.items():
        train(a, folder, "run", **keys)  # compiles
    for _ in range(a.rounds):
        for kind, keys in kinds.items():
            begin = processor_seconds()
            _, step_seconds, run = train(a, folder, "run", **keys)
            used[kind].append(processor_seconds() - begin)
            steps[kind].append(statistics.mean(step_seconds))
            waits[kind].append(share(run, "waiting for data"))
    print(f"Seconds of a step, mean of {a.steps} steps, min / median of {a.rounds} processes; share of the time that the loop waits "
          "for data; processor time of the run")
    for kind, seconds in steps.items():
        def against(values):
            return f"{100 * (statistics.median(values[kind]) / statistics.median(values['synthetic']) - 1):+5.1f} %"
        print(f"  {kind:10} {min(seconds):.4f} / {statistics.median(seconds):.4f}   {against(steps)}   waits "
              f"{100 * statistics.median(waits[kind]):.2f} %   {statistics.median(used[kind]):6.1f} s {against(used)}", flush=True)


@contextlib.contextmanager
def server(a):
    """The s3:// server of the tests, as what leads a process to it. Whatever else runs on its core is not to be driven to
    the other one."""
    program = "import servers, sys, os; print(servers.start_s3(), flush=True); sys.stdin.read(); os._exit(0)"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=REPO / "tests/stores", stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=os.environ | dict(PYTHONPATH=f"{a.stores}:."), preexec_fn=held_to(-1, nice=19))
    try:
        port = process.stdout.readline().strip()
        if not port:
            sys.exit("training_run: the server of tests/stores did not start; `./dev setup` fetches it")
        yield dict(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    finally:
        process.stdin.close()
        process.wait()


def store(a, folder):
    every = a.steps * 3 // 10
    shown = dict(metrics_file=f"{folder}/rows.jsonl", log_period=20)
    here = dict(output_dir=f"{folder}/out") | shown
    there = dict(output_dir="s3://kinema-test/out", gcs_metrics="true", metrics_dir="s3://kinema-test/metrics") | shown
    kinds = {"nothing": here, "here": here | dict(checkpoint_every=every), "to s3://": there | dict(checkpoint_every=every)}
    means, medians, used, served = ({kind: [] for kind in kinds} for _ in range(4))
    for number in range(a.rounds + 1):  # the first compiles
        for kind, keys in kinds.items():
            Path(keys["metrics_file"]).unlink(missing_ok=True)
            begin = processor_seconds()
            with server(a) as environment:
                kinema(a, "train", SETTINGS | keys | dict(run_name=f"{number}{kind[:2]}", max_train_steps=a.steps),
                       held_to(0), KINEMA_CACHE=f"{folder}/cache", **environment)
                end = processor_seconds()
            if number > 0:
                rows = [json.loads(line) for line in Path(keys["metrics_file"]).read_text().splitlines()]
                steps = [row["perf/step_time_seconds"] for row in rows[10:]]
                means[kind].append(statistics.mean(steps))
                medians[kind].append(statistics.median(steps))
                used[kind].append(end - begin)
                served[kind].append(processor_seconds() - end)
    print(f"Seconds of a step, checkpoints every {every} of {a.steps}: mean and median step, processor time of the run and of the "
          f"server; medians of {a.rounds} processes")
    for kind in kinds:
        mean, median, run, other = (statistics.median(each[kind]) for each in (means, medians, used, served))
        ratios = [here / nothing - 1 for here, nothing in zip(means[kind], means["nothing"])]
        print(f"  {kind:8} {mean:.4f} {median:.4f}   {run:6.1f} s {other:6.1f} s   mean step {100 * statistics.median(ratios):+5.1f} % "
              f"({', '.join(f'{100 * ratio:+.1f}' for ratio in ratios)})", flush=True)


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def by_mpirun(a, keys):
    return [["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", *words_of(a, "train", keys)]]


def by_address(a, keys):
    told = dict(num_processes=2, coordinator_address=f"127.0.0.1:{free_port()}")
    return [words_of(a, "train", keys | told | dict(process_id=rank)) for rank in range(2)]


def processes(a, folder):
    kinds = {"one process, two devices": (2, lambda a, keys: [words_of(a, "train", keys)]),
             "two processes, mpirun": (1, by_mpirun), "two processes, coordinator_address": (1, by_address)}
    steps = {kind: [] for kind in kinds}
    for number in range(a.rounds + 1):  # the first compiles
        for kind, (devices, commands) in kinds.items():
            run = Path(folder) / "run"
            subprocess.run(["rm", "-rf", run], check=True)
            keys = SETTINGS | dict(output_dir=folder, run_name="run", max_train_steps=a.steps, ici_data_parallelism=2,
                                   cpu_device_count=devices)
            started = [subprocess.Popen(words, cwd=REPO, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                       for words in commands(a, keys)]
            for process in started:
                output, _ = process.communicate()
                if process.returncode != 0:
                    sys.exit(f"training_run: {kind}: {output[-2000:]}")
            if number > 0:
                rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
                steps[kind].append(statistics.median(row["perf/step_time_seconds"] for row in rows[10:]))
    print(f"Milliseconds of a step, median of {a.steps} of each of {a.rounds} runs, least and median; against one process")
    for kind, each in steps.items():
        ratios = [here / one for here, one in zip(each, steps["one process, two devices"])]
        print(f"  {kind:34} {1e3 * min(each):7.1f} {1e3 * statistics.median(each):7.1f}   {statistics.median(ratios):.2f}x",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=["checkpoint", "data", "store", "processes"])
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--stores", help="packages of tests/stores")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind")
    parser.add_argument("--steps", type=int, default=200, help="steps of each process")
    a = parser.parse_args()
    a.kinema = Path(a.kinema).resolve()
    with tempfile.TemporaryDirectory() as folder:
        for section in a.sections:
            {"checkpoint": checkpoint, "data": data, "store": store, "processes": processes}[section](a, folder)


main()
