#include "kinema/kernels/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <iterator>
#include <oneapi/dnnl/dnnl.hpp>

#include "kinema/core/error.h"

namespace kinema::kernels {
namespace {

/// Linux saves tile registers only for a process that has requested them.
bool may_use_tiles() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTiles = 18;        // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTiles) == 0;
#else
  return false;
#endif
}

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  // AMX tiles with bf16 and int8 products; some compilers have no names for these features.
  constexpr unsigned kTiles = (1U << 24) | (1U << 22) | (1U << 25);
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool amx =
      bf16 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kTiles) == kTiles;
  return amx && may_use_tiles() ? Isa::Amx
         : bf16                 ? Isa::Avx512Bf16
         : avx512               ? Isa::Avx512
         : avx2                 ? Isa::Avx2
                                : Isa::Baseline;
#else
  return Isa::Baseline;
#endif
}

dnnl::cpu_isa dnnl_isa(Isa isa) {
  switch (isa) {
    case Isa::Baseline:
      return dnnl::cpu_isa::sse41;
    case Isa::Avx2:
      return dnnl::cpu_isa::avx2;
    case Isa::Avx512:
      return dnnl::cpu_isa::avx512_core;
    case Isa::Avx512Bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case Isa::Amx:
      return dnnl::cpu_isa::avx512_core_amx;
  }
  fail("[cpu kernel] instruction set {}", static_cast<int>(isa));
}

constexpr std::string_view kNames[] = {"x86-64", "avx2", "avx512", "avx512_bf16", "amx"};

constexpr int kUndecided = -1;

/// The result of isa(), fixed by the first call of it or of limit_isa().
std::atomic<int>& decided() {
  static std::atomic<int> value{kUndecided};
  return value;
}

}  // namespace

std::string_view isa_name(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::optional<Isa> isa_named(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  return found == std::end(kNames) ? std::nullopt
                                   : std::optional(static_cast<Isa>(found - std::begin(kNames)));
}

Isa machine_isa() {
  static const Isa kDetected = detect();
  return kDetected;
}

Isa isa() {
  int value = decided().load(std::memory_order_relaxed);
  if (value == kUndecided) {
    decided().compare_exchange_strong(value, static_cast<int>(machine_isa()));
    value = decided().load();
  }
  return static_cast<Isa>(value);
}

bool has_int8_products() {
#if defined(__x86_64__)
  // AVX512_VNNI lies between two of the sets: under a limit to AVX512, oneDNN does not use it and
  // sums pairs of products in int16, which may overflow.
  return isa() > Isa::Avx512 || (isa() == Isa::Avx512 && machine_isa() == Isa::Avx512 &&
                                 __builtin_cpu_supports("avx512vnni"));
#else
  return false;
#endif
}

void limit_isa(Isa most) {
  check(most <= machine_isa(),
        "[cpu_isa] {} was requested, but the best of this processor is {}\n"
        "  use `cpu_isa: auto`",
        isa_name(most), isa_name(machine_isa()));
  int before = kUndecided;
  if (decided().compare_exchange_strong(before, static_cast<int>(most))) {
    if (most < machine_isa()) {
      dnnl::set_max_cpu_isa(dnnl_isa(most));
    }
    return;
  }
  check(before == static_cast<int>(most),
        "[cpu_isa] {} was requested, but kernels of this process already use {}", isa_name(most),
        isa_name(static_cast<Isa>(before)));
}

const char* xla_isa(Isa isa) {
  // In the order of Isa.
  constexpr const char* kWords[] = {"SSE4_2", "AVX2", "AVX512", "AVX512_BF16", "AMX"};
  return kWords[static_cast<size_t>(isa)];
}

}  // namespace kinema::kernels
