#pragma once

#include "kinema/kernels/cpu/isa.h"

namespace kinema::kernels {

/// `Loop::run(arguments...)`, a loop without branches that the compiler makes vectors of, compiled
/// once per instruction set; the one that isa() names is run. `Loop::run` is gnu::always_inline: it
/// takes the instruction set of what it is put into.
///
/// This room is compiled without contraction to fused multiply-adds, so that the bits of a loop
/// that sums nothing are the same with each. Where that is not asked for, multiply_add() is one.
template <typename Loop, typename... Arguments>
[[gnu::target("avx512f,fma"), gnu::noinline]] auto vector_loop_avx512(Arguments... arguments) {
  return Loop::run(arguments...);
}

template <typename Loop, typename... Arguments>
[[gnu::target("avx2,fma"), gnu::noinline]] auto vector_loop_avx2(Arguments... arguments) {
  return Loop::run(arguments...);
}

template <typename Loop, typename... Arguments>
[[gnu::noinline]] auto vector_loop_baseline(Arguments... arguments) {
  return Loop::run(arguments...);
}

/// a b + c, rounded once if kFused: for loops that fused_loop() runs.
template <bool kFused>
[[gnu::always_inline]] inline float multiply_add(float a, float b, float c) {
  return kFused ? __builtin_fmaf(a, b, c) : a * b + c;
}
template <typename Loop, typename... Arguments>
auto vector_loop(Arguments... arguments) {
  const Isa use = isa();
  return use >= Isa::Avx512 ? vector_loop_avx512<Loop>(arguments...)
         : use >= Isa::Avx2 ? vector_loop_avx2<Loop>(arguments...)
                            : vector_loop_baseline<Loop>(arguments...);
}

/// vector_loop of `Loop<true>` where the processor has fused multiply-adds, else of `Loop<false>`.
template <template <bool> typename Loop, typename... Arguments>
auto fused_loop(Arguments... arguments) {
  return isa() >= Isa::Avx2 ? vector_loop<Loop<true>>(arguments...)
                            : vector_loop<Loop<false>>(arguments...);
}

}  // namespace kinema::kernels
