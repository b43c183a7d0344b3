#include "kinema/pjrt/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <type_traits>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/named_values.h"

namespace kinema::pjrt {
namespace {

struct KnownOption {
  std::string_view name;
  std::string_view type;  // index into Value, as text for messages
  size_t index;
  int64_t min;  // smallest integer that does not crash the plugins
};

constexpr size_t kBool = 0, kInteger = 1, kFloat = 2, kText = 3, kIntegers = 4;

// Names and types were found by sending wrong types to the CPU plugin 0.0.1 (which aborts on one),
// the CUDA plugin 0.12.0.1 and libtpu 0.0.51.
constexpr KnownOption kKnownOptions[] = {
    {"cpu_device_count", "an integer", kInteger, 1},
    {"platform_name", "text", kText, 0},
    {"allocator", "text", kText, 0},
    {"memory_fraction", "a number", kFloat, 0},
    {"preallocate", "true or false", kBool, 0},
    {"collective_memory_size", "an integer", kInteger, 0},
    {"visible_devices", "a list of integers", kIntegers, 0},
    {"node_id", "an integer", kInteger, 0},
    {"num_nodes", "an integer", kInteger, 1},
    {"partition_index", "an integer", kInteger, 0},
    {"should_stage_host_to_device_transfers", "true or false", kBool, 0},
    {"enable_mock_nccl", "true or false", kBool, 0},
    {"mock_gpu_topology", "text", kText, 0},
    {"use_tfrt_gpu_client", "true or false", kBool, 0},
    {"abort_collectives_on_failure", "true or false", kBool, 0},
    {"max_inflight_computations", "an integer", kInteger, 0},
    {"ml_framework_name", "text", kText, 0},
    {"ml_framework_version", "text", kText, 0},
    {"target_config", "text", kText, 0},
    {"topology", "text", kText, 0},
};

}  // namespace

std::string to_string(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string>) {
          return v;
        } else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<int64_t>>) {
          return fmt::format("[{}]", fmt::join(v, ","));
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

NamedValues checked_options(const NamedValues& options) {
  NamedValues out = options;
  for (auto& [name, value] : out) {
    for (const KnownOption& known : kKnownOptions) {
      if (known.name != name) continue;
      if (const auto* whole = std::get_if<int64_t>(&value); whole && known.index == kFloat) {
        value = static_cast<float>(*whole);
      }
      check(value.index() == known.index, "[pjrt] option `{}` takes {} but was given `{}`", name,
            known.type, to_string(value));
      if (const auto* whole = std::get_if<int64_t>(&value)) {
        check(*whole >= known.min, "[pjrt] option `{}` is at least {} but was given {}", name,
              known.min, *whole);
      }
    }
  }
  return out;
}

NamedValues read_named_values(const PJRT_NamedValue* values, size_t count) {
  NamedValues out;
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& v = values[i];
    Value& value = out[std::string(view(v.name, v.name_size))];
    switch (v.type) {
      case PJRT_NamedValue_kString:
        value = std::string(view(v.string_value, v.value_size));
        break;
      case PJRT_NamedValue_kInt64:
        value = v.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        value = std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        value = v.float_value;
        break;
      case PJRT_NamedValue_kBool:
        value = v.bool_value;
        break;
    }
  }
  return out;
}

std::vector<PJRT_NamedValue> to_named_values(const NamedValues& values) {
  std::vector<PJRT_NamedValue> out;
  out.reserve(values.size());
  for (const auto& [name, value] : values) {
    PJRT_NamedValue v{.struct_size = PJRT_NamedValue_STRUCT_SIZE,
                      .name = name.data(),
                      .name_size = name.size(),
                      .value_size = 1};
    if (const auto* flag = std::get_if<bool>(&value)) {
      v.type = PJRT_NamedValue_kBool;
      v.bool_value = *flag;
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      v.type = PJRT_NamedValue_kInt64;
      v.int64_value = *whole;
    } else if (const auto* number = std::get_if<float>(&value)) {
      v.type = PJRT_NamedValue_kFloat;
      v.float_value = *number;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      v.type = PJRT_NamedValue_kString;
      v.string_value = text->data();
      v.value_size = text->size();
    } else {
      const auto& list = std::get<std::vector<int64_t>>(value);
      v.type = PJRT_NamedValue_kInt64List;
      v.int64_array_value = list.data();
      v.value_size = list.size();
    }
    out.push_back(v);
  }
  return out;
}

}  // namespace kinema::pjrt
