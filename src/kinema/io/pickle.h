#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"

namespace kinema::io {

/// A value of a pickle, by its place in Pickle::values.
using PickleId = uint32_t;

/// What the names that a pickle may use stand for; nothing of them is code of the file.
enum class PickleRole : uint8_t {
  ORDERED_DICT,     // collections.OrderedDict
  SEQUENCE,         // set, torch.Size: their one argument
  NO_BYTES,         // bytes: called without arguments
  ENCODE,           // _codecs.encode: bytes as a text of Latin-1
  TENSOR,           // torch._utils._rebuild_tensor, _v2: storage, offset, size, stride, ...
  TENSOR_OF_DTYPE,  // torch._utils._rebuild_tensor_v3: the same, its 7th argument is the dtype
  PARAMETER,        // torch._utils._rebuild_parameter: tensor, ...
  TYPED,            // torch._tensor._rebuild_from_type_v2: name, type, arguments, state
  ARRAY,            // numpy's _reconstruct: an array that BUILD fills
  ARRAY_OF_BYTES,   // numpy's _frombuffer: bytes, dtype, shape, order
  SCALAR,           // numpy's scalar: dtype, bytes
  NUMPY_DTYPE,      // numpy.dtype: its code, `f4`
  STORAGE,          // torch.FloatStorage, ...: elements of `dtype`; without one: bytes
  DTYPE,            // torch.float8_e4m3fn, ...
  NAME_ONLY,        // a type that is only named, as the key of a dict or an argument
};

struct PickleName {
  std::string_view name;  // with its module: `torch.FloatStorage`
  PickleRole role;
  std::optional<DType> dtype = std::nullopt;
};

/// A tensor or array: elements of a storage of torch, or of bytes in the pickle.
struct PickleTensor {
  DType dtype = DType::F32;
  PickleId source = 0;  // a STORAGE or BYTES
  int64_t offset = 0;   // in elements
  Dims dims;
  Dims strides;  // in elements
};

enum class PickleKind : uint8_t {
  NONE,
  BOOL,
  INT,
  FLOAT,
  TEXT,   // UTF-8
  BYTES,  // also texts of Python 2
  LONG,   // an integer of more than 64 bits, little-endian
  LIST,   // also sets
  TUPLE,
  DICT,  // keys and values in turn
  NAME,
  STORAGE,  // of torch, by its key
  DTYPE,    // of numpy
  TENSOR,
  NEW_ARRAY,  // of numpy, before BUILD
};

struct PickleValue {
  PickleKind kind = PickleKind::NONE;
  std::optional<DType> dtype = std::nullopt;  // of a DTYPE; of a STORAGE, absent: bytes
  int64_t number = 0;                         // BOOL, INT; of a STORAGE: its elements
  double real = 0;                            // FLOAT
  std::span<const std::byte> bytes = {};      // TEXT, BYTES, LONG; of a STORAGE: its key
  std::vector<PickleId> items = {};           // LIST, TUPLE, DICT
  const PickleName* name = nullptr;           // NAME
  size_t tensor = 0;                          // TENSOR: its place in Pickle::tensors

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// The values of a pickle of protocols 0 to 5. No code is run: beyond containers, numbers, texts
/// and bytes, only the names of a fixed list are understood, which rebuild tensors and arrays.
struct Pickle {
  std::deque<PickleValue> values;
  std::vector<PickleTensor> tensors;
  /// Bytes that are not in the file as they are. Values refer to these and to the file.
  std::deque<std::vector<std::byte>> made;
  size_t made_bytes = 0;
  PickleId root = 0;
  size_t size = 0;  // bytes of the pickle, with its last opcode

  const PickleValue& operator[](PickleId id) const { return values[id]; }
  /// The value of a key in a DICT; null if it is not there or `dict` is something else.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;

  /// Adds to `made`; returns the bytes there.
  std::span<const std::byte> keep(std::vector<std::byte> bytes);

  /// Reads the pickle at the start of `bytes`, which must outlive the result. Throws an Error with
  /// `source`, and with the name if it uses one that is not on the list.
  static Pickle read(std::span<const std::byte> bytes, const std::string& source);
};

}  // namespace kinema::io
