"""Runs the commands of README.md, HACKING.md and docs as they are written there.

commands.py BUILD_FOLDER            those that can run here; of the others the keys and options are looked up
commands.py BUILD_FOLDER --tutorials        every command of docs/tutorials, on tiny models
commands.py BUILD_FOLDER --plan X   `kinema plan` for X (tpu or gpu), whose compiler is installed: each must fit
commands.py BUILD_FOLDER --list     what is done with each

What becomes of a command follows from its words, and from what its configuration comes to:
a word in capitals or `...` stands for something of the reader's; `hardware=` other than cpu wants a device; an id
of the hub, a data set of it, gs:// and s3:// want the network; a model that is not here wants its weights.
Runs are cut to a few steps. A run that a command names (`outputs/kites`) and that no command before it has made is
made with configs/tiny.yml.

In docs/tutorials every command runs, in the order of its page (`Tutorial` below says what is replaced).
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # ctest's
ONLY = None  # a document's name
LAUNCHERS = {"mpirun", "srun", "podman"}
CONFIGURED = {"train", "generate", "serve", "evaluate", "prepare", "plan", "config"}  # take key=value words
SHORTER = {"train": {"max_train_steps": "3"}, "generate": {"num_inference_steps": "2"}}
SHORTER_AGENT = "run.steps=400"
AGENTS = "configs/dreamer.yml"  # its keys are its own


class Failure(Exception):
    pass


# ---- Commands in the documents ---------------------------------------------------------------


def documents():
    everything = [SOURCE / "README.md", SOURCE / "HACKING.md", *sorted((SOURCE / "docs").rglob("*.md"))]
    return [document for document in everything if ONLY in (None, document.stem)]


def is_tutorial(document):
    return document.parent.name == "tutorials"


def folder_name(document):
    return "-".join(document.relative_to(SOURCE).with_suffix("").parts)


def commands_of(document):
    """(line number, text) of each command line of a document's code blocks, continued lines joined."""
    lines = document.read_text().split("\n")
    fenced = False
    i = 0
    while i < len(lines):
        start, line = i, lines[i]
        i += 1
        if line.strip().startswith("```"):
            fenced = not fenced
            continue
        if not fenced and not line.startswith("    "):
            continue
        text = line.strip()
        while text.endswith("\\") and i < len(lines):
            text = text[:-1] + lines[i].strip()
            i += 1
        if is_command(text):
            yield start + 1, text


def is_command(text):
    first = text.split(" ", 1)[0]
    return first in LAUNCHERS or first in ("kinema", "build/kinema", "./dev")


def words_of(text):
    """The words of a shell line without its comment. `[...]` around optional words is taken away."""
    text = re.sub(r" \[(key=value \.\.\.)\]", "", re.sub(r" \[(--[^\]]*)\]", r" \1", text))
    text = os.path.expandvars(re.sub(r'"\$(\w+)"', lambda m: shlex.quote(os.environ.get(m[1], "")), text))
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise Failure(f"a shell cannot read this line: {error}") from error


def without_launcher(words):
    """The command after mpirun or a similar launcher, and whether there was one."""
    if words[0] not in LAUNCHERS:
        return words, False
    for i, word in enumerate(words):
        if word == "kinema" and i + 1 < len(words) and not words[i + 1].startswith("-"):
            return words[i:], True
    return [], True


# ---- What a command needs -----------------------------------------------------------------


def is_placeholder(word):
    return word.endswith("...") or re.fullmatch(r"[A-Z][A-Z_]+(/[A-Z]+)?(\.yml)?|\w+\|[\w|]+", word) is not None


class Runner:
    def __init__(self, build, folder):
        self.kinema = build / "kinema"
        self.folder = folder
        self.help = {}
        # Keys whose values are words, some of them in capitals.
        keys = (SOURCE / "docs/reference/config.md").read_text()
        self.one_of = set(re.findall(r"^\| `(\w+)` \|.*\| one of ", keys, re.M))
        self.begin_document(folder)
        self.commands = set(re.findall(r"^  ([a-z]+) ", self.output(["--help"]), re.M))

    def begin_document(self, folder):
        """Each works in a folder of its own, as its reader does."""
        folder.mkdir(exist_ok=True)
        for name in ("configs", "examples", "tests"):
            (folder / name).symlink_to(SOURCE / name)
        self.folder = folder

    def call(self, words, launcher=()):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment["PYTHONPATH"] = os.environ.get("KINEMA_TEST_NUMPY", "")  # for environments of agents
        return subprocess.Popen([*launcher, str(self.kinema), *words], cwd=self.folder, text=True, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process, allowed=(0,)):
        out, err = process.communicate(timeout=600)
        if process.returncode not in allowed:
            raise Failure(f"exit status {process.returncode}\n{out[-2000:]}{err[-2000:]}")
        return out

    def output(self, words, allowed=(0,)):
        return self.finish(self.call(words), allowed)

    def help_of(self, command):
        if command not in self.help:
            self.help[command] = self.output([command, "--help"])
        return self.help[command]

    def check_options(self, words):
        """The command and its options exist."""
        if words[0].startswith("-"):
            return
        if words[0] not in self.commands:
            raise Failure(f"there is no command {words[0]}")
        text = self.help_of(words[0])
        if words[0] in ("flags", "agent") and len(words) > 1:
            text += self.output([words[0], words[1], "--help"])
        for word in words[1:]:
            if word.startswith("--") and "=" not in word and " " not in word and word not in text:
                raise Failure(f"kinema {words[0]} has no option {word}")

    def stands_for_others(self, words):
        """True if a word is a placeholder that the reader replaces."""
        option = ""
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if word.startswith("--"):
                option = word if not equals and takes_value(self.help_of(words[0]), word) else ""
                continue
            if equals and re.fullmatch(r"\w+", key):
                if is_placeholder(value) and key not in self.one_of:
                    return True
            elif is_placeholder(word) and not option:
                return True
            elif "|" in word:
                return True
            option = ""
        return False

    def missing_file(self, words):
        """A file or folder of the reader's that a key names."""
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if equals and re.search(r"(_url|_data_dir|records_dir)$", key) and not (self.folder / value).exists():
                if key != "tfrecords_dir" and key != "eval_tfrecords_dir":  # these are written
                    return value
        return ""

    def resolved(self, words):
        """The resolved configuration of a command; fails for a key or a value that is wrong."""
        own = {"plan": ("target", "mode", "save_executable", "compile_memory_gib")}.get(words[0], ())
        config = "configs/tiny.yml"
        keys = []
        values = iter(words[1:])
        for word in values:
            key = word.split("=", 1)[0]
            if word.startswith("--"):
                if "=" not in word and takes_value(self.help_of(words[0]), word):
                    next(values, None)
            elif "=" not in word:
                if (self.folder / word).is_file() and word.endswith(".yml"):
                    config = word
                elif not word.endswith(".yml"):
                    keys.insert(0, "pretrained_model_name_or_path=" + word)
            elif key not in own and (key in self.one_of or not is_placeholder(word.split("=", 1)[1])):
                keys.append(word)
        shown = json.loads(self.output(["config", config, *keys, "--json"]))["config"]
        return {key: entry["value"] for key, entry in shown.items()}

    def wants(self, words):
        """Why a command cannot run here as it stands; empty where it can."""
        if self.stands_for_others(words):
            return "names something of the reader's"
        if words[0] == "doctor" and "--install" in words:
            return "fetches packages"
        if words[0] == "serve":
            return "serves until it is stopped"
        if words[0] == "plan":
            return "compiles for minutes (--plan does)"
        if words[0] == "convert" and not (self.folder / words[1]).exists():
            return "converts weights that this machine does not have"
        if words[0] == "inspect" and not any((self.folder / word).exists() for word in words[1:]):
            return f"wants {words[1]}"
        if words[0] not in CONFIGURED or words[0] == "config":
            return ""
        values = self.resolved(words)
        if values["hardware"] != "cpu":
            return f"wants hardware={values['hardware']}"
        if any(re.search(r"\b(gs|s3)://", word) for word in words):
            return "wants a store"
        if values["dataset_type"] == "hf":
            return "wants a data set of the hub"
        model = values["pretrained_model_name_or_path"]
        if model and not (self.folder / model).exists():
            return f"wants the weights of {model}"
        missing = self.missing_file(words)
        return f"wants {missing}" if missing else ""

    # ---- Running -----------------------------------------------------------------------------

    def make_runs(self, words):
        """The runs that a command reads and that nothing has made: with two small layers, and saved at its step."""
        for word in words[1:]:
            found = re.match(r"(outputs|out)/(\w+)", word.split("=", 1)[-1].lstrip("{["))
            if found and "save" not in word:
                self.make_run(found[1], found[2])
            step = re.match(r"((?:outputs|out)/\w+/checkpoints)/(\d+)", word)
            if step and not (self.folder / step[1] / step[2]).exists():
                newest = max(int(path.name) for path in (self.folder / step[1]).iterdir() if path.name.isdigit())
                shutil.copytree(self.folder / step[1] / str(newest), self.folder / step[1] / step[2])

    def make_run(self, folder, name):
        if not (self.folder / folder / name / "metrics.jsonl").exists():
            # Other programs take every model's heads to be of 128.
            self.output(["train", "configs/tiny.yml", f"output_dir={folder}", f"run_name={name}", "max_train_steps=2",
                         "num_attention_heads=1", "attention_head_dim=128"])

    def shortened(self, words):
        if words[:2] == ["agent", "train"]:
            return [*words, SHORTER_AGENT]
        for key, value in SHORTER.get(words[0], {}).items():
            words = [word for word in words if not word.startswith(key + "=")] + [f"{key}={value}"]
        return words

    def run(self, words, launcher):
        allowed = (0, 1) if words[:2] == ["flags", "check"] else (0,)
        return self.call(self.shortened(words), launcher), allowed


def takes_value(text, option):
    return re.search(re.escape(option) + r" (VALUE|TEXT|INT|FLOAT)", text) is not None


def look_up(runner, words):
    """What can be known of a command without running it."""
    runner.check_options(words)
    if words[0] in CONFIGURED and AGENTS not in words:
        runner.resolved(words)


def check_commands(runner, listing):
    failures, ran, looked_up = [], 0, 0
    waiting = None  # a process that was started with `&`
    for document in documents():
        if is_tutorial(document):
            continue
        runner.begin_document(runner.folder.parent / folder_name(document))
        for line, text in commands_of(document):
            where = f"{document.relative_to(SOURCE)}:{line}: {text}"
            try:
                words, has_launcher = without_launcher(words_of(text))
                if not words or words[0] == "./dev":
                    continue
                words = words[1:]
                background = bool(words) and words[-1] == "&"
                words = words[:-1] if background else words
                runner.check_options(words)
                runner.make_runs(words)
                wants = runner.wants(words)
                launcher = words_of(text)[: words_of(text).index("kinema")] if has_launcher else []
                if not wants and launcher and (launcher[0] != "mpirun" or not shutil.which("mpirun")):
                    wants = f"is started by {launcher[0]}"
                if listing:
                    print(f"{'runs' if not wants else wants:40} {where}")
                if wants:
                    look_up(runner, words)
                    looked_up += 1
                    continue
                ran += 1
                if listing:
                    print(f"    in {runner.folder.name}", flush=True)
                process, allowed = runner.run(words, launcher)
                if background:
                    waiting = process
                    continue
                runner.finish(process, allowed)
                if waiting:
                    runner.finish(waiting)
                    waiting = None
            except (Failure, subprocess.TimeoutExpired) as error:
                failures.append(f"{where}\n    {error}")
                if waiting and waiting.poll() is None:
                    waiting.kill()
                waiting = None
    print(f"{ran} commands ran, {looked_up} were looked up, {len(failures)} failed")
    return failures


# ---- Tutorials ---------------------------------------------------------------------------


class Tutorial:
    """The commands of one tutorial, with tiny models in place of those that they name.

    Replaced are models of the hub (by those of tests/golden), their sizes and numbers of steps, `hardware=`, and the
    target of a plan (by as many CPU devices). `photos` and `clips` are made of the tests' own files. A command with the
    comment `press Ctrl-C` is interrupted once it has made a step. Of runs that `compare` names, every step that both
    made must have the same loss.
    """

    MODELS = {
        "stabilityai/stable-diffusion-xl-base-1.0": ("tests/golden/sdxl", ["height=64", "width=64"]),
        "black-forest-labs/FLUX.1-dev": ("tests/golden/flux_dev", ["height=64", "width=64"]),
        "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": ("tests/golden/wan21_t2v", ["height=32", "width=32", "num_frames=5"]),
        "Wan-AI/Wan2.1-T2V-14B-Diffusers": ("tests/golden/wan21_t2v", ["height=32", "width=32", "num_frames=5"]),
    }
    SMALLER = ["optimization_level=0"]  # of the compiler's work
    STEPS = {"train": ["max_train_steps=3", "num_inference_steps=2"], "generate": ["num_inference_steps=2"]}

    def __init__(self, runner, document):
        self.runner = runner
        self.document = document
        self.model = ""  # the last one that was put in another's place
        runner.begin_document(runner.folder.parent / folder_name(document))
        self.make_photos()
        self.make_clips()
        self.make_modules()

    def make_modules(self):
        """What the reader saves: blocks that begin with ```python FILE.py."""
        for name, text in re.findall(r"^```python (\w+\.py)\n(.*?)^```$", self.document.read_text(), re.M | re.S):
            (self.runner.folder / name).write_text(text)

    def make_photos(self):
        folder = self.runner.folder / "photos"
        folder.mkdir()
        for i, path in enumerate(sorted((SOURCE / "tests/golden/images/jpeg").glob("*.jpg"))):
            if path.stem != "cmyk":
                shutil.copy(path, folder / f"fox_{i:02}.jpg")
                (folder / f"fox_{i:02}.txt").write_text("a photo of a fox\n")

    def make_clips(self):
        folder = self.runner.folder / "clips"
        folder.mkdir()
        lines = (SOURCE / "examples/shapes/metadata.jsonl").read_text().split("\n")[:4]
        with open(folder / "metadata.jsonl", "w") as out:
            for row in map(json.loads, lines):
                name = pathlib.Path(row["file_name"])
                shutil.copy(SOURCE / "examples/shapes" / name, folder / name.name)
                out.write(json.dumps({"file_name": name.name, "text": row["text"]}) + "\n")

    def tiny(self, words):
        """The words with everything that is large made small."""
        command = words[0]
        if words[:2] == ["agent", "train"]:
            return [*words, "run.steps=150", "batch_size=2", "jax.debug=true"]
        if command not in CONFIGURED and command != "inspect":
            return words
        config = next((word.removeprefix("config=") for word in words if word.startswith("config=")), None)
        named = ["config", config] if command == "inspect" else words
        if config is None and command == "inspect":
            return words
        values = self.runner.resolved(named)
        found = self.MODELS.get(values["pretrained_model_name_or_path"])
        words = [found[0] if word in self.MODELS else word for word in words]
        words = [re.sub(r"^hardware=(gpu|tpu)$", "hardware=cpu", word) for word in words]
        if command == "plan":
            words = [re.sub(r"^target=(.*)", lambda m: f"target=cpu:{devices_of(m[1])}", word) for word in words]
        if found:
            self.model = found[0]
            replaced = [f"pretrained_model_name_or_path={found[0]}", *found[1], *self.STEPS.get(command, [])]
            if "sdxl" in found[0] or "flux" in found[0]:
                replaced.append("resolution=64")
            if command in ("train", "generate", "plan"):
                replaced += self.SMALLER
            keys = {word.split("=", 1)[0] for word in replaced}
            words = [word for word in words if word.split("=", 1)[0] not in keys]
            if words[1] == found[0]:
                replaced = replaced[1:]
            return [*words[:2], *replaced, *words[2:]]
        if command == "generate" and words[1].endswith(".png"):
            return [*words, f"pretrained_model_name_or_path={self.model}"]
        return words

    def interrupt(self, process, words):
        """Ctrl-C once a step is made."""
        run = next(word.split("=", 1)[1] for word in words if word.startswith("run_name="))
        metrics = self.runner.folder / "outputs" / run / "metrics.jsonl"
        while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 1):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out = self.runner.finish(process)
        if "stopped after" not in out:
            raise Failure(f"did not stop:\n{out[-1000:]}")

    def check_same_losses(self, runs):
        losses = []
        for run in runs:
            rows = map(json.loads, (self.runner.folder / run / "metrics.jsonl").read_text().splitlines())
            losses.append({row["step"]: row["learning/loss"] for row in rows if "learning/loss" in row})
        both = set(losses[0]) & set(losses[1])
        other = [step for step in both if losses[0][step] != losses[1][step]]
        if not both or other:
            raise Failure(f"{len(other)} of {len(both)} steps have another loss in {runs[1]}")


def devices_of(target):
    """How many devices a plan's target has; tpu7x and v4 show two a chip."""
    name, _, size = target.partition(":")
    count = 1
    for number in re.findall(r"\d+", size):
        count *= int(number)
    return count * (2 if name in ("v4", "tpu7x") else 1)


def check_tutorials(runner, listing):
    failures, ran = [], 0
    for document in filter(is_tutorial, documents()):
        tutorial = Tutorial(runner, document)
        waiting = None
        for line, text in commands_of(document):
            where = f"{document.relative_to(SOURCE)}:{line}: {text}"
            begun = time.monotonic()
            try:
                words, has_launcher = without_launcher(words_of(text))
                words = words[1:]
                background = words[-1] == "&"
                words = words[:-1] if background else words
                runner.check_options(words)
                if words[0] in CONFIGURED and not words[1].startswith("outputs/") and not words[1].endswith(".png"):
                    runner.resolved(words)
                if words[:2] == ["doctor", "--install"]:
                    continue
                if has_launcher and not shutil.which("mpirun"):  # the same mesh in one process
                    has_launcher = False
                    words = [re.sub("^cpu_device_count=1$", "cpu_device_count=2", word) for word in words]
                runner.make_runs(words)
                words = tutorial.tiny(words)
                launcher = words_of(text)[: words_of(text).index("kinema")] if has_launcher else []
                ran += 1
                process = runner.call(words, launcher)
                if background:
                    waiting = process
                    continue
                if "press Ctrl-C" in text:
                    tutorial.interrupt(process, words)
                else:
                    runner.finish(process)
                if waiting:
                    runner.finish(waiting)
                    waiting = None
                if words[0] == "compare":
                    tutorial.check_same_losses(words[1:3])
            except (Failure, subprocess.TimeoutExpired) as error:
                failures.append(f"{where}\n    {' '.join(words)}\n    {error}")
                if waiting and waiting.poll() is None:
                    waiting.kill()
                waiting = None
            if listing:
                print(f"{time.monotonic() - begun:6.1f} s {where}", flush=True)
    print(f"{ran} commands of tutorials ran, {len(failures)} failed")
    return failures


def check_plans(runner, device):
    failures, ran = [], 0
    installed = runner.output(["doctor"], allowed=(0, 1))
    if ("libtpu.so" if device == "tpu" else "xla_cuda_plugin.so") not in installed:
        print(f"skipped: the compiler is not installed: kinema doctor --install {'tpu' if device == 'tpu' else 'cuda'}")
        sys.exit(SKIPPED)
    for document in documents():
        for line, text in commands_of(document):
            words, _ = without_launcher(words_of(text))
            if words[1:2] != ["plan"] or runner.stands_for_others(words[1:]):
                continue
            target = next(word for word in words if word.startswith("target="))
            is_tpu = re.match(r"target=(v\d|tpu)", target) is not None
            if is_tpu != (device == "tpu"):
                continue
            ran += 1
            process = runner.call([*words[1:], *([] if "--sweep" in words else ["--json", "--no-remedies"])])
            out, err = process.communicate()
            if process.returncode != 0 or ("--sweep" not in words and not json.loads(out)["fits"]):
                failures.append(f"{document.relative_to(SOURCE)}:{line}: {text}\n    {err[-1000:]}")
    print(f"{ran} plans were compiled, {len(failures)} do not fit or failed")
    return failures


# ---- ./dev --------------------------------------------------------------------------------


def dev_commands():
    """The words after ./dev, in code blocks and in the text, without explanations."""
    found = {}
    for document in documents():
        text = document.read_text()
        for match in re.finditer(r"\./dev((?: (?:[a-z]+(?:-[a-z]+)*|-L [a-z]+|--[a-z]+))*)", text):
            words = match[1].split()
            line = text.count("\n", 0, match.start()) + 1
            if words:
                # Behind the command itself a word may be the sentence's own.
                in_ticks = text[match.end(): match.end() + 1] == "`"
                found.setdefault(tuple(words if in_ticks else words[:1]),
                                 f"{document.relative_to(SOURCE)}:{line}")
    return found


def check_dev(folder):
    """Each is run where the tools that it calls do nothing but say that they were called."""
    tree = folder / "tree"
    tools = folder / "tools"
    tree.mkdir()
    tools.mkdir()
    for entry in SOURCE.iterdir():
        if not entry.name.startswith(("build", ".git")):
            (tree / entry.name).symlink_to(entry)
    log = folder / "called"
    for name in ("cmake", "ctest", "ninja", "doxygen", "apt-get", "sudo", "python3", "clang-format-14", "clang-tidy-14",
                 "dpkg-query", "g++", "git"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(log))}\n')
        tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "KINEMA_CACHE": str(folder / "cache")}

    def run(words):
        log.write_text("")
        done = subprocess.run([str(tree / "dev"), *words], env=environment, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120)
        return done, log.read_text()

    failures = []
    for words, where in dev_commands().items():
        done, called = run(words)
        if "there is no command" in done.stderr or not (called or done.stdout):
            failures.append(f"{where}: ./dev {' '.join(words)}\n    {done.stderr[-500:]}")
    if "there is no command" not in run(["no-such-command"])[0].stderr:
        failures.append("./dev takes any word for a command")
    print(f"{len(dev_commands())} commands of ./dev were run with tools that do nothing")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--plan", choices=("tpu", "gpu"))
    parser.add_argument("--tutorials", action="store_true", help="the commands of docs/tutorials alone, on tiny models")
    parser.add_argument("--dev", action="store_true", help="the commands of ./dev alone")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", help="a document's name without .md")
    options = parser.parse_args()
    global ONLY
    ONLY = options.only
    with tempfile.TemporaryDirectory(prefix="kinema-docs-") as name:
        folder = pathlib.Path(name)
        if options.dev:
            failures = check_dev(folder)
        elif options.tutorials:
            failures = check_tutorials(Runner(options.build.resolve(), folder / "first"), options.list)
        elif options.plan:
            failures = check_plans(Runner(options.build.resolve(), folder / "plans"), options.plan)
        else:
            failures = check_commands(Runner(options.build.resolve(), folder / "first"), options.list)
    for failure in failures:
        print("FAILED " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
