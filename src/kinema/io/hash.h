#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kinema::io {

/// XXH3 (128 bit) of bytes passed in pieces; detects corruption, but not attacks.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits for all bytes so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3 (128 bit) of bytes, as 32 hexadecimal digits.
std::string hash_bytes(std::span<const std::byte> bytes);

/// XXH3 (128 bit) of a file's contents, as 32 hexadecimal digits.
std::string hash_file(const std::filesystem::path& path);

/// XXH3 (128 bit) of eight blocks of 4 KiB that are spread over a file, including its first and
/// last bytes; of the whole file if it is smaller. Changes between the blocks are not detected.
std::string hash_sample(const std::filesystem::path& path);

}  // namespace kinema::io
