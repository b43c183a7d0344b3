#include "kinema/mesh/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::mesh {
namespace {

std::string sizes_text(const Mesh& mesh, std::span<const std::string> axes) {
  std::vector<std::string> parts;
  for (const std::string& axis : axes) {
    parts.push_back(fmt::format("{}={}", axis, mesh.size(axis)));
  }
  return fmt::format("{}", fmt::join(parts, " x "));
}

/// Other mesh axes than these, which shard samples, for a remedy.
std::string_view other_axes(const std::vector<std::string>& axes) {
  const bool fsdp = std::ranges::find(axes, "fsdp") != axes.end();
  return fsdp ? "context or tensor" : "fsdp, context or tensor";
}

/// `, tokens over context=2 x fsdp=2`; empty if there are no such axes.
std::string part_text(std::string_view what, const Mesh& mesh,
                      const std::vector<std::string>& axes) {
  return axes.empty() ? "" : fmt::format(", {} over {}", what, sizes_text(mesh, axes));
}

}  // namespace

std::string batch_text(const Placement& asked, int64_t samples, std::string_view what) {
  const Placement place = asked.for_samples(samples);
  const Mesh& mesh = place.mesh();
  const auto over = [&](std::string_view name, std::string_view logical) {
    return part_text(name, mesh, place.axes_of(logical));
  };
  std::vector<std::string> weights = place.axes_of("embed");
  for (const std::string& axis : place.axes_of("heads")) {
    if (std::ranges::find(weights, axis) == weights.end()) {
      weights.push_back(axis);
    }
  }
  std::string out = fmt::format("{} {}", samples, what);
  if (const auto axes = place.axes_of("activation_batch"); !axes.empty()) {
    out += " over " + sizes_text(mesh, axes);
  }
  out += over("tokens", "activation_length") + over("heads", "activation_heads") +
         part_text("weights", mesh, weights);
  if (place.rules() != asked.rules()) {
    out += fmt::format("; a batch of {} does not divide over {}, so fsdp splits its tokens",
                       samples, sizes_text(mesh, asked.axes_of("activation_batch")));
  }
  return out;
}

void check_batch(const Placement& placement, int64_t samples, double per_device) {
  const int64_t parts = placement.parts("activation_batch");
  if (samples % parts == 0) {
    return;
  }
  const Mesh& mesh = placement.mesh();
  const std::vector<std::string> axes = placement.axes_of("activation_batch");
  const std::string over = sizes_text(mesh, axes);
  check(
      per_device <= 0 || per_device >= 1,
      "[mesh] per_device_batch_size {} on {} devices is a batch of {}, which does not divide over "
      "{}: a fraction leaves fewer samples than devices\n  put devices on {} until the product is "
      "{}, or set per_device_batch_size=1",
      per_device, mesh.devices(), samples, over, other_axes(axes), divisors_text(samples));
  const int64_t up = (samples + parts - 1) / parts * parts;
  fail(
      "[mesh] a batch of {} samples does not divide over {}\n  set global_batch_size={}, or "
      "another multiple of {}; or put devices on {} instead",
      samples, over, up, parts, other_axes(axes));
}

void check_divides(const Placement& placement, std::string_view what, int64_t size,
                   std::string_view logical) {
  const int64_t parts = placement.parts(logical);
  check(size % parts == 0,
        "[mesh] {} {} do not divide over {} (`{}` of logical_axis_rules)\n  the product must be {}",
        size, what, sizes_text(placement.mesh(), placement.axes_of(logical)), logical,
        divisors_text(size));
}

AxisRules sample_rules(const io::JsonText& data_sharding) {
  const io::Json tree = io::Json::parse(data_sharding.json, "data_sharding");
  check(tree.is_array() && tree.items().size() == 1,
        "[mesh] data_sharding is {}, expected one list of mesh axes, for the samples of a batch",
        tree.dump(-1));
  // A rule with a unique name.
  const io::Json rules = io::Json::array({io::Json::array({"samples", tree.items()[0]})});
  return AxisRules::parse({rules.dump(-1)}, "data_sharding");
}

std::vector<std::string> batch_axes(const Placement& placement, const io::JsonText& data_sharding,
                                    int64_t samples) {
  if (!placement.active()) {
    return {};
  }
  const Placement own(placement.mesh(), sample_rules(data_sharding), "data_sharding");
  return own.sharding({"samples"}, {samples}).dims[0];
}

}  // namespace kinema::mesh
