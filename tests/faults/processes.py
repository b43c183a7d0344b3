"""Runs of several processes against the same runs by one: bit for bit, with every mesh axis across processes, and after
what goes wrong with one of them.

like_one  data parallelism against one device, within rounding
equal     losses and checkpoints of 1 x 4, 2 x 2 and 4 x 1 processes x devices, for axes, attentions and ways to train
restore   a checkpoint of 4 processes read by 1, 2, 3 and 4, over other meshes
deaths    kill -9, kill -STOP, SIGTERM and a pause of one process at random moments; named in time, and resumed bit for bit
stores    runs of two and four hosts with disks of their own, whose checkpoints are in gs:// and s3://
address   processes that no launcher started (coordinator_address): equal, killed, started wrongly
refusals  a full disk, a folder that cannot be read, another configuration, data or program in one process, a wrong rank
quick     a few of each, for every test run

Each prints a line a case and a summary; exits 1 when one fails.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
WORDS = dict(executable_cache="off", global_batch_size=12, max_train_steps=4, checkpoint_every=2, checkpoints_to_keep=0,
             num_attention_heads=4, warmup_steps_fraction=0, heartbeat_timeout_seconds=8)
TIMEOUT = 600  # seconds a run
# Most of a run's time is the compiler's.
LIGHTLY_COMPILED = {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 "
                                 "--xla_cpu_use_fusion_emitters=false"}
SLACK = 6  # seconds that a busy machine may take to say it


class Fault(Exception):
    """What a run did that it must not."""


def require(condition, message):
    if not condition:
        raise Fault(message)


def report(name, parts):
    """Prints the lines of each part; the exit code."""
    failed = 0
    for part, work in parts.items():
        try:
            for line in work():
                print(line, flush=True)
        except Fault as fault:
            failed += 1
            print(f"FAILED {part}: {fault}", flush=True)
    print(f"{name}: " + ("all as they must be" if not failed else f"{failed} parts failed"))
    return 1 if failed else 0


def mesh(**sizes):
    return {"ici_data_parallelism": 1} | {f"ici_{axis}_parallelism": size for axis, size in sizes.items()}


def tensors(folder):
    """Bytes of every tensor of a checkpoint by part and name, whatever files it lies in."""
    out = {}
    for path in sorted(Path(folder).rglob("*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        part = str(path.parent.relative_to(folder)) + "/" + re.sub(r"-\d+-of-\d+$", "", path.stem)
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                out[part, name] = (entry["dtype"], tuple(entry["shape"]), data[8 + length + begin:8 + length + end])
    return out


def state(folder):
    """train_state.json without what may differ with the number of processes."""
    read = json.loads((Path(folder) / "train_state.json").read_text())
    for key in ("cpu_device_count", "run_name", "max_train_steps"):
        read["settings"].pop(key, None)
    return {key: value for key, value in read.items() if key != "settings"} | {"settings": read["settings"]}


def free_port():
    """One that was free a moment ago."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


class Runs:
    """A folder with runs of configs/tiny.yml."""

    def __init__(self, args, folder):
        self.args, self.folder = args, Path(folder)

    def command(self, name, processes, devices, words, each=None):
        """`each`: of a process, (environment, words, program) in addition to those of all."""
        keys = WORDS | dict(output_dir=self.folder, run_name=name, cpu_device_count=devices) | words
        config = keys.pop("config", "configs/tiny.yml")
        if processes == 1 and not each:
            return [self.args.kinema, "train", config] + [f"{k}={v}" for k, v in keys.items()]
        out = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "orte_abort_on_non_zero_status", "1"]
        for rank in range(processes):
            environment, more, program = (each or {}).get(rank, ({}, {}, None))
            out += [":"] * (rank > 0) + ["-np", "1"]
            if environment:  # mpirun's -x does not reach what mpirun itself sets
                out += ["env"] + [f"{key}={value}" for key, value in environment.items()]
            out += [program or self.args.kinema, "train", config]
            out += [f"{k}={v}" for k, v in (keys | more).items()]
        return out

    def start(self, *args, **more):
        environment = os.environ | LIGHTLY_COMPILED
        return subprocess.Popen(self.command(*args, **more), cwd=REPO, env=environment, text=True, errors="replace",
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def start_by_address(self, name, processes, devices, words, each=None, on_host=None, port=None):
        """Processes without a launcher, by rank. `each`: words of a process in addition to those of all; `on_host`: of a process,
        what its command begins with, and its environment."""
        port = port or free_port()
        environment = os.environ | LIGHTLY_COMPILED
        out = []
        for rank in range(processes):
            told = dict(num_processes=processes, process_id=rank, coordinator_address=f"127.0.0.1:{port}")
            keys = WORDS | dict(output_dir=self.folder, run_name=name, cpu_device_count=devices) | words | told
            keys |= (each or {}).get(rank, {})
            begins, more = on_host(rank) if on_host else ([], {})
            command = begins + [self.args.kinema, "train", "configs/tiny.yml"] + [f"{k}={v}" for k, v in keys.items()]
            out.append(subprocess.Popen(command, cwd=REPO, env=environment | more, text=True, errors="replace",
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True))
        return out

    def end(self, process):
        try:
            output, _ = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Fault("a run did not end")
        return process.returncode, output

    def run(self, name, processes, devices, words):
        code, output = self.end(self.start(name, processes, devices, words))
        require(code == 0, f"{name} ended with {code}: {output[-1500:]}")
        return output

    def checkpoint(self, name, step=4):
        return self.folder / name / "checkpoints" / str(step)

    def losses(self, name):
        out = {}
        for line in (self.folder / name / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            result = {key: value for key, value in record.items() if key.startswith("learning/") or "loss" in key}
            if result:
                key = (record.get("step"), tuple(sorted(result)))
                require(out.setdefault(key, result) == result, f"{name}: a step gave something else the second time")
        return out

    def same(self, one, other, step=4):
        a, b = tensors(self.checkpoint(one, step)), tensors(self.checkpoint(other, step))
        require(a.keys() == b.keys() and len(a) > 0, f"{one} and {other} hold other tensors")
        different = [key for key in a if a[key] != b[key]]
        require(not different, f"{one} and {other} differ in {len(different)} tensors: {different[:3]}")
        require(state(self.checkpoint(one, step)) == state(self.checkpoint(other, step)),
                f"{one} and {other} have other states")
        require(self.losses(one) == self.losses(other), f"{one} and {other} have other losses")


def cases():
    """Name -> keys; each mesh has four devices, in a row: with 2 x 2 the first axis crosses, with 4 x 1 all do."""
    out = {
        "data": mesh(data=4),
        "fsdp": mesh(fsdp=4),
        "tensor": mesh(tensor=4),
        "data-fsdp": mesh(data=2, fsdp=2),
        "data-tensor": mesh(data=2, tensor=2),
        "fsdp-context": mesh(fsdp=2, context=2),
        "accumulation-average": mesh(data=2, fsdp=2) | dict(gradient_accumulation_steps=2, ema_decay=0.9),
        "both-experts": mesh(data=2, fsdp=2) | dict(train_expert="both"),
        "both-experts-host": mesh(data=2, fsdp=2) | dict(train_expert="both", idle_expert="host", ema_decay=0.9),
        "adamw8bit": mesh(data=2, fsdp=2) | dict(optimizer="adamw8bit"),
        "adafactor": mesh(fsdp=4) | dict(optimizer="adafactor"),
        "bfloat16": mesh(data=2, fsdp=2) | dict(weights_dtype="bfloat16", activations_dtype="bfloat16",
                                               train_state_dtype="weights_dtype"),
        "evaluation": mesh(data=2, fsdp=2) | dict(eval_every=2, eval_data_dir="examples/shapes", dataset_type="videos",
                                                 train_data_dir="examples/shapes", check_replicas_every=1),
        "buckets": mesh(data=2, fsdp=2) | dict(dataset_type="videos", train_data_dir="examples/shapes", buckets="[[5,16,16],[1,16,16]]"),
        "lora": mesh(data=2, fsdp=2) | dict(enable_lora="true", pretrained_model_name_or_path="BASE", lora_rank=4),
        "lora-host": mesh(fsdp=4) | dict(enable_lora="true", pretrained_model_name_or_path="BASE", lora_rank=4, weights_memory="host"),
        "lora-int8": mesh(data=2, tensor=2) | dict(enable_lora="true", pretrained_model_name_or_path="BASE", lora_rank=4,
                                                  weights_storage="int8"),
        "no-scan": mesh(data=2, tensor=2) | dict(scan_layers="false"),
    }
    for attention in ("dot_product", "flash", "ring", "ulysses", "ulysses_ring", "tokamax_ring"):
        out[f"context-{attention}"] = mesh(context=4) | dict(attention=attention)
    return out


def equal(runs, names, shapes=((1, 4), (2, 2), (4, 1))):
    for name in names:
        began = time.monotonic()
        words = cases()[name]
        if "BASE" in words.values():
            base = runs.folder / "base"
            if not base.exists():
                runs.run("base", 1, 1, mesh(data=1) | dict(global_batch_size=4))
            words = {key: base if value == "BASE" else value for key, value in words.items()}
        for processes, devices in shapes:
            runs.run(f"{name}-{processes}", processes, devices, words)
        for processes, _ in shapes[1:]:
            runs.same(f"{name}-1", f"{name}-{processes}")
        yield f"{name}: {', '.join(f'{p} x {d}' for p, d in shapes)} are equal ({time.monotonic() - began:.0f} s)"


def like_one(runs, shapes=((1, 2), (2, 1))):
    """Data parallelism at sizes whose products the compiler gives to its libraries, against one device alone."""
    words = dict(config="configs/shapes.yml", num_attention_heads=3, global_batch_size=8)
    runs.run("alone", 1, 1, words | mesh(data=1))
    alone = runs.losses("alone")
    for processes, devices in shapes:
        name = f"halves-{processes}"
        runs.run(name, processes, devices, words | mesh(data=2))
        runs.same("halves-1", name)
        halves = runs.losses(name)
        require(halves.keys() == alone.keys() and len(alone) > 0, f"{name} has rows of other steps")
        worst = max(abs(halves[row][key] / alone[row][key] - 1) for row in alone for key in ("learning/loss", "learning/grad_norm"))
        # Sums in f32 of 600 tokens in another order, through four steps.
        require(worst < 1e-4, f"{name}: a loss or a gradient's norm is {worst:.1e} off one device's")
        yield f"{processes} x {devices} against one device: losses and norms of gradients within {worst:.0e}"


def restore(runs, counts, replicas=("replicas", "two-replicas")):
    runs.run("saved", 4, 1, mesh(data=2, fsdp=2))
    meshes = {1: (1, {}), 2: (2, mesh(fsdp=4)), 3: (1, mesh(data=3)), 4: (1, mesh(context=4))}
    for count in counts:
        devices, words = meshes[count]
        name = f"restored-{count}"
        shutil.copytree(runs.folder / "saved", runs.folder / name)
        # No step is made: what is written again is what was read.
        words = words | dict(max_train_steps=5, learning_rate=0)
        output = runs.run(name, count, devices, words)
        require("checkpoint read" in output, f"{name} read no checkpoint")
        before, after = tensors(runs.checkpoint("saved")), tensors(runs.checkpoint(name, 5))
        weights = [key for key in before if key[0].startswith("transformer")]
        require(all(before[key] == after[key] for key in weights), f"{name} has other parameters")
        yield f"a checkpoint of 4 processes read by {count}: {len(weights)} tensors equal"
    size = sum(len(tensor[2]) for tensor in tensors(runs.checkpoint("saved")).values())
    for name in replicas:
        words = mesh(data=4) if name == "replicas" else mesh(data=2, fsdp=2)
        shutil.copytree(runs.folder / "saved", runs.folder / name)
        words = words | dict(max_train_steps=5, learning_rate=0, enable_single_replica_ckpt_restoring="true")
        output = runs.run(name, 4, 1, words)
        line = re.search(r"checkpoint read by one replica: ([\d.]+) MB in all.*", output)
        require(line, f"{name}: nothing is said of what was read: {output[-800:]}")
        require(abs(float(line[1]) - size / 1e6) < 0.06, f"{name}: {line[0]}, but the state has {size} bytes")
        before, after = tensors(runs.checkpoint("saved")), tensors(runs.checkpoint(name, 5))
        require(all(before[key] == after[key] for key in before if key[0].startswith("transformer")),
                f"{name} has other parameters")
        yield f"{line[0]}; the state has {size / 1e6:.1f} MB"


def pids_of(process):
    """Of the training processes below a launcher, by rank."""
    out = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == process.pid and b"train" in (entry / "cmdline").read_bytes().split(b"\0"):
                environment = (entry / "environ").read_bytes().split(b"\0")
                rank = next(e for e in environment if e.startswith(b"OMPI_COMM_WORLD_RANK="))
                out[int(rank.split(b"=")[1])] = int(entry.name)
        except (OSError, StopIteration, ValueError):
            continue
    return out


def deaths(runs, times, seed):
    chance = random.Random(seed)
    steps = 60
    words = mesh(data=2, fsdp=2) | dict(max_train_steps=steps, checkpoint_every=5, executable_cache=runs.folder / "cache")
    runs.run("whole", 2, 2, words)
    worst = 0.0
    done = 0
    while done < times:
        name = f"death-{done}"
        shutil.rmtree(runs.folder / name, ignore_errors=True)
        ended = False
        while not ended:  # until the run is whole
            process = runs.start(name, 2, 2, words)
            if done < times:
                kind = chance.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT))
                victim = chance.choice((0, 1))
                wait_for_steps(runs, name, process, chance)
                pids = pids_of(process)
                if process.poll() is None and victim in pids:
                    began = time.monotonic()
                    if kind == signal.SIGCONT:  # a slow process is not a dead one
                        os.kill(pids[victim], signal.SIGSTOP)
                        time.sleep(chance.random() * WORDS["heartbeat_timeout_seconds"] / 2)
                    os.kill(pids[victim], kind)
                    code, output = runs.end(process)
                    took = time.monotonic() - began
                    done += 1
                    if kind == signal.SIGCONT:
                        require(code == 0, f"a slow process ended the run with {code}: {output[-1000:]}")
                        ended = True
                        break
                    if kind == signal.SIGTERM:
                        require(code == 0 and ("stopped after" in output or "done after" in output),
                                f"SIGTERM ended with {code}: {output[-1000:]}")
                    else:
                        require(code != 0, f"{kind.name} ended with 0")
                        named = re.search(rf"(process|rank) {victim}\b", output)
                        require(named, f"{kind.name} of process {victim} was not named: {output[-1000:]}")
                        worst = max(worst, took)
                        require(took < WORDS["heartbeat_timeout_seconds"] + SLACK, f"{kind.name} took {took:.0f} s to end")
                    continue
            code, output = runs.end(process)
            require(code == 0, f"{name} ended with {code}: {output[-1000:]}")
            ended = True
        runs.same("whole", name, steps)
        shutil.rmtree(runs.folder / name)
        yield f"{done} deaths: resumed, equal; the slowest end took {worst:.1f} s"


def suspended(runs):
    """All processes stopped for longer than their heartbeat, as a job that its queue suspends, and let go on."""
    steps = 60
    words = mesh(data=2, fsdp=2) | dict(max_train_steps=steps, checkpoint_every=5, executable_cache=runs.folder / "cache")
    runs.run("awake", 2, 2, words)
    process = runs.start("asleep", 2, 2, words)
    wait_for_steps(runs, "asleep", process, random.Random(0))
    pids = pids_of(process)
    require(process.poll() is None and len(pids) == 2, "the run was over before it was suspended")
    for kind in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids.values():
            os.kill(pid, kind)
        if kind == signal.SIGSTOP:
            time.sleep(WORDS["heartbeat_timeout_seconds"] + 4)
    code, output = runs.end(process)
    require(code == 0, f"a job that was suspended ended with {code}: {output[-1000:]}")
    runs.same("awake", "asleep", steps)
    yield f"two processes that were suspended for {WORDS['heartbeat_timeout_seconds'] + 4} s went on, equal"


def wait_for_steps(runs, name, process, chance=None):
    """Until the run has made steps and, with `chance`, a random moment more, often while a checkpoint is written."""
    metrics = runs.folder / name / "metrics.jsonl"
    before = metrics.stat().st_size if metrics.exists() else 0
    while process.poll() is None and (not metrics.exists() or metrics.stat().st_size <= before):
        time.sleep(0.05)
    if chance is None:
        return
    if chance.random() < 0.5:
        folder = runs.folder / name / "checkpoints"
        until = time.monotonic() + 2
        while process.poll() is None and time.monotonic() < until:
            if folder.is_dir() and any(e.name.endswith(".writing") for e in folder.iterdir()):
                return
            time.sleep(0.0005)
    else:
        time.sleep(chance.random() * 1.0)


def address(runs, quick=False):
    steps = 20 if quick else 40
    words = mesh(data=2, fsdp=2) | dict(max_train_steps=steps, checkpoint_every=5, executable_cache=runs.folder / "cache")
    runs.run("launched", 1, 4, words)
    for code, output in map(runs.end, runs.start_by_address("met", 2, 2, words)):
        require(code == 0, f"a run by coordinator_address ended with {code}: {output[-1500:]}")
    runs.same("launched", "met", steps)
    yield "two processes that met at coordinator_address are equal to one"
    for victim in (1,) if quick else (0, 1):
        processes = runs.start_by_address("killed", 2, 2, words)
        wait_for_steps(runs, "killed", processes[0], random.Random(victim))
        processes[victim].kill()
        began = time.monotonic()
        code, output = runs.end(processes[1 - victim])
        took = time.monotonic() - began
        runs.end(processes[victim])
        require(code == 1, f"the other ended with {code}: {output[-1000:]}")
        said = [line for line in output.splitlines() if re.search(rf"process {victim} on .* sent no heartbeat for", line)]
        require(len(said) == 1, f"process {victim} was named {len(said)} times: {output[-1000:]}")
        require(took < WORDS["heartbeat_timeout_seconds"] + SLACK, f"the other took {took:.0f} s to end")
        for code, output in map(runs.end, runs.start_by_address("killed", 2, 2, words)):
            require(code == 0, f"the next start ended with {code}: {output[-1000:]}")
        runs.same("launched", "killed", steps)
        shutil.rmtree(runs.folder / "killed")
        yield f"process {victim} killed: {said[0].removeprefix('kinema: ')[:100]}; resumed, equal"
    wrong = {"a number twice": {1: {"process_id": 0}}, "another count": {1: {"num_processes": 3}},
             "another configuration": {1: {"learning_rate": 0.5}}}
    messages = {"a number twice": "cannot listen on|two processes have the number", "another count": "was started with 3, process 0 with 2",
                "another configuration": r"learning_rate is 0\.5 on process 1"}
    for name, each in wrong.items():
        ended = []
        processes = runs.start_by_address("wrong", 2, 2, words, each=each)
        if name == "a number twice":  # one of them has the port, and waits for the other
            while all(process.poll() is None for process in processes):
                time.sleep(0.05)
            for process in processes:
                process.terminate()
        ended = [runs.end(process) for process in processes]
        require(all(code != 0 for code, _ in ended), f"{name}: ended with 0")
        said = [line for _, output in ended for line in output.splitlines() if re.search(messages[name], line)]
        require(said, f"{name}: {[output[-500:] for _, output in ended]}")
        yield f"{name} is refused: {said[0].removeprefix('kinema: ')[:110]}"


def stores(runs, schemes=("gs", "s3")):
    """Hosts are names of their own (unshare --uts) with cache folders of their own."""
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
        yield "stores: not run, as unshare --uts is not allowed"
        return
    servers = subprocess.Popen([sys.executable, REPO / "tests/stores/servers.py", "--seed", str(runs.args.seed)], text=True,
                               env=os.environ | {"PYTHONPATH": runs.args.stores}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        words = servers.stdout.readline().split()
        require(len(words) == 4, "the servers of tests/stores did not start; `./dev setup` fetches them")
        yield from with_stores(runs, schemes, dict(zip(words[::2], words[1::2])))
    finally:  # they end with their input
        servers.stdin.close()
        servers.wait()


def with_stores(runs, schemes, ports):
    environment = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "KINEMA_STORE_RETRIES": "2",
                   "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{ports['gs']}", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3']}",
                   "KINEMA_PJRT_CPU": runs.args.plugin}

    def host(kind):
        def begins(rank):
            own = runs.folder / f"host-{kind}-{rank}"
            return (["unshare", "--uts", "sh", "-c", f'hostname host{rank}; exec "$@"', "sh"],
                    environment | {"KINEMA_CACHE": str(own), "HOME": str(own)})
        return begins

    words = mesh(data=2, fsdp=2) | dict(max_train_steps=8, executable_cache=runs.folder / "cache")
    runs.run("here", 1, 4, words)
    for scheme in schemes:
        words["output_dir"] = f"{scheme}://kinema-test/many"
        for processes, steps in ((2, 4), (4, 8)):
            output = ""
            for code, said in map(runs.end, runs.start_by_address("run", processes, 4 // processes, words | dict(max_train_steps=steps),
                                                                  on_host=host(f"{scheme}-{processes}"))):
                require(code == 0, f"{scheme}, {processes} hosts ended with {code}: {said[-1500:]}")
                output += said
            require(f"saved: {scheme}://kinema-test/many/run/checkpoints/{steps}" in output, output[-800:])
        # Another machine, alone: it has nothing to do but to bring what is there.
        begins, more = host(f"{scheme}-alone")(0)
        command = begins + runs.command("run", 1, 4, words)
        done = subprocess.run(command, cwd=REPO, env=os.environ | more, text=True, capture_output=True, timeout=TIMEOUT)
        require(done.returncode == 0, f"{scheme}: {done.stderr[-800:]}")
        brought = runs.folder / f"host-{scheme}-alone-0/stores/written/{scheme}/kinema-test/many/run/checkpoints/8"
        a, b = tensors(brought), tensors(runs.checkpoint("here", 8))
        require(a == b and len(a) > 0, f"{scheme}: the checkpoint of 2, then 4 hosts is another than one process's")
        left = [str(path) for path in runs.folder.glob(f"host-{scheme}-4-*/stores/written/**/*.writing/*")]
        require(not left, f"{scheme}: parts were left on hosts: {left}")
        yield f"{scheme}://: 4 steps by two hosts, 4 more by four, brought to one: {len(a)} tensors equal to one process's"
        # Of four hosts that hold the same, one reads.
        size = sum(len(tensor[2]) for tensor in a.values())
        replicas = mesh(data=4) | dict(max_train_steps=9, learning_rate=0, output_dir=words["output_dir"],
                                       enable_single_replica_ckpt_restoring="true", save_final_checkpoint="false")
        output = ""
        for code, said in map(runs.end, runs.start_by_address("run", 4, 1, replicas, on_host=host(f"{scheme}-replicas"))):
            require(code == 0, f"{scheme}, 4 replicas ended with {code}: {said[-1500:]}")
            output += said
        line = re.search(r"([\d.]+) MB were downloaded from .* \(process 0 ([\d.]+) MB\)", output)
        require(line, f"{scheme}: nothing, or something else, is said of what came: {output[-1500:]}")
        require(abs(float(line[1]) - size / 1e6) < 0.06, f"{scheme}: {line[0]}, but the state has {size} bytes")
        kept = [str(path) for path in runs.folder.glob(f"host-{scheme}-replicas-*/stores/written/**/*.safetensors")]
        require(not kept, f"{scheme}: what was read is still there: {kept}")
        yield f"{scheme}://: {line[0]}; the state has {size / 1e6:.1f} MB"


def refusals(runs, names):
    words = mesh(data=2, fsdp=2)
    other = runs.folder / "other-program"
    if "program" in names:
        shutil.copy(runs.args.kinema, other)
        shutil.copy(Path(runs.args.kinema).parent / "kinema_mpi.so", other.parent)
        with open(other, "ab") as file:
            file.write(b"\0")  # as another build would be
    all_of_them = {
        "configuration": ({1: ({}, {"learning_rate": 0.5}, None)}, r"learning_rate is 0\.5 on process 1"),
        "data": ({1: ({}, {"seed": 5}, None)}, r"seed is 5 on process 1"),
        "program": ({1: ({}, {}, str(other))}, r"the program is .* on process 1"),
        "rank": ({1: ({"OMPI_COMM_WORLD_RANK": 0}, {}, None)}, r"says that this is process 0, .* that it is 1"),
        "size": ({1: ({"OMPI_COMM_WORLD_SIZE": 3}, {}, None)}, r"there are 3 processes, .* that there are 2"),
        "key": ({0: ({}, {"learning_rat": 1}, None), 1: ({}, {"learning_rat": 1}, None)}, r"no key `learning_rat`"),
        "disk": ({1: ({"LD_PRELOAD": runs.args.full_disk, "KINEMA_FAULT_FOLDER": runs.folder, "KINEMA_FAULT_BYTES": 100000},
                        {}, None)},
                 r"process 1 could not write its part of checkpoint"),
    }
    for name in names:
        each, message = all_of_them[name]
        if name == "disk" and not runs.args.full_disk:
            continue
        run = f"refused-{name}"
        code, output = runs.end(runs.start(run, 2, 2, words, each=each))
        said = [line for line in output.splitlines() if line.startswith("kinema: ") and re.search(message, line)]
        said = said or [line for line in output.splitlines() if re.search(message, line)]
        require(code != 0, f"{name}: ended with 0")
        require(len(said) == 1, f"{name}: said {len(said)} times: {output[-1500:]}")
        for step in (2, 4):
            manifest = runs.checkpoint(run, step) / "manifest.json"
            require(not runs.checkpoint(run, step).exists() or manifest.exists(), f"{name}: a checkpoint is half there")
        yield f"another {name} on process 1 is refused: {said[0].removeprefix('kinema: ')[:110]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="all",
                        choices=["like_one", "equal", "restore", "deaths", "suspended", "stores", "address", "refusals", "quick", "all"])
    parser.add_argument("--kinema", default=str(REPO / "build/kinema"))
    parser.add_argument("--full-disk", default="")
    parser.add_argument("--stores", default="", help="folder of the packages of tests/stores/requirements.txt")
    parser.add_argument("--plugin", default=os.environ.get("KINEMA_PJRT_CPU", ""))
    parser.add_argument("--times", type=int, default=100, help="deaths")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="names of cases of `equal`, with commas")
    args = parser.parse_args()
    args.kinema = str(Path(args.kinema).resolve())
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        return 77
    names = args.only.split(",") if args.only else list(cases())
    every = ["configuration", "data", "program", "rank", "size", "key", "disk"]
    with tempfile.TemporaryDirectory(prefix="kinema-processes-") as folder:
        runs = Runs(args, folder)
        parts = {"like_one": lambda: like_one(runs), "equal": lambda: equal(runs, names),
                 "restore": lambda: restore(runs, (1, 2, 3, 4)), "deaths": lambda: deaths(runs, args.times, args.seed),
                 "suspended": lambda: suspended(runs),
                 "address": lambda: address(runs), "stores": lambda: stores(runs), "refusals": lambda: refusals(runs, every)}
        if args.what == "quick":
            WORDS["executable_cache"] = Path(folder) / "programs"
            parts = {"like_one": lambda: like_one(runs, ((1, 2),)),
                     "equal": lambda: equal(runs, ["accumulation-average"], ((1, 4), (2, 2))),
                     "attention": lambda: equal(runs, ["context-ulysses_ring"], ((1, 4), (2, 2))),
                     "restore": lambda: restore(runs, (3,), ("two-replicas",)),
                     "address": lambda: address(runs, quick=True),
                     "refusals": lambda: refusals(runs, ["configuration"])}
        elif args.what != "all":
            parts = {args.what: parts[args.what]}
        return report("processes", parts)


if __name__ == "__main__":
    sys.exit(main())
