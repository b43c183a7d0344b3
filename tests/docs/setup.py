"""What ./dev says before it installs packages and fetches wheels, and where it cannot; with tools that do nothing."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
COREUTILS = "bash env dirname uname cat grep tail mktemp rm mkdir nproc awk sha256sum".split()


class Machine:
    """A copy of the scripts, and a PATH on which is only what is put there."""

    def __init__(self, folder):
        self.folder, self.tools, self.tree = folder, folder / "tools", folder / "tree"
        self.tools.mkdir()
        self.tree.mkdir()
        shutil.copy(SOURCE / "CMakePresets.json", self.tree)
        for name in ("dev", "cmake", "tools", "tests"):
            (self.tree / name).symlink_to(SOURCE / name)
        for name in COREUTILS:
            (self.tools / name).symlink_to(shutil.which(name))
        for name in ("ninja", "g++", "pkg-config", "protoc", "ccache", "pip3"):
            self.tool(name, "")
        self.tool("id", "echo 1000")
        self.tool("python3", f'exec {shlex.quote(sys.executable)} "$@"')
        self.tool("cmake", '[ "$1" = --build ] || { mkdir -p build && : >build/build.ninja; }')

    def tool(self, name, text):
        (self.tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.tools / name).chmod(0o755)

    def pip(self, says):
        package = self.folder / "python" / "pip"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(f"raise SystemExit('ERROR: {says}')")

    def build(self, expected, *said, cache="cache", absent=""):
        done = subprocess.run([self.tree / "dev", "build"], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120,
                              env={"PATH": str(self.tools), "KINEMA_CACHE": str(self.folder / cache),
                                   "PYTHONPATH": str(self.folder / "python"), "HOME": os.environ.get("HOME", "/")})
        lacks = [line for line in said if line not in done.stdout]
        if done.returncode != expected or lacks or (absent and absent in done.stdout):
            sys.exit(f"exit code {done.returncode}, expected {expected}; not said: {lacks}\n{done.stdout}")


with tempfile.TemporaryDirectory(prefix="kinema-dev-") as name:
    machine = Machine(pathlib.Path(name))
    (machine.tools / "ninja").unlink()
    machine.build(1, "there is no apt-get to install them: ninja-build\n", "  use Debian 12")
    machine.tool("apt-get", "")
    machine.build(1, "only root can install them: ninja-build\n", "  run as root: apt-get install")
    machine.tool("sudo", "echo sudo: a password is required; exit 1")
    machine.build(1, "-- installing Debian packages with sudo apt-get: ninja-build\n", "failed: sudo: a password is required")
    machine.tool("ninja", "")

    fetching = f"-- fetching wheels into {name}/cache: xla-cpu-pjrt==0.0.1, jaxlib=="
    machine.pip("no route")
    machine.build(1, fetching, "could not fetch xla-cpu-pjrt==0.0.1: ERROR: no route\n", f"into {name}/cache/wheels and run")
    machine.pip("THESE PACKAGES DO NOT MATCH THE HASHES")
    machine.build(1, fetching, "whose sha256 is not the pinned one\n")
    given = machine.folder / "cache/wheels/xla_cpu_pjrt-0.0.1-py3-none-any.whl"
    given.write_text("another")
    machine.build(1, f"{given} has sha256 ", "but cmake/wheels.txt pins ", "  delete the file and run again")
    machine.build(1, "dev: cannot write to ", "  set KINEMA_CACHE to a folder that you may write to", cache="tree/dev/x")
    assert [entry.name for entry in (machine.folder / "cache").iterdir()] == ["wheels"], "parts are left"

    for line in (SOURCE / "cmake/wheels.txt").read_text().splitlines():
        if not line.startswith("#"):
            (machine.folder / "cache" / line.split()[0].replace("==", "-")).mkdir()
    machine.build(0, "-- configuring build\n", "-- build/kinema is ready", absent="fetching")
    machine.build(0, absent="configuring")
    with open(machine.tree / "CMakePresets.json", "a") as presets:
        presets.write("\n")
    machine.build(0, "-- configuring build\n")
