#!/bin/sh
# vectors.sh LIBRARY: every loop that kernels compile once per instruction set (cpu/vector_loop.h) does
# arithmetic in vectors of it. What a compiler leaves scalar is right and ten times slower, which no
# other test sees.
set -eu
command -v objdump >/dev/null || exit 77
objdump -dC --no-show-raw-insn "$1" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = /vector_loop_avx/ ? $0 : ""; if (name != "") vectors[name] += 0 }
  name != "" && /%[yz]mm/ && !/vmov|vbroadcast|vzero|vxor|vextract|vpermil|vshuf|vunpck/ { ++vectors[name] }
  END {
    for (name in vectors) {
      ++loops
      if (vectors[name] == 0) { print "no vectors in " name; bad = 1 }
    }
    if (loops < 20) { print "only " loops + 0 " loops were found"; bad = 1 }
    exit bad
  }'
