#include "kinema/text/hashed.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::text {
namespace {

// The seed is part of the encoder: checkpoints trained with it require the same vectors.
constexpr uint64_t kSeed = 0;

bool is_word(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || u >= 0x80;
}

}  // namespace

std::vector<std::string> words(std::string_view caption) {
  std::vector<std::string> out;
  bool inside = false;
  for (const char c : caption) {
    if (!is_word(c)) {
      inside = false;
      continue;
    }
    if (!inside) {
      out.emplace_back();
      inside = true;
    }
    out.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

HostArray HashedEncoder::encode(std::string_view caption) const {
  check(max_sequence_length > 0 && text_dim > 0,
        "[hashed] max_sequence_length {} and text_dim {} must be positive", max_sequence_length,
        text_dim);
  HostArray out(Shape{DType::F32, {max_sequence_length, text_dim}});
  float* row = out.as<float>().data();
  int64_t position = 0;
  for (const std::string& word : words(caption)) {
    if (position >= max_sequence_length) {
      break;
    }
    RandomStream random(random_key(kSeed, word));
    for (int64_t i = 0; i < text_dim; ++i) {
      // Sinusoids of "Attention Is All You Need", section 3.5.
      const int64_t even = i / 2 * 2;
      const double rate =
          std::pow(10000.0, -static_cast<double>(even) / static_cast<double>(text_dim));
      const double angle = static_cast<double>(position) * rate;
      const double wave = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      row[i] = random.normal() + static_cast<float>(wave);
    }
    row += text_dim;
    ++position;
  }
  return out;
}

HostArray HashedEncoder::pooled(std::string_view caption) const {
  check(pooled_dim > 0, "[hashed] pooled_dim {} must be positive", pooled_dim);
  HostArray out(Shape{DType::F32, {pooled_dim}});
  const auto sum = out.as<float>();
  std::vector<std::string> all = words(caption);
  if (static_cast<int64_t>(all.size()) > max_sequence_length) {
    all.resize(static_cast<size_t>(max_sequence_length));
  }
  for (const std::string& word : all) {
    RandomStream random(random_key(kSeed, word));
    for (float& each : sum) {
      each += random.normal() / std::sqrt(static_cast<float>(all.size()));
    }
  }
  return out;
}

}  // namespace kinema::text
