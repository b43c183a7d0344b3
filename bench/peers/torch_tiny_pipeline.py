"""Writes a Wan 2.1 pipeline folder of tiny sizes with random weights: torch_tiny_pipeline.py FOLDER TOKENIZER."""

import sys

import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel


def main():
    folder, tokenizer = sys.argv[1:]
    torch.manual_seed(0)
    words = AutoTokenizer.from_pretrained(tokenizer)
    text = UMT5Config(vocab_size=512, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4,
                      feed_forward_proj="gated-gelu")
    WanPipeline(
        tokenizer=words,
        text_encoder=UMT5EncoderModel(text),
        vae=AutoencoderKLWan(base_dim=4),
        scheduler=UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        transformer=WanTransformer3DModel(num_attention_heads=2, attention_head_dim=32, text_dim=48, freq_dim=32,
                                          ffn_dim=128, num_layers=2),
    ).save_pretrained(folder)


main()
