"""The cases of tests/golden/samplers.json are what the installed diffusers computes."""

import json
import sys

from peer import GOLDEN, SOURCE, say

sys.path.insert(0, str(SOURCE / "tools/golden"))
import samplers  # noqa: E402

stored = {case["name"]: case for case in json.loads((GOLDEN / "samplers.json").read_text())["cases"]}
found = {case["name"]: case for case in samplers.computed()}
assert set(found) == set(stored), sorted(set(found) ^ set(stored))
largest = 0.0
for name, case in found.items():
    size = max(1.0, *map(abs, case["finals"]))
    difference = max(abs(a - b) for a, b in zip(case["finals"], stored[name]["finals"])) / size
    # float32 roundings of another processor, over some ten steps
    assert difference <= 1e-5, f"{name}: {difference:.2g} of the range"
    largest = max(largest, difference)
say(f"{len(found)} samplers with their settings", largest)
