#include "kinema/io/hash.h"

#define XXH_INLINE_ALL  // header-only: no run-time library for one function
#include <fmt/core.h>
#include <xxhash.h>

#include "kinema/io/mapped_file.h"

namespace kinema::io {

struct Hasher::State {
  alignas(64) XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_file(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return hash_bytes(file.bytes());
}

std::string hash_sample(const std::filesystem::path& path) {
  constexpr size_t kBlocks = 8;
  constexpr size_t kBlock = 4096;
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() <= kBlocks * kBlock) {
    return hash_bytes(bytes);
  }
  Hasher hasher;
  for (size_t i = 0; i < kBlocks; ++i) {
    hasher.update(bytes.subspan((bytes.size() - kBlock) / (kBlocks - 1) * i, kBlock));
  }
  hasher.update(bytes.last(kBlock));  // the division ignores the last few bytes
  return hasher.hex();
}

}  // namespace kinema::io
