"""diffusers' WanTransformer3DModel from its folder, as a dtype: one JSON line with the seconds."""

import json
import sys
import time

from torch_measure import DTYPES

from diffusers import WanTransformer3DModel


def main():
    begin = time.perf_counter()
    model = WanTransformer3DModel.from_pretrained(sys.argv[1], torch_dtype=DTYPES[sys.argv[2]])
    loaded = time.perf_counter() - begin
    # Weights that are still mapped are read by the first step at the latest: a number of every page.
    for parameter in model.parameters():
        parameter.detach().reshape(-1)[::2048].float().sum()
    print(json.dumps({"seconds": loaded, "read_seconds": time.perf_counter() - begin}))


main()
