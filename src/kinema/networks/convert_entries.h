#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/names.h"
#include "kinema/networks/convert.h"

/// A checkpoint's tensors in the names and dtypes of a format.
namespace kinema::networks {

/// Formats of codes with separate scales.
inline bool is_stored(Format format) { return format == Format::FP8 || format == Format::INT8; }

/// Throws an Error if the checkpoint is not that of a network.
void check_is_network(const model_files::Checkpoint& checkpoint);

/// A tensor to write: one of the checkpoint's, or several that the original release joins.
struct Written {
  std::string name;
  Shape shape;  // in the dtype of the first part
  std::vector<const io::TensorView*> parts;
  model_files::Cut cut = model_files::Cut::WHOLE;
  bool as_codes = false;  // in formats with codes

  bool is_plain() const { return parts.size() == 1 && cut == model_files::Cut::WHOLE; }
  /// Its values; throws an Error if a finite value would become infinite.
  HostArray values(DType dtype) const;
};

using Keys = std::set<std::string, std::less<>>;

/// All tensors under the names of the format, in the checkpoint's order. `as_codes`: keys that
/// quantized formats store as codes. For names other than diffusers' the checkpoint must be a
/// network's.
std::vector<Written> written(const model_files::Checkpoint& checkpoint, Format format,
                             const Keys& as_codes = {});

/// The same as entries of a safetensors file, which refer to `options`.
std::vector<io::TensorEntry> entries_of(const std::vector<Written>& tensors,
                                        const ConvertOptions& options);

}  // namespace kinema::networks
