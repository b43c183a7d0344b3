"""Data sets of Python, for `train(data=...)`.

A data set is a sequence (`__len__` and `__getitem__`, as torch's Dataset and Hugging Face's datasets.Dataset) or any
iterable of samples. A sample is a dict with a picture or a path (`image`, `video` or `file`) and a caption (`text`,
`caption` or `prompt`), or a pair of both. Pictures are PIL images or arrays; videos are paths.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from kinema import _pictures
from kinema._settings import Path, load

_SAMPLES = ("image", "video", "file", "path")
_CAPTIONS = ("text", "caption", "prompt")


def _parts(sample: Any, index: int) -> tuple[Any, str]:
    if isinstance(sample, dict):
        what = next((sample[name] for name in _SAMPLES if sample.get(name) is not None), None)
        caption = next((sample[name] for name in _CAPTIONS if sample.get(name) is not None), None)
    elif isinstance(sample, (tuple, list)) and len(sample) == 2:
        what, caption = sample
    else:
        what = caption = None
    if what is None or not isinstance(caption, str):
        raise ValueError(f"sample {index} of data is {type(sample).__name__}, expected a dict with image, video or file, "
                         "and with text")
    return what, caption


def _samples(data: Iterable[Any]) -> Iterator[Any]:
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        rows: Any = data
        return (rows[i] for i in range(len(rows)))
    return iter(data)


def written_folder(data: Iterable[Any], config: Path | None, keys: dict[str, Any]) -> pathlib.Path:
    """Writes the samples as a folder that training reads, and returns its path: `data` beside the run's checkpoints.

    The names are the samples' positions, so that a resumed run has the same order. A folder of the same samples is
    used again; other samples under the same run are an error of the resume, as with files.
    """
    run = pathlib.Path(load(config, **keys).run_folder)
    run.mkdir(parents=True, exist_ok=True)
    made = pathlib.Path(tempfile.mkdtemp(prefix=".data-", dir=run))
    digest = hashlib.sha256()
    try:
        rows = []
        for index, sample in enumerate(_samples(data)):
            what, caption = _parts(sample, index)
            if _pictures.is_path(what):
                source = pathlib.Path(what).resolve()
                name = f"{index:08}{source.suffix}"
                os.symlink(source, made / name)
                digest.update(f"{source} {source.stat().st_size} {source.stat().st_mtime_ns}".encode())
            else:
                name = f"{index:08}.png"
                _pictures.write_png(what, made / name, f"sample {index}")
                digest.update((made / name).read_bytes())
            rows.append(json.dumps({"file_name": name, "text": caption}))
            digest.update(rows[-1].encode())
        if not rows:
            raise ValueError("data has no samples")
        (made / "metadata.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        folder = run / f"data-{digest.hexdigest()[:16]}"
        if folder.is_dir():
            shutil.rmtree(made)
        else:
            made.chmod(0o755)
            made.rename(folder)
        return folder
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
