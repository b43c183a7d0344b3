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

/// RS256: an RSA signature over SHA-256, with a private key in PEM. Throws an Error for a key that
/// cannot be read.
std::string sign_rs256(const std::string& text, const std::string& pem);

/// Base64 without padding, with - and _, as JSON web tokens have it.
std::string base64_url(std::string_view bytes);

}  // namespace kinema::remote
