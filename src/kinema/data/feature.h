#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/records/example_proto.h"

/// Features of a record.
namespace kinema::data {

/// The single value of a feature. `what` describes it in the error.
template <typename T>
const T& one_value(const records::Example& example, const char* name, const char* what,
                   const std::string& where) {
  const auto found = example.find(name);
  check(found != example.end(), "[example] {} has no feature `{}` among its {}", where, name,
        example.size());
  const auto* values = std::get_if<std::vector<T>>(&found->second);
  const size_t count = values == nullptr ? 0 : values->size();
  check(count == 1, "[example] {}: `{}` must be {} but holds {}", where, name, what, count);
  return values->front();
}

/// The floating-point tensor of a feature, with `rank` axes.
HostArray tensor_feature(const records::Example& example, const char* name, size_t rank,
                         const std::string& where);

}  // namespace kinema::data
