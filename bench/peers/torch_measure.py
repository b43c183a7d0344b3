"""What the PyTorch peers share: when the process began, timing, one line of JSON."""

import json
import resource
import time

START = time.time()

import torch  # noqa: E402

torch.set_grad_enabled(False)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def build(dtype, make):
    """make() with random weights that are of the dtype from the start: no f32 copy counts as memory."""
    torch.manual_seed(0)
    torch.set_default_dtype(DTYPES[dtype])
    try:
        return make().eval()
    finally:
        torch.set_default_dtype(torch.float32)


def measure(imported_rss_bytes, warmup, count, run):
    seconds, first = [], 0.0
    for i in range(warmup + count):
        begin = time.time()
        checksum = run()
        first = first or time.time() - START
        if i >= warmup:
            seconds.append(time.time() - begin)
    print(json.dumps({"name": "torch", "seconds": seconds, "first_seconds": first, "checksum": checksum,
                      "imported_rss_bytes": imported_rss_bytes, "peak_rss_bytes": peak_rss_bytes()}))
