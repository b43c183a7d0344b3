"""What `generate` and `train` say that they take, against what they take, at eight settings.

Wan 2.1's widths with fewer layers, so that all of it takes minutes; --layers 30 --text-layers 24 are the published ones.
Predicted is what a command says before it loads anything, measured its largest resident memory less mapped files.
"""

import argparse
import json
import tempfile
from pathlib import Path

from real import BF16, GB, REPO, measured, pipeline, words

F32 = dict(weights_dtype="float32", activations_dtype="float32", text_encoder_dtype="float32")
SIZE = dict(height=256, width=256, num_frames=17)
SMALL = dict(height=128, width=128, num_frames=9)
GENERATE = {
    "bf16": BF16 | SIZE,
    "f32": F32 | SIZE,
    "33 frames": BF16 | SIZE | dict(num_frames=33),
    "streamed text": BF16 | SIZE | dict(text_encoder_memory="streamed"),
}
TRAIN = {
    "bf16": BF16 | SIZE | dict(train_state_dtype="weights_dtype"),
    "f32": F32 | SIZE,
    "remat FULL": BF16 | SIZE | dict(train_state_dtype="weights_dtype", remat_policy="FULL"),
    "batch 4, small": BF16 | SMALL | dict(train_state_dtype="weights_dtype", per_device_batch_size=4),
}


def report(name, run, memory):
    said = memory["predicted_bytes"]
    print(f"{name:24} {run['seconds']:8.1f} {run['peak'] / GB:8.2f} {said / GB:10.2f} {said / run['peak']:6.2f}", flush=True)
    return said / run["peak"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kinema", required=True, help="build folder")
    parser.add_argument("--cache", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=6, help="of the transformer")
    parser.add_argument("--text-layers", type=int, default=2, help="of UMT5")
    parser.add_argument("--most-gb", type=float, default=20, help="a process that takes more is ended")
    parser.add_argument("--only", default="", help="settings whose name has this")
    a = parser.parse_args()
    model = pipeline(a)
    kinema = Path(a.kinema) / "kinema"
    ratios = []
    with tempfile.TemporaryDirectory(prefix="kinema-memory-") as folder:
        print(f"{'':24} {'wall s':>8} {'peak GB':>8} {'predicted':>10} {'ratio':>6}", flush=True)
        for name, keys in GENERATE.items():
            if a.only in f"generate {name}":
                run = measured([kinema, "generate", *words(dict(pretrained_model_name_or_path=model) | keys),
                                "prompt=a red ball rolls over the grass", "num_inference_steps=1",
                                f"video_folder={folder}/videos", "--json"], a.most_gb * GB)
                ratios.append(report(f"generate {name}", run, json.loads(run["out"])["memory"]))
        for name, keys in TRAIN.items():
            if a.only not in f"train {name}":
                continue
            records = Path(folder) / f"records_{keys['num_frames']}"
            common = words(dict(pretrained_model_name_or_path=model) | keys)
            if not records.exists():
                measured([kinema, "prepare", "configs/wan21_t2v_1_3b.yml", *common, "train_data_dir=tests/golden/dataset",
                          "max_train_samples=4", f"tfrecords_dir={records}", "--json"], a.most_gb * GB)
            run = measured([kinema, "train", "configs/wan21_t2v_1_3b.yml", *common, f"train_data_dir={records}", "caption_dropout=0",
                            f"output_dir={folder}", f"run_name={name.replace(' ', '_').replace(',', '')}", "max_train_steps=2",
                            "checkpoint_every=-1", "save_final_checkpoint=false",
                            *([] if "per_device_batch_size" in keys else ["per_device_batch_size=1"]), "--json"], a.most_gb * GB)
            ratios.append(report(f"train {name}", run, json.loads(run["out"])["memory"]))
    print(f"furthest from 1: {max(ratios, key=lambda r: abs(r - 1)):.2f}")


if __name__ == "__main__":
    main()
