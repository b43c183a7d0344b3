import pathlib

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def golden():
    return SOURCE / "tests" / "golden"


@pytest.fixture
def tiny(tmp_path):
    """Keys of a training run of a few steps without data, in a folder of the test."""
    return {"config": SOURCE / "configs" / "tiny.yml", "output_dir": tmp_path, "run_name": "run", "max_train_steps": 3}
