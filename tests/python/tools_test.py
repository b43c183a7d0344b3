"""Commands that return reports."""

import pytest

import kinema as k


def test_plan_of_a_cpu(tiny):
    report = k.plan(tiny["config"], target="cpu:1")
    assert report.fits and report.as_dict()["fits"]
    assert "<pre>" in report._repr_html_()
    with pytest.raises(k.Error, match="target"):
        k.plan(tiny["config"], target="v99:1")


def test_inspect_and_convert(golden, tmp_path):
    found = k.inspect(golden / "control" / "sdxl")
    assert "summary" in found
    with pytest.raises(k.Error):
        k.inspect(tmp_path / "nothing")
    out = k.convert(golden / "control" / "sdxl", tmp_path / "unet", to="diffusers", dtype="bfloat16")
    assert (tmp_path / "unet" / "config.json").is_file() and out.endswith("unet")
    with pytest.raises(k.Error, match="exist"):
        k.convert(golden / "control" / "sdxl", tmp_path / "unet", to="diffusers", dtype="bfloat16")


def test_flags():
    found = k.flags.check("--xla_tpu_scoped_vmem_limit_kib=65536", target="v6e:4x4")
    assert isinstance(found, dict)


def test_keys():
    names = {key.name: key for key in k.keys()}
    assert names["learning_rate"].type == "a number" and names["learning_rate"].help
    assert len(names) > 300
