#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kinema::io {

/// XXH3 (128 bit) over bytes given in pieces; finds damage, does not resist an attacker.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits of everything given so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3 (128 bit) of bytes, as 32 hexadecimal digits.
std::string hash_bytes(std::span<const std::byte> bytes);

/// XXH3 (128 bit) of a file's contents, as 32 hexadecimal digits.
std::string hash_file(const std::filesystem::path& path);

}  // namespace kinema::io
