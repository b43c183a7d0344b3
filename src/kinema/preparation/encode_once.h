#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/data/video_source.h"
#include "kinema/preparation/content_index.h"
#include "kinema/preparation/encoded_text.h"
#include "kinema/preparation/tensor_store.h"

namespace kinema::preparation {

/// The encoders of pixels and captions. Each may load its model at the first call.
struct ClipEncodeFunctions {
  /// f32 [3, f, h, w] and the clip's control files -> the parts of a sample that depend on pixels.
  std::function<data::Sample(const HostArray& pixels, const data::ClipControl& control)> pixels;
  /// The text states of several captions.
  std::function<encoders::TextStates(std::span<const std::string> captions)> text;
  /// Called after the captions, so that only one model is in memory at a time.
  std::function<void()> release_text = [] {};
};

struct EncodeOnceOptions {
  data::ClipFormat format;
  /// Sizes of clips, instead of the format's; clips without a bucket are skipped.
  data::ClipBuckets buckets = {};
  /// Only the first `max_clips` clips; negative: all.
  int64_t max_clips = -1;
  /// Also encode mirrored clips, of sets without a rule for it.
  bool flips = false;
  /// Clips with another aspect ratio are cropped at a position that depends on this seed and their
  /// content; none: in the middle.
  std::optional<uint64_t> crop_seed = {};
  /// Clips without a mask of their own get one of these kinds, which depends on the seed and their
  /// content.
  std::vector<data::MaskKind> mask_kinds = {};
  uint64_t mask_seed = 0;
  /// Variants of captions, all of which are encoded.
  data::CaptionRules captions = {};
  /// Also store the clips' sizes (data/picture_sizes.h).
  bool sizes = false;
  /// Also store masks (data/loss_weights.h), of alpha channels too.
  bool alpha_mask = false;
  DType dtype = DType::F32;  // of the stored arrays: F32 or BF16
  /// Settings that determine the result, in addition to clip and format, and to the caption.
  Settings pixels_settings;
  Settings text_settings;
  /// As data::VideoOptions::problems: these clips are not read.
  std::vector<std::string> problems = {};
  data::BadClip bad_clip = data::BadClip::Fail;
  int threads = 2;
  int64_t decode_ahead = 4;
};

struct EncodeHooks {
  /// `captions` or `clips`: the number done, and the number to encode now.
  std::function<void(const char* what, int64_t done, int64_t total)> on_progress;
  /// A clip that cannot be used, with the reason; only with BadClip::Skip.
  std::function<void(int64_t clip, const std::string& reason)> on_skip;
  /// A corrupt cached file, with the reason; it is encoded again.
  std::function<void(const std::string& damage)> on_damage;
  /// Return true to stop after this clip; a later call continues.
  std::function<bool()> stop_requested;
};

struct EncodeCounts {
  int64_t clips = 0;     // in the set
  int64_t encoded = 0;   // now; the others were cached, or cannot be used
  int64_t captions = 0;  // encoded now
  bool stopped = false;
};

/// Cached encodings in a folder: `latents/` and `text/`, each a TensorStore, and `contents.json`, a
/// ContentIndex.
///
/// An entry's key is everything that determines it (the contents of clip or caption, its format,
/// the models and their settings), never a clip's name: after a change of a clip, caption, model or
/// setting, only the affected entries are encoded again.
class EncodedClips {
 public:
  /// Hashes the clips. With BadClip::Fail, throws the Error of a clip that cannot be read; with
  /// BadClip::Skip, reading that clip throws it.
  EncodedClips(std::shared_ptr<const data::ClipSet> clips, const std::filesystem::path& folder,
               const EncodeOnceOptions& options);

  /// Encodes missing and corrupt entries. Throws an Error for a clip that cannot be used (unless
  /// such clips are skipped), if no clip can be used, and if the disk fails.
  EncodeCounts encode(const ClipEncodeFunctions& with, const EncodeHooks& hooks = {});

  /// The cached encoding of a clip with a variant of its caption. Throws an Error with the clip's
  /// name if it does not exist, and one with the file's name if that is corrupt.
  data::Sample find(int64_t clip, const data::ClipFormat& format, bool flipped,
                    int64_t caption_variant = 0) const;

 private:
  struct Content {
    std::string hash;
    std::string problem;  // why the clip cannot be used
    bool named = false;   // in the caller's `problems`
  };
  int64_t size() const { return static_cast<int64_t>(contents_.size()); }
  const Content& content(int64_t clip) const { return contents_.at(static_cast<size_t>(clip)); }
  std::string caption(int64_t clip, int64_t variant) const {
    return data::varied_caption(*clips_, clip, options_.captions, variant);
  }
  data::ClipWindow window(int64_t clip) const;
  Settings key(int64_t clip, const data::ClipFormat& format, bool flipped) const;
  /// The clips with missing entries.
  std::vector<int64_t> missing(const EncodeHooks& hooks) const;
  void encode_captions(const ClipEncodeFunctions& with, const EncodeHooks& hooks,
                       EncodeCounts& out) const;
  void encode_clips(const ClipEncodeFunctions& with, const EncodeHooks& hooks, EncodeCounts& out);
  /// Why the clip cannot be used; empty: it was stored.
  std::string encode_clip(int64_t clip, const HostArray& pixels,
                          const ClipEncodeFunctions& with) const;
  void skip_clip(int64_t clip, const std::string& why, const EncodeHooks& hooks);

  std::shared_ptr<const data::ClipSet> clips_;
  EncodeOnceOptions options_;
  TensorStore latents_;
  EncodedText text_;
  bool weighs_;  // samples have loss_weights
  ContentIndex index_;
  std::vector<Content> contents_;
};

}  // namespace kinema::preparation
