#pragma once

#include "kinema/kernels/cpu/isa.h"

namespace kinema::kernels {

/// Runs `Loop::run(arguments...)`, a branch-free loop that the compiler vectorises, compiled once
/// per instruction set, in the version for isa(). `Loop::run` is gnu::always_inline, so that it is
/// compiled with its caller's instruction set.
///
/// This room is compiled without contraction to fused multiply-adds, so that an element-wise loop
/// gives the same bits with every set. multiply_add() fuses explicitly.
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

/// vector_loop of `Loop<true>` if the processor has fused multiply-adds, otherwise of
/// `Loop<false>`.
template <template <bool> typename Loop, typename... Arguments>
auto fused_loop(Arguments... arguments) {
  return isa() >= Isa::Avx2 ? vector_loop<Loop<true>>(arguments...)
                            : vector_loop<Loop<false>>(arguments...);
}

}  // namespace kinema::kernels
