"""What the scripts of this folder share: running kinema, cases that `kinema verify` compares, and saying what differs.

Each script is `SCRIPT.py KINEMA`, KINEMA being the program. It ends at the first thing that is not as it has to be.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Before torch is imported: the tests run in parallel with others, and models are tiny.
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import safetensors.torch  # noqa: E402
import torch  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = SOURCE / "tests/golden"
FORWARD = 1e-4  # absolute and relative; float32 rounding through the tiny networks comes to 1e-5

scratch_folder = tempfile.TemporaryDirectory(prefix="kinema-peers-")  # removed when the script ends
scratch = pathlib.Path(scratch_folder.name)
os.chdir(scratch)


def kinema(*words, refused=None):
    """Runs the program and returns what it printed; it must end well, or with an error that holds `refused`."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    line = "kinema " + " ".join(map(str, words))
    if refused is None:
        assert done.returncode == 0, f"{line}\n  ended with {done.returncode}: {done.stderr}"
    else:
        error = done.stderr.strip()
        assert done.returncode == 1 and refused in error, f"{line}\n  expected `{refused}`, got {done.returncode}: {error}"
        last = error[error.rindex("kinema: "):]  # notices may stand before it
        assert len(last.splitlines()) <= 2, f"{line}\n  more than an error and its remedy: {last}"
    return done.stdout


def train(run, model, *words, refused=None):
    """Two steps on synthetic latents, at a rate that leaves nothing as it was; the run's newest checkpoint."""
    kinema("train", SOURCE / "configs/tiny.yml", f"run_name={run}", f"pretrained_model_name_or_path={model}", "max_train_steps=2",
           "learning_rate=0.02", "warmup_steps_fraction=0", "checkpoint_every=-1", "eval_every=-1", *words, refused=refused)
    return pathlib.Path(f"outputs/{run}/checkpoints/2")


def verify(case, model, tensors, lora=None, **about):
    """Has kinema compute the case from the files of `model`, and compare with the tensors. Returns its rows."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    for part in ("io", "lora", "variants"):
        (folder / part).mkdir()
    model = pathlib.Path(model).resolve()
    (folder / f"model{model.suffix}").symlink_to(model)
    for name, file in (lora or {}).items():
        (folder / f"lora/{name}.safetensors").symlink_to(pathlib.Path(file).resolve())
    (folder / f"io/{case}.json").write_text(json.dumps({"what": "made by tests/peers", "model": f"model{model.suffix}", **about}))
    safetensors.torch.save_file({name: value.detach().clone().contiguous() for name, value in tensors.items()},
                                folder / f"io/{case}.safetensors")
    rows = json.loads(kinema("verify", folder, "--scan", "on", "--json"))["cases"]
    missing = [row["tensor"] for row in rows if row["unsupported"]]
    assert rows and not missing, f"kinema did not compute {missing}"
    return rows


def same(name, found, expected, absolute=0.0, relative=0.0):
    """Every element within absolute + relative * |expected|; equal bits unless they are given."""
    assert found.shape == expected.shape, f"{name}: {tuple(found.shape)} but {tuple(expected.shape)}"
    difference = (found.double() - expected.double()).abs()
    over = (difference - absolute - relative * expected.double().abs()).max().item() if difference.numel() else 0.0
    assert over <= 0, f"{name}: {difference.max().item():.3g} apart, {over:.3g} more than it may be"
    return difference.max().item() if difference.numel() else 0.0


def same_tensors(found, expected, absolute=0.0, relative=0.0):
    """The same for each of two sets of named tensors. Returns the largest difference."""
    assert set(found) == set(expected), f"names differ: {sorted(set(found) ^ set(expected))[:4]}"
    return max(same(name, found[name], expected[name], absolute, relative) for name in expected)


def inputs(config, seed=0):
    """What a transformer of this configuration takes: two latent frames of 4 x 6."""
    random = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=random)  # noqa: E731
    out = {"hidden_states": draw(1, config["in_channels"], 2, 4, 6), "timestep": torch.tensor([613.0]),
           # diffusers counts image tokens as those beyond 512
           "encoder_hidden_states": draw(1, 512 if config["image_dim"] else 8, config["text_dim"])}
    if config["image_dim"]:
        out["encoder_hidden_states_image"] = draw(1, 17, config["image_dim"])
    return out


def say(what, difference=None):
    print(what if difference is None else f"{what}: largest difference {difference:.2g}", flush=True)
