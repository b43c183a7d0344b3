"""The blocks of docs/guides/python.md, one after the other, with a small model in place of the published one."""

import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2]

SMALL = {"stabilityai/stable-diffusion-xl-base-1.0": str(SOURCE / "tests/golden/control/sdxl"),
         "num_inference_steps=30": "num_inference_steps=2",
         'device="cpu")': 'device="cpu", height=32, width=32, num_inference_steps=2)',
         '"configs/tiny.yml"': f'"{SOURCE}/configs/tiny.yml"',
         '"configs/sdxl_lora.yml"': f'"{SOURCE}/configs/sdxl_lora.yml", hardware="cpu", width=32, height=32, '
                                    f'pretrained_model_name_or_path="{SOURCE}/tests/golden/control/sdxl", '
                                    'output_dir="out", enable_generate_video_for_eval=False, eval_every=-1'}


def test_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (SOURCE / "docs/guides/python.md").read_text(), re.M | re.S)
    assert len(blocks) >= 6
    names = {}
    for block in blocks:
        for published, small in SMALL.items():
            block = block.replace(published, small)
        exec(compile(block, "docs/guides/python.md", "exec"), names)
    assert names["report"].fits
    assert names["samples"].steps == 2
    assert names["value"] == 1.0
