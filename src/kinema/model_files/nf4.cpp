#include "kinema/model_files/nf4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"

namespace kinema::model_files {
namespace {

constexpr std::array<std::string_view, 2> kFourBitStates{".quant_state.bitsandbytes__nf4",
                                                         ".quant_state.bitsandbytes__fp4"};
constexpr std::array<std::string_view, 4> kFourBitParts{".absmax", ".quant_map", ".nested_absmax",
                                                        ".nested_quant_map"};

using FourBitTensors = std::map<std::string_view, const io::TensorView*>;

/// Reads the parts of one weight.
class FourBitParts {
 public:
  FourBitParts(const FourBitTensors& tensors, std::string weight, const std::string& path)
      : tensors_(tensors), weight_(std::move(weight)), path_(path) {}

  const io::TensorView& at(std::string_view end) const {
    const std::string name = weight_ + std::string(end);
    const auto found = tensors_.find(name);
    check(found != tensors_.end(), "[weights] {}: `{}` has no `{}`\n  download the file again",
          path_, weight_, name);
    return *found->second;
  }

  std::vector<float> floats(std::string_view end) const {
    const io::TensorView& tensor = at(end);
    check(is_float(tensor.shape.dtype), "[weights] {}: `{}` is {}, expected numbers", path_,
          tensor.name, kinema::to_string(tensor.shape));
    const HostArray values = convert(tensor.copy(), DType::F32);
    const auto all = values.as<float>();
    check(std::ranges::all_of(all, [](float each) { return std::isfinite(each); }),
          "[weights] {}: `{}` holds values that are infinite or NaN", path_, tensor.name);
    return {all.begin(), all.end()};
  }

  /// The scale of each block.
  std::vector<float> scales(const io::Json& state) const {
    const io::TensorView& tensor = at(".absmax");
    if (is_float(tensor.shape.dtype)) {
      return floats(".absmax");
    }
    const std::vector<float> map = floats(".nested_quant_map");
    const std::vector<float> outer = floats(".nested_absmax");
    const int64_t size = positive(state, "nested_blocksize");
    const auto offset = static_cast<float>(state.at("nested_offset").as_number());
    const auto count = static_cast<int64_t>(tensor.bytes.size());
    check(tensor.shape.dtype == DType::U8 && map.size() == 256 &&
              std::ssize(outer) == (count + size - 1) / size,
          "[weights] {}: `{}` {} does not fit {} scales of {} values", path_, tensor.name,
          kinema::to_string(tensor.shape), outer.size(), size);
    std::vector<float> out;
    for (int64_t i = 0; i < count; ++i) {
      const auto code = std::to_integer<size_t>(tensor.bytes[static_cast<size_t>(i)]);
      out.push_back(map[code] * outer[static_cast<size_t>(i / size)] + offset);
    }
    return out;
  }

  int64_t positive(const io::Json& state, std::string_view key) const {
    const int64_t out = state.at(key).as_int();
    check(out > 0, "[weights] {}: {} of `{}` is {}, expected 1 up", path_, key, weight_, out);
    return out;
  }

  io::TensorView decoded(std::string_view state_end) const {
    constexpr size_t kMostBytes = 1 << 16;
    const io::TensorView& about = at(state_end);
    check(about.shape.dtype == DType::U8 && about.bytes.size() <= kMostBytes,
          "[weights] {}: `{}` is {}, expected JSON as bytes", path_, about.name,
          kinema::to_string(about.shape));
    const std::string text(reinterpret_cast<const char*>(about.bytes.data()), about.bytes.size());
    const io::Json state = io::Json::parse(text, path_ + ": `" + about.name + "`");
    const Shape shape{DType::F32, state.at("shape").as_ints()};
    check(std::ranges::all_of(shape.dims, [](int64_t each) { return each > 0; }),
          "[weights] {}: the shape of `{}` is {}", path_, weight_, kinema::to_string(shape.dims));
    const int64_t count = checked_elements(shape.dims);
    const int64_t block = positive(state, "blocksize");
    const io::TensorView& codes = at("");
    std::vector<float> map = floats(".quant_map");
    std::vector<float> scales = this->scales(state);
    check(
        byte_size(codes.shape.dtype) == 1 && map.size() == 16 &&
            std::ssize(codes.bytes) == (count + 1) / 2 &&
            std::ssize(scales) == (count + block - 1) / block,
        "[weights] {}: `{}` {} has {} bytes of codes and {} scales of {} values, which do not fit",
        path_, weight_, kinema::to_string(shape.dims), codes.bytes.size(), scales.size(), block);
    return {.name = weight_,
            .shape = shape,
            .bytes = codes.bytes,
            .decode = [bytes = codes.bytes, map = std::move(map), scales = std::move(scales),
                       block](std::span<float> values) {
              for (size_t i = 0; i < values.size(); ++i) {
                const int both = std::to_integer<int>(bytes[i / 2]);
                const auto code = static_cast<size_t>(i % 2 == 0 ? both >> 4 : both & 0xf);
                values[i] = map[code] * scales[i / static_cast<size_t>(block)];
              }
            }};
  }

 private:
  const FourBitTensors& tensors_;
  std::string weight_;
  const std::string& path_;
};

}  // namespace

FourBitWeights::FourBitWeights(std::span<const io::TensorView* const> tensors,
                               const std::string& path) {
  FourBitTensors all;
  for (const io::TensorView* tensor : tensors) {
    all.emplace(tensor->name, tensor);
  }
  for (const auto& [name, tensor] : all) {
    for (const std::string_view end : kFourBitStates) {
      if (name.ends_with(end)) {
        std::string weight(name.substr(0, name.size() - end.size()));
        views_.push_back(FourBitParts(all, weight, path).decoded(end));
        by_name_.emplace(std::move(weight), &views_.back());
      }
    }
  }
}

const io::TensorView* FourBitWeights::decoded(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

bool FourBitWeights::is_beside(std::string_view name) const {
  const auto is_end = [&](std::string_view end) {
    return name.ends_with(end) && by_name_.contains(name.substr(0, name.size() - end.size()));
  };
  return std::ranges::any_of(kFourBitStates, is_end) || std::ranges::any_of(kFourBitParts, is_end);
}

}  // namespace kinema::model_files
