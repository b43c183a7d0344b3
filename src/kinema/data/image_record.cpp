#include "kinema/data/image_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/data/feature.h"

namespace kinema::data {
namespace {

/// Rows and columns of tokens with positions f32 [s, 3]: (0, row, column), row by row.
std::pair<int64_t, int64_t> grid_of(const HostArray& ids, int64_t tokens,
                                    const std::string& where) {
  check(ids.shape.dims == Dims({tokens, 3}), "[example] {}: `img_ids` are {}, expected [{}, 3]",
        where, to_string(ids.shape), tokens);
  const HostArray positions = convert(ids, DType::F32);
  const auto values = positions.as<float>();
  const float last = tokens == 0 ? -1.0F : values[values.size() - 1];
  const int64_t columns = last >= 0 && last < 1e6F ? static_cast<int64_t>(last) + 1 : 0;
  check(columns > 0 && tokens % columns == 0,
        "[example] {}: {} tokens do not divide into rows of {} columns, the number in `img_ids`",
        where, tokens, columns);
  for (int64_t i = 0; i < tokens; ++i) {
    const auto at = static_cast<size_t>(3 * i);
    check(values[at] == 0.0F && values[at + 1] == static_cast<float>(i / columns) &&
              values[at + 2] == static_cast<float>(i % columns),
          "[example] {}: row {} of `img_ids` is ({}, {}, {}), expected (0, {}, {}): tokens of one "
          "picture, row by row",
          where, i, values[at], values[at + 1], values[at + 2], i / columns, i % columns);
  }
  return {tokens / columns, columns};
}

/// Tokens [rows * columns, 4 c] to latents [c, 1, 2 rows, 2 columns]: a token holds 2 x 2 latents,
/// channel by channel.
HostArray unpacked(const HostArray& tokens, int64_t rows, int64_t columns) {
  const int64_t channels = tokens.shape.dims[1] / 4;
  HostArray out(Shape{tokens.shape.dtype, {channels, 1, 2 * rows, 2 * columns}});
  const size_t size = tokens.bytes.size() / static_cast<size_t>(tokens.shape.elements());
  const std::byte* from = tokens.bytes.data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t c = 0; c < 4 * channels; ++c, from += size) {
        const int64_t y = 2 * row + c % 4 / 2;
        const int64_t x = 2 * column + c % 2;
        const int64_t to = (c / 4 * 2 * rows + y) * 2 * columns + x;
        std::memcpy(out.bytes.data() + static_cast<size_t>(to) * size, from, size);
      }
    }
  }
  return out;
}

}  // namespace

bool is_image_record(const records::Example& example) {
  return example.contains(kPixelValues) && !example.contains(kParts[0].name);
}

Sample parse_image_record(const records::Example& example, const std::string& where) {
  Sample sample;
  if (!example.contains(kImageIds)) {
    sample.latents = tensor_feature(example, kPixelValues, 3, where);
    sample.latents.shape.dims.insert(sample.latents.shape.dims.begin() + 1, 1);
    sample.encoder_hidden_states = tensor_feature(example, kPromptEmbeds, 2, where);
    sample.pooled = tensor_feature(example, kTextEmbeds, 1, where);
    return sample;
  }
  const HostArray tokens = tensor_feature(example, kPixelValues, 2, where);
  const Dims& dims = tokens.shape.dims;
  check(dims[0] > 0 && dims[1] > 0 && dims[1] % 4 == 0,
        "[example] {}: `pixel_values` are {}, expected tokens of 2 x 2 latents", where,
        to_string(tokens.shape));
  const auto [rows, columns] =
      grid_of(tensor_feature(example, kImageIds, 2, where), dims[0], where);
  sample.latents = unpacked(tokens, rows, columns);
  sample.encoder_hidden_states = tensor_feature(example, kTextEmbeds, 2, where);
  sample.pooled = tensor_feature(example, kPromptEmbeds, 1, where);
  return sample;
}

}  // namespace kinema::data
