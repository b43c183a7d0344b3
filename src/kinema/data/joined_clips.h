#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/caption_rules.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/set_rules.h"

namespace kinema::data {

/// A set of clips among others.
struct JoinedPart {
  std::unique_ptr<ClipSet> clips;
  SetRules own;         // its name is before the clips' places: `fox/a.png`
  int64_t repeats = 1;  // of each clip in an epoch
  /// Around each caption, separated by a blank.
  std::string caption_prefix, caption_suffix;
  /// This set's rules of captions, from those of the run.
  std::function<CaptionRules(CaptionRules)> rules;
};

/// The clips of all parts, part after part, each part as often as it is repeated. `notes` come
/// before those of the parts.
std::unique_ptr<ClipSet> joined_clips(std::vector<JoinedPart> parts,
                                      std::vector<std::string> notes = {});

}  // namespace kinema::data
