"""What the PyTorch peers share: when the process began, timing, one line of JSON."""

import json
import time

START = time.time()

import torch  # noqa: E402

torch.set_grad_enabled(False)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def peak_rss_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def build(dtype, make, device="cpu"):
    """make() with random weights that are of the dtype from the start: no f32 copy counts as memory."""
    torch.manual_seed(0)
    torch.set_default_device(device)  # inputs made after it lie there too
    torch.set_default_dtype(DTYPES[dtype])
    try:
        model = make().eval()
    finally:
        torch.set_default_dtype(torch.float32)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # resets the peak: making weights is not part of what is measured
    return model


def measure(imported_rss_bytes, warmup, count, run):
    seconds, cpu_seconds, first = [], [], 0.0
    for i in range(warmup + count):
        begin, busy = time.time(), time.process_time()
        checksum = run()
        first = first or time.time() - START
        if i >= warmup:
            seconds.append(time.time() - begin)
            cpu_seconds.append(time.process_time() - busy)
    print(json.dumps({"name": "torch", "seconds": seconds, "cpu_seconds": cpu_seconds, "first_seconds": first, "checksum": checksum,
                      "imported_rss_bytes": imported_rss_bytes, "peak_rss_bytes": peak_rss_bytes(),
                      **({"peak_device_bytes": torch.cuda.max_memory_allocated()} if torch.cuda.is_initialized() else {})}))
