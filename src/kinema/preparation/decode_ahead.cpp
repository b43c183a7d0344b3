#include "kinema/preparation/decode_ahead.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/read_ahead.h"

namespace kinema::preparation {

struct DecodeAhead::State {
  ReadAhead<DecodedClip> clips;
};

DecodeAhead::DecodeAhead(int64_t clips, std::function<HostArray(int64_t)> read,
                         const Options& options) {
  check(options.threads > 0 && options.depth > 0,
        "[prepare] {} threads and {} clips ahead must be positive", options.threads, options.depth);
  const ReadAheadOptions ahead{
      .first = options.first, .end = clips, .threads = options.threads, .depth = options.depth};
  // Only problems of the clip itself are Errors.
  const auto decode = [read = std::move(read)](int64_t index) {
    DecodedClip clip{.clip = index, .pixels = {}, .problem = {}};
    try {
      clip.pixels = read(index);
    } catch (const Error& error) {
      clip.problem = error.what();
    }
    return clip;
  };
  state_.reset(new State{.clips{ahead, decode}});
}

DecodeAhead::~DecodeAhead() = default;

std::optional<DecodedClip> DecodeAhead::next() { return state_->clips.next(); }

}  // namespace kinema::preparation
