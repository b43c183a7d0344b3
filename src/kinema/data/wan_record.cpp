#include "kinema/data/wan_record.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/example_proto.h"

namespace kinema::data {
namespace {

constexpr const char* kLatents = "latents";
constexpr const char* kText = "encoder_hidden_states";
constexpr const char* kTimestep = "timesteps";
// Features that MaxDiffusion's records have not.
constexpr const char* kCondition = "condition";
constexpr const char* kImageStates = "encoder_hidden_states_image";

/// The one value of a feature. `what` it must be, for the error.
template <typename T>
const T& one_value(const io::Example& example, const char* name, const char* what,
                   const std::string& where) {
  const auto found = example.find(name);
  check(found != example.end(), "[example] {} has no feature `{}` among its {}", where, name,
        example.size());
  const auto* values = std::get_if<std::vector<T>>(&found->second);
  const size_t count = values == nullptr ? 0 : values->size();
  check(count == 1, "[example] {}: `{}` must be {} but holds {}", where, name, what, count);
  return values->front();
}

HostArray tensor(const io::Example& example, const char* name, size_t rank,
                 const std::string& where) {
  const auto& bytes = one_value<std::string>(example, name, "one serialized tensor", where);
  const std::string place = where + " `" + name + "`";
  HostArray array = io::parse_tensor_proto(std::as_bytes(std::span(bytes)), place);
  check(array.shape.dims.size() == rank && is_float(array.shape.dtype),
        "[example] {} is {} but must be a floating-point tensor of {} axes", place,
        to_string(array.shape), rank);
  return array;
}

}  // namespace

WanRecord parse_wan_record(std::span<const std::byte> bytes, const std::string& where) {
  const io::Example example = io::parse_example(bytes, where);
  WanRecord record;
  record.latents = tensor(example, kLatents, 4, where);
  record.encoder_hidden_states = tensor(example, kText, 2, where);
  if (example.contains(kCondition)) {
    record.condition = tensor(example, kCondition, 4, where);
    const Dims& latents = record.latents.shape.dims;
    const Dims& condition = record.condition.shape.dims;
    check(std::equal(latents.begin() + 1, latents.end(), condition.begin() + 1),
          "[example] {}: `{}` is {}, but the latents are {}: frames, rows and columns must agree",
          where, kCondition, to_string(record.condition.shape), to_string(record.latents.shape));
  }
  if (example.contains(kImageStates)) {
    record.image_states = tensor(example, kImageStates, 2, where);
  }
  if (example.contains(kTimestep)) {
    record.timestep = one_value<int64_t>(example, kTimestep, "one integer", where);
  }
  return record;
}

WanShapes read_wan_shapes(std::span<const std::byte> bytes, const std::string& where) {
  const std::array<std::string_view, 2> names{kLatents, kText};
  const std::vector<std::optional<Shape>> shapes = io::read_tensor_shapes(bytes, names, where);
  for (size_t i = 0; i < names.size(); ++i) {
    check(shapes[i].has_value(), "[example] {} has no feature `{}`", where, names[i]);
  }
  return {*shapes[0], *shapes[1]};
}

std::string serialize_wan_record(const WanRecord& record) {
  io::Example example;
  const auto add = [&](const char* name, const HostArray& array) {
    example[name] = std::vector{io::serialize_tensor_proto(array)};
  };
  add(kLatents, record.latents);
  add(kText, record.encoder_hidden_states);
  for (const auto& [name, array] :
       {std::pair{kCondition, &record.condition}, std::pair{kImageStates, &record.image_states}}) {
    if (!array->bytes.empty()) {
      add(name, *array);
    }
  }
  if (record.timestep) {
    example[kTimestep] = std::vector{*record.timestep};
  }
  return io::serialize_example(example);
}

}  // namespace kinema::data
