#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kinema::kernels {

/// Instruction sets that kernels are written for; each has those before it. AMX and AVX512_BF16
/// multiply BF16; the others multiply F32 only.
enum class Isa : uint8_t { Baseline, Avx2, Avx512, Avx512Bf16, Amx };

/// `avx2`, `avx512`, `avx512_bf16`, `amx`, or `x86-64` for less.
std::string_view isa_name(Isa isa);

/// The inverse; nothing for another word.
std::optional<Isa> isa_named(std::string_view name);

/// The best one that this processor and its operating system have.
Isa machine_isa();

/// The one that kernels use: the machine's, or what limit_isa() allowed.
Isa isa();

/// Whether it has exact products of int8, four to a sum of int32 (AVX512_VNNI; AMX).
bool has_int8_products();

/// Kernels of this process, oneDNN's included, use no more than `most` from here on: to be called
/// before the first of them runs. Throws an Error where the machine has less, or kernels have run
/// with another limit.
void limit_isa(Isa most);

/// The flag that holds the plugin's compiler to a set, and its word for one.
inline constexpr const char* kIsaFlag = "xla_cpu_max_isa";
const char* xla_isa(Isa isa);

}  // namespace kinema::kernels
