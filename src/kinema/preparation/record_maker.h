#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/data/source.h"
#include "kinema/preparation/caption_states.h"
#include "kinema/preparation/decode_ahead.h"
#include "kinema/preparation/listed_clips.h"
#include "kinema/preparation/prepare.h"

namespace kinema::preparation {

/// A clip's record, or the reason why there is none.
struct EncodedRecord {
  int64_t place = 0;
  data::Sample record;  // in the dtype of the records, without a timestep
  std::string problem;  // of a skipped clip, one line
  Seconds seconds;      // its time
};

/// Makes records of clips, in the order of their places: every `stride`-th place from `first` on.
class RecordMaker {
 public:
  struct Places {
    int64_t first = 0;
    int64_t stride = 1;
  };

  /// Encodes the first captions; `end`: see next. Throws an Error that would occur for any caption.
  RecordMaker(const Options& options, const Encoders& encoders, const ListedClips& clips,
              const Places& places, int64_t end);
  RecordMaker(const RecordMaker&) = delete;
  RecordMaker& operator=(const RecordMaker&) = delete;

  /// The next record; nothing after the last clip. Places from `end` on are only requested if
  /// clips before them are skipped. Throws errors other than problems of the clip.
  std::optional<EncodedRecord> next(int64_t end);
  /// The number of places before `end`.
  int64_t count_before(int64_t end) const;

 private:
  int64_t place(int64_t i) const { return places_.first + i * places_.stride; }
  std::string make(const DecodedClip& clip, int64_t end, EncodedRecord& out);

  const Options& options_;
  const Encoders& encoders_;
  const ListedClips& clips_;
  Places places_;
  CaptionStates captions_;
  Seconds begun_;  // counted for the next record
  std::optional<DecodeAhead> ahead_;
};

}  // namespace kinema::preparation
