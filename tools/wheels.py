#!/usr/bin/env python3
"""Fetches what is pinned by its hash into the cache folder, with pip and the index that this machine is set up for.

wheels.py CACHE wheels      CACHE/NAME-VERSION: the wheels of cmake/wheels.txt, unpacked
wheels.py CACHE stores      CACHE/stores-HASH: the servers of tests/stores with the packages that they import
wheels.py CACHE environments  CACHE/environments-HASH: numpy, for tests/environments
wheels.py CACHE python      CACHE/python-HASH: numpy, pytest and others, for tests/python
wheels.py CACHE packaging   CACHE/packaging-HASH: auditwheel, for packaging/wheel.py
wheels.py CACHE prompts     CACHE/peers-HASH: compel, for tests/peers/prompts.py
wheels.py CACHE peers PINS  CACHE/bench-HASH: a virtual environment of what a file pins; the folder is printed

It says what it fetches before it does, and leaves alone what is there.
"""

import contextlib
import hashlib
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib

SOURCE = pathlib.Path(__file__).resolve().parents[1]
DEBIAN_12 = ("--platform=manylinux_2_27_x86_64", "--platform=manylinux_2_28_x86_64", "--python-version=3.11",
             "--implementation=cp", "--abi=cp311")


class Failure(Exception):
    """What went wrong, and what to do about it."""


@contextlib.contextmanager
def whole(folder):
    """A temporary folder that becomes `folder` if all goes well, and is removed if not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}.part.", dir=folder.parent))
    try:
        yield part
        part.chmod(0o755)
        with contextlib.suppress(OSError):  # another ./dev may have been first; its folder is as good
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def announce(what, file=sys.stdout):
    print("-- fetching", what, file=file, flush=True)
    if importlib.util.find_spec("pip") is None:
        raise Failure("python3 has no pip to fetch with", "apt-get install python3-pip")


def pip(command, *words, python=sys.executable):
    """Runs pip. Returns nothing, or of a failed one why it failed."""
    done = subprocess.run([python, "-m", "pip", command, "--no-input", "--quiet", "--no-deps", "--require-hashes",
                           "--disable-pip-version-check", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if "DO NOT MATCH THE HASHES" in done.stdout:
        return "the index has another file of this name, whose sha256 is not the pinned one"
    return (["pip failed", *re.findall("^ *((?:ERROR|Got).*)", done.stdout, re.M)][-1]) if done.returncode else ""


def wheel_of(pin, folder):
    return next(folder.glob(pin.replace("-", "_").replace("==", "-") + "-*.whl"), None)


def fetch(pin, digest, store, folder):
    (folder / "pin").write_text(f"{pin} --hash=sha256:{digest}\n")
    why = pip("download", "--no-cache-dir", "--only-binary=:all:", *DEBIAN_12, "--dest", folder, "-r", folder / "pin")
    if why or not wheel_of(pin, folder):
        raise Failure(f"could not fetch {pin}: {why or 'pip brought no wheel'}",
                      "check the network and pip's index (python3 -m pip config list), or put the right wheel into "
                      f"{store} and run again")
    return wheel_of(pin, folder)


def unpack(wheel, digest, prefixes, folder):
    actual = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if actual != digest:
        raise Failure(f"{wheel} has sha256 {actual}, but cmake/wheels.txt pins {digest}",
                      "delete the file and run again")
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(tuple(prefixes))])
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise Failure(f"could not unpack {wheel}: {error}", f"is the disk full? df -h {folder.parent}") from error


def wheels(cache):
    store = cache / "wheels"
    lines = [line.split() for line in (SOURCE / "cmake/wheels.txt").read_text().splitlines() if line[0] != "#"]
    missing = [line for line in lines if not (cache / line[0].replace("==", "-")).is_dir()]
    if missing:
        store.mkdir(parents=True, exist_ok=True)
    to_fetch = [pin for pin, *_ in missing if not wheel_of(pin, store)]
    if to_fetch:
        announce(f"wheels into {cache}: {', '.join(to_fetch)}")
    for pin, digest, *prefixes in missing:
        digest = digest.removeprefix("--hash=sha256:")
        with whole(cache / pin.replace("==", "-")) as part, tempfile.TemporaryDirectory(dir=store) as work:
            given = wheel_of(pin, store)
            unpack(given or fetch(pin, digest, store, pathlib.Path(work)), digest, prefixes, part)
        if given:
            given.unlink(missing_ok=True)


def pinned(file, cache, name):
    """The folder of what a file pins, and the names that it pins."""
    text = file.read_bytes()
    names = re.findall(r"^([\w.-]+)==", text.decode(), re.M)
    return cache / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}", ", ".join(names)


def packages(cache, room, what, *options):
    """The packages of ROOM/requirements.txt, for PYTHONPATH."""
    pins = SOURCE / room / "requirements.txt"
    folder, names = pinned(pins, cache, pathlib.PurePath(room).name)
    if folder.is_dir():
        return
    with whole(folder) as part:
        announce(f"{what}, into {folder}: {names}")
        why = pip("install", "--no-cache-dir", "--only-binary=:all:", "--target", part, *options, "-r", pins)
        if why:
            raise Failure(f"could not fetch the packages of {room}/requirements.txt: {why}",
                          "they need Python 3.11 or 3.12, and the network or pip's index (python3 -m pip config list)")


def stores(cache):
    packages(cache, "tests/stores", "the servers that the tests of gs:// and s3:// talk to")


def environments(cache):
    packages(cache, "tests/environments", "what the tests of environments in Python import")


def python(cache):
    packages(cache, "tests/python", "what the tests of the Python package import")


def packaging(cache):
    packages(cache, "packaging", "what makes a wheel fit for other systems")


def prompts(cache):
    # Without what it depends on, which is in the environment of bench/requirements-torch.txt.
    packages(cache, "tests/peers", "the program that tests/peers/prompts.py compares prompts with", "--no-deps")


def peers(cache, pins):
    folder, names = pinned(pathlib.Path(pins), cache, "bench")
    if not (folder / "bin/python").exists():
        with whole(folder) as part:
            announce(f"programs to compare with, into {folder}: {names}", file=sys.stderr)
            if subprocess.run([sys.executable, "-m", "venv", part], stdout=subprocess.DEVNULL).returncode:
                raise Failure("python3 cannot make a virtual environment", "apt-get install python3-venv")
            why = pip("install", "-r", pins, python=part / "bin/python")
            if why:
                raise Failure(f"the programs to compare with could not be installed: {why}",
                              "they need Python 3.11 or 3.12 and the network")
    print(folder)  # scripts in its bin/ name the temporary folder, its python does not


def main():
    cache = pathlib.Path(sys.argv[1]).absolute()
    try:
        fetchers = {"wheels": wheels, "stores": stores, "environments": environments, "python": python, "packaging": packaging,
                    "prompts": prompts, "peers": peers}
        fetchers[sys.argv[2]](cache, *sys.argv[3:])
    except OSError as error:
        sys.exit(f"dev: cannot write to {cache}: {error}\n  set KINEMA_CACHE to a folder that you may write to")
    except Failure as failure:
        sys.exit("dev: {}\n  {}".format(*failure.args))


if __name__ == "__main__":
    main()
