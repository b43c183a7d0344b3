#include "kinema/model_files/nvfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/model_files/checkpoint.h"

namespace kinema::model_files {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// E4M3 by its definition: four bits of exponent with bias 7, three of mantissa.
float e4m3(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const float mantissa = static_cast<float>(code & 7) / 8;
  return exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
}

/// E2M1: a sign, two bits of exponent with bias 1, one of mantissa.
float e2m1(int code) {
  const int exponent = (code >> 1) & 3;
  const float mantissa = static_cast<float>(code & 1) / 2;
  const float size = exponent == 0 ? mantissa : std::ldexp(1 + mantissa, exponent - 1);
  return code >= 8 ? -size : size;
}

/// A weight of counted codes and scales.
struct Stored {
  int64_t rows = 0;
  int64_t columns = 0;
  float factor = 0.25F;

  int code(int64_t row, int64_t column) const {
    return static_cast<int>((row * 7 + column * 5 + column / 16) % 16);
  }
  uint8_t scale(int64_t row, int64_t block) const {
    return static_cast<uint8_t>((row * 3 + block * 11 + 1) % 126);
  }
  float value(int64_t row, int64_t column) const {
    return e2m1(code(row, column)) * (e4m3(scale(row, column / 16)) * factor);
  }

  HostArray codes(bool upper_first) const {
    HostArray out(Shape{DType::U8, {rows, columns / 2}});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t pair = 0; pair < columns / 2; ++pair) {
        const int a = code(row, 2 * pair);
        const int b = code(row, 2 * pair + 1);
        out.as<uint8_t>()[static_cast<size_t>(row * columns / 2 + pair)] =
            static_cast<uint8_t>(upper_first ? a << 4 | b : b << 4 | a);
      }
    }
    return out;
  }
  HostArray plain_scales() const {
    HostArray out(Shape{DType::F8E4M3FN, {rows, columns / 16}});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < columns / 16; ++block) {
        out.bytes[static_cast<size_t>(row * (columns / 16) + block)] = std::byte{scale(row, block)};
      }
    }
    return out;
  }
  /// The matrix padded to tiles of 128 x 4, tile after tile; each as [4, 32, 4] with its first two
  /// axes exchanged.
  HostArray tiled_scales() const {
    const int64_t down = (rows + 127) / 128;
    const int64_t across = (columns / 16 + 3) / 4;
    HostArray out(Shape{DType::F8E4M3FN, {down * 128, across * 4}});
    size_t to = 0;
    for (int64_t tile = 0; tile < down * across; ++tile) {
      for (int64_t b = 0; b < 32; ++b) {
        for (int64_t a = 0; a < 4; ++a) {
          for (int64_t c = 0; c < 4; ++c, ++to) {
            const int64_t row = tile / across * 128 + a * 32 + b;
            const int64_t block = tile % across * 4 + c;
            if (row < rows && block < columns / 16) {
              out.bytes[to] = std::byte{scale(row, block)};
            }
          }
        }
      }
    }
    return out;
  }
};

struct Case {
  const char* name;
  Nvfp4Layout layout;
  Stored stored;
};

class Nvfp4 : public testing::TestWithParam<Case> {};

TEST_P(Nvfp4, IsCodesTimesBothScales) {
  const auto& [name, layout, stored] = GetParam();
  const bool tiled = layout == Nvfp4Layout::COMFYUI;
  const std::map<std::string, HostArray> arrays{
      {"x.weight", stored.codes(tiled)},
      {"x.weight_scale", tiled ? stored.tiled_scales() : stored.plain_scales()},
      {"x.weight_scale_2", HostArray::f32({}, std::vector{stored.factor})}};
  std::map<std::string, io::TensorView> views;
  for (const auto& [key, array] : arrays) {
    views[key] = {.name = key, .shape = array.shape, .bytes = array.bytes};
  }
  const io::TensorView made = nvfp4_view(
      {&views.at("x.weight"), &views.at("x.weight_scale"), &views.at("x.weight_scale_2")}, layout,
      "x.safetensors");
  EXPECT_EQ(made.shape, (Shape{DType::F32, {stored.rows, stored.columns}}));
  const HostArray values = made.copy();
  for (int64_t row = 0; row < stored.rows; ++row) {
    for (int64_t column = 0; column < stored.columns; ++column) {
      ASSERT_EQ(values.as<float>()[static_cast<size_t>(row * stored.columns + column)],
                stored.value(row, column))
          << row << ", " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Nvfp4,
    testing::Values(
        Case{"one_block", Nvfp4Layout::MODELOPT, {.rows = 1, .columns = 16}},
        Case{"plain", Nvfp4Layout::MODELOPT, {.rows = 130, .columns = 96}},
        Case{"whole_tile", Nvfp4Layout::COMFYUI, {.rows = 128, .columns = 64}},
        Case{"padded_tiles", Nvfp4Layout::COMFYUI, {.rows = 144, .columns = 80}},
        Case{"zero_factor", Nvfp4Layout::COMFYUI, {.rows = 16, .columns = 16, .factor = 0}}),
    [](const auto& info) { return std::string(info.param.name); });

/// Files: the layout follows from what describes them.
class Nvfp4Files : public testing::Test {
 protected:
  void put(const std::string& name, HostArray array) {
    arrays_.insert_or_assign(name, std::move(array));
  }
  static HostArray text(const std::string& json) {
    return HostArray::from<uint8_t>(DType::U8, {static_cast<int64_t>(json.size())},
                                    std::vector<uint8_t>(json.begin(), json.end()));
  }
  Checkpoint open(std::map<std::string, std::string> metadata = {}) const {
    std::vector<io::TensorEntry> entries;
    for (const auto& [name, array] : arrays_) {
      entries.push_back(io::TensorEntry::of(name, array));
    }
    io::write_safetensors(scratch_ / "x.safetensors", entries, metadata);
    return Checkpoint::open(scratch_ / "x.safetensors");
  }
  void expect_values(const Checkpoint& checkpoint) const {
    ASSERT_NE(checkpoint.find("x.weight"), nullptr);
    EXPECT_EQ(checkpoint.tensors().size(), 1U) << "scales are no weights";
    const HostArray values = checkpoint.at("x.weight").copy();
    ASSERT_EQ(values.shape, (Shape{DType::F32, {stored_.rows, stored_.columns}}));
    EXPECT_EQ(values.as<float>()[17], stored_.value(0, 17));
    EXPECT_EQ(values.as<float>()[static_cast<size_t>(100 * stored_.columns + 50)],
              stored_.value(100, 50));
  }

  io::Scratch scratch_;
  Stored stored_{.rows = 128, .columns = 64};
  std::map<std::string, HostArray> arrays_;
};

TEST_F(Nvfp4Files, OfComfyUiSayTheirFormat) {
  put("x.weight", stored_.codes(true));
  put("x.weight_scale", stored_.tiled_scales());
  put("x.weight_scale_2", HostArray::f32({}, std::vector{stored_.factor}));
  put("x.input_scale", HostArray::f32({}, std::vector{1.0F}));
  put("x.comfy_quant", text(R"({"format": "nvfp4"})"));
  expect_values(open());
  arrays_.erase("x.comfy_quant");
  const auto layers = [](const std::string& x) {
    return std::map<std::string, std::string>{
        {"_quantization_metadata", R"({"layers": {"x": )" + x + "}}"}};
  };
  expect_values(open(layers(R"({"format": "nvfp4"})")));
  EXPECT_THAT([&] { open(layers(R"({"format": "nvfp4", "convrot": true})")); },
              ThrowsMessage<Error>(HasSubstr("rotated weights")));
  EXPECT_THAT([&] { open(layers(R"({"format": "mxfp8"})")); },
              ThrowsMessage<Error>(HasSubstr("stored as `mxfp8`, which is not supported")));
}

TEST_F(Nvfp4Files, OfModelOptimizerHaveTwoScales) {
  put("x.weight", stored_.codes(false));
  put("x.weight_scale", stored_.plain_scales());
  put("x.weight_scale_2", HostArray::f32({}, std::vector{stored_.factor}));
  expect_values(open());
  const auto refused = [&](const std::string& name, HostArray array, const std::string& why) {
    const std::map<std::string, HostArray> before = arrays_;
    put(name, std::move(array));
    EXPECT_THAT([&] { open(); }, ThrowsMessage<Error>(HasSubstr(why))) << name;
    arrays_ = before;
  };
  refused("x.weight", HostArray(Shape{DType::U8, {128, 30}}), "blocks of 16");
  refused("x.weight", HostArray(Shape{DType::F32, {128, 32}}), "bytes with two codes");
  refused("x.weight_scale", HostArray(Shape{DType::F8E4M3FN, {128, 3}}), "512 scales");
  refused("x.weight_scale", HostArray(Shape{DType::F32, {128, 4}}), "512 scales");
  HostArray broken = stored_.plain_scales();
  broken.bytes[5] = std::byte{0x7f};
  refused("x.weight_scale", broken, "not finite");
  refused("x.weight_scale_2", HostArray(Shape{DType::F32, {2}}), "expected one number");
  refused("x.weight_scale_2", HostArray::f32({}, std::vector{-1.0F}), "at least 0");
  refused("y.weight_scale_2", HostArray::f32({}, std::vector{1.0F}), "without `y.weight`");
  arrays_.erase("x.weight_scale");
  EXPECT_THAT([&] { open(); }, ThrowsMessage<Error>(HasSubstr("lacks `x.weight_scale`")));
}

}  // namespace
}  // namespace kinema::model_files
