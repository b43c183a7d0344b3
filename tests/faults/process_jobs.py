"""The outputs of several processes, in addition to a run's steps, against those of one: every file, byte for byte.

generate  videos of prompts shared out over 2 and 3 processes: more and fewer prompts than processes, batches, names that
          are taken, latents; one that fails, other prompts, a mesh that would cross
prepare   records by 2 and 3 processes, killed and resumed by another number
videos    videos on the way of a training run, over a mesh that crosses processes
quick     a few of each, for every test run

Each prints a line a case and a summary; exits 1 when one fails.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import LIGHTLY_COMPILED, REPO, TIMEOUT, Fault, mesh, report, require


def files(folder, without=()):
    """Bytes of every file below a folder by its path; of metadata without the folder's name."""
    out = {}
    for path in sorted(Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name not in without:
            out[name] = path.read_bytes()
            if path.suffix == ".json":
                about = json.loads(out[name])
                for key in ("video_folder", "save_latents", "cpu_device_count", "run_name"):
                    about.get("settings", {}).pop(key, None)
                out[name] = json.dumps(about).replace(str(Path(folder).parent) + "/", "")
    return out


def same(one, other, what, **more):
    a, b = files(one, **more), files(other, **more)
    require(a, f"{what}: {one} is empty")
    require(a.keys() == b.keys(), f"{what}: other files: {sorted(a.keys() ^ b.keys())}")
    different = [name for name in a if a[name] != b[name]]
    require(not different, f"{what}: {different} differ")
    return len(a)


class Jobs:
    def __init__(self, kinema, folder):
        self.kinema, self.folder = kinema, Path(folder)

    def start(self, words, processes, each=None):
        """`each`: of a process, (environment, words) in addition to those of all."""
        words = words + ["executable_cache=off", "heartbeat_timeout_seconds=8"]
        command = [self.kinema] + words
        if processes > 1:
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
            for rank in range(processes):
                environment, more = (each or {}).get(rank, ({}, []))
                command += [":"] * (rank > 0) + ["-np", "1"]
                command += ["env"] + [f"{key}={value}" for key, value in environment.items()] if environment else []
                command += [self.kinema] + words + more
        return subprocess.Popen(command, cwd=REPO, text=True, errors="replace", start_new_session=True,
                                env=os.environ | LIGHTLY_COMPILED,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, process):
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Fault("a job did not end")
        return process.returncode, out, err

    def run(self, words, processes):
        code, out, err = self.end(self.start(words, processes))
        require(code == 0, f"{words[:4]} by {processes} ended with {code}: {out[-800:]}{err[-1500:]}")
        return out, err

    def refused(self, words, processes, message, each=None):
        code, out, err = self.end(self.start(words, processes, each))
        said = [line for line in (out + err).splitlines() if re.search(message, line)]
        require(code != 0, f"{message}: ended with 0")
        require(len(said) == 1, f"{message}: said {len(said)} times: {(out + err)[-1500:]}")
        return said[0].removeprefix("kinema: ")


def generate(jobs, only=None, counts=(2, 3)):
    jobs.run(["train", "configs/tiny.yml", f"output_dir={jobs.folder}", "max_train_steps=2"], 1)
    prompts = jobs.folder / "prompts.txt"
    prompts.write_text("".join(f"{color} shape\n" for color in ("red", "green", "blue", "grey", "white")))
    tiny = ["generate", "configs/tiny.yml", f"output_dir={jobs.folder}"]
    cases = {
        "five prompts": [f"prompt_file={prompts}", "save_frames=true"],
        "batches of two": [f"prompt_file={prompts}", "generate_batch_size=2", "LATENTS"],
        "three of each, named twice": [f"prompt_file={prompts}", "num_videos_per_prompt=3", "TWICE"],
        "one prompt": ["prompt=a red circle", "LATENTS"],
        "a mesh each": [f"prompt_file={prompts}", "cpu_device_count=2", "generate_batch_size=2"],
    }
    for name, words in cases.items():
        if only and name not in only:
            continue
        began = time.monotonic()
        told = {}
        for processes in (1, *counts):
            folder = jobs.folder / f"{name.replace(' ', '-')}-{processes}"
            given = [word for word in words if not word.isupper()] + [f"video_folder={folder / 'videos'}"]
            folder.mkdir()
            given += [f"save_latents={folder / 'latents.safetensors'}"] if "LATENTS" in words else []
            for _ in range(2 if "TWICE" in words else 1):
                out, _ = jobs.run(tiny + given + ["--json"], processes)
            told[processes] = json.loads(out)
            for key in ("seconds", "timings", "memory"):
                told[processes].pop(key)
            told[processes] = json.dumps(told[processes]).replace(str(folder), "FOLDER")
        one = jobs.folder / f"{name.replace(' ', '-')}-1"
        count = 0
        for processes in counts:
            count = same(one, jobs.folder / f"{name.replace(' ', '-')}-{processes}", f"{name} by {processes}")
            require(told[1] == told[processes], f"{name} by {processes} reported {told[processes]}, by one {told[1]}")
        yield f"{name}: {count} files of 1 and {' and '.join(map(str, counts))} processes are equal ({time.monotonic() - began:.0f} s)"
    if not only or "one mesh" in only:
        yield one_mesh(jobs, tiny + [f"prompt_file={prompts}", "generate_batch_size=2"])
    given = tiny + [f"prompt_file={prompts}", f"video_folder={jobs.folder}/refused"]
    plugin = {"KINEMA_PJRT_CPU": "/nowhere/plugin.so"}
    yield jobs.refused(given, 2, r"\[process 1 on .*/nowhere/plugin\.so", {1: (plugin, [])})
    yield jobs.refused(given, 2, r"prompt_file is .* on process 1", {1: ({}, ["prompt_file=configs/tiny.yml"])})
    yield jobs.refused(given + ["ici_context_parallelism=1", "ici_fsdp_parallelism=3"], 2, r"multiply to 3, but each of 2 processes")
    require(not list((jobs.folder / "refused").glob("*")), "what was refused has left files")


def one_mesh(jobs, words, shapes=((1, 4), (2, 2), (4, 1))):
    """Every video over the devices of all processes."""
    began = time.monotonic()
    for processes, devices in shapes:
        folder = jobs.folder / f"one-mesh-{processes}"
        folder.mkdir()
        out, err = jobs.run(words + [f"video_folder={folder / 'videos'}", f"save_latents={folder / 'latents.safetensors'}",
                                     f"cpu_device_count={devices}", "ici_context_parallelism=2", "ici_fsdp_parallelism=2",
                                     "num_attention_heads=4", "save_frames=true"], processes)
        require("devices: 4" in out + err, f"one mesh by {processes} said {out[-800:]}{err[-800:]}")
    for processes, _ in shapes[1:]:
        count = same(jobs.folder / f"one-mesh-{shapes[0][0]}", jobs.folder / f"one-mesh-{processes}", f"one mesh by {processes}")
    return f"one mesh: {count} files of {', '.join(f'{p} x {d}' for p, d in shapes)} are equal ({time.monotonic() - began:.0f} s)"


def prepare(jobs, counts=(2, 3), deaths=((signal.SIGKILL, 2), (signal.SIGTERM, 3))):
    shards = ["prepare", "configs/tiny.yml", "train_data_dir=examples/shapes", "no_records_per_shard=7",
              "height=16", "width=16", "num_frames=4", f"output_dir={jobs.folder}"]
    both = lambda name: [f"tfrecords_dir={jobs.folder / name / 'train'}", f"eval_tfrecords_dir={jobs.folder / name / 'eval'}",
                         "num_eval_samples=6", "timesteps_list=[125, 500, 875]"]
    reports = {}
    for processes in (1, *counts):
        out, _ = jobs.run(shards + both(f"prepared-{processes}") + ["--json"], processes)
        report = json.loads(out)
        for folder in report["folders"]:
            folder.pop("seconds")
            folder["folder"] = Path(folder["folder"]).name
        reports[processes] = report
    for processes in counts:
        count = same(jobs.folder / "prepared-1", jobs.folder / f"prepared-{processes}", f"records by {processes}")
        require(reports[1] == reports[processes], f"prepare by {processes} reports {reports[processes]}")
        yield f"records of {processes} processes: {count} files equal to those of one"
    for kind, processes in deaths:
        name = f"ended-{kind.name}"
        job = jobs.start(shards + both(name), processes)
        while job.poll() is None and len(list((jobs.folder / name).glob("train/file_*"))) < 1:
            time.sleep(0.01)
        victim = children(job)[-1:]
        for pid in victim:
            os.kill(pid, kind)
        code, out, err = jobs.end(job)
        begun = len(list((jobs.folder / name).glob("train/file_*")))
        require(victim == [] or (code == 0) == (kind == signal.SIGTERM), f"{name} ended with {code}: {out[-800:]}{err[-800:]}")
        out, _ = jobs.run(shards + both(name), 5 - processes)
        same(jobs.folder / "prepared-1", jobs.folder / name, name)
        yield f"{kind.name} of one of {processes} after {begun} shards, resumed by {5 - processes}: equal"


def children(job):
    """Of a launcher, the processes that it started."""
    out = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == job.pid:
                out.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return sorted(out)


def videos(jobs, only=None, shapes=((1, 4), (2, 2), (4, 1))):
    prompts = jobs.folder / "prompts-on-the-way.txt"
    prompts.write_text("a red circle\na blue square\n")
    cases = {
        "data-fsdp": mesh(data=2, fsdp=2),
        "context": mesh(context=4) | dict(attention="ring", num_attention_heads=4),
        "average-bfloat16": mesh(fsdp=2, tensor=2) | dict(ema_decay=0.9, weights_dtype="bfloat16", num_attention_heads=4),
    }
    for name, words in cases.items():
        if only and name not in only:
            continue
        similarity = {}
        for processes, devices in shapes:
            run = f"{name}-{processes}"
            keys = dict(output_dir=jobs.folder, run_name=run, cpu_device_count=devices, global_batch_size=4, max_train_steps=4,
                        eval_every=2, enable_generate_video_for_eval="true", enable_ssim="true", prompt_file=prompts,
                        checkpoint_every=2) | words
            out, err = jobs.run(["train", "configs/tiny.yml"] + [f"{k}={v}" for k, v in keys.items()], processes)
            require(out.count("2 videos after step") == 2, f"{run} reported other videos: {out[-1500:]}{err[-500:]}")
            similarity[processes] = re.findall(r"SSIM score after training is \S+", out)
        for processes, _ in shapes[1:]:
            first = jobs.folder / f"{name}-{shapes[0][0]}"
            count = same(first / "samples", jobs.folder / f"{name}-{processes}" / "samples", f"{name} by {processes}")
            require(similarity[processes] == similarity[shapes[0][0]] != [], f"{name}: {similarity}")
        yield f"{name}: {count} files of videos during training are equal by {', '.join(f'{p} x {d}' for p, d in shapes)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["generate", "prepare", "videos", "quick", "all"], nargs="?", default="all")
    parser.add_argument("--kinema", default=str(REPO / "build/kinema"))
    args = parser.parse_args()
    if not shutil.which("mpirun"):
        print("skipped: there is no mpirun")
        return 77
    parts = {"generate": generate, "prepare": prepare, "videos": videos}
    if args.what == "quick":
        parts = {"generate": lambda jobs: generate(jobs, ["batches of two"], (2,)),
                 "prepare": lambda jobs: prepare(jobs, (3,), ((signal.SIGKILL, 2),)),
                 "videos": lambda jobs: videos(jobs, ["data-fsdp"], ((1, 4), (2, 2)))}
    elif args.what != "all":
        parts = {args.what: parts[args.what]}
    with tempfile.TemporaryDirectory(prefix="kinema-process-jobs-") as folder:
        jobs = Jobs(str(Path(args.kinema).resolve()), folder)
        return report("jobs of processes", {name: lambda work=work: work(jobs) for name, work in parts.items()})


if __name__ == "__main__":
    sys.exit(main())
