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

namespace kinema::records {

/// Stops libprotobuf from printing lines about invalid messages; the errors of these functions have
/// the reasons. Applies to the whole process; call it at the start of a program.
void quiet_protobuf();

/// A serialized TensorProto (float, double, half, bfloat16 or integers; raw content or typed
/// values) as an array; `where` is its name in errors.
HostArray parse_tensor_proto(std::span<const std::byte> bytes, const std::string& where);

/// The array as a serialized TensorProto with raw content.
std::string serialize_tensor_proto(const HostArray& array);

/// The values of a feature; empty bytes if its kind is not set.
using Feature = std::variant<std::vector<std::string>, std::vector<float>, std::vector<int64_t>>;
/// A tf.train.Example: features by name.
using Example = std::map<std::string, Feature>;

/// Reads a serialized tf.train.Example; throws an Error with `where` for other bytes.
Example parse_example(std::span<const std::byte> bytes, const std::string& where);

/// The serialized example; equal examples give equal bytes. Throws an Error for more than 2 GiB.
std::string serialize_example(const Example& example);

/// Shapes of features that are one serialized TensorProto each, in the order of `names`, read
/// without the values; nothing for a missing feature. Throws an Error with `where` for bytes that
/// are not an Example, or if a feature is not a tensor.
std::vector<std::optional<Shape>> read_tensor_shapes(std::span<const std::byte> bytes,
                                                     std::span<const std::string_view> names,
                                                     const std::string& where);

/// A feature of a tf.train.Example, for listings.
struct FeatureSummary {
  std::string name;
  std::string kind;  // `bytes`, `float`, `int64`
  int64_t count = 0;
  std::optional<Shape> tensor;  // if the one bytes value is a TensorProto
};
std::vector<FeatureSummary> summarize_example(std::span<const std::byte> bytes,
                                              const std::string& where);

}  // namespace kinema::records
