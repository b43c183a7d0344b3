#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/convert.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/names.h"

/// A checkpoint's tensors as they are written in a format.
namespace kinema::networks {

/// Formats of codes with scales beside them.
inline bool is_stored(Format format) { return format == Format::FP8 || format == Format::INT8; }

/// Throws an Error where the checkpoint is not that of a network.
void check_is_network(const weights::Checkpoint& checkpoint);

/// A tensor as it is written: one of the checkpoint's, or those that the original release joins.
struct Written {
  std::string name;
  Shape shape;  // in the dtype of the first
  std::vector<const io::TensorView*> parts;
  weights::Cut cut = weights::Cut::WHOLE;
  bool as_codes = false;  // in the formats that have codes

  bool is_plain() const { return parts.size() == 1 && cut == weights::Cut::WHOLE; }
  /// Their values; throws an Error where a finite one would become infinite.
  HostArray values(DType dtype) const;
};

using Keys = std::set<std::string, std::less<>>;

/// All tensors under the names of the format, in the checkpoint's order. `as_codes`: those that the
/// narrow formats hold as codes. In names other than diffusers' the checkpoint is a network's.
std::vector<Written> written(const weights::Checkpoint& checkpoint, Format format,
                             const Keys& as_codes = {});

/// The same as entries of a safetensors file. The options must outlive them.
std::vector<io::TensorEntry> entries_of(const std::vector<Written>& tensors,
                                        const ConvertOptions& options);

}  // namespace kinema::networks
