#include "kinema/resolve/same_model.h"

#include <algorithm>
#include <string>

#include "kinema/config/keys.h"

namespace kinema::resolve {
namespace {

/// True if the keys for which `counts` is true have the same values and were given in both.
bool same(const config::Loaded& a, const config::Loaded& b,
          bool (*counts)(const config::KeyValue&)) {
  return std::ranges::equal(config::describe(a.config), config::describe(b.config),
                            [&](const config::KeyValue& x, const config::KeyValue& y) {
                              const std::string key(x.key);
                              return !counts(x) ||
                                     (x.value == y.value && a.is_set(key) == b.is_set(key));
                            });
}

}  // namespace

bool same_model(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) {
    return each.field.reload != config::Reload::NOTHING;
  });
}

bool same_programs(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) {
    return each.field.reload == config::Reload::MODEL;
  });
}

bool same_devices(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) {
    return each.field.reload != config::Reload::NOTHING &&
           (each.group == "run" || each.group == "runtime" || each.group == "parallel");
  });
}

}  // namespace kinema::resolve
