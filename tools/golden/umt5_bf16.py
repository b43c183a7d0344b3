"""Prompt embeddings of transformers' UMT5 in bfloat16, for tests/golden/text/umt5_bf16.safetensors.

The prompts are those of tests/golden/io/umt5.json, the model is tests/golden/wan21_t2v. Needs torch, transformers
and safetensors (bench/requirements-torch.txt has them): python3 tools/golden/umt5_bf16.py
"""

import html
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, UMT5EncoderModel

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"


def embeddings(dtype, prompts, length):
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN / "wan21_t2v" / "tokenizer")
    encoder = UMT5EncoderModel.from_pretrained(GOLDEN / "wan21_t2v" / "text_encoder").to(dtype).eval()
    batch = tokenizer(prompts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    with torch.no_grad():
        states = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    return states * batch.attention_mask[..., None].to(dtype)  # zeros behind the prompt


def main():
    about = json.loads((GOLDEN / "io" / "umt5.json").read_text())["prompt_embeds"]
    prompts = [html.unescape(html.unescape(text)) for text in about["prompts"]]  # all the cleaning that they need
    length = about["max_sequence_length"]
    exact = load_file(GOLDEN / "io" / "umt5.safetensors")["prompt_embeds"]
    assert torch.allclose(embeddings(torch.float32, prompts, length), exact, atol=1e-4), "another model or cleaning"
    half = embeddings(torch.bfloat16, prompts, length)
    gap = (half.float() - exact).abs()
    print(f"from float32: at most {gap.max():.4f}, rms {gap.square().mean().sqrt():.5f}")
    save_file({"prompt_embeds": half}, GOLDEN / "text" / "umt5_bf16.safetensors", metadata={"format": "pt"})


main()
