#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kinema::remote {

/// SHA-256 or SHA-1 over bytes given in pieces.
class Digest {
 public:
  enum class Kind { SHA256, SHA1 };
  explicit Digest(Kind kind);
  ~Digest();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Hexadecimal digits of everything given; once.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::remote
