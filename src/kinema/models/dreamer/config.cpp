#include "kinema/models/dreamer/config.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::dreamer {
namespace {

void check_positive(const char* key, int64_t value) {
  check(value > 0, "[dreamer] {} is {} but must be positive", key, value);
}

void check_rssm(const RssmConfig& c) {
  for (const auto& [key, value] : {std::pair{"deter", c.deter},
                                   {"hidden", c.hidden},
                                   {"stoch", c.stoch},
                                   {"classes", c.classes},
                                   {"blocks", c.blocks},
                                   {"dynlayers", c.dynlayers},
                                   {"obslayers", c.obslayers},
                                   {"imglayers", c.imglayers}}) {
    check_positive(key, value);
  }
  check(c.deter % c.blocks == 0, "[dreamer] deter is {} but must be a multiple of {} blocks",
        c.deter, c.blocks);
}

/// Every image of the observations has to be halved so often.
void check_images(const AgentConfig& c, const CoderConfig& coder) {
  const int64_t divisor = int64_t{1} << coder.halvings();
  const Space* first = nullptr;
  for (const auto& [name, space] : c.observations) {
    check(space.shape.size() <= 3, "[dreamer] observation `{}` has {} axes but must have 3 at most",
          name, space.shape.size());
    if (!space.is_image()) {
      continue;
    }
    check(space.dtype == DType::U8, "[dreamer] image `{}` is {} but must be u8", name,
          to_string(space.dtype));
    first = first == nullptr ? &space : first;
    check(std::equal(space.shape.begin(), space.shape.begin() + 2, first->shape.begin()),
          "[dreamer] images have sizes {} and {} but must have one", to_string(space.shape),
          to_string(first->shape));
    check(space.shape[0] % divisor == 0 && space.shape[1] % divisor == 0,
          "[dreamer] image `{}` is {} but rows and columns must be multiples of {}", name,
          to_string(space.shape), divisor);
  }
  if (first != nullptr) {
    check(!coder.mults.empty(), "[dreamer] mults are empty but there are images");
    check(coder.bspace > 0 && coder.depth * coder.mults.back() % coder.bspace == 0,
          "[dreamer] depth {} times the last of mults must be a multiple of bspace {}", coder.depth,
          coder.bspace);
  }
}

}  // namespace

int64_t Space::elements() const {
  int64_t n = 1;
  for (const int64_t size : shape) {
    n *= size;
  }
  return n;
}

Spaces sorted_by_name(Spaces spaces) {
  std::ranges::sort(spaces, {}, [](const auto& entry) { return entry.first; });
  return spaces;
}

int64_t features(const Spaces& spaces) {
  int64_t n = 0;
  for (const auto& [name, space] : spaces) {
    n += space.features();
  }
  return n;
}

double AgentConfig::loss_scale(const std::string& name) const {
  if (const auto found = loss_scales.find(name); found != loss_scales.end()) {
    return found->second;
  }
  const auto rec = loss_scales.find("rec");
  check(rec != loss_scales.end(), "[dreamer] loss_scales have neither `{}` nor `rec`", name);
  return rec->second;
}

void validate(const AgentConfig& c) {
  check_rssm(c.rssm);
  check(!c.observations.empty(), "[dreamer] there is no observation");
  check(!c.actions.empty(), "[dreamer] there is no action");
  for (const auto& [key, head] : {std::pair{"rewhead", &c.reward},
                                  {"conhead", &c.continuation},
                                  {"policy", &c.policy},
                                  {"value", &c.value}}) {
    check_positive(key, head->units);
  }
  check_positive("imag_length", c.imag_length);
  check_positive("horizon", c.horizon);
  check_positive("slowvalue.every", c.slow_every);
  check_images(c, c.encoder);
  check_images(c, c.decoder);
}

}  // namespace kinema::dreamer
