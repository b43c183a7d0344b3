#include "kinema/optimizers/block_quantization.h"

#include <cmath>
#include <limits>

#include "kinema/core/error.h"

namespace kinema::optimizers {
namespace {

/// The decades of a map, from the smallest: decade i has 2^i numbers.
struct DynamicMap {
  int first;  // i of the smallest decade
  int last;   // i of the largest decade, which ends at 1

  explicit DynamicMap(Signed is_signed)
      : first(is_signed == Signed::YES ? 0 : 1), last(is_signed == Signed::YES ? 6 : 7) {}

  double decade(int i) const { return std::pow(10.0, i - last); }
  double smallest(int i) const { return decade(i) * (0.1 + 0.45 / std::exp2(i)); }
  double largest(int i) const { return decade(i) * (1.0 - 0.45 / std::exp2(i)); }
  /// The midpoint between this decade's numbers and those below it, or 0.
  double lower_bound(int i) const {
    return (smallest(i) + (i == first ? 0.0 : largest(i - 1))) / 2;
  }
  /// The magnitudes have the indices 2^first ... 2^(last + 1) - 1, so that the highest bit of index
  /// u is its decade. This is the index of 1.
  int64_t one() const { return int64_t{1} << (last + 1); }
};

Tensor at_least(Tensor x, double bound) { return compare(x, Comparison::GE, bound); }
Tensor above(Tensor x, double bound) { return compare(x, Comparison::GT, bound); }
Tensor constant_like(Tensor x, double value) { return constant(x.graph(), value, x.shape()); }

/// Magnitudes of the indices u of a map, F32.
Tensor magnitude(Tensor u, const DynamicMap& map) {
  // A float's exponent is the highest bit of an integer; without the mantissa, 2^i remains.
  const Tensor bits = bitcast(u, DType::U32);
  const Tensor mask = constant(u.graph(), double{0x7f800000}, bits.shape());
  const Tensor power = bitcast(bits & mask, DType::F32);
  Tensor decade = constant_like(u, map.decade(map.first));
  for (int i = map.first + 1; i <= map.last; ++i) {
    decade = select(at_least(u, std::exp2(i)), constant_like(u, map.decade(i)), decade);
  }
  const Tensor share = ((u - power) + 0.5) / power;
  const Tensor inside = decade * (share * 0.9 + 0.1);
  return select(at_least(u, static_cast<double>(map.one())), ones_like(u), inside);
}

/// The indices u of the magnitudes nearest to y in [0, 1]; 0 if 0 is nearest.
Tensor number_of(Tensor y, const DynamicMap& map) {
  Tensor power = constant_like(y, std::exp2(map.first));
  Tensor tens = constant_like(y, 1.0 / map.decade(map.first));
  for (int i = map.first + 1; i <= map.last; ++i) {
    const Tensor is = above(y, map.lower_bound(i));
    power = select(is, constant_like(y, std::exp2(i)), power);
    tens = select(is, constant_like(y, 1.0 / map.decade(i)), tens);
  }
  const Tensor part = floor((y * tens - 0.1) * power * (1.0 / 0.9));
  const Tensor u = power + minimum(maximum(part, 0.0), power - 1.0);
  const Tensor rounded_up = select(above(y, (map.largest(map.last) + 1.0) / 2),
                                   constant_like(y, static_cast<double>(map.one())), u);
  return select(above(y, map.lower_bound(map.first)), rounded_up, zeros_like(y));
}

/// [..., width] as [..., blocks, 256], padded with zeros at the end of a row.
Tensor in_blocks(Tensor rows) {
  Dims dims = rows.shape().dims;
  const int64_t width = dims.back();
  const int64_t blocks = (width + kBlockSize - 1) / kBlockSize;
  if (width % kBlockSize != 0) {
    rows = pad(rows, Axis(-1), 0, blocks * kBlockSize - width);
  }
  dims.back() = blocks;
  dims.push_back(kBlockSize);
  return reshape(rows, dims);
}

/// The inverse, with rows of `width`.
Tensor joined(Tensor blocks, int64_t width) {
  Dims dims = blocks.shape().dims;
  const int64_t padded = dims[dims.size() - 2] * kBlockSize;
  dims.pop_back();
  dims.back() = padded;
  const Tensor rows = reshape(blocks, dims);
  return padded == width ? rows : slice(rows, Axis(-1), 0, width);
}

/// Flattens the trailing axes that form rows of `width`.
Tensor in_rows(Tensor x, int64_t width) {
  Dims dims = x.shape().dims;
  int64_t row = 1;
  while (row < width) {
    row *= dims.back();
    dims.pop_back();
  }
  dims.push_back(width);
  return reshape(x, dims);
}

/// [..., blocks] broadcast to the elements of each block.
Tensor spread(Tensor absmax) {
  Dims dims = absmax.shape().dims;
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < absmax.rank(); ++axis) {
    axes.push_back(axis);
  }
  dims.push_back(kBlockSize);
  return broadcast_in_dim(absmax, dims, axes);
}

/// The number of trailing axes of a layer that form a row.
size_t row_axes(const nn::ParamSpec& spec) {
  const Dims dims = spec.layer_shape().dims;
  size_t axes = 0;
  for (int64_t width = 1; axes < dims.size() && width < kBlockSize; ++axes) {
    width *= dims[dims.size() - 1 - axes];
  }
  return axes;
}

}  // namespace

int64_t row_width(const nn::ParamSpec& spec) {
  const Dims dims = spec.layer_shape().dims;
  int64_t width = 1;
  for (size_t axis = dims.size() - row_axes(spec); axis < dims.size(); ++axis) {
    width *= dims[axis];
  }
  return width;
}

bool is_in_blocks(const nn::ParamSpec& spec) {
  constexpr int64_t kFewest = 4096;
  return spec.layer_shape().elements() >= kFewest;
}

std::vector<nn::ParamSpec> block_specs(const nn::ParamSpec& spec) {
  nn::ParamSpec codes = spec;
  codes.shape.dtype = DType::U8;
  nn::ParamSpec absmax = spec;
  absmax.name += ".absmax";
  absmax.shape.dtype = DType::F32;
  const size_t axes = row_axes(spec);
  absmax.shape.dims.resize(absmax.shape.dims.size() - axes);
  absmax.shape.dims.push_back((row_width(spec) + kBlockSize - 1) / kBlockSize);
  absmax.axes.resize(spec.layer_shape().dims.size() - axes);
  absmax.axes.emplace_back();  // few and small: each device has those of its rows
  return {std::move(codes), std::move(absmax)};
}

Blocks quantized(Tensor values, int64_t width, Signed is_signed) {
  const DynamicMap map(is_signed);
  const Tensor blocks = in_blocks(in_rows(values, width));
  const Tensor absmax = max(abs(blocks), {blocks.rank() - 1});
  // The maximum keeps a block of zeros zero. A product with the reciprocal, as in bitsandbytes,
  // also where rounding decides between two numbers.
  const Tensor scale = 1.0 / maximum(absmax, double{std::numeric_limits<float>::min()});
  const Tensor u = number_of(minimum(abs(blocks) * spread(scale), 1.0), map);
  Tensor code;
  if (is_signed == Signed::YES) {
    // 0 has code 127 and 1 has code 255; the lowest code, 0, is never -1.
    const auto zero = static_cast<double>(map.one() - 1);
    code = select(compare(blocks, Comparison::LT, 0.0), maximum(zero - u, 0.0), zero + u);
  } else {
    // 0 has code 0, and the smallest number, with index 2, code 1.
    code = maximum(u - 1.0, 0.0);
  }
  return {reshape(joined(convert(code, DType::U8), width), values.shape().dims), absmax};
}

Tensor dequantized(const Blocks& blocks, int64_t width, Signed is_signed) {
  const DynamicMap map(is_signed);
  const Tensor code = in_blocks(in_rows(convert(blocks.codes, DType::F32), width));
  Tensor share;
  if (is_signed == Signed::YES) {
    const Tensor s = code - static_cast<double>(map.one() - 1);
    const Tensor size = magnitude(maximum(abs(s), 1.0), map);
    share = sign(s) * size;
  } else {
    share = select(above(code, 0.0), magnitude(maximum(code + 1.0, 2.0), map), zeros_like(code));
  }
  return reshape(joined(share * spread(blocks.absmax), width), blocks.codes.shape().dims);
}

}  // namespace kinema::optimizers
