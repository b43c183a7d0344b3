"""Training from Python: equal to the program, observed, stopped and resumed."""

import json
import subprocess

import numpy as np
import PIL.Image
import pytest

import kinema as k
from kinema._native import PROGRAM


def losses_of(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [each["learning/loss"] for each in map(json.loads, lines) if "learning/loss" in each]


def test_losses_are_those_of_the_program(tiny, tmp_path):
    run = k.train(**tiny)
    assert run.steps == 3 and not run.stopped
    assert len(run.losses) == 3 and np.isfinite(run.losses).all()
    assert run.history["step"].tolist() == [1, 2, 3]
    words = [f"{key}={value}" for key, value in {**tiny, "run_name": "program"}.items() if key != "config"]
    subprocess.run([PROGRAM, "train", tiny["config"], *words], check=True, capture_output=True)
    assert losses_of(tmp_path / "run") == losses_of(tmp_path / "program")
    assert run.checkpoints and run.folder == tmp_path / "run"
    assert "<svg" in run._repr_html_() or "Run(" in run._repr_html_()


class Recording(k.Callback):
    def __init__(self):
        self.events = []

    def on_train_begin(self, folder, parameters, trained, first_step, max_steps):
        assert parameters > 0 and max_steps > 0
        self.events.append(("begin", first_step))

    def on_step_end(self, step):
        self.events.append(("step", step.step, step.loss))

    def on_train_end(self, run):
        self.events.append(("end", run.steps))


def test_callbacks_and_resume(tiny):
    first, second = Recording(), Recording()
    whole = k.train(callbacks=[first, k.tqdm(disable=True)], **tiny)
    assert [event[0] for event in first.events] == ["begin", "step", "step", "step", "end"]
    assert [event[2] for event in first.events[1:4]] == whole.losses.tolist()
    tiny.update(run_name="parts", max_train_steps=2)
    k.train(**tiny)
    tiny.update(max_train_steps=3)
    rest = k.train(callbacks=[second], **tiny)
    assert second.events[0] == ("begin", 2)
    assert rest.losses.tolist() == whole.losses[2:].tolist()


def test_an_exception_in_a_callback_saves_and_is_raised(tiny):
    class Mine(Exception):
        pass

    problem = Mine("enough")

    class Raising(k.Callback):
        def on_step_end(self, step):
            if step.step == 2:
                raise problem

    with pytest.raises(Mine) as caught:
        k.train(callbacks=[Raising()], **tiny)
    assert caught.value is problem
    assert [event for event in k.train(**tiny).history["step"]] == [3]


def test_errors_are_kinemas(tiny):
    with pytest.raises(k.Error, match="learning_rat.*\n?.*learning_rate"):
        k.train(**tiny, learning_rat=1)
    with pytest.raises(k.Error, match="max_train_steps"):
        k.train(tiny["config"], max_train_steps="many")
    with pytest.raises(TypeError, match="expected a bool, number"):
        k.train(tiny["config"], max_train_steps=object())
    with pytest.raises(k.Error, match="no-such.yml"):
        k.train("no-such.yml")


def pictures(count):
    return [{"image": PIL.Image.new("RGB", (32, 32), (40 * i, 10, 200 - 30 * i)), "text": f"colour {i}"}
            for i in range(count)]


def test_data_from_python_is_as_files_are(golden, tmp_path):
    """The losses are those of the same pictures in a folder."""
    folder = tmp_path / "files"
    folder.mkdir()
    for i, sample in enumerate(pictures(5)):
        sample["image"].save(folder / f"{i:08}.png")
        (folder / f"{i:08}.txt").write_text(sample["text"])
    keys = {"config": golden.parents[1] / "configs" / "tiny.yml", "output_dir": tmp_path, "max_train_steps": 2,
            "width": 32, "height": 32, "num_frames": 1, "dataset_type": "images"}
    files = k.train(**keys, run_name="files_run", train_data_dir=folder)

    class Map:
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return np.asarray(pictures(5)[index]["image"]), pictures(5)[index]["text"]

    for name, data in (("list", pictures(5)), ("map", Map()), ("iterator", iter(pictures(5)))):
        run = k.train(**keys, run_name=name, data=data)
        assert run.losses.tolist() == files.losses.tolist(), name
    with pytest.raises(ValueError, match="sample 1 of data"):
        k.train(**keys, run_name="wrong", data=[pictures(1)[0], 7])
    with pytest.raises(ValueError, match="no samples"):
        k.train(**keys, run_name="none", data=[])
