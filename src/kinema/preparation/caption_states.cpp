#include "kinema/preparation/caption_states.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::preparation {
namespace {

/// encoder.encode, by caption.
std::map<std::string, HostArray> encoded(const encoders::TextEncoder& encoder,
                                         std::span<const std::string> captions) {
  const HostArray all = encoder.encode(captions).states;
  const Shape one{all.shape.dtype, {all.shape.dims.begin() + 1, all.shape.dims.end()}};
  std::map<std::string, HostArray> out;
  auto from = all.bytes.begin();
  for (const std::string& caption : captions) {
    HostArray& states = out[caption] = HostArray(one);
    std::copy_n(from, states.bytes.size(), states.bytes.begin());
    from += static_cast<std::ptrdiff_t>(states.bytes.size());
  }
  return out;
}

}  // namespace

void CaptionStates::encode_ahead(int64_t place, int64_t end) {
  std::vector<std::string> captions;
  for (int64_t i = place; i < std::min(end, place + kCaptionsAtOnce); ++i) {
    try {
      std::string caption = caption_(i);
      if (std::ranges::find(captions, caption) == captions.end()) {
        captions.push_back(std::move(caption));
      }
    } catch (const Error&) {
      // Its own reader will say so.
    }
  }
  states_.clear();
  if (!captions.empty()) {
    states_ = encoded(encoder_, captions);
  }
}

void CaptionStates::begin(int64_t first, int64_t end) {
  try {
    encode_ahead(first, end);
  } catch (const Error&) {
    const std::string none;
    encoder_.encode(std::span(&none, 1));
  }
}

const HostArray& CaptionStates::at(int64_t place, int64_t end) {
  const std::string caption = caption_(place);
  if (!states_.contains(caption)) {
    try {
      encode_ahead(place, end);
    } catch (const Error&) {
      states_ = encoded(encoder_, std::span(&caption, 1));
    }
  }
  return states_.at(caption);
}

}  // namespace kinema::preparation
