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

}  // namespace kinema::io
