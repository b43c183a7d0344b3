#include "kinema/model_files/cut.h"

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"

namespace kinema::model_files {
namespace {

/// A view of the same bytes whose values are reordered by `turn`.
template <typename Turn>
io::TensorView made_when_read(const io::TensorView& tensor, Dims dims, Turn turn) {
  return {.name = tensor.name,
          .shape = {DType::F32, std::move(dims)},
          .bytes = tensor.bytes,
          .decode = [tensor, turn](std::span<float> values) {
            const HostArray all = convert(tensor.copy(), DType::F32);
            turn(all.as<float>(), values);
          }};
}

io::TensorView swapped(const io::TensorView& tensor, const std::string& path) {
  const Dims& dims = tensor.shape.dims;
  check(!dims.empty() && dims[0] % 2 == 0,
        "[weights] {}: `{}` is {}, expected two halves of rows that change places", path,
        tensor.name, to_string(tensor.shape));
  return made_when_read(tensor, dims, [](std::span<const float> from, std::span<float> to) {
    const auto half = static_cast<std::ptrdiff_t>(from.size() / 2);
    std::ranges::rotate_copy(from, from.begin() + half, to.begin());
  });
}

io::TensorView transposed(const io::TensorView& tensor, const std::string& path) {
  const Dims& dims = tensor.shape.dims;
  check(dims.size() == 2, "[weights] {}: `{}` is {}, expected a matrix, which is transposed", path,
        tensor.name, to_string(tensor.shape));
  const auto rows = static_cast<size_t>(dims[0]);
  const auto columns = static_cast<size_t>(dims[1]);
  return made_when_read(tensor, {dims[1], dims[0]},
                        [rows, columns](std::span<const float> from, std::span<float> to) {
                          for (size_t i = 0; i < rows; ++i) {
                            for (size_t j = 0; j < columns; ++j) {
                              to[j * rows + i] = from[i * columns + j];
                            }
                          }
                        });
}

}  // namespace

std::optional<Rows> rows_of(const io::TensorView& tensor, const Piece& piece,
                            const std::string& path, const std::function<int64_t()>& columns) {
  const int64_t equal = piece.cut == Cut::HALF ? 2 : piece.cut == Cut::THIRD ? 3 : 0;
  if (equal == 0 && piece.cut != Cut::SQUARE && piece.cut != Cut::REST) {
    return std::nullopt;
  }
  check(tensor.shape.rank() >= 1, "[weights] {}: `{}` is {}, expected rows, of which `{}` has some",
        path, tensor.name, to_string(tensor.shape), piece.name);
  const int64_t all = tensor.shape.dims[0];
  if (equal > 0) {
    check(all % equal == 0, "[weights] {}: `{}` is {}, expected {} parts of as many rows", path,
          tensor.name, to_string(tensor.shape), equal);
    return Rows{piece.part * (all / equal), all / equal};
  }
  const int64_t width = columns();
  const int64_t first = piece.part * width;
  const int64_t count = piece.cut == Cut::SQUARE ? width : all - first;
  check(width > 0 && first >= 0 && first < all && count <= all - first,
        "[weights] {}: `{}` is {}, expected three parts of {} rows and more rows after them", path,
        tensor.name, to_string(tensor.shape), width);
  return Rows{first, count};
}

io::TensorView rows_view(const io::TensorView& tensor, const Rows& rows) {
  const auto all = static_cast<size_t>(tensor.shape.dims[0]);
  const auto first = static_cast<size_t>(rows.first);
  const auto count = static_cast<size_t>(rows.count);
  io::TensorView out{.name = tensor.name, .shape = tensor.shape, .bytes = tensor.bytes};
  out.shape.dims[0] = rows.count;
  // GGUF blocks of codes do not span rows.
  const size_t bytes = all == 0 ? 0 : tensor.bytes.size() / all;
  out.bytes = tensor.bytes.subspan(first * bytes, count * bytes);
  if (tensor.decode) {
    out.decode = [tensor, first](std::span<float> values) {
      const HostArray whole = tensor.copy();
      const size_t row = whole.as<float>().size() / static_cast<size_t>(tensor.shape.dims[0]);
      std::ranges::copy(whole.as<float>().subspan(first * row, values.size()), values.begin());
    };
  }
  return out;
}

std::optional<io::TensorView> transposed_view(const io::TensorView& tensor, const Piece& piece,
                                              const std::string& path) {
  if (piece.name.ends_with("_pad_token") && tensor.shape.rank() == 1) {
    io::TensorView out = tensor;  // stable-diffusion.cpp writes these of Z-Image without rows
    out.shape.dims.insert(out.shape.dims.begin(), 1);
    return out;
  }
  if (piece.cut == Cut::CHANNELS) {
    const Dims& dims = tensor.shape.dims;
    if (dims.size() != 4 || dims[0] != 1 || dims[2] != 1 || dims[3] != 1) {
      return std::nullopt;  // without axes already
    }
    io::TensorView out = tensor;
    out.shape.dims = {dims[1]};
    return out;
  }
  if (piece.cut == Cut::LINEAR) {
    const Dims& dims = tensor.shape.dims;
    if (dims.size() != 4 || dims[2] != 1 || dims[3] != 1) {
      return std::nullopt;  // a bias, or a matrix already
    }
    io::TensorView out = tensor;
    out.shape.dims.resize(2);
    return out;
  }
  if (!is_float(tensor.shape.dtype)) {
    return std::nullopt;  // the reader reports the wrong shape
  }
  return piece.cut == Cut::SWAPPED      ? std::optional(swapped(tensor, path))
         : piece.cut == Cut::TRANSPOSED ? std::optional(transposed(tensor, path))
                                        : std::nullopt;
}

}  // namespace kinema::model_files
