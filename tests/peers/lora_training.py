"""Three steps of LoRA training by PEFT and torch on networks of other sizes than the reference set's, and by kinema."""

from peer import inputs, say, verify

import math

import peft
import torch
from diffusers import WanTransformer3DModel

RATE, DECAY, LARGEST_NORM, STEPS = 1e-3, 0.05, 0.5, 3
BETAS, EPS = (0.9, 0.99), 1e-8
# Gradients and moments by their largest element; a parameter moves by about RATE a step whatever its gradient is.
LIMITS = {**{name: {"relative": 1e-4} for name in ("loss", "grad_norm")},
          **{name: {"of_largest": 1e-3} for name in ("grad.*", "grad_last.*", "mu.*", "nu.*")},
          "param.*": {"absolute": 2 * RATE, "rms": RATE / 10}, "merged.*": {"absolute": 1e-5},
          "eval.output.*": {"absolute": 1e-4, "relative": 1e-4}}


def case_of(sizes, targets, words, rank, alpha, rslora, seed):
    """The network in `model`, and the tensors and settings of the case."""
    torch.manual_seed(seed)
    network = WanTransformer3DModel(**sizes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    network.save_pretrained(f"model{seed}")
    evaluated = inputs(network.config, seed)
    tensors = {f"eval.{key}": value for key, value in evaluated.items()}
    with torch.no_grad():
        tensors["eval.output.base"] = network(**evaluated).sample
    network.requires_grad_(False)
    network.add_adapter(peft.LoraConfig(r=rank, lora_alpha=alpha, use_rslora=rslora, target_modules=targets))
    factors = {key.replace(".default.", "."): p for key, p in network.named_parameters() if p.requires_grad}
    tensors.update({f"lora.{key}": p.detach().clone() for key, p in factors.items()})
    optimizer = torch.optim.AdamW(factors.values(), RATE, BETAS, EPS, DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        latents = torch.randn(2, sizes["in_channels"], 2, 4, 6)
        noise = torch.randn_like(latents)
        timestep = 1000 * torch.rand(2)
        sigma = (timestep / 1000).view(-1, 1, 1, 1, 1)
        text = torch.randn(2, 7, sizes["text_dim"])
        prediction = network((1 - sigma) * latents + sigma * noise, timestep, text).sample
        loss = (noise - latents - prediction).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if step in (0, STEPS - 1):
            at = "grad." if step == 0 else "grad_last."
            tensors.update({at + key: p.grad.clone() for key, p in factors.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(factors.values(), LARGEST_NORM))
        optimizer.step()
        losses.append(loss.detach())
        tensors.update({f"step{step}.{key}": value for key, value in {
            "latents": latents, "noise": noise, "timestep": timestep, "sigma": sigma.flatten(), "encoder_hidden_states": text}.items()})
    tensors["loss"], tensors["grad_norm"] = torch.stack(losses), torch.stack(norms)
    for key, p in factors.items():
        state = optimizer.state[p]
        tensors.update({f"param.{key}": p.detach(), f"mu.{key}": state["exp_avg"], f"nu.{key}": state["exp_avg_sq"]})
    with torch.no_grad():
        tensors["eval.output.unmerged"] = network(**evaluated).sample
        for module in network.modules():
            if isinstance(module, peft.tuners.lora.LoraLayer):
                module.merge()
        tensors["eval.output.merged"] = network(**evaluated).sample
        tensors.update({f"merged.{key.replace('.base_layer', '')}": p for key, p in network.named_parameters() if key.endswith("base_layer.weight")})
    about = {"rank": rank, "alpha": alpha, "use_rslora": rslora, "targets": words, "optimizer": {
        "learning_rate": RATE, "b1": BETAS[0], "b2": BETAS[1], "eps": EPS, "weight_decay": DECAY, "max_grad_norm": LARGEST_NORM},
        "limits": LIMITS}
    return tensors, about


ATTENTION = ["to_q", "to_k", "to_v", "to_out.0"]
SMALL = {"num_attention_heads": 3, "attention_head_dim": 16, "text_dim": 20, "freq_dim": 12, "ffn_dim": 40, "num_layers": 2,
         "in_channels": 6, "out_channels": 6, "cross_attn_norm": True}
OTHER = {**SMALL, "num_attention_heads": 1, "attention_head_dim": 24, "in_channels": 4, "out_channels": 4}
for seed, (sizes, targets, words, rank, alpha, rslora) in enumerate([
        (SMALL, ATTENTION + ["ffn.net.0.proj", "ffn.net.2"], ["attention+ffn"], 5, 3.0, True),
        (OTHER, ["to_k", "attn2.to_out.0", "proj_out", "time_proj"], ["to_k", "attn2.to_out.0", "proj_out", "condition_embedder.time_proj"],
         3, 7.0, False)]):
    tensors, about = case_of(sizes, targets, words, rank, alpha, rslora, seed)
    rows = verify("lora_train", f"model{seed}", tensors, **about)
    compared = {row["tensor"] for row in rows}
    wanted = {name for name in tensors if name.split(".")[0] in ("grad", "grad_last", "param", "mu", "nu", "loss", "grad_norm")
              or name.startswith("eval.output")}
    assert wanted <= compared, sorted(wanted - compared)[:4]
    scale = alpha / (math.sqrt(rank) if rslora else rank)
    say(f"rank {rank}, counted {scale:.3f} times, on {len(targets)} kinds of layers: {len(rows)} tensors",
        max(row["max_diff"] for row in rows))
