#include "kinema/records/example_proto.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/records/wire_lengths.h"
#include "records/example.pb.h"

namespace kinema::records {
namespace {

// A TensorProto may have one value for a tensor of any size; this is the limit.
constexpr int64_t kMaxFilledBytes = int64_t{1} << 20;

static_assert(std::endian::native == std::endian::little, "TensorProto content is little-endian");

struct WireDType {
  DType dtype;
  int32_t number;  // tensorflow/core/framework/types.proto
};
constexpr WireDType kWireDTypes[] = {
    {DType::F32, 1}, {DType::F64, 2}, {DType::S32, 3},   {DType::U8, 4},    {DType::S16, 5},
    {DType::S8, 6},  {DType::S64, 9}, {DType::PRED, 10}, {DType::BF16, 14}, {DType::F16, 19},
};

// Example.features, the map's entries (key 1, value 2), and the list that a Feature holds;
// Tensor.tensor_shape with its dims.
constexpr WireMessage kLeaf{};
constexpr WireMessage::Field kFeatureFields[] = {{1, &kLeaf}, {2, &kLeaf}, {3, &kLeaf}};
constexpr WireMessage kFeature{kFeatureFields};
constexpr WireMessage::Field kEntryFields[] = {{2, &kFeature}};
constexpr WireMessage kEntry{kEntryFields};
constexpr WireMessage::Field kFeaturesFields[] = {{1, &kEntry}};
constexpr WireMessage kFeatures{kFeaturesFields};
constexpr WireMessage::Field kExampleFields[] = {{1, &kFeatures}};
constexpr WireMessage kExample{kExampleFields};
constexpr WireMessage::Field kShapeFields[] = {{2, &kLeaf}};
constexpr WireMessage kShape{kShapeFields};
constexpr WireMessage::Field kTensorFields[] = {{2, &kShape}};
constexpr WireMessage kTensor{kTensorFields};

template <typename Message>
constexpr const WireMessage& layout() {
  if constexpr (std::is_same_v<Message, wire::TensorShape>) {
    return kShape;
  } else {
    return std::is_same_v<Message, wire::Tensor> ? kTensor : kExample;
  }
}

template <typename Message>
Message parse(std::span<const std::byte> bytes, const std::string& where, const char* what) {
  Message message;
  check(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
            lengths_fit(bytes, layout<Message>()) &&
            message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())),
        "[example] {} is not a {}", where, what);
  return message;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

DType dtype_of(const wire::Tensor& tensor, const std::string& where) {
  for (const WireDType& known : kWireDTypes) {
    if (known.number == tensor.dtype()) {
      return known.dtype;
    }
  }
  fail("[example] {}: TensorProto dtype {} is not one of float, double, half, bfloat16 or integer",
       where, tensor.dtype());
}

Shape shape_of(const wire::Tensor& tensor, const std::string& where) {
  Shape shape{dtype_of(tensor, where), {}};
  check(!tensor.tensor_shape().unknown_rank() && tensor.tensor_shape().dim_size() <= 16,
        "[example] {}: the TensorProto has no usable shape", where);
  int64_t bytes = byte_size(shape.dtype);
  for (const auto& dim : tensor.tensor_shape().dim()) {
    check(dim.size() >= 0 && !__builtin_mul_overflow(bytes, dim.size(), &bytes),
          "[example] {}: the TensorProto's size {} is negative or too large", where, dim.size());
    shape.dims.push_back(dim.size());
  }
  return shape;
}

// Typed values, one per element; if there are fewer, the last one is repeated.
template <typename T, typename Values>
HostArray from_values(const Shape& shape, const Values& values, const std::string& where) {
  const int64_t elements = shape.elements();
  check(values.size() <= elements && (values.size() > 0 || elements == 0) &&
            (values.size() == elements || shape.bytes() <= kMaxFilledBytes),
        "[example] {}: the TensorProto is {} but holds {} values", where, to_string(shape),
        values.size());
  HostArray out(shape);
  const auto to = out.as<T>();
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t last = static_cast<size_t>(values.size()) - 1;
    to[i] = static_cast<T>(values[static_cast<int>(std::min(i, last))]);
  }
  return out;
}

HostArray from_typed(const Shape& shape, const wire::Tensor& t, const std::string& where) {
  switch (shape.dtype) {
    case DType::F32:
      return from_values<float>(shape, t.float_val(), where);
    case DType::F64:
      return from_values<double>(shape, t.double_val(), where);
    case DType::S64:
      return from_values<int64_t>(shape, t.int64_val(), where);
    case DType::PRED:
      return from_values<uint8_t>(shape, t.bool_val(), where);
    case DType::BF16:
    case DType::F16:
      return from_values<uint16_t>(shape, t.half_val(), where);
    case DType::S32:
      return from_values<int32_t>(shape, t.int_val(), where);
    case DType::S16:
      return from_values<int16_t>(shape, t.int_val(), where);
    default:
      return from_values<uint8_t>(shape, t.int_val(), where);
  }
}

/// Iterates over the fields of a serialized message without copying their contents.
class WireFields {
 public:
  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;                // of a varint
    std::span<const std::byte> bytes;  // of a length-delimited field
    bool delimited = false;
  };

  WireFields(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  std::optional<Field> next() {
    if (bytes_.empty()) {
      return std::nullopt;
    }
    const uint64_t tag = varint();
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        field.delimited = true;
        break;
      case 5:
        take(4);
        break;
      default:
        fail("[example] {} is not a tf.train.Example", where_);
    }
    return field;
  }

 private:
  std::span<const std::byte> take(uint64_t count) {
    check(count <= bytes_.size(), "[example] {} is not a tf.train.Example", where_);
    const auto out = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return out;
  }
  uint64_t varint() {
    uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(take(1)[0]);
      out |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        return out;
      }
    }
    fail("[example] {} is not a tf.train.Example", where_);
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
};

/// The last length-delimited field with this number, as in readers of the format; empty if there is
/// none.
std::span<const std::byte> member(std::span<const std::byte> bytes, uint64_t number,
                                  const std::string& where) {
  std::span<const std::byte> out;
  WireFields fields(bytes, where);
  while (const auto field = fields.next()) {
    if (field->number == number && field->delimited) {
      out = field->bytes;
    }
  }
  return out;
}

/// The shape of a feature that is one serialized TensorProto.
Shape feature_shape(std::span<const std::byte> feature, const std::string& where) {
  const auto tensor = member(member(feature, 1, where), 1, where);  // of its list of bytes
  wire::Tensor head;
  WireFields fields(tensor, where);
  while (const auto field = fields.next()) {
    if (field->number == 1 && !field->delimited) {
      head.set_dtype(static_cast<int32_t>(field->value));
    } else if (field->number == 2 && field->delimited) {
      *head.mutable_tensor_shape() = parse<wire::TensorShape>(field->bytes, where, "TensorShape");
    }
  }
  return shape_of(head, where);
}

}  // namespace

void quiet_protobuf() { google::protobuf::SetLogHandler(nullptr); }

HostArray parse_tensor_proto(std::span<const std::byte> bytes, const std::string& where) {
  const auto tensor = parse<wire::Tensor>(bytes, where, "TensorProto");
  const Shape shape = shape_of(tensor, where);
  const std::string& content = tensor.tensor_content();
  if (content.empty()) {
    return from_typed(shape, tensor, where);
  }
  check(static_cast<int64_t>(content.size()) == shape.bytes(),
        "[example] {}: the TensorProto is {} and needs {} bytes but holds {}", where,
        to_string(shape), shape.bytes(), content.size());
  HostArray out(shape);
  std::ranges::copy(std::as_bytes(std::span(content)), out.bytes.begin());
  return out;
}

std::string serialize_tensor_proto(const HostArray& array) {
  wire::Tensor tensor;
  const auto known = std::ranges::find(kWireDTypes, array.shape.dtype, &WireDType::dtype);
  check(known != std::end(kWireDTypes), "[example] {} has no TensorProto dtype",
        to_string(array.shape));
  tensor.set_dtype(known->number);
  for (const int64_t size : array.shape.dims) {
    tensor.mutable_tensor_shape()->add_dim()->set_size(size);
  }
  tensor.set_tensor_content(array.bytes.data(), array.bytes.size());
  return tensor.SerializeAsString();
}

Example parse_example(std::span<const std::byte> bytes, const std::string& where) {
  auto message = parse<wire::Example>(bytes, where, "tf.train.Example");
  Example out;
  for (auto& [name, feature] : *message.mutable_features()->mutable_feature()) {
    if (feature.has_float_list()) {
      const auto& values = feature.float_list().value();
      out[name] = std::vector<float>(values.begin(), values.end());
    } else if (feature.has_int64_list()) {
      const auto& values = feature.int64_list().value();
      out[name] = std::vector<int64_t>(values.begin(), values.end());
    } else {  // moved, because a value may be a large tensor
      auto& values = *feature.mutable_bytes_list()->mutable_value();
      out[name] = std::vector<std::string>(std::make_move_iterator(values.begin()),
                                           std::make_move_iterator(values.end()));
    }
  }
  return out;
}

std::string serialize_example(const Example& example) {
  wire::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  for (const auto& [name, feature] : example) {
    wire::Feature& to = features[name];
    if (const auto* bytes = std::get_if<std::vector<std::string>>(&feature)) {
      to.mutable_bytes_list()->mutable_value()->Assign(bytes->begin(), bytes->end());
    } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
      to.mutable_float_list()->mutable_value()->Assign(floats->begin(), floats->end());
    } else {
      const auto& integers = std::get<std::vector<int64_t>>(feature);
      to.mutable_int64_list()->mutable_value()->Assign(integers.begin(), integers.end());
    }
  }
  // By default maps are written in the order of the hash table; the same example must give the same
  // bytes.
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    check(message.SerializeToCodedStream(&coded), "[example] {} features of {} bytes are too large",
          example.size(), message.ByteSizeLong());
  }
  return out;
}

std::vector<std::optional<Shape>> read_tensor_shapes(std::span<const std::byte> bytes,
                                                     std::span<const std::string_view> names,
                                                     const std::string& where) {
  std::vector<std::optional<Shape>> out(names.size());
  WireFields example(bytes, where);
  while (const auto features = example.next()) {
    if (features->number != 1 || !features->delimited) {
      continue;
    }
    WireFields entries(features->bytes, where);
    while (const auto entry = entries.next()) {
      const auto key = member(entry->bytes, 1, where);
      const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
      const auto wanted = std::ranges::find(names, name);
      if (wanted != names.end()) {
        out[static_cast<size_t>(wanted - names.begin())] =
            feature_shape(member(entry->bytes, 2, where), where);
      }
    }
  }
  return out;
}

std::vector<FeatureSummary> summarize_example(std::span<const std::byte> bytes,
                                              const std::string& where) {
  const auto example = parse<wire::Example>(bytes, where, "tf.train.Example");
  std::vector<FeatureSummary> out;
  for (const auto& [name, value] : example.features().feature()) {
    FeatureSummary summary;
    summary.name = name;
    if (value.has_int64_list()) {
      summary.kind = "int64";
      summary.count = value.int64_list().value_size();
    } else if (value.has_float_list()) {
      summary.kind = "float";
      summary.count = value.float_list().value_size();
    } else {
      summary.kind = "bytes";
      summary.count = value.bytes_list().value_size();
      if (summary.count == 1) {
        try {
          summary.tensor = parse_tensor_proto(bytes_of(value.bytes_list().value(0)), where).shape;
        } catch (const Error&) {
          summary.tensor.reset();  // bytes of another kind: listed without a shape
        }
      }
    }
    out.push_back(std::move(summary));
  }
  std::ranges::sort(out, {}, &FeatureSummary::name);
  return out;
}

}  // namespace kinema::records
