#include "kinema/data/record.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/data/feature.h"
#include "kinema/data/image_record.h"
#include "kinema/records/example_proto.h"

namespace kinema::data {
namespace {

constexpr const char* kTimestep = "timesteps";
/// MaxDiffusion's name of VACE's condition.
constexpr const char* kConditioningLatents = "conditioning_latents";

void check_condition(const Sample& sample, const std::string& where) {
  if (sample.condition.bytes.empty()) {
    return;
  }
  const Dims& latents = sample.latents.shape.dims;
  const Dims& condition = sample.condition.shape.dims;
  // Pictures of ControlNets have the pixels of the latents' cells.
  const bool are_pixels = condition[1] == 1 && latents[2] > 0 && condition[2] % latents[2] == 0 &&
                          condition[3] * latents[2] == condition[2] * latents[3];
  check(are_pixels || std::equal(latents.begin() + 1, latents.end(), condition.begin() + 1),
        "[example] {}: `condition` is {}, but the latents are {}: frames, rows and columns must "
        "agree",
        where, to_string(sample.condition.shape), to_string(sample.latents.shape));
}

}  // namespace

HostArray tensor_feature(const records::Example& example, const char* name, size_t rank,
                         const std::string& where) {
  const auto& bytes = one_value<std::string>(example, name, "one serialized tensor", where);
  const std::string place = where + " `" + name + "`";
  HostArray array = records::parse_tensor_proto(std::as_bytes(std::span(bytes)), place);
  check(array.shape.dims.size() == rank && is_float(array.shape.dtype),
        "[example] {} is {} but must be a floating-point tensor of {} axes", place,
        to_string(array.shape), rank);
  return array;
}

Sample parse_record(std::span<const std::byte> bytes, const std::string& where) {
  const records::Example example = records::parse_example(bytes, where);
  if (is_image_record(example)) {
    return parse_image_record(example, where);
  }
  Sample sample;
  for (const SamplePart& part : kParts) {
    const bool extra =
        part.of_sample != &Sample::latents && part.of_sample != &Sample::encoder_hidden_states;
    if (!extra || example.contains(part.name)) {
      sample.*part.of_sample = tensor_feature(example, part.name, part.rank, where);
    }
  }
  if (sample.condition.bytes.empty() && example.contains(kConditioningLatents)) {
    sample.condition = tensor_feature(example, kConditioningLatents, 4, where);
  }
  check_condition(sample, where);
  if (example.contains(kTimestep)) {
    sample.timestep = one_value<int64_t>(example, kTimestep, "one integer", where);
  }
  return sample;
}

RecordShapes read_record_shapes(std::span<const std::byte> bytes, const std::string& where) {
  // Of both kinds; text_embeds and prompt_embeds are distinguished by their rank.
  const std::array<std::string_view, 5> names{kParts[0].name, kParts[1].name, kPixelValues,
                                              kTextEmbeds, kPromptEmbeds};
  const std::vector<std::optional<Shape>> shapes = records::read_tensor_shapes(bytes, names, where);
  if (!shapes[0] && shapes[2]) {
    for (const size_t i : {3, 4}) {
      check(shapes[i].has_value(), "[example] {} has no feature `{}`", where, names[i]);
    }
    return {*shapes[2], shapes[3]->rank() == 2 ? *shapes[3] : *shapes[4]};
  }
  for (const size_t i : {0, 1}) {
    check(shapes[i].has_value(), "[example] {} has no feature `{}`", where, names[i]);
  }
  return {*shapes[0], *shapes[1]};
}

std::string serialize_record(const Sample& sample) {
  records::Example example;
  for (const SamplePart& part : kParts) {
    const HostArray& array = sample.*part.of_sample;
    if (!array.bytes.empty()) {
      example[part.name] = std::vector{records::serialize_tensor_proto(array)};
    }
  }
  if (sample.timestep) {
    example[kTimestep] = std::vector{*sample.timestep};
  }
  return records::serialize_example(example);
}

}  // namespace kinema::data
