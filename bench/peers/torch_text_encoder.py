"""transformers' UMT5EncoderModel over one prompt that fills its length; takes bench/text_encoder.cpp's arguments.

The vocabulary has --vocabulary words instead of 256,384: the embedding table, which kinema reads by rows from the
file, is left out of the comparison of memory.
"""

import argparse

from torch_measure import DTYPES, build, measure, peak_rss_bytes

import torch
from transformers import UMT5Config, UMT5EncoderModel


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=2, tokens=512, runs=5, warmup=1, vocabulary=1024).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    a = parser.parse_args()
    imported = peak_rss_bytes()
    config = UMT5Config(vocab_size=a.vocabulary, d_model=4096, d_kv=64, d_ff=10240, num_layers=a.layers,
                        num_heads=64, feed_forward_proj="gated-gelu")
    model = build(a.dtype, lambda: UMT5EncoderModel(config))
    ids = torch.randint(a.vocabulary, (1, a.tokens))
    mask = torch.ones_like(ids)
    measure(imported, a.warmup, a.runs,
            lambda: float(model(ids, attention_mask=mask).last_hidden_state.float().abs().mean()))


main()
