"""DoRA, LoHa and LoKr that kinema trains, in PEFT: outputs of networks with them, and the factors as LyCORIS names them."""

from peer import FORWARD, GOLDEN, inputs, kinema, say, train, verify

import peft
import safetensors.torch
import torch
from diffusers import WanTransformer3DModel

FILE = "pytorch_lora_weights.safetensors"
MODEL = GOLDEN / "wan21_t2v"

for kind, words in {"dora": ["lora_alpha=5"], "loha": ["lora_alpha=5"], "lokr": ["lora_alpha=5"],
                    "lokr_whole": ["lora_rank=64", "lora_alpha=96", "lokr_factor=4"]}.items():
    adapter = train(kind, MODEL, "enable_lora=true", "lora_rank=3", f"adapter_type={kind.split('_')[0]}",
                    "lora_target_modules=attention+ffn", *words) / "adapter"
    base = WanTransformer3DModel.from_pretrained(MODEL / "transformer").eval()
    given = inputs(base.config)
    config = peft.PeftConfig.from_pretrained(adapter)
    network = peft.inject_adapter_in_model(config, WanTransformer3DModel.from_pretrained(MODEL / "transformer")).eval()
    state = {key.removeprefix("transformer."): value for key, value in safetensors.torch.load_file(adapter / FILE).items()}
    result = peft.set_peft_model_state_dict(network, state)
    assert not result.unexpected_keys, result.unexpected_keys
    missing = [key for key in result.missing_keys if "base_layer" not in key and any(part in key for part in ("lora_", "hada_", "lokr_"))]
    assert not missing, missing[:4]
    with torch.no_grad():
        output, without = network(**given).sample, base(**given).sample
    moved = (output - without).abs().max().item()
    assert moved > 100 * FORWARD, f"{kind}: the adapter moves the output by {moved:.2g}, too little to see"
    rows = verify("lora", MODEL / "transformer", {**given, "trained.scale1.output": output}, {"trained": adapter})
    say(f"{kind}: outputs of kinema and PEFT", max(row["max_diff"] for row in rows))
    for names in ("kohya", "comfyui"):
        file = f"{kind}-{names}.safetensors"
        kinema("convert", adapter, file, "--to", names)
        rows = verify("lora", MODEL / "transformer", {**given, "trained.scale1.output": output}, {"trained": file})
        say(f"{kind}: the same in {names} names", max(row["max_diff"] for row in rows))
