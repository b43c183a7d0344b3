#include "kinema/io/pickle_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"

namespace kinema::io {
namespace {

constexpr PickleName kPickleNames[] = {
    {"collections.OrderedDict", PickleRole::ORDERED_DICT},
    {"builtins.set", PickleRole::SEQUENCE},
    {"__builtin__.set", PickleRole::SEQUENCE},
    {"torch.Size", PickleRole::SEQUENCE},
    {"builtins.bytes", PickleRole::NO_BYTES},
    {"__builtin__.bytes", PickleRole::NO_BYTES},
    {"_codecs.encode", PickleRole::ENCODE},
    {"torch._utils._rebuild_tensor", PickleRole::TENSOR},
    {"torch._utils._rebuild_tensor_v2", PickleRole::TENSOR},
    {"torch._utils._rebuild_tensor_v3", PickleRole::TENSOR_OF_DTYPE},
    {"torch._utils._rebuild_parameter", PickleRole::PARAMETER},
    {"torch._tensor._rebuild_from_type_v2", PickleRole::TYPED},
    {"torch.Tensor", PickleRole::NAME_ONLY},
    {"torch.nn.parameter.Parameter", PickleRole::NAME_ONLY},
    // A key in the published files of Stable Diffusion 1.
    {"pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint", PickleRole::NAME_ONLY},
    {"numpy.core.multiarray._reconstruct", PickleRole::ARRAY},
    {"numpy._core.multiarray._reconstruct", PickleRole::ARRAY},
    {"numpy.core.numeric._frombuffer", PickleRole::ARRAY_OF_BYTES},
    {"numpy._core.numeric._frombuffer", PickleRole::ARRAY_OF_BYTES},
    {"numpy.core.multiarray.scalar", PickleRole::SCALAR},
    {"numpy._core.multiarray.scalar", PickleRole::SCALAR},
    {"numpy.ndarray", PickleRole::NAME_ONLY},
    {"numpy.dtype", PickleRole::NUMPY_DTYPE},
    {"ml_dtypes.bfloat16", PickleRole::DTYPE, DType::BF16},
    {"torch.FloatStorage", PickleRole::STORAGE, DType::F32},
    {"torch.DoubleStorage", PickleRole::STORAGE, DType::F64},
    {"torch.HalfStorage", PickleRole::STORAGE, DType::F16},
    {"torch.BFloat16Storage", PickleRole::STORAGE, DType::BF16},
    {"torch.LongStorage", PickleRole::STORAGE, DType::S64},
    {"torch.IntStorage", PickleRole::STORAGE, DType::S32},
    {"torch.ShortStorage", PickleRole::STORAGE, DType::S16},
    {"torch.CharStorage", PickleRole::STORAGE, DType::S8},
    {"torch.ByteStorage", PickleRole::STORAGE, DType::U8},
    {"torch.BoolStorage", PickleRole::STORAGE, DType::PRED},
    {"torch.Float8_e4m3fnStorage", PickleRole::STORAGE, DType::F8E4M3FN},
    {"torch.Float8_e5m2Storage", PickleRole::STORAGE, DType::F8E5M2},
    {"torch.storage.UntypedStorage", PickleRole::STORAGE},
    {"torch.UntypedStorage", PickleRole::STORAGE},
    {"torch.float32", PickleRole::DTYPE, DType::F32},
    {"torch.float64", PickleRole::DTYPE, DType::F64},
    {"torch.float16", PickleRole::DTYPE, DType::F16},
    {"torch.bfloat16", PickleRole::DTYPE, DType::BF16},
    {"torch.float8_e4m3fn", PickleRole::DTYPE, DType::F8E4M3FN},
    {"torch.float8_e5m2", PickleRole::DTYPE, DType::F8E5M2},
    {"torch.int8", PickleRole::DTYPE, DType::S8},
    {"torch.int16", PickleRole::DTYPE, DType::S16},
    {"torch.int32", PickleRole::DTYPE, DType::S32},
    {"torch.int64", PickleRole::DTYPE, DType::S64},
    {"torch.uint8", PickleRole::DTYPE, DType::U8},
    {"torch.uint16", PickleRole::DTYPE, DType::U16},
    {"torch.uint32", PickleRole::DTYPE, DType::U32},
    {"torch.uint64", PickleRole::DTYPE, DType::U64},
    {"torch.bool", PickleRole::DTYPE, DType::PRED},
};

/// numpy's codes for the element types.
constexpr std::pair<std::string_view, DType> kNumpyCodes[] = {
    {"f4", DType::F32},       {"f8", DType::F64}, {"f2", DType::F16}, {"i1", DType::S8},
    {"i2", DType::S16},       {"i4", DType::S32}, {"i8", DType::S64}, {"u1", DType::U8},
    {"u2", DType::U16},       {"u4", DType::U32}, {"u8", DType::U64}, {"b1", DType::PRED},
    {"bfloat16", DType::BF16}};

constexpr std::string_view kOfOthers =
    "is not what torch and numpy write\n  download it again, or save it again";

/// Reads the arguments of one call.
class PickleCall {
 public:
  PickleCall(Pickle& pickle, const PickleName& name, std::span<const PickleId> arguments,
             const std::string& source)
      : pickle_(pickle), name_(name), arguments_(arguments), source_(source) {}

  const PickleValue& at(size_t i) const {
    require(i < arguments_.size());
    return pickle_[arguments_[i]];
  }
  const PickleValue& at(size_t i, PickleKind kind) const {
    const PickleValue& out = at(i);
    require(out.kind == kind);
    return out;
  }
  PickleId id(size_t i) const { return arguments_[i]; }
  size_t size() const { return arguments_.size(); }

  /// A tuple of sizes or strides.
  Dims dims(const PickleValue& tuple) const {
    constexpr size_t kMostAxes = 64;
    require(tuple.kind == PickleKind::TUPLE || tuple.kind == PickleKind::LIST);
    require(tuple.items.size() <= kMostAxes);
    Dims out;
    for (const PickleId item : tuple.items) {
      require(pickle_[item].kind == PickleKind::INT && pickle_[item].number >= 0);
      out.push_back(pickle_[item].number);
    }
    return out;
  }

  void require(bool ok) const {
    check(ok, "[pickle] {}: a call of `{}` {}", source_, name_.name, kOfOthers);
  }

  PickleValue add(PickleTensor tensor) {
    pickle_.tensors.push_back(std::move(tensor));
    return {.kind = PickleKind::TENSOR, .tensor = pickle_.tensors.size() - 1};
  }

 private:
  Pickle& pickle_;
  const PickleName& name_;
  std::span<const PickleId> arguments_;
  const std::string& source_;
};

/// Strides of an array whose last axis (or, in Fortran's order, first axis) varies fastest.
Dims strides_of(const Dims& dims, bool fortran, const PickleCall& call) {
  Dims out(dims.size());
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t axis = fortran ? i : dims.size() - 1 - i;
    out[axis] = stride;
    call.require(!__builtin_mul_overflow(stride, std::max<int64_t>(dims[axis], 1), &stride));
  }
  return out;
}

PickleValue torch_tensor(PickleCall& call, bool has_dtype) {
  const PickleValue& storage = call.at(0, PickleKind::STORAGE);
  PickleTensor out{.source = call.id(0),
                   .offset = call.at(1, PickleKind::INT).number,
                   .dims = call.dims(call.at(2)),
                   .strides = call.dims(call.at(3))};
  std::optional<DType> dtype = storage.dtype;
  if (has_dtype) {
    const PickleValue& name = call.at(6, PickleKind::NAME);
    call.require(name.name->role == PickleRole::DTYPE);
    dtype = name.name->dtype;
  }
  call.require(dtype.has_value() && out.offset >= 0 && out.dims.size() == out.strides.size());
  out.dtype = *dtype;
  return call.add(std::move(out));
}

PickleValue numpy_array(PickleCall& call, PickleId bytes, const PickleValue& dtype,
                        const Dims& dims, bool fortran) {
  call.require(dtype.kind == PickleKind::DTYPE && dtype.dtype.has_value());
  return call.add({.dtype = *dtype.dtype,
                   .source = bytes,
                   .dims = dims,
                   .strides = strides_of(dims, fortran, call)});
}

/// The bytes of a text in which each character stands for one.
std::vector<std::byte> from_latin1(std::string_view text, const PickleCall& call) {
  std::vector<std::byte> out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out.push_back(static_cast<std::byte>(c));
      continue;
    }
    // U+0080 to U+00FF in UTF-8: 0xC2 or 0xC3, and six bits.
    call.require((c == 0xc2 || c == 0xc3) && i + 1 < text.size() &&
                 (static_cast<unsigned char>(text[i + 1]) & 0xc0) == 0x80);
    ++i;
    out.push_back(static_cast<std::byte>((c & 3) << 6 | (text[i] & 0x3f)));
  }
  return out;
}

PickleValue encoded(Pickle& pickle, PickleCall& call, size_t bytes) {
  const PickleValue& text = call.at(0, PickleKind::TEXT);
  const std::string_view codec = call.at(1).text();
  call.require(codec == "latin1" || codec == "latin-1");
  // A text has at most two bytes for each byte of the file, and is encoded once. More come from one
  // that is used many times.
  call.require(pickle.made_bytes + text.bytes.size() <= 4 * bytes);
  return {.kind = PickleKind::BYTES, .bytes = pickle.keep(from_latin1(text.text(), call))};
}

PickleValue ordered_dict(const Pickle& pickle, const PickleCall& call) {
  PickleValue out{.kind = PickleKind::DICT};
  if (call.size() == 0) {
    return out;
  }
  const PickleValue& pairs = call.at(0, PickleKind::LIST);  // Python 2 lists the pairs
  for (const PickleId id : pairs.items) {
    const PickleValue& pair = pickle[id];
    call.require((pair.kind == PickleKind::LIST || pair.kind == PickleKind::TUPLE) &&
                 pair.items.size() == 2);
    out.items.insert(out.items.end(), pair.items.begin(), pair.items.end());
  }
  return out;
}

}  // namespace

const PickleName& pickle_name(std::string_view module, std::string_view name,
                              const std::string& source) {
  for (const PickleName& known : kPickleNames) {
    const size_t dot = module.size();
    if (known.name.size() == dot + 1 + name.size() && known.name.starts_with(module) &&
        known.name[dot] == '.' && known.name.ends_with(name)) {
      return known;
    }
  }
  constexpr size_t kMost = 80;
  fail(
      "[pickle] {} needs `{}.{}`, which is refused: no code of a file is run, and tensors and "
      "containers alone are read\n"
      "  take the safetensors file of this model, or where its program is trusted, save its "
      "tensors: torch.save(model.state_dict(), FILE)",
      source, printable_line(module.substr(0, kMost)), printable_line(name.substr(0, kMost)));
}

PickleValue pickle_call(Pickle& pickle, const PickleName& name, std::span<const PickleId> arguments,
                        size_t bytes, const std::string& source) {
  PickleCall call(pickle, name, arguments, source);
  switch (name.role) {
    case PickleRole::ORDERED_DICT:
      return ordered_dict(pickle, call);
    case PickleRole::SEQUENCE:
      call.require(call.size() == 0 || call.at(0).kind == PickleKind::LIST ||
                   call.at(0).kind == PickleKind::TUPLE);
      return call.size() == 0 ? PickleValue{.kind = PickleKind::LIST} : call.at(0);
    case PickleRole::NO_BYTES:
      call.require(call.size() == 0);
      return {.kind = PickleKind::BYTES};
    case PickleRole::ENCODE:
      return encoded(pickle, call, bytes);
    case PickleRole::TENSOR:
    case PickleRole::TENSOR_OF_DTYPE:
      return torch_tensor(call, name.role == PickleRole::TENSOR_OF_DTYPE);
    case PickleRole::PARAMETER:
      return call.at(0, PickleKind::TENSOR);
    case PickleRole::TYPED: {
      const PickleValue& inner = call.at(0, PickleKind::NAME);
      call.require(inner.name->role != PickleRole::TYPED && call.at(1).kind == PickleKind::NAME &&
                   call.at(1).name->role == PickleRole::NAME_ONLY);
      return pickle_call(pickle, *inner.name, call.at(2, PickleKind::TUPLE).items, bytes, source);
    }
    case PickleRole::ARRAY:
      return {.kind = PickleKind::NEW_ARRAY};
    case PickleRole::ARRAY_OF_BYTES: {
      call.at(0, PickleKind::BYTES);
      const std::string_view order = call.at(3).text();
      call.require(order == "C" || order == "F");
      return numpy_array(call, call.id(0), call.at(1), call.dims(call.at(2)), order == "F");
    }
    case PickleRole::SCALAR:
      call.at(1, PickleKind::BYTES);
      return numpy_array(call, call.id(1), call.at(0), {}, false);
    case PickleRole::NUMPY_DTYPE: {
      const PickleValue& code = call.at(0);
      if (code.kind == PickleKind::NAME && code.name->role == PickleRole::DTYPE) {
        return {.kind = PickleKind::DTYPE, .dtype = code.name->dtype};
      }
      const auto* const found =
          std::ranges::find(kNumpyCodes, code.text(), &std::pair<std::string_view, DType>::first);
      check(found != std::end(kNumpyCodes),
            "[pickle] {}: an array has numpy's dtype `{}`, which is not read\n"
            "  save it as numbers: array.astype(numpy.float32)",
            source, printable_line(code.text().substr(0, 80)));
      return {.kind = PickleKind::DTYPE, .dtype = found->second};
    }
    case PickleRole::STORAGE:
    case PickleRole::DTYPE:
    case PickleRole::NAME_ONLY:
      break;
  }
  fail("[pickle] {}: `{}` is called, which {}", source, name.name, kOfOthers);
}

void pickle_build(Pickle& pickle, PickleId value, PickleId state, const std::string& source) {
  const PickleValue& target = pickle[value];
  if (target.kind == PickleKind::DTYPE) {
    // (version, byte order, subtype, names, fields, size, alignment, flags)
    static constexpr PickleName kName{"numpy.dtype", PickleRole::NUMPY_DTYPE};
    const PickleCall call(pickle, kName, pickle[state].items, source);
    const std::string_view order = call.at(1).text();
    check(order != ">" || byte_size(*target.dtype) == 1,
          "[pickle] {}: an array is big-endian, which is not read\n"
          "  save it as little-endian: array.astype('<f4')",
          source);
    call.require(order == "<" || order == "|" || order == "=" || order == ">");
    call.require(call.at(2).kind == PickleKind::NONE && call.at(3).kind == PickleKind::NONE);
    return;
  }
  if (target.kind == PickleKind::NEW_ARRAY) {
    // (version, shape, dtype, whether the first axis varies fastest, bytes)
    static constexpr PickleName kName{"numpy.ndarray", PickleRole::ARRAY};
    PickleCall call(pickle, kName, pickle[state].items, source);
    call.at(4, PickleKind::BYTES);
    PickleValue array = numpy_array(call, call.id(4), call.at(2), call.dims(call.at(1)),
                                    call.at(3, PickleKind::BOOL).number != 0);
    pickle.values[value] = std::move(array);
    return;
  }
  // torch keeps the versions of modules as an attribute of the dict.
  check(target.kind == PickleKind::DICT, "[pickle] {}: the state of an object {}", source,
        kOfOthers);
}

PickleValue pickle_storage(const Pickle& pickle, PickleId id, const std::string& source) {
  const PickleValue& given = pickle[id];
  const bool named = given.kind == PickleKind::TUPLE && given.items.size() >= 5 &&
                     pickle[given.items[0]].text() == "storage";
  check(named, "[pickle] {}: the reference to a storage {}", source, kOfOthers);
  const PickleValue& type = pickle[given.items[1]];
  const PickleValue& key = pickle[given.items[2]];
  const PickleValue& count = pickle[given.items[4]];
  check(type.kind == PickleKind::NAME && type.name->role == PickleRole::STORAGE &&
            (key.kind == PickleKind::TEXT || key.kind == PickleKind::BYTES) &&
            count.kind == PickleKind::INT && count.number >= 0,
        "[pickle] {}: the reference to a storage {}", source, kOfOthers);
  // Files of torch before 0.4 have views of storages.
  check(given.items.size() == 5 || pickle[given.items[5]].kind == PickleKind::NONE,
        "[pickle] {}: a storage is a view of another, which is not read\n"
        "  save the file again with a newer torch",
        source);
  return {.kind = PickleKind::STORAGE,
          .dtype = type.name->dtype,
          .number = count.number,
          .bytes = key.bytes};
}

}  // namespace kinema::io
