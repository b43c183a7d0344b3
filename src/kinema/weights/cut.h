#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kinema/io/safetensors.h"
#include "kinema/weights/names.h"

/// Diffusers' tensors as parts of the original release's, where they lie in the file.
namespace kinema::weights {

struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

/// The rows that a piece is of a tensor [rows, ...]; nothing for a piece that is no range of rows.
/// `columns` is asked for the width of the weight, which squares are as high as. Throws an Error
/// naming the tensor, whose file is `path`, where it cannot be divided so.
std::optional<Rows> rows_of(const io::TensorView& tensor, const Piece& piece,
                            const std::string& path, const std::function<int64_t()>& columns);

/// A range of a tensor's rows: the bytes of the file, not a copy of them.
io::TensorView rows_view(const io::TensorView& tensor, const Rows& rows);

/// What else a piece can be; nothing where it is the tensor as it is. Values that change places are
/// made when they are read, as F32. Throws an Error naming the tensor where its shape is not one to
/// be turned so.
std::optional<io::TensorView> turned_view(const io::TensorView& tensor, const Piece& piece,
                                          const std::string& path);

}  // namespace kinema::weights
