"""Adapters of LyCORIS' own library in kinema: outputs of networks with them, for every method. Needs lycoris-lora 4.1.3."""

import sys

try:
    import lycoris
except ImportError:
    print("skipped: lycoris-lora is not there")
    sys.exit(77)

from peer import GOLDEN, inputs, say, verify  # noqa: E402

import torch  # noqa: E402
from diffusers import WanTransformer3DModel  # noqa: E402

MODEL = GOLDEN / "wan21_t2v/transformer"
METHODS = {
    "lora": {},
    "dora": {"dora_wd": True},
    "dora_columns": {"dora_wd": True, "wd_on_output": False},
    "loha": {"algo": "loha"},
    "loha_dora": {"algo": "loha", "dora_wd": True},
    "lokr": {"algo": "lokr", "factor": 8},
    "lokr_whole": {"algo": "lokr", "factor": 4, "linear_dim": 1000},
    "lokr_both": {"algo": "lokr", "factor": 16, "decompose_both": True, "linear_dim": 1},
    "oft": {"algo": "diag-oft", "linear_dim": 8},
    "oft_rescaled": {"algo": "diag-oft", "linear_dim": 8, "rescaled": True, "constraint": 0.01},
    "boft": {"algo": "boft", "linear_dim": 8},
    "glora": {"algo": "glora"},
    "ia3": {"algo": "ia3"},
    "ia3_inputs": {"algo": "ia3", "train_on_input": True},
    "full": {"algo": "full"},
}

lycoris.LycorisNetwork.apply_preset({"enable_conv": False, "target_module": ["WanTransformerBlock"], "target_name": []})
for name, settings in METHODS.items():
    torch.manual_seed(1)
    network = WanTransformer3DModel.from_pretrained(MODEL).eval()
    given = inputs(network.config)
    adapter = lycoris.create_lycoris(network, 1.0, **{"linear_dim": 4, "linear_alpha": 3, "algo": "lora", **settings})
    adapter.apply_to()
    assert len(adapter.loras) >= 16, f"{name}: {len(adapter.loras)} modules"
    with torch.no_grad():
        for key, parameter in adapter.named_parameters():
            parameter.add_((0.02 if "lora" != settings.get("algo", "lora") else 0.05) * torch.randn_like(parameter))
    adapter.save_weights(f"{name}.safetensors", torch.float32, {})
    with torch.no_grad():
        output = network(**given).sample
    rows = verify("lora", MODEL, {**given, "adapter.scale1.output": output}, {"adapter": f"{name}.safetensors"})
    base = WanTransformer3DModel.from_pretrained(MODEL).eval()
    with torch.no_grad():
        moved = (base(**given).sample - output).abs().max().item()
    assert moved > 1e-3, f"{name}: the adapter moves the output by {moved:.2g}, too little to see"
    say(f"{name}: outputs of kinema (the adapter moves them by {moved:.2g})", max(row["max_diff"] for row in rows))
