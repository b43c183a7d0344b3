#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kinema::kernels {

/// Instruction sets of the kernels; each includes the ones before it. AMX and AVX512_BF16 multiply
/// BF16; the others only F32.
enum class Isa : uint8_t { Baseline, Avx2, Avx512, Avx512Bf16, Amx };

/// `avx2`, `avx512`, `avx512_bf16`, `amx`, or `x86-64` for less.
std::string_view isa_name(Isa isa);

/// The inverse; empty for any other word.
std::optional<Isa> isa_named(std::string_view name);

/// The best one supported by this processor and its operating system.
Isa machine_isa();

/// The one that kernels use: the machine's, or the limit set by limit_isa().
Isa isa();

/// Whether it has exact int8 products, four to an int32 sum (AVX512_VNNI; AMX).
bool has_int8_products();

/// Limits all kernels of this process, including oneDNN's, to `most`. Must be called before the
/// first kernel runs. Throws an Error if the machine does not support it, or if kernels have
/// already run with another limit.
void limit_isa(Isa most);

/// The flag that limits the plugin's compiler, and the word for each set.
inline constexpr const char* kIsaFlag = "xla_cpu_max_isa";
const char* xla_isa(Isa isa);

}  // namespace kinema::kernels
