#include "kinema/model_files/nvfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"

namespace kinema::model_files {
namespace {

constexpr int64_t kNvfp4Block = 16;
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 4;
constexpr std::array<float, 16> kE2M1{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

int64_t padded(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

/// The place of a block's scale among the bytes of all. A tile of 128 rows has its rows in groups
/// of 32, the four of which are side by side.
int64_t place_of(int64_t row, int64_t block, int64_t blocks, Nvfp4Layout layout) {
  if (layout == Nvfp4Layout::MODELOPT) {
    return row * blocks + block;
  }
  const int64_t tiles = padded(blocks, kTileColumns) / kTileColumns;
  const int64_t tile = row / kTileRows * tiles + block / kTileColumns;
  constexpr int64_t kGroup = 32;
  return tile * kTileRows * kTileColumns + row % kGroup * (kTileRows / kGroup * kTileColumns) +
         row % kTileRows / kGroup * kTileColumns + block % kTileColumns;
}

}  // namespace

io::TensorView nvfp4_view(const Nvfp4Parts& parts, Nvfp4Layout layout, const std::string& path) {
  const io::TensorView& codes = *parts.codes;
  check(parts.scales != nullptr && parts.scale != nullptr,
        "[weights] {}: `{}` is stored as nvfp4, but lacks `{}`\n  download the file again", path,
        codes.name, codes.name + (parts.scales == nullptr ? "_scale" : "_scale_2"));
  check(codes.shape.dtype == DType::U8 && codes.shape.rank() == 2 &&
            2 * codes.shape.dims[1] % kNvfp4Block == 0,
        "[weights] {}: `{}` is {}, expected bytes with two codes each in blocks of {}", path,
        codes.name, to_string(codes.shape), kNvfp4Block);
  const int64_t rows = codes.shape.dims[0];
  const int64_t columns = 2 * codes.shape.dims[1];
  const int64_t blocks = columns / kNvfp4Block;
  const int64_t wanted = layout == Nvfp4Layout::MODELOPT
                             ? rows * blocks
                             : padded(rows, kTileRows) * padded(blocks, kTileColumns);
  const io::TensorView& scales = *parts.scales;
  check(scales.shape.dtype == DType::F8E4M3FN && scales.shape.elements() == wanted,
        "[weights] {}: `{}` is {}, but {} scales of `{}` {} are expected, as f8E4M3FN", path,
        scales.name, to_string(scales.shape), wanted, codes.name, to_string(codes.shape));
  const HostArray values = convert(scales.copy(), DType::F32);
  check(std::ranges::all_of(values.as<float>(),
                            [](float each) { return std::isfinite(each) && each >= 0; }),
        "[weights] {}: a scale in `{}` is negative or not finite\n  download the file again", path,
        scales.name);
  check(is_float(parts.scale->shape.dtype) && parts.scale->shape.elements() == 1,
        "[weights] {}: `{}` is {}, expected one number", path, parts.scale->name,
        to_string(parts.scale->shape));
  const float factor = convert(parts.scale->copy(), DType::F32).as<float>()[0];
  check(std::isfinite(factor) && factor >= 0,
        "[weights] {}: `{}` is {}, expected a finite number of at least 0", path, parts.scale->name,
        factor);
  const int first_shift = layout == Nvfp4Layout::COMFYUI ? 4 : 0;
  return {.name = codes.name,
          .shape = {DType::F32, {rows, columns}},
          .bytes = codes.bytes,
          .decode = [=, bytes = codes.bytes](std::span<float> out) {
            const auto all = values.as<float>();
            for (int64_t row = 0; row < rows; ++row) {
              for (int64_t block = 0; block < blocks; ++block) {
                const float scale =
                    all[static_cast<size_t>(place_of(row, block, blocks, layout))] * factor;
                const auto first = static_cast<size_t>(row * columns + block * kNvfp4Block);
                for (size_t i = first; i < first + kNvfp4Block; ++i) {
                  const int shift = i % 2 == 0 ? first_shift : 4 - first_shift;
                  out[i] =
                      kE2M1[std::to_integer<size_t>((bytes[i / 2] >> shift) & std::byte{0xf})] *
                      scale;
                }
              }
            }
          }};
}

}  // namespace kinema::model_files
