#include "kinema/preparation/record_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/encoders/clip_condition.h"

namespace kinema::preparation {
RecordMaker::RecordMaker(const Options& options, const Encoders& encoders, const ListedClips& clips,
                         const Places& places, int64_t end)
    : options_(options),
      encoders_(encoders),
      clips_(clips),
      places_(places),
      captions_(encoders.text, [this](int64_t i) { return clips_.caption(place(i)); }) {
  if (count_before(clips_.end()) == 0) {
    return;
  }
  {
    // An error here would occur for every caption; later ones belong to a caption.
    const AddSeconds watch(begun_.text);
    captions_.begin(0, count_before(end));
  }
  ahead_.emplace(
      count_before(clips_.end()), [this](int64_t i) { return clips_.read(place(i)); },
      DecodeAhead::Options{.threads = options_.decode_threads,
                           .depth = std::max<int64_t>(options_.decode_ahead, 1)});
}

int64_t RecordMaker::count_before(int64_t end) const {
  return std::max<int64_t>(0, (end - places_.first + places_.stride - 1) / places_.stride);
}

std::optional<EncodedRecord> RecordMaker::next(int64_t end) {
  std::optional<DecodedClip> clip;
  EncodedRecord out{.seconds = std::exchange(begun_, {})};
  if (ahead_) {
    const AddSeconds watch(out.seconds.waiting);
    clip = ahead_->next();
  }
  if (!clip) {
    return std::nullopt;
  }
  out.place = place(clip->clip);
  const std::string problem = make(*clip, end, out);
  // One line: the others are a remedy for a single file.
  out.problem = problem.substr(0, problem.find('\n'));
  return out;
}

/// The reason if no record is made, else empty.
std::string RecordMaker::make(const DecodedClip& clip, int64_t end, EncodedRecord& out) {
  if (!clip.problem.empty()) {
    return clip.problem;
  }
  data::Sample& record = out.record;
  try {
    const AddSeconds watch(out.seconds.text);
    const encoders::TextStates& text = captions_.at(clip.clip, count_before(end));
    record.encoder_hidden_states = text.states;
    record.pooled = text.pooled;
  } catch (const Error& error) {
    return error.what();
  }
  try {
    const data::ClipControl control = clips_.control(out.place);
    const AddSeconds watch(out.seconds.latents);
    data::Sample made = encoders::encode_clip(clip.pixels, control, encoders_.input,
                                              encoders_.autoencoder, encoders_.image);
    record.latents = std::move(made.latents);
    record.condition = std::move(made.condition);
    record.image_states = std::move(made.image_states);
  } catch (const Error& error) {
    if (!clips_.has_controls()) {
      throw;
    }
    return error.what();  // of a control file
  }
  if (encoders_.sizes) {
    record.size_ids = clips_.size_ids(out.place);
  }
  try {
    record.loss_weights = clips_.loss_weights(out.place, record.latents.shape.dims);
  } catch (const Error& error) {
    return error.what();  // of a mask
  }
  if (const std::string what = data::nonfinite_part(record); !what.empty()) {
    return fmt::format("[prepare] its {} are not finite", what);
  }
  const AddSeconds watch(out.seconds.writing);
  data::convert_to(options_.dtype, record);
  return "";
}

}  // namespace kinema::preparation
