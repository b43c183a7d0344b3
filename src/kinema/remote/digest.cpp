#include "kinema/remote/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace kinema::remote {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(Kind kind) : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, kind == Kind::SHA256 ? EVP_sha256() : EVP_sha1(), nullptr);
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, out.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += fmt::format("{:02x}", out.at(i));
  }
  return text;
}

}  // namespace kinema::remote
