#!/usr/bin/env python3
"""wheel.py BUILD_FOLDER OUT_FOLDER: the wheel of the Python package, with the program and the libraries that both need.

libarrow and XLA's CPU plugin are not inside: they come with the wheels that it requires. auditwheel, pinned in
packaging/requirements.txt, copies Debian's libraries and finds the platform that the wheel is for.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
EXCLUDED = ("libarrow.so.*", "libarrow_s3.so.*", "libparquet.so.*")
LIBRARIES = "kinema.libs"  # of auditwheel


def pins():
    """The wheels that the package requires, by name, as cmake/wheels.txt has them."""
    text = (SOURCE / "cmake/wheels.txt").read_text()
    return dict(re.findall(r"^([a-z-]+)==(\S+)", text, re.M))


def plugin_pins():
    """The plugins of `kinema doctor --install`, as planning/install.cpp has them."""
    text = (SOURCE / "src/kinema/planning/install.cpp").read_text()
    return {name: re.search(rf'"{name}", "([^"]+)"', text)[1] for name in ("libtpu", "jax-cuda13-pjrt")}


def metadata(version, requires_python):
    required, plugins = pins(), plugin_pins()
    return "\n".join([
        "Metadata-Version: 2.4", "Name: kinema", f"Version: {version}",
        "Summary: Trains and samples diffusion models on XLA: Wan video, Flux, Z-Image, SDXL and SD 1.5 images",
        # Debian's FFmpeg, x264 and x265, which are inside, make the whole GPL; kinema's own code is Apache-2.0.
        "License-Expression: Apache-2.0 AND GPL-3.0-or-later", "License-File: LICENSE", "License-File: NOTICE",
        f"Requires-Python: {requires_python}",
        "Requires-Dist: numpy>=1.26", f"Requires-Dist: pyarrow=={required['pyarrow']}",
        f"Requires-Dist: xla-cpu-pjrt=={required['xla-cpu-pjrt']}",
        "Provides-Extra: tpu", f"Requires-Dist: libtpu=={plugins['libtpu']}; extra == 'tpu'",
        "Provides-Extra: cuda",
        f"Requires-Dist: jax-cuda13-pjrt=={plugins['jax-cuda13-pjrt']}; extra == 'cuda'",
        "Provides-Extra: pictures", "Requires-Dist: pillow; extra == 'pictures'", "Requires-Dist: tqdm; extra == 'pictures'",
        "Description-Content-Type: text/markdown", "", (SOURCE / "README.md").read_text()])


def rpath(file, *folders):
    subprocess.run(["patchelf", "--set-rpath", ":".join(f"$ORIGIN/{each}" for each in folders), file], check=True)


def fill(root, build):
    """The package's files."""
    with tempfile.TemporaryDirectory() as work:
        stage = pathlib.Path(work)
        subprocess.run(["cmake", "--install", build, "--component", "program", "--strip", "--prefix", stage], check=True,
                       stdout=subprocess.DEVNULL)
        package = root / "kinema"
        shutil.copytree(SOURCE / "python/kinema", package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / "bin").mkdir()
        shutil.copy2(stage / "bin/kinema", package / "bin/kinema")
        shutil.copytree(stage / "share/kinema", package / "share/kinema")
    module = next((build / "python/kinema").glob("_kinema*.so"))
    shutil.copy2(module, package / module.name)
    subprocess.run(["strip", "--strip-unneeded", package / module.name], check=True)
    rpath(package / module.name, f"../{LIBRARIES}", "../pyarrow")
    rpath(package / "bin/kinema", f"../../{LIBRARIES}", "../../pyarrow")
    return module.name


def record(root):
    rows = []
    for path in sorted(each for each in root.rglob("*") if each.is_file()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        rows.append(f"{path.relative_to(root)},sha256={digest},{path.stat().st_size}")
    return rows


def pack(root, file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
        for path in sorted(each for each in root.rglob("*") if each.is_file()):
            entry = zipfile.ZipInfo(str(path.relative_to(root)), (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, path.read_bytes())


def licences(root, build):
    """The licences of Debian's packages whose libraries auditwheel copies."""
    shutil.copy2(SOURCE / "LICENSE", root / "LICENSE")
    shutil.copy2(SOURCE / "packaging/notices.txt", root / "NOTICE")
    linked = subprocess.run(["ldd", build / "kinema"], capture_output=True, text=True, check=True).stdout
    folder = root / "debian"
    folder.mkdir()
    for path in sorted(set(re.findall(r"=> (/\S+)", linked))):
        for name in (os.path.realpath(path), path.removeprefix("/usr")):
            owner = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True).stdout.split(":")[0]
            copyright_file = pathlib.Path("/usr/share/doc") / owner / "copyright"
            if owner and copyright_file.is_file():
                shutil.copy2(copyright_file, folder / owner)
                break


def main(build, out):
    build, out = pathlib.Path(build).resolve(), pathlib.Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    cache = (build / "CMakeCache.txt").read_text()
    version = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache, re.M)[1]
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work) / "wheel"
        root.mkdir()
        module = fill(root, build)
        is_stable = ".abi3." in module
        tag = "cp312-abi3" if is_stable else "-".join(["cp" + sysconfig.get_config_var("py_version_nodot")] * 2)
        info = root / f"kinema-{version}.dist-info"
        (info / "licenses").mkdir(parents=True)
        licences(info / "licenses", build)
        python = ">=3.12" if is_stable else f"=={sys.version_info.major}.{sys.version_info.minor}.*"
        (info / "METADATA").write_text(metadata(version, python))
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: kinema\nRoot-Is-Purelib: false\nTag: {tag}-linux_x86_64\n")
        (info / "entry_points.txt").write_text("[console_scripts]\nkinema = kinema._program:main\n")
        rows = record(root)
        (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,"]) + "\n")
        plain = pathlib.Path(work) / f"kinema-{version}-{tag}-linux_x86_64.whl"
        pack(root, plain)
        exclude = [word for each in EXCLUDED for word in ("--exclude", each)]
        # auditwheel looks for what it excludes, too.
        arrow = re.search(r"^KINEMA_ARROW:PATH=(.*)$", cache, re.M)[1]
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", *exclude, "--wheel-dir", out, plain], check=True,
                       env={**os.environ, "LD_LIBRARY_PATH": arrow})
    for wheel in sorted(out.glob(f"kinema-{version}-{tag}-*.whl")):
        print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main(*sys.argv[1:])
