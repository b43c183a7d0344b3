"""diffusers' WanTransformer3DModel from its folder, in bfloat16: one JSON line with the seconds."""

import json
import sys
import time

import torch
from diffusers import WanTransformer3DModel


def main():
    begin = time.perf_counter()
    model = WanTransformer3DModel.from_pretrained(sys.argv[1], torch_dtype=torch.bfloat16)
    loaded = time.perf_counter() - begin
    # Weights that are still mapped are read by the first step at the latest: a number of every page.
    for parameter in model.parameters():
        parameter.detach().reshape(-1)[::2048].float().sum()
    print(json.dumps({"seconds": loaded, "read_seconds": time.perf_counter() - begin}))


main()
