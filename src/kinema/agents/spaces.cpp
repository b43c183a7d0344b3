#include "kinema/agents/spaces.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/models/dreamer/config_file.h"

namespace kinema::agents {
namespace {

using environments::Space;
using io::Json;

Json described(const std::string& name, const Space& space) {
  Json shape = Json::array();
  for (const int64_t size : space.shape) {
    shape.append(size);
  }
  const char* dtype = "float32";
  if (space.dtype == DType::U8) {
    dtype = "uint8";
  } else if (space.dtype == DType::PRED) {
    dtype = "bool";
  } else if (space.is_discrete()) {
    dtype = "int32";
    constexpr double kMostClasses = 1e6;
    check(space.high - space.low >= 1.0 && space.high - space.low <= kMostClasses,
          "[agents] `{}` has integers from {} to {}, expected 1 to 1e6 values", name, space.low,
          space.high);
  }
  Json out = Json::object({{"dtype", dtype}, {"shape", shape}});
  if (space.is_discrete()) {
    out.set("classes", space.classes());
  }
  return out;
}

Json described(const environments::Spaces& spaces) {
  Json out = Json::object();
  for (const auto& [name, space] : spaces) {
    out.set(name, described(name, space));
  }
  return out;
}

/// Integers [n, ...] plus `offset`, in a dtype.
HostArray shifted(const HostArray& values, DType dtype, int64_t offset) {
  HostArray wide = values;
  if (wide.shape.dtype == DType::PRED) {
    wide.shape.dtype = DType::U8;  // the same bytes
  }
  wide = convert(wide, DType::S64);
  for (int64_t& value : wide.as<int64_t>()) {
    value += offset;
  }
  HostArray out = convert(wide, dtype == DType::PRED ? DType::U8 : dtype);
  out.shape.dtype = dtype;
  return out;
}

}  // namespace

dreamer::AgentConfig agent_config(const Settings& settings,
                                  const environments::Spaces& observations,
                                  const environments::Spaces& actions) {
  return dreamer::parse_config(Json::object({{"obs_space", described(observations)},
                                             {"act_space", described(actions)},
                                             {"agent", settings.tree("agent")}}));
}

HostArray for_agent(const Space& space, const HostArray& values) {
  if (!space.is_discrete()) {
    return values;
  }
  const DType dtype =
      space.dtype == DType::U8 || space.dtype == DType::PRED ? DType::U8 : DType::S32;
  return shifted(values, dtype, -static_cast<int64_t>(space.dtype == DType::PRED ? 0 : space.low));
}

HostArray for_environment(const Space& space, const HostArray& values) {
  return space.is_discrete()
             ? shifted(values, space.dtype,
                       static_cast<int64_t>(space.dtype == DType::PRED ? 0 : space.low))
             : values;
}

HostArray row_of(const HostArray& rows, int64_t i) {
  Dims dims(rows.shape.dims.begin() + 1, rows.shape.dims.end());
  HostArray out(Shape{rows.shape.dtype, dims});
  std::memcpy(out.bytes.data(), rows.bytes.data() + static_cast<size_t>(i) * out.bytes.size(),
              out.bytes.size());
  return out;
}

void clear_row(HostArray& rows, int64_t i) {
  const size_t bytes = rows.bytes.size() / static_cast<size_t>(rows.shape.dims[0]);
  std::fill_n(rows.bytes.begin() + i * static_cast<int64_t>(bytes), bytes, std::byte{0});
}

}  // namespace kinema::agents
