#include "kinema/preparation/encode_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/threefry.h"
#include "kinema/data/loss_weights.h"
#include "kinema/data/picture_sizes.h"
#include "kinema/preparation/caption_states.h"
#include "kinema/preparation/decode_ahead.h"

namespace kinema::preparation {
namespace {

/// The sample's arrays by name.
Tensors tensors_of(data::Sample sample) {
  Tensors out;
  for (const data::SamplePart& part : data::kParts) {
    if (HostArray& array = sample.*part.of_sample; !array.bytes.empty()) {
      out.emplace(part.name, std::move(array));
    }
  }
  return out;
}

}  // namespace

EncodedClips::EncodedClips(std::shared_ptr<const data::ClipSet> clips,
                           const std::filesystem::path& folder, const EncodeOnceOptions& options)
    : clips_(std::move(clips)),
      options_(options),
      latents_(folder / "latents"),
      text_(folder / "text", options.text_settings, options.dtype),
      weighs_(data::have_loss_weights(*clips_, options.alpha_mask)),
      index_(folder / "contents.json") {
  int64_t count = clips_->size();
  if (options.max_clips >= 0) {
    count = std::min(count, options.max_clips);
  }
  contents_.resize(static_cast<size_t>(count));
  for_each_in_parallel(contents_.size(), options_.threads, [&](size_t i) {
    const auto clip = static_cast<int64_t>(i);
    Content& content = contents_[i];
    if (!options_.buckets.empty() && options_.buckets.bucket_of.at(static_cast<size_t>(clip)) < 0) {
      content.problem = "[prepare] it has no bucket";
      content.named = true;
      return;
    }
    if (i < options_.problems.size() && !options_.problems[i].empty()) {
      content.problem = options_.problems[i];
      content.named = true;
      return;
    }
    try {
      clips_->caption(clip);  // throws if there is none
      content.hash = index_.hash_of(*clips_, clip);
    } catch (const Error& error) {
      content.problem = error.what();
      check(options_.bad_clip == data::BadClip::Skip, "{}", content.problem);
    }
  });
  index_.save();
}

data::ClipWindow EncodedClips::window(int64_t clip) const {
  data::ClipWindow out;
  if (options_.crop_seed) {
    out.crop =
        RandomStream(random_key(*options_.crop_seed, "crop of " + content(clip).hash)).uniform();
  }
  return out;
}

Settings EncodedClips::key(int64_t clip, const data::ClipFormat& format, bool flipped) const {
  Settings out = options_.pixels_settings;
  out["clip"] = content(clip).hash;
  out["height"] = fmt::format("{}", format.height);
  out["width"] = fmt::format("{}", format.width);
  out["num_frames"] = fmt::format("{}", format.num_frames);
  out[data::frames_key(format)] = data::frames_text(format);
  out["flipped"] = flipped ? "true" : "false";
  out["dtype"] = to_string(options_.dtype);
  if (options_.sizes) {
    out["sizes"] = "true";
  }
  if (weighs_) {
    // The hash includes a mask file.
    const bool alpha = data::uses_alpha_mask(*clips_, clip, options_.alpha_mask);
    out["mask"] = alpha ? "file or alpha" : "file";
  }
  if (!options_.mask_kinds.empty()) {
    out["training masks"] = data::text_of(options_.mask_kinds, options_.mask_seed);
  }
  if (options_.crop_seed) {
    out["crop"] = fmt::format("by seed {}", *options_.crop_seed);
  }
  return out;
}

std::vector<int64_t> EncodedClips::missing(const EncodeHooks& hooks) const {
  std::vector<int64_t> out;
  // A set may repeat clips.
  std::set<std::tuple<std::string, int64_t, int64_t, int64_t, bool, bool>> looked_at;
  for (int64_t clip = 0; clip < size(); ++clip) {
    if (!content(clip).problem.empty()) {
      continue;
    }
    const data::ClipFormat format = options_.buckets.format(clip, options_.format);
    const bool flips = data::flips(*clips_, clip, options_.flips);
    if (!looked_at
             .emplace(content(clip).hash, format.num_frames, format.height, format.width, flips,
                      data::uses_alpha_mask(*clips_, clip, options_.alpha_mask))
             .second) {
      continue;
    }
    bool all = true;
    for (const bool flipped : {false, true}) {
      if (flipped && !flips) {
        continue;
      }
      const TensorStore::Found found = latents_.find(key(clip, format, flipped));
      all = all && found.is_valid();
      if (!found.damage.empty() && hooks.on_damage) {
        hooks.on_damage(found.damage);
      }
    }
    if (!all) {
      out.push_back(clip);
    }
  }
  return out;
}

void EncodedClips::skip_clip(int64_t clip, const std::string& why, const EncodeHooks& hooks) {
  check(options_.bad_clip == data::BadClip::Skip, "{}", why);
  const std::string hash = content(clip).hash;
  for (Content& each : contents_) {  // a set may repeat clips
    if (each.hash == hash && each.problem.empty()) {
      each.problem = why;
    }
  }
  if (hooks.on_skip) {
    hooks.on_skip(clip, why);
  }
}

EncodeCounts EncodedClips::encode(const ClipEncodeFunctions& with, const EncodeHooks& hooks) {
  EncodeCounts out;
  out.clips = size();
  for (int64_t clip = 0; clip < size(); ++clip) {
    if (!content(clip).problem.empty() && !content(clip).named && hooks.on_skip) {
      hooks.on_skip(clip, content(clip).problem);
    }
  }
  encode_captions(with, hooks, out);
  if (!out.stopped) {
    encode_clips(with, hooks, out);
  }
  const auto usable = [](const Content& each) { return each.problem.empty(); };
  check(out.stopped || std::ranges::any_of(contents_, usable),
        "[prepare] none of the {} clips can be used; the first: {}", size(),
        contents_.empty() ? "" : contents_.front().problem);
  return out;
}

void EncodedClips::encode_captions(const ClipEncodeFunctions& with, const EncodeHooks& hooks,
                                   EncodeCounts& out) const {
  std::set<std::string> captions;
  std::set<std::string> looked_at;
  const int64_t variants = clips_->caption_variants(options_.captions);
  for (int64_t i = 0; i < size() * variants; ++i) {
    const int64_t clip = i / variants;
    if (!content(clip).problem.empty()) {
      continue;
    }
    const std::string words = caption(clip, i % variants);
    if (!looked_at.insert(words).second) {
      continue;
    }
    const TensorStore::Found found = text_.find(words);
    if (!found.is_valid()) {
      captions.insert(words);
    }
    if (!found.damage.empty() && hooks.on_damage) {
      hooks.on_damage(found.damage);
    }
  }
  const std::vector<std::string> all(captions.begin(), captions.end());
  for (size_t first = 0; first < all.size(); first += kCaptionsAtOnce) {
    out.stopped = hooks.stop_requested && hooks.stop_requested();
    if (out.stopped) {
      break;
    }
    const auto some =
        std::span(all).subspan(first, std::min<size_t>(kCaptionsAtOnce, all.size() - first));
    const encoders::TextStates states = with.text(some);
    for (size_t i = 0; i < some.size(); ++i) {
      text_.write(some[i], encoders::row(states, static_cast<int64_t>(i)));
    }
    out.captions += static_cast<int64_t>(some.size());
    if (hooks.on_progress) {
      hooks.on_progress("captions", out.captions, static_cast<int64_t>(all.size()));
    }
  }
  with.release_text();
}

void EncodedClips::encode_clips(const ClipEncodeFunctions& with, const EncodeHooks& hooks,
                                EncodeCounts& out) {
  const std::vector<int64_t> wanted = missing(hooks);
  const auto total = static_cast<int64_t>(wanted.size());
  DecodeAhead ahead(
      total,
      [&](int64_t i) {
        const int64_t clip = wanted[static_cast<size_t>(i)];
        return clips_->read(clip, options_.buckets.format(clip, options_.format), window(clip));
      },
      {.threads = options_.threads, .depth = std::max<int64_t>(options_.decode_ahead, 1)});
  for (int64_t i = 0; i < total; ++i) {
    out.stopped = hooks.stop_requested && hooks.stop_requested();
    if (out.stopped) {
      return;
    }
    const std::optional<DecodedClip> decoded = ahead.next();
    const int64_t clip = wanted[static_cast<size_t>(i)];
    const std::string problem =
        decoded->problem.empty() ? encode_clip(clip, decoded->pixels, with) : decoded->problem;
    if (problem.empty()) {
      ++out.encoded;
    } else {
      skip_clip(clip, problem, hooks);
    }
    if (hooks.on_progress) {
      hooks.on_progress("clips", i + 1, total);
    }
  }
}

std::string EncodedClips::encode_clip(int64_t clip, const HostArray& pixels,
                                      const ClipEncodeFunctions& with) const {
  const data::ClipFormat format = options_.buckets.format(clip, options_.format);
  for (const bool flipped : {false, true}) {
    const Settings settings = key(clip, format, flipped);
    if ((flipped && !data::flips(*clips_, clip, options_.flips)) ||
        latents_.find(settings).is_valid()) {
      continue;
    }
    data::Sample sample;
    try {
      data::ClipControl control = clips_->read_control(clip, format, window(clip));
      data::add_training_mask(options_.mask_kinds, format,
                              random_key(options_.mask_seed, "mask of " + content(clip).hash),
                              control);
      sample = flipped ? with.pixels(data::flipped(pixels), data::flipped(std::move(control)))
                       : with.pixels(pixels, control);
    } catch (const Error& error) {
      if (!clips_->has_controls()) {
        throw;
      }
      return error.what();  // of a control file
    }
    if (weighs_) {
      try {
        sample.loss_weights = data::mask_of_latents(*clips_, clip, format, window(clip), flipped,
                                                    options_.alpha_mask, sample.latents.shape.dims);
      } catch (const Error& error) {
        return error.what();  // of its mask
      }
    }
    if (const std::string what = data::nonfinite_part(sample); !what.empty()) {
      return fmt::format("[prepare] {}: its {} are not finite", clips_->name(clip), what);
    }
    if (options_.sizes) {
      sample.size_ids = data::size_ids(clips_->measure(clip), format, window(clip).crop, flipped);
    }
    data::convert_to(options_.dtype, sample);
    latents_.write(settings, tensors_of(std::move(sample)));
  }
  return "";
}

data::Sample EncodedClips::find(int64_t clip, const data::ClipFormat& format, bool flipped,
                                int64_t caption_variant) const {
  check(content(clip).problem.empty(), "{}", content(clip).problem);
  const Settings settings = key(clip, format, flipped);
  check(
      latents_.find(settings).exists,
      "[prepare] what {} was encoded to is gone from {}\n  the same command, run again, encodes it",
      clips_->name(clip), latents_.folder().string());
  Tensors tensors = latents_.read(settings);
  data::Sample out;
  for (const data::SamplePart& part : data::kParts) {
    if (const auto found = tensors.find(part.name); found != tensors.end()) {
      out.*part.of_sample = std::move(found->second);
    }
  }
  encoders::TextStates text = text_.read(caption(clip, caption_variant));
  out.encoder_hidden_states = std::move(text.states);
  out.pooled = std::move(text.pooled);
  return out;
}

}  // namespace kinema::preparation
