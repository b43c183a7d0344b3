#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::io {

/// libprotobuf prints no lines of its own about bytes that are no message: the errors of these
/// functions say what is wrong. For the whole process; one of a program's first calls.
void quiet_protobuf();

/// A serialized TensorProto (float, double, half, bfloat16 or integers; raw content or typed
/// values) as an array; `where` names it in errors.
HostArray parse_tensor_proto(std::span<const std::byte> bytes, const std::string& where);

/// The array as a serialized TensorProto with raw content.
std::string serialize_tensor_proto(const HostArray& array);

/// The values of a feature; none where its kind is not said.
using Feature = std::variant<std::vector<std::string>, std::vector<float>, std::vector<int64_t>>;
/// A tf.train.Example: features by name.
using Example = std::map<std::string, Feature>;

/// Reads a serialized tf.train.Example; throws an Error with `where` for bytes that are none.
Example parse_example(std::span<const std::byte> bytes, const std::string& where);

/// The example serialized; equal ones give equal bytes. Throws an Error for one above 2 GiB.
std::string serialize_example(const Example& example);

/// Shapes of features that are one serialized TensorProto each, in the order of `names`, found
/// without reading values; nothing for one that the example lacks. Throws an Error with `where` for
/// bytes that are no Example, or no tensor under one of the names.
std::vector<std::optional<Shape>> read_tensor_shapes(std::span<const std::byte> bytes,
                                                     std::span<const std::string_view> names,
                                                     const std::string& where);

/// What a tf.train.Example holds, for listings.
struct FeatureSummary {
  std::string name;
  std::string kind;  // `bytes`, `float`, `int64`
  int64_t count = 0;
  std::optional<Shape> tensor;  // when the one bytes value is a TensorProto
};
std::vector<FeatureSummary> summarize_example(std::span<const std::byte> bytes,
                                              const std::string& where);

}  // namespace kinema::io
