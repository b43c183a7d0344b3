"""Adapters that diffusers and PEFT save, in kinema: sampled, trained further, or refused with a one-line error."""

from peer import GOLDEN, inputs, kinema, safetensors, same_tensors, say, train, verify

import peft
import torch
from diffusers import WanPipeline, WanTransformer3DModel
from diffusers.training_utils import _collate_lora_metadata

FILE = "pytorch_lora_weights.safetensors"
MODEL = GOLDEN / "wan21_t2v"
ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]


def network_with(config):
    """The transformer with an adapter that is not 0 in any part that is trained."""
    network = WanTransformer3DModel.from_pretrained(MODEL / "transformer")
    network.add_adapter(config)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (p for p in network.parameters() if p.requires_grad):
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=random))
    return network.eval()


def saved(name, network, config):
    """The three ways of saving it: the transformer's, the pipeline's, PEFT's."""
    network.save_lora_adapter(f"{name}-transformer")
    WanPipeline.save_lora_weights(f"{name}-pipeline", peft.get_peft_model_state_dict(network),
                                  **_collate_lora_metadata({"transformer": network}))
    other = peft.get_peft_model(WanTransformer3DModel.from_pretrained(MODEL / "transformer"), config)
    state = {f"base_model.model.{key}": value for key, value in peft.get_peft_model_state_dict(network).items()}
    assert not peft.set_peft_model_state_dict(other, state).unexpected_keys
    other.save_pretrained(f"{name}-peft")
    return {"transformer": f"{name}-transformer/{FILE}", "pipeline": f"{name}-pipeline/{FILE}", "peft": f"{name}-peft"}


def config(targets=ATTENTION, **more):
    return peft.LoraConfig(**{"r": 4, "lora_alpha": 8, "target_modules": targets, **more})


# Every way of scaling that PEFT has: kinema's outputs, from each of the three, are diffusers'.
READ = {
    "plain": config(),
    "rslora": config(ATTENTION + ["ffn.net.0.proj", "ffn.net.2"], use_rslora=True),
    "patterns": config(rank_pattern={"attn1.to_q": 2, r"blocks\.1\.attn2\.to_v": 6}, alpha_pattern={"attn1.to_q": 5, r"to_(k|v)": 3}),
    "bias": config(lora_bias=True),
    "convolution": config(["patch_embedding", "to_q", "proj_out", "time_proj"]),
    "dora": config(use_dora=True),
}
for name, about in READ.items():
    network = network_with(about)
    files = saved(name, network, about)
    given = inputs(network.config)
    with torch.no_grad():
        output = network(**given).sample
    rows = verify("lora", MODEL / "transformer", {**given, **{f"{file}.scale1.output": output for file in files}}, files)
    assert len(rows) == 2 * len(files)  # merged, and kept apart
    say(f"{name}: outputs of kinema", max(row["max_diff"] for row in rows))

# PEFT's other methods, as its own folders, at a strength that is not 1 / rank.
for name, about in {"loha": peft.LoHaConfig(r=3, alpha=5, target_modules=ATTENTION, alpha_pattern={"to_q": 2}),
                    "lokr": peft.LoKrConfig(r=3, alpha=5, target_modules=ATTENTION),
                    "lokr_whole": peft.LoKrConfig(r=64, alpha=96, target_modules=ATTENTION, decompose_factor=4),
                    "oft": peft.OFTConfig(oft_block_size=8, target_modules=ATTENTION + ["patch_embedding"]),
                    "oft_shared": peft.OFTConfig(oft_block_size=4, block_share=True, target_modules=ATTENTION),
                    "oft_exact": peft.OFTConfig(oft_block_size=8, use_cayley_neumann=False, target_modules=ATTENTION),
                    "ia3": peft.IA3Config(target_modules=["to_k", "to_v", "ffn.net.2"], feedforward_modules=["ffn.net.2"])}.items():
    torch.manual_seed(2)
    network = peft.get_peft_model(WanTransformer3DModel.from_pretrained(MODEL / "transformer"), about)
    with torch.no_grad():
        for parameter in (p for p in network.parameters() if p.requires_grad):
            parameter.add_(0.05 * torch.randn_like(parameter))
    network.eval().save_pretrained(f"{name}-peft")
    given = inputs(network.base_model.model.config)
    with torch.no_grad():
        output = network.base_model.model(**given).sample
    rows = verify("lora", MODEL / "transformer", {**given, "peft.scale1.output": output}, {"peft": f"{name}-peft"})
    say(f"{name}: outputs of kinema", max(row["max_diff"] for row in rows))

# A run resumes from it: at a learning rate near zero its adapter stays the initial one.
for name in ("plain", "rslora"):
    for how, where in (("pipeline", f"{name}-pipeline/{FILE}"), ("peft", f"{name}-peft")):
        adapter = train(f"{name}-{how}", MODEL, "enable_lora=true", "lora_target_modules=attention+ffn" if name == "rslora" else "lora_target_modules=attention",
                        "learning_rate=1e-12", "adam_weight_decay=0", f"lora_config={{lora_model_name_or_path: [{where}]}}") / "adapter"
        found = safetensors.torch.load_file(adapter / FILE)
        difference = same_tensors(found, safetensors.torch.load_file(f"{name}-pipeline/{FILE}"), 1e-10)
        about = peft.LoraConfig.from_pretrained(adapter)
        scale = about.lora_alpha / (about.r**0.5 if about.use_rslora else about.r)
        assert about.r == 4 and abs(scale - (4 if name == "rslora" else 2)) < 1e-9, about
        say(f"{name}: a run that resumes from {how}'s keeps it", difference)

# What kinema has no formula or no place for is refused, in at most two lines.
REFUSED = {
    "bias_lora_only": (config(bias="lora_only"), "blocks.0.attn1.to_k.base_layer.bias"),
    "modules_to_save": (config(modules_to_save=["proj_out"]), "proj_out"),
}
for name, (about, why) in REFUSED.items():
    for file in saved(name, network_with(about), about).values():
        kinema("generate", MODEL, "prompt=a", "height=32", "width=32", "num_frames=5", "max_sequence_length=32", "enable_lora=true",
               f"lora_config={{lora_model_name_or_path: [{file}]}}", refused=why)
    say(f"{name}: refused")
for name, why in (("patterns", "several ranks or scales"), ("bias", "by more than a low-rank pair")):
    train(f"{name}-refused", MODEL, "enable_lora=true", f"lora_config={{lora_model_name_or_path: [{name}-peft]}}", refused=why)
    say(f"{name}: no run resumes from it")
