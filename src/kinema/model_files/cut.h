#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kinema/io/safetensors.h"
#include "kinema/model_files/names.h"

/// Diffusers' tensors as views of the original release's tensors.
namespace kinema::model_files {

struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

/// The range of rows of a tensor [rows, ...] that a piece is; nothing for a piece that is not a
/// range of rows. `columns` returns the width of the weight, which is also the height of its
/// squares. Throws an Error with the tensor's name and `path` if it cannot be divided.
std::optional<Rows> rows_of(const io::TensorView& tensor, const Piece& piece,
                            const std::string& path, const std::function<int64_t()>& columns);

/// A range of a tensor's rows, without copying the file's bytes.
io::TensorView rows_view(const io::TensorView& tensor, const Rows& rows);

/// Other kinds of pieces; nothing if the piece is the unchanged tensor. Reordered values are
/// computed as F32 when they are read. Throws an Error with the tensor's name if its shape does not
/// allow the reordering.
std::optional<io::TensorView> transposed_view(const io::TensorView& tensor, const Piece& piece,
                                              const std::string& path);

}  // namespace kinema::model_files
