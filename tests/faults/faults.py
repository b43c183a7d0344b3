"""Breaks training runs on purpose, resumes them, and compares them with a run that nothing happened to.

kill   kill -9 at random moments, half of them while a checkpoint is written
disk   a disk that is full after a random number of bytes
stop   SIGTERM at random moments
remote gs:// and s3:// whose requests fail at random, some of the runs killed too

Each prints a line per hundred faults or so and a summary; exits 1 when a run loses or accepts what it must not.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SETTINGS = dict(num_layers=2, num_attention_heads=2, attention_head_dim=32, ffn_dim=256, checkpoint_every=4,
                checkpoints_to_keep=0, ema_decay=0.9, warmup_steps_fraction=0, learning_rate=1e-3)
MANIFEST = "manifest.json"


class Fault(Exception):
    """What a run did that it must not."""


def require(condition, message):
    if not condition:
        raise Fault(message)


class Run:
    """A training run of a small model on examples/shapes in a folder of its own."""

    def __init__(self, args, folder, steps):
        self.args, self.folder, self.steps = args, Path(folder), steps
        self.checkpoints = self.folder / "run" / "checkpoints"

    def start(self, environment=None, **more):
        keys = SETTINGS | dict(max_train_steps=self.steps, output_dir=self.folder, run_name="run") | more
        words = [f"{key}={value}" for key, value in keys.items()]
        return subprocess.Popen([self.args.kinema, "train", "configs/shapes.yml", *words], cwd=REPO,
                                env=os.environ | (environment or {}), text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self, process=None, **more):
        """Runs to the end; any complaint is a fault. What the plugin logs is none."""
        process = process or self.start(**more)
        _, errors = process.communicate()
        require(process.returncode == 0, f"a run ended with {process.returncode}: {errors[-500:]}")
        return [line for line in errors.splitlines() if "warning:" in line]

    def published(self):
        """Steps of the checkpoints that stand under their names."""
        if not self.checkpoints.is_dir():
            return set()
        return {int(entry.name) for entry in self.checkpoints.iterdir() if entry.name.isdigit()}

    def is_writing(self):
        return self.checkpoints.is_dir() and any(e.name.endswith(".writing") for e in self.checkpoints.iterdir())

    def check_published(self):
        for step in self.published():
            folder = self.checkpoints / str(step)
            files = json.loads((folder / MANIFEST).read_text())["files"]
            for file in files:
                require((folder / file["path"]).stat().st_size == file["bytes"], f"{folder} is half written")

    def results(self):
        """What each step gave. A step that was made twice must have given the same."""
        out = {}
        for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            result = {key: value for key, value in record.items() if key.startswith("learning/")}
            require(out.setdefault(record["step"], result) == result, f"step {record['step']} gave two results")
        return out

    def final_bytes(self):
        folder = self.checkpoints / str(self.steps)
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def compare(run, unbroken):
    require(run.results() == unbroken.results(), "losses differ from the unbroken run's")
    require(run.final_bytes() == unbroken.final_bytes(), "the last checkpoint differs from the unbroken run's")
    warnings = [line for line in run.finish() if "skipped" in line]
    require(not warnings, f"a published checkpoint was damaged: {warnings}")


def unbroken_run(args, folder, steps):
    run = Run(args, folder / "unbroken", steps)
    run.finish()  # fills the cache of programs too
    shutil.rmtree(run.folder)
    begin = time.monotonic()
    run.finish()
    return run, time.monotonic() - begin


def kill_when(run, process, rng, while_writing, seconds):
    """Waits for the moment and kills. Returns true where a checkpoint was being written."""
    if while_writing:
        # One of the next few, at any point of it.
        skipped = rng.randrange(4)
        was = False
        while process.poll() is None:
            now = run.is_writing()
            skipped -= now and not was
            was = now
            if skipped < 0:
                time.sleep(rng.uniform(0, 0.02))
                break
    else:
        deadline = time.monotonic() + rng.uniform(0, seconds)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return run.is_writing()


def kill(args, folder, rng):
    unbroken, seconds = unbroken_run(args, folder, steps=60)
    kills = written = runs = lost = 0
    while kills < args.times:
        run = Run(args, folder / f"run{runs}", unbroken.steps)
        runs += 1
        before = set()
        while kills < args.times and unbroken.steps not in before:
            process = run.start()
            written += kill_when(run, process, rng, kills % 2 == 0, seconds)
            kills += 1
            now = run.published()
            lost += len(before - now)
            run.check_published()
            before = now
            if kills % 50 == 0:
                print(f"kill: {kills} kills, {written} while a checkpoint was written, {runs} runs", flush=True)
        run.finish()
        compare(run, unbroken)
        shutil.rmtree(run.folder)
    require(lost == 0, f"{lost} checkpoints were lost")
    print(f"kill: {kills} kills in {runs} runs, {written} of them while a checkpoint was written: 0 checkpoints lost, "
          "0 half-written ones accepted, losses and last checkpoints as the unbroken run's, bit for bit")


def disk(args, folder, rng):
    unbroken, _ = unbroken_run(args, folder, steps=24)
    whole = sum(path.stat().st_size for path in unbroken.folder.rglob("*") if path.is_file())
    messages = {}
    went_on = 0
    for i in range(args.times):
        run = Run(args, folder / f"run{i}", unbroken.steps)
        run.folder.mkdir()
        room = rng.randrange(whole)
        process = run.start({"LD_PRELOAD": args.full_disk, "KINEMA_FAULT_FOLDER": str(run.folder),
                             "KINEMA_FAULT_BYTES": str(room)})
        _, errors = process.communicate()
        lines = [line for line in errors.splitlines() if line.startswith("kinema:")]
        require(process.returncode in (0, 1), f"{room} bytes: ended with {process.returncode}: {errors[-500:]}")
        if process.returncode == 1:
            require(len(lines) == 1 and "No space left" in errors, f"{room} bytes: {errors[-500:]}")
            place = lines[0].split("]")[0] + "]"
            messages[place] = messages.get(place, 0) + 1
        else:
            went_on += 1
        run.check_published()
        before = run.published()
        run.finish()  # there is room again
        require(before <= run.published(), "a checkpoint was lost")
        if process.returncode == 1:
            compare(run, unbroken)
        shutil.rmtree(run.folder)
    kinds = ", ".join(f"{count} x {place}" for place, count in sorted(messages.items()))
    print(f"disk: full at {args.times} random places of {whole / 1e6:.1f} MB: {went_on} runs went on, the others ended with "
          f"an error line ({kinds}); all went on later to the unbroken run's bits")


def stop(args, folder, rng):
    unbroken, seconds = unbroken_run(args, folder, steps=60)
    step = max(record["perf/step_time_seconds"] for record in map(json.loads, (unbroken.folder / "run" / "metrics.jsonl").open()))
    slowest = 0.0
    stopped = 0
    run, runs = None, 0
    while stopped < args.times:
        if run is None or unbroken.steps in run.published():
            run, runs = Run(args, folder / f"run{runs}", unbroken.steps), runs + 1
        process = run.start()
        metrics = run.folder / "run" / "metrics.jsonl"
        before = metrics.stat().st_size if metrics.exists() else 0
        while process.poll() is None and not (metrics.exists() and metrics.stat().st_size > before):
            time.sleep(0.001)  # to the first step
        time.sleep(rng.uniform(0, seconds / 3))
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        slowest = max(slowest, time.monotonic() - begin)
        require(process.returncode == 0, f"SIGTERM: ended with {process.returncode}: {errors[-500:]}")
        last = max(run.results()) + 1
        require(last in run.published(), f"SIGTERM: {last} steps were made, checkpoints are {sorted(run.published())}")
        stopped += 1
        if unbroken.steps in run.published():
            compare(run, unbroken)
    print(f"stop: {stopped} SIGTERMs in {runs} runs: exit code 0, a checkpoint of the last step each time, at most "
          f"{slowest:.2f} s later; the longest step of the unbroken run took {step:.2f} s")


class Machine:
    """A cache folder of its own, and the environment that leads to it and to the stores."""

    def __init__(self, folder, ports):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        cache = Path(os.environ["KINEMA_CACHE"])
        for plugin in cache.glob("xla-cpu-pjrt-*"):
            (self.folder / plugin.name).symlink_to(plugin)
        self.environment = {"KINEMA_CACHE": str(self.folder), "AWS_ACCESS_KEY_ID": "test",
                            "AWS_SECRET_ACCESS_KEY": "test", "KINEMA_STORE_RETRIES": "2",
                            "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{ports['gs']}",
                            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3']}"}


class StoredRun(Run):
    """The same in a store."""

    def __init__(self, args, folder, steps, scheme, machine, programs):
        super().__init__(args, folder, steps)
        self.uri = f"{scheme}://kinema-test/{self.folder.name}"
        self.machine, self.programs = machine, programs

    def start(self):
        return super().start(self.machine.environment, output_dir=self.uri, executable_cache=self.programs, log_period=5)

    def fetched(self, machine):
        """The run folder as another machine gets it, its last checkpoint checked."""
        checkpoint = f"{self.uri}/run/checkpoints/{self.steps}"
        for words in (["--check", checkpoint], [f"{self.uri}/run/metrics.jsonl"]):
            done = subprocess.run([self.args.kinema, "inspect", *words], env=os.environ | machine.environment,
                                  text=True, capture_output=True)
            require(done.returncode == 0 or words[0] != "--check", f"{checkpoint}: {done.stderr[-500:]}")
        copy = Run(self.args, machine.folder / "stores" / "read" / self.uri.replace("://", "/"), self.steps)
        return copy


def remote(args, folder, rng):
    sys.path[:0] = [str(REPO / "tests" / "stores"), args.stores]
    import servers
    started = servers.start(args.seed)
    ports = {scheme: port for scheme, (port, _) in started.items()}
    unbroken, seconds = unbroken_run(args, folder, steps=24)
    ends = {"went on": 0, "an error": 0, "killed": 0}
    slowest = 0.0
    for i in range(args.times):
        scheme = ("gs", "s3")[i % 2]
        faults = started[scheme][1]
        run = StoredRun(args, folder / f"run{i}", unbroken.steps, scheme, Machine(folder / f"a{i}", ports), folder / "programs")
        faults.rate = rng.choice([0.03, 0.1, 0.3])
        faults.kinds = tuple(rng.sample(("503", "close", "lost", "cut", "stall"), rng.randrange(1, 6)))
        faults.stall_s = 1.0
        begin = time.monotonic()
        process = run.start()
        fate = rng.randrange(3)  # it is left alone, killed, or the store goes away altogether
        if fate > 0:
            time.sleep(rng.uniform(0.5, 4 * seconds))
            if fate == 1:
                process.send_signal(signal.SIGKILL)
            else:
                faults.kinds, faults.rate = ("503", "close"), 1.0
        try:
            _, errors = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Fault(f"{run.uri} ({faults.kinds}) hangs") from None
        slowest = max(slowest, time.monotonic() - begin)
        if args.verbose:
            print(f"{run.uri}: {process.returncode} after {time.monotonic() - begin:.1f} s, {faults.kinds} fate {fate}\n{errors}", flush=True)
        lines = [line for line in errors.splitlines() if line.startswith("kinema:")]
        if process.returncode == 1:
            require("[remote]" in lines[-1] or "[checkpoint]" in lines[-1], f"ended with {errors[-500:]}")
        else:
            require(process.returncode in (0, -signal.SIGKILL), f"ended with {process.returncode}: {errors[-500:]}")
        ends[{0: "went on", 1: "an error"}.get(process.returncode, "killed")] += 1
        faults.rate = 0.0
        if rng.random() < 0.5:  # the machine is lost too
            run.machine = Machine(folder / f"b{i}", ports)
        warnings = [line for line in run.finish() if "skipped" in line]
        require(not warnings, f"a published checkpoint was damaged: {warnings}")
        copy = run.fetched(Machine(folder / f"c{i}", ports))
        require(copy.final_bytes() == unbroken.final_bytes(), "the last checkpoint differs from the unbroken run's")
        losses, wanted = copy.results(), unbroken.results()
        require(all(losses[step] == wanted[step] for step in losses) and max(losses) == unbroken.steps - 1,
                "losses differ from the unbroken run's")
        for name in (f"{letter}{i}" for letter in "abc"):
            shutil.rmtree(folder / name, ignore_errors=True)
        if (i + 1) % 10 == 0:
            print(f"remote: {i + 1} runs, {ends}", flush=True)
    spoiled = {kind: sum(faults.counts[kind] for _, faults in started.values()) for kind in servers.proxy.KINDS}
    passed = sum(faults.passed for _, faults in started.values())
    print(f"remote: {args.times} runs, {ends['went on']} went on, {ends['an error']} ended with an error line, {ends['killed']} "
          f"were killed; {spoiled} of {passed} requests; at most {slowest:.0f} s each. All went on later, half of them on "
          "another machine, to the unbroken run's losses and last checkpoint, bit for bit")


SECTIONS = {"remote": (remote, 20), "kill": (kill, 200), "disk": (disk, 50), "stop": (stop, 50)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--kinema", required=True, type=os.path.abspath)
    parser.add_argument("--full-disk", type=os.path.abspath, help="the library made of full_disk.c")
    parser.add_argument("--times", type=int, help="faults (200 kills, 50 full disks, 50 stops), or runs (20 remote)")
    parser.add_argument("--stores", help="folder of the packages of tests/stores/requirements.txt")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    section, times = SECTIONS[args.section]
    args.times = args.times or times
    with tempfile.TemporaryDirectory(prefix="kinema-faults-") as folder:
        try:
            section(args, Path(folder), random.Random(args.seed))
        except Fault as fault:
            sys.exit(f"{args.section}: {fault}")


main()
