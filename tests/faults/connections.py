"""Runs of several processes by coordinator_address whose connections are cut, and which strangers speak to.

cuts       losses and checkpoints of 2 x 2 and 4 x 1 processes x devices whose connections are cut 100 times, against those of one
           process
away       a process that cannot be reached for a while, and one that cannot for longer than heartbeat_timeout_seconds
flood      strangers that say what they like to all ports of a run: its memory, and its losses
alike      processes that were started differently, or of which one fails: each says why it ends
strangers  how much 50 strangers slow a run: a figure, not a test
quick      all but the figure, for every test run

Each prints a line a case and a summary; exits 1 when one fails.
"""

import argparse
import json
import os
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

from processes import REPO, WORDS, Runs, free_port, mesh, report, require, wait_for_steps
from proxy import Proxy

STEPS = 120


def words(runs, **more):
    return mesh(data=2, fsdp=2) | dict(max_train_steps=STEPS, checkpoint_every=STEPS, executable_cache=runs.folder / "cache") | more


def alone(runs):
    """The same run by one process, which nothing happens to."""
    if not (runs.folder / "alone").exists():
        runs.run("alone", 1, 4, words(runs))


def start_through(runs, proxy, port, name, processes, **more):
    each = {rank: {"coordinator_address": f"127.0.0.1:{proxy.port}"} for rank in range(1, processes)}
    return runs.start_by_address(name, processes, 4 // processes, words(runs, **more), each=each, port=port)


def end_all(runs, started, name):
    for code, output in map(runs.end, started):
        require(code == 0, f"{name} ended with {code}: {output[-1500:]}")


def cuts(runs, times=100):
    alone(runs)
    for processes in (2, 4):
        name, port = f"cut-{processes}", free_port()
        proxy = Proxy(port, times, seed=processes)
        try:
            # A connection that is cut ten times a second is slow, and heartbeats wait for the other messages.
            end_all(runs, start_through(runs, proxy, port, name, processes, heartbeat_timeout_seconds=60), name)
        finally:
            proxy.end()
        require(proxy.cut == times, f"{name}: {proxy.cut} connections were cut, {times} were to be")
        runs.same("alone", name, STEPS)
        yield f"{processes} processes whose connections were cut {times} times: losses and checkpoint equal to those of one"


def away(runs):
    alone(runs)
    timeout = WORDS["heartbeat_timeout_seconds"]
    for seconds, continues in ((timeout / 4, True), (3 * timeout, False)):
        name, port = f"away-{seconds:g}", free_port()
        proxy = Proxy(port, 0)
        try:
            started = start_through(runs, proxy, port, name, 2)
            wait_for_steps(runs, name, started[0])
            proxy.blocked = True
            began = time.monotonic()
            while time.monotonic() - began < seconds and any(process.poll() is None for process in started):
                time.sleep(0.05)
            proxy.blocked = False
            ended = list(map(runs.end, started))
        finally:
            proxy.end()
        for rank, (code, output) in enumerate(ended):
            require((code == 0) == continues, f"process {rank} ended with {code}: {output[-1500:]}")
            if not continues:
                named = re.findall(rf"kinema: .*process {1 - rank} on \S+ has sent no heartbeat for.*", output)
                require(len(named) == 1, f"process {rank} named {named}: {output[-1500:]}")
        if continues:
            runs.same("alone", name, STEPS)
            yield f"two processes that could not reach each other for {seconds:g} s went on, equal"
        else:
            yield f"two processes that could not reach each other: each named the other ({named[0][:90]})"


def ports_of(pid):
    """At which a process listens."""
    own = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(entry))
        except OSError:
            continue
    out = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                out.add(int(fields[1].rsplit(":", 1)[1], 16))
    return out


HELLO = b'{"kinema":2,"rank":1,"size":2,"address":"tcp://1.2.3.4:5","token":"00"}\n'
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00"  # of ZMTP


def plain(command, *texts):
    body = bytes([len(command)]) + command + b"".join(bytes([len(text)]) + text for text in texts)
    return bytes([4, len(body)]) + body


def ready(kind):
    body = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return bytes([4, len(body)]) + body


# What strangers begin with, and then repeat.
STRANGERS = {
    "hellos": (b"", HELLO),
    "no line": (b"", b"x" * 1000),
    "silence": (b"", b""),
    "messages without a secret": (GREETING + b"NULL" + b"\0" * 48 + ready(b"PUSH"), b"\x00\x40" + b"x" * 64),
    "a wrong secret": (GREETING + b"PLAIN" + b"\0" * 47 + plain(b"HELLO", b"kinema", b"guess"), b"\x00\x40" + b"x" * 64),
    "a message without an end": (GREETING + b"PLAIN" + b"\0" * 47 + b"\x02" + struct.pack(">Q", 1 << 40), b"x" * 1000),
    "parts without an end": (GREETING + b"NULL" + b"\0" * 48 + ready(b"DEALER"), b"\x01\x40" + b"x" * 64),
}


class Stranger(threading.Thread):
    """Connects and sends without end, and again where it is thrown out. `pause`: seconds between two connections."""

    def __init__(self, port, begins, repeats, pause):
        super().__init__(daemon=True)
        self.port, self.begins, self.block, self.pause = port, begins, repeats * 2000, pause
        self.ends = False
        self.sent = self.connections = 0
        self.start()

    def run(self):
        while not self.ends:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as own:
                    self.connections += 1
                    own.sendall(self.begins)
                    while not self.ends:
                        if self.block:
                            self.sent += own.send(self.block)
                        else:
                            time.sleep(0.1)
            except OSError:  # thrown out, or not read from for a second
                time.sleep(self.pause)


def strangers_at(processes, count, pause):
    """`count` to every port of a run, of all kinds."""
    kinds = list(STRANGERS.values())
    return [Stranger(port, *kinds[i % len(kinds)], pause)
            for process in processes for port in ports_of(process.pid) for i in range(count)]


def peak_bytes(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def flood(runs, count=len(STRANGERS)):
    alone(runs)
    peaks = {}
    for name in ("calm", "flooded"):
        started = runs.start_by_address(name, 2, 2, words(runs))
        wait_for_steps(runs, name, started[0])
        here = strangers_at(started, count, pause=0.05) if name == "flooded" else []
        # Until the run ends, which it does in its own time.
        while all(process.poll() is None for process in started):
            for process in started:
                try:
                    peaks[name] = max(peaks.get(name, 0), peak_bytes(process.pid))
                except (OSError, TypeError):
                    continue
            time.sleep(0.05)
        for each in here:
            each.ends = True
        end_all(runs, started, name)
        runs.same("alone", name, STEPS)
    sent, connections = sum(each.sent for each in here), sum(each.connections for each in here)
    require(connections >= len(here), f"{len(here)} strangers made {connections} connections")
    more = peaks["flooded"] - peaks["calm"]
    # A message of 32 KiB for each that is connected, what sockets hold, and pages that the allocator keeps.
    require(more < 100e6, f"strangers cost {more / 1e6:.0f} MB")
    yield (f"{len(here)} strangers who made {connections} connections and sent {sent / 1e6:.0f} MB: equal, {max(more, 0) / 1e6:.0f} MB more "
           f"beside {peaks['calm'] / 1e6:.0f}")


def alike(runs):
    """Each process has a console of its own: each says why it ends."""
    host = lambda rank: ([], {"KINEMA_PJRT_CPU": "/nowhere/plugin.so"} if rank == 1 else {})
    cases = {
        "another seed": (dict(each={1: {"seed": 2}}), [r"seed is 2 on process 1"] * 2),
        "a plugin that one has not": (dict(on_host=host), [r"\[process 1 on .*/nowhere/plugin\.so", r"/nowhere/plugin\.so"]),
    }
    for name, (differs, messages) in cases.items():
        run = "alike-" + name.replace(" ", "-")
        for rank, (code, output) in enumerate(map(runs.end, runs.start_by_address(run, 2, 2, words(runs), **differs))):
            require(code == 1, f"{name}: process {rank} ended with {code}: {output[-1000:]}")
            said = [line for line in output.splitlines() if line.startswith("kinema: ") and re.search(messages[rank], line)]
            require(len(said) == 1, f"{name}: process {rank} said {len(said)} times why it ended: {output[-1000:]}")
        yield f"{name}: both say it ({said[0].removeprefix('kinema: ')[:100]})"


def strangers(runs, count=50, times=5):
    """Seconds of the steps, in turns without and with strangers."""
    seconds = {0: [], count: []}
    for i in range(times):
        for many in seconds:
            name = f"with-{many}-{i}"
            port = free_port()
            started = runs.start_by_address(name, 2, 2, words(runs, max_train_steps=400, checkpoint_every=400), port=port)
            wait_for_steps(runs, name, started[0])
            # At the port that people know: half say hello, half say nothing of ours.
            here = [Stranger(port, b"", HELLO if k % 2 else b"x" * 1000, pause=0.05) for k in range(many)]
            end_all(runs, started, name)
            for each in here:
                each.ends = True
            rows = [json.loads(line) for line in (runs.folder / name / "metrics.jsonl").read_text().splitlines()]
            steps = [row["perf/step_time_seconds"] for row in rows if "perf/step_time_seconds" in row]
            seconds[many].append(sorted(steps[len(steps) // 10:])[len(steps) // 2])
            yield f"{many} strangers: a step takes {1e3 * seconds[many][-1]:.2f} ms in the middle"
    best = {many: min(all) for many, all in seconds.items()}
    yield f"{count} strangers slow a step by {100 * (best[count] / best[0] - 1):+.1f} %"


def main():
    parts = {"cuts": cuts, "away": away, "flood": flood, "alike": alike, "strangers": strangers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="quick", choices=[*parts, "quick", "all"])
    parser.add_argument("--kinema", default=str(REPO / "build/kinema"))
    args = parser.parse_args()
    args.kinema = str(Path(args.kinema).resolve())
    names = {"quick": ["cuts", "away", "flood", "alike"], "all": list(parts)}.get(args.what, [args.what])
    with tempfile.TemporaryDirectory(prefix="kinema-connections-") as folder:
        runs = Runs(args, folder)
        return report("connections", {name: lambda name=name: parts[name](runs) for name in names})


if __name__ == "__main__":
    sys.exit(main())
