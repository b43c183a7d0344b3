#include "kinema/preparation/encoded_text.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/finite.h"

namespace kinema::preparation {
namespace {

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

EncodedText::EncodedText(const std::filesystem::path& folder, Settings settings, DType dtype)
    : store_(folder), settings_(std::move(settings)), dtype_(dtype) {
  check(dtype == DType::F32 || dtype == DType::BF16,
        "[prepare] text states of {} are not known: f32 or bf16", to_string(dtype));
  settings_["dtype"] = to_string(dtype);
}

Settings EncodedText::key(const std::string& caption) const {
  Settings out = settings_;
  out["caption"] = caption;
  return out;
}

TensorStore::Found EncodedText::find(const std::string& caption) const {
  return store_.find(key(caption));
}

// Rows after the end of a caption are zeros, usually most of the rows: they are not stored.
void EncodedText::write(const std::string& caption, const encoders::TextStates& text) const {
  // Token ids are kept as they are.
  const auto stored = [&](const HostArray& array) {
    return is_float(array.shape.dtype) ? convert(array, dtype_) : array;
  };
  for (const HostArray* each : {&text.states, &text.pooled}) {
    check(!is_float(each->shape.dtype) || all_finite(*each),
          "[prepare] the text states of `{}` are not finite", caption);
  }
  HostArray all = stored(text.states);
  const int64_t length = all.shape.dims[0];
  const size_t row = all.bytes.size() / static_cast<size_t>(std::max<int64_t>(length, 1));
  int64_t used = length;
  while (used > 1 && is_zero(std::span(all.bytes).subspan((used - 1) * row, row))) {
    --used;
  }
  all.shape.dims[0] = used;
  all.bytes.resize(static_cast<size_t>(used) * row);
  Tensors kept{{"states", std::move(all)},
               {"length", HostArray::from<int64_t>(DType::S64, {1}, {{length}})}};
  if (!text.pooled.bytes.empty()) {
    kept.emplace("pooled", stored(text.pooled));
  }
  store_.write(key(caption), kept);
}

encoders::TextStates EncodedText::read(const std::string& caption) const {
  Tensors tensors = store_.read(key(caption));
  HostArray& states = tensors["states"];
  const HostArray& length = tensors["length"];
  check(states.shape.rank() == 2 && length.shape == Shape{DType::S64, {1}} &&
            length.as<int64_t>()[0] >= states.shape.dims[0] &&
            length.as<int64_t>()[0] <= int64_t{1} << 20,
        "[prepare] the text states kept of `{}` are {}", caption, to_string(states.shape));
  states.shape.dims[0] = length.as<int64_t>()[0];
  states.bytes.resize(static_cast<size_t>(states.shape.bytes()));
  return {.states = std::move(states), .pooled = std::move(tensors["pooled"])};
}

encoders::TextStates EncodedText::read_or(const std::string& caption,
                                          const EncodeText& make) const {
  if (find(caption).is_valid()) {
    try {
      return read(caption);
    } catch (const Error&) {
      // A missing or corrupt entry is encoded again.
    }
  }
  write(caption, make(caption));
  return read(caption);
}

}  // namespace kinema::preparation
