#include "kinema/preparation/caption_states.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::preparation {
namespace {

/// The results of encoder.encode, by caption.
std::map<std::string, encoders::TextStates> encoded(const encoders::TextEncoder& encoder,
                                                    std::span<const std::string> captions) {
  const encoders::TextStates all = encoder.encode(captions);
  std::map<std::string, encoders::TextStates> out;
  for (size_t i = 0; i < captions.size(); ++i) {
    out[captions[i]] = encoders::row(all, static_cast<int64_t>(i));
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
      // `at` reports the error.
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

const encoders::TextStates& CaptionStates::at(int64_t place, int64_t end) {
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
