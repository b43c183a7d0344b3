"""Weights that LyCORIS' and PEFT's own code makes of adapters of every method, for tests/golden/lora/methods.safetensors.

`CASE/base` is a weight, `CASE/x.PART` are the adapter's tensors as the program saves them, `CASE/merged` and `CASE/half` the
weight with the adapter at strength 1 and 0.5. Needs torch, peft 0.21.2, safetensors (bench/requirements-torch.txt) and
lycoris-lora 4.1.3: python3 tools/golden/adapter_methods.py
"""

from pathlib import Path

import peft
import torch
from lycoris.modules.boft import ButterflyOFTModule
from lycoris.modules.diag_oft import DiagOFTModule
from lycoris.modules.glora import GLoRAModule
from lycoris.modules.ia3 import IA3Module
from lycoris.modules.locon import LoConModule
from lycoris.modules.loha import LohaModule
from lycoris.modules.lokr import LokrModule
from safetensors.torch import save_file

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "lora"


def linear():
    return torch.nn.Linear(8, 12)


def convolution():
    return torch.nn.Conv2d(4, 6, 3, padding=1)


CASES = {
    "locon_tucker": (LoConModule, convolution, dict(lora_dim=2, alpha=3, use_tucker=True)),
    "dora_rows": (LoConModule, linear, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=True)),
    "dora_columns": (LoConModule, linear, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=False)),
    "dora_conv_rows": (LoConModule, convolution, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=True)),
    "dora_conv_columns": (LoConModule, convolution, dict(lora_dim=2, alpha=3, weight_decompose=True, wd_on_out=False)),
    "loha": (LohaModule, linear, dict(lora_dim=3, alpha=2)),
    "loha_conv": (LohaModule, convolution, dict(lora_dim=3, alpha=2)),
    "loha_tucker": (LohaModule, convolution, dict(lora_dim=3, alpha=2, use_tucker=True)),
    "loha_dora": (LohaModule, linear, dict(lora_dim=3, alpha=2, weight_decompose=True)),
    "lokr_whole": (LokrModule, linear, dict(lora_dim=100, alpha=5, factor=2)),
    "lokr_w2": (LokrModule, linear, dict(lora_dim=1, alpha=3, factor=2)),
    "lokr_both": (LokrModule, lambda: torch.nn.Linear(36, 36), dict(lora_dim=1, alpha=3, factor=6, decompose_both=True)),
    "lokr_conv": (LokrModule, convolution, dict(lora_dim=1, alpha=3, factor=2)),
    "lokr_conv_whole": (LokrModule, convolution, dict(lora_dim=100, alpha=3, factor=2)),
    "lokr_tucker": (LokrModule, convolution, dict(lora_dim=1, alpha=3, factor=2, use_tucker=True)),
    "lokr_dora": (LokrModule, linear, dict(lora_dim=1, alpha=3, factor=2, weight_decompose=True)),
    "oft": (DiagOFTModule, linear, dict(lora_dim=4, constraint=0)),
    "oft_constrained": (DiagOFTModule, linear, dict(lora_dim=4, constraint=0.01)),
    "oft_rescaled": (DiagOFTModule, convolution, dict(lora_dim=3, constraint=0, rescaled=True)),
    "boft": (ButterflyOFTModule, lambda: torch.nn.Linear(8, 16), dict(lora_dim=4, constraint=0)),
    "boft_rescaled": (ButterflyOFTModule, lambda: torch.nn.Conv2d(4, 24, 3), dict(lora_dim=6, constraint=0.02, rescaled=True)),
    "glora": (GLoRAModule, linear, dict(lora_dim=2, alpha=3)),
    "glora_conv": (GLoRAModule, convolution, dict(lora_dim=2, alpha=3)),
    "ia3_rows": (IA3Module, linear, {}),
    "ia3_columns": (IA3Module, linear, dict(train_on_input=True)),
    "ia3_conv": (IA3Module, convolution, dict(train_on_input=True)),
}


def of_lycoris(kind, make, settings):
    layer = make()
    module = kind("x", layer, **settings)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.startswith("org_module") and parameter.requires_grad:
                parameter.copy_(0.4 * torch.randn_like(parameter) + (1 if name in ("dora_scale", "rescale") else 0))
        base = layer.weight.detach().clone()
        state = module.custom_state_dict() if hasattr(module, "custom_state_dict") else None
        state = state or {key: value for key, value in module.state_dict().items() if not key.startswith("org_")}
        if kind in (LohaModule, LokrModule):  # as `forward`: their get_merged_weight applies alpha twice
            merged = base + module.get_weight(base.shape)
            half = base + 0.5 * (merged - base)
            merged = module.apply_weight_decompose(merged) if "dora_scale" in state else merged
        else:
            merged = module.get_merged_weight(multiplier=1, shape=base.shape)[0]
            half = module.get_merged_weight(multiplier=0.5, shape=base.shape)[0]
        if "dora_scale" in state:  # ComfyUI's strength: a share of the whole change
            half = base + 0.5 * (merged - base)
    return {"base": base, "merged": merged, "half": half, **{f"x.{key}": value for key, value in state.items()}}


def of_glora_before(out):
    """The same weights in the names of LyCORIS before 2.0."""
    swap = {"a1": "a2", "a2": "a1", "b1": "b2", "b2": "b1"}
    return {".".join(swap.get(word, word) for word in key.split(".")): value for key, value in out.items()}


def of_peft(make):
    network = torch.nn.ModuleDict({"x": make()})
    base = network["x"].weight.detach().clone()
    network = peft.inject_adapter_in_model(peft.LoraConfig(r=2, lora_alpha=3, use_dora=True, target_modules=["x"]), network)
    with torch.no_grad():
        for parameter in (p for p in network.parameters() if p.requires_grad):
            parameter.add_(0.4 * torch.randn_like(parameter))
    state = peft.get_peft_model_state_dict(network)
    layer = network["x"]
    out = {"base": base, **state, "x.alpha": torch.tensor(3.0)}
    for name, strength in (("merged", 1.0), ("half", 0.5)):
        layer.set_scale("default", strength)
        layer.merge(safe_merge=True)
        out[name] = layer.get_base_layer().weight.detach().clone()
        layer.unmerge()
        layer.get_base_layer().weight.data.copy_(base)
    return out


def main():
    torch.manual_seed(1)
    cases = {name: of_lycoris(*case) for name, case in CASES.items()}
    cases["glora_before"] = of_glora_before(cases["glora"])
    cases["peft_dora"] = of_peft(linear)
    cases["peft_dora_conv"] = of_peft(convolution)
    tensors = {f"{name}/{key}": value.detach().contiguous().clone() for name, case in cases.items() for key, value in case.items()}
    save_file(tensors, GOLDEN / "methods.safetensors", metadata={"format": "pt"})
    for name, case in cases.items():
        print(name, {key: tuple(value.shape) for key, value in case.items()})


main()
