"""LoRA files that diffusers and PEFT save from a transformer, with what PEFT makes of them, for tests/golden/lora.

`adapter.safetensors` has alphas of modules, `adapter_rslora.safetensors` rank-stabilised ones; `..._deltas.safetensors`
beside each holds what PEFT adds to the weights. Needs torch, diffusers, peft and safetensors
(bench/requirements-torch.txt has all but peft 0.21.2): python3 tools/golden/lora_adapter_metadata.py
"""

import tempfile
from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from peft import LoraConfig
from safetensors.torch import save_file

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "lora"
SIZES = dict(num_attention_heads=1, attention_head_dim=6, in_channels=1, out_channels=1, text_dim=2, freq_dim=2,
             ffn_dim=4, num_layers=2, rope_max_seq_len=8)
CASES = {
    "adapter": dict(alpha_pattern={"blocks.1.attn1.to_q": 2, "to_q": 3, "^blocks.0.attn2.to_k": 5}),
    "adapter_rslora": dict(use_rslora=True, alpha_pattern={"attn2.to_k": 1.5}),
}


def main():
    for name, settings in CASES.items():
        torch.manual_seed(1)
        model = WanTransformer3DModel(**SIZES)
        model.add_adapter(LoraConfig(r=4, lora_alpha=8, target_modules=["to_q", "to_k", "ffn.net.2"],
                                     rank_pattern={"ffn.net.2": 2}, init_lora_weights=False, **settings))
        with tempfile.TemporaryDirectory() as folder:
            model.save_lora_adapter(folder)
            (GOLDEN / f"{name}.safetensors").write_bytes((Path(folder) / "pytorch_lora_weights.safetensors").read_bytes())
        deltas = {module: layer.get_delta_weight("default").detach().contiguous()
                  for module, layer in model.named_modules() if hasattr(layer, "get_delta_weight")}
        save_file(deltas, GOLDEN / f"{name}_deltas.safetensors", metadata={"format": "pt"})


main()
