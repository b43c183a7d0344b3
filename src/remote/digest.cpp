#include "remote/digest.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>

#include "core/error.h"

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

std::string sign_rs256(const std::string& text, const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  // No pass phrase is asked for on a terminal.
  const auto none = [](char*, int, int, void*) { return 0; };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, none, nullptr), EVP_PKEY_free);
  check(key != nullptr, "[remote] the private key of the service account is not a PEM key");
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  size_t size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string signature;
  bool ok = EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
            EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  if (ok) {
    signature.resize(size);
    ok = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                        bytes, text.size()) == 1;
    signature.resize(size);
  }
  check(ok, "[remote] the private key of the service account cannot sign");
  return signature;
}

std::string base64_url(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  while (out.ends_with('=')) {
    out.pop_back();
  }
  for (char& c : out) {
    c = c == '+' ? '-' : (c == '/' ? '_' : c);
  }
  return out;
}

}  // namespace kinema::remote
