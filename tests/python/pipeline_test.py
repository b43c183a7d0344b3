"""Pipelines: the pictures of the program, from a model that stays loaded."""

import subprocess
import threading

import numpy as np
import PIL.Image
import pytest

import kinema as k
from kinema._native import PROGRAM

KEYS = {"num_inference_steps": 2, "height": 32, "width": 32, "seed": 1}


@pytest.fixture
def pipe(golden):
    return k.Pipeline(golden / "control" / "sdxl", device="cpu")


def test_pictures_are_those_of_the_program(pipe, golden, tmp_path):
    out = pipe("a red ball", **KEYS)
    assert isinstance(out.images[0], PIL.Image.Image) and not out.videos
    words = [f"{key}={value}" for key, value in {**KEYS, "prompt": "a red ball", "video_folder": tmp_path / "made"}.items()]
    subprocess.run([PROGRAM, "generate", golden / "control" / "sdxl", *words, "contact_sheet=false"], check=True,
                   capture_output=True)
    files = list((tmp_path / "made").glob("*.png"))
    assert len(files) == 1
    assert np.array_equal(np.asarray(PIL.Image.open(files[0])), np.asarray(out.images[0]))
    assert pipe.is_loaded
    again = pipe("a red ball", **KEYS)
    assert np.array_equal(again.latents[0], out.latents[0])
    assert not np.array_equal(pipe("a red ball", **{**KEYS, "seed": 2}).latents[0], out.latents[0])


def test_lists_of_prompts_and_types_of_output(pipe):
    out = pipe(["a", "b"], output_type="np", **KEYS)
    assert [each.shape for each in out.images] == [(32, 32, 3)] * 2
    assert out.images[0].flags.writeable and out.images[0].dtype == np.uint8
    assert pipe("a", output_type="latent", **KEYS).images == []
    with pytest.raises(ValueError, match="output_type"):
        pipe("a", output_type="pt", **KEYS)
    with pytest.raises(ValueError, match="line break"):
        pipe(["a\nb"], **KEYS)


@pytest.mark.parametrize("kind", ["pil", "u8", "float", "chw", "path"])
def test_pictures_in(pipe, kind, tmp_path):
    pixels = np.arange(32 * 32 * 3, dtype=np.uint32).reshape(32, 32, 3).astype(np.uint8)
    image = PIL.Image.fromarray(pixels)
    image.save(tmp_path / "a.png")
    given = {"pil": image, "u8": pixels, "float": pixels / 255.0, "chw": np.ascontiguousarray(pixels.transpose(2, 0, 1)),
             "path": tmp_path / "a.png"}[kind]
    want = pipe("a", image=tmp_path / "a.png", strength=0.5, **KEYS).latents[0]
    assert np.array_equal(pipe("a", image=given, strength=0.5, **KEYS).latents[0], want)


def test_wrong_pictures(pipe):
    for wrong, words in ((np.zeros((5, 5, 7), np.uint8), "shape"), (np.full((4, 4, 3), 2.0), "0 to 1"),
                         (np.zeros((4, 4, 3), np.int64), "int64"), (np.zeros((0, 4, 3), np.uint8), "shape")):
        with pytest.raises(ValueError, match=words):
            pipe("a", image=wrong, strength=0.5, **KEYS)


def test_an_exception_in_a_callback_ends_the_call(pipe):
    steps = []

    def stop(pipeline, step, total, kwargs):
        steps.append((step, total))
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        pipe("a", callback_on_step_end=stop, **KEYS)
    assert steps == [(1, 2)]
    assert pipe("a", **KEYS).images


def test_errors(pipe, tmp_path):
    with pytest.raises(k.Error, match="num_inference_steps"):
        pipe("a", num_inference_step=2)
    with pytest.raises(k.Error):
        k.Pipeline(tmp_path / "nothing")


def test_threads_take_turns(pipe):
    want = pipe("a", **KEYS).latents[0]
    got = []
    threads = [threading.Thread(target=lambda: got.append(pipe("a", **KEYS).latents[0])) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(got) == 3 and all(np.array_equal(each, want) for each in got)
