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

/// What makes tensors of pixels and of words. Either may load its model when it is first called.
struct EncodeWith {
  /// f32 [3, f, h, w] -> what a sample takes from pixels.
  std::function<data::Sample(const HostArray& pixels)> pixels;
  /// Of so many captions.
  std::function<encoders::TextStates(std::span<const std::string> captions)> text;
  /// Called when the captions are done, so that the models need not lie beside each other.
  std::function<void()> release_text = [] {};
};

struct EncodeOnceOptions {
  data::ClipFormat format;
  /// Sizes of clips in place of the format's; those without a bucket are skipped.
  data::ClipBuckets buckets = {};
  /// Only the first so many clips; negative: all.
  int64_t max_clips = -1;
  /// Also what comes of the clips mirrored.
  bool flips = false;
  /// Clips of another shape are cropped at a place chosen once by this seed and their content;
  /// none: in the middle.
  std::optional<uint64_t> crop_seed = {};
  /// And the clips' sizes (data/picture_sizes.h).
  bool sizes = false;
  DType dtype = DType::F32;  // of what is kept: F32 or BF16
  /// What decides the result beside clip and format, and beside the caption.
  Settings pixels_settings;
  Settings text_settings;
  /// As data::VideoOptions::problems: those clips are not read.
  std::vector<std::string> problems = {};
  data::BadClip bad_clip = data::BadClip::Fail;
  int threads = 2;
  int64_t decode_ahead = 4;
};

struct EncodeHooks {
  /// `captions` or `clips`: how many are done, of those that were to be encoded now.
  std::function<void(const char* what, int64_t done, int64_t total)> on_progress;
  /// A clip that cannot be used, and why; only with BadClip::Skip.
  std::function<void(int64_t clip, const std::string& reason)> on_skip;
  /// A kept file that is damaged, and how; what it held is made again.
  std::function<void(const std::string& damage)> on_damage;
  /// True: end after this clip; a later call goes on.
  std::function<bool()> stop_requested;
};

struct EncodedNow {
  int64_t clips = 0;     // in the set
  int64_t encoded = 0;   // now; the others were there, or cannot be used
  int64_t captions = 0;  // encoded now
  bool stopped = false;
};

/// Clips that are encoded once and kept in a folder: `latents/` and `text/`, each a TensorStore,
/// and `contents.json`, a ContentIndex.
///
/// An entry is found by what decides it (the clip's or caption's content, its format, the models
/// and their settings), never by a clip's name: a changed clip, caption, model or setting is
/// encoded again, the others are not.
class EncodedClips {
 public:
  /// Learns the contents of the clips. Throws the Error of a clip that cannot be read with
  /// BadClip::Fail; who reads that clip gets it with BadClip::Skip.
  EncodedClips(std::shared_ptr<const data::ClipSet> clips, const std::filesystem::path& folder,
               const EncodeOnceOptions& options);

  /// Makes what is missing or cut short. Throws an Error for a clip that cannot be used (unless
  /// such are skipped), when none can, and when the disk refuses.
  EncodedNow encode(const EncodeWith& with, const EncodeHooks& hooks = {});

  /// What a clip was encoded to. Throws an Error that names the clip when it is not there, and one
  /// that names the file when that is damaged.
  data::Sample find(int64_t clip, const data::ClipFormat& format, bool flipped) const;

 private:
  struct Content {
    std::string hash;
    std::string problem;  // why the clip cannot be used
    bool named = false;   // by the caller, who knows it
  };
  int64_t size() const { return static_cast<int64_t>(contents_.size()); }
  const Content& content(int64_t clip) const { return contents_.at(static_cast<size_t>(clip)); }
  data::ClipWindow window(int64_t clip) const;
  Settings key(int64_t clip, const data::ClipFormat& format, bool flipped) const;
  /// The clips of which something is missing.
  std::vector<int64_t> missing(const EncodeHooks& hooks) const;
  void encode_captions(const EncodeWith& with, const EncodeHooks& hooks, EncodedNow& out) const;
  void encode_clips(const EncodeWith& with, const EncodeHooks& hooks, EncodedNow& out);
  /// Why the clip cannot be used; empty: it was kept.
  std::string encode_clip(int64_t clip, const HostArray& pixels, const EncodeWith& with) const;
  void cannot_be_used(int64_t clip, const std::string& why, const EncodeHooks& hooks);

  std::shared_ptr<const data::ClipSet> clips_;
  EncodeOnceOptions options_;
  TensorStore latents_;
  EncodedText text_;
  ContentIndex index_;
  std::vector<Content> contents_;
};

}  // namespace kinema::preparation
