#include "kinema/preparation/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/data/wan_record.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/io/tfrecord.h"
#include "kinema/preparation/caption_states.h"
#include "kinema/preparation/decode_ahead.h"
#include "kinema/preparation/listed_clips.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecordsPerShard = 64;
constexpr int64_t kShardBytes = 128'000'000;

void check_timesteps(const Options& options, int64_t clips) {
  check(options.max_records < 0 || options.max_records <= clips,
        "[prepare] {} records are asked for, but {} has {} clips", options.max_records,
        options.name, clips);
  if (!options.timesteps.empty()) {
    const auto count = static_cast<int64_t>(options.timesteps.size());
    check(options.max_records > 0 && options.max_records % count == 0,
          "[prepare] {} evaluation records cannot be shared out over {} timesteps evenly",
          options.max_records, count);
  }
}

Settings all_settings(const Options& options, const ListedClips& clips) {
  Settings out = options.settings;
  out["the list of clips"] = clips.fingerprint();
  if (options.buckets.empty()) {
    out["height"] = fmt::format("{}", options.format.height);
    out["width"] = fmt::format("{}", options.format.width);
    out["num_frames"] = fmt::format("{}", options.format.num_frames);
  } else {
    std::vector<std::string> sizes;
    for (const data::Bucket& bucket : options.buckets) {
      sizes.push_back(to_string(bucket));
    }
    out["buckets"] = fmt::format("[{}]", fmt::join(sizes, ", "));
  }
  out[data::frames_key(options.format)] = data::frames_text(options.format);
  out["records_dtype"] = to_string(options.dtype);
  out["no_records_per_shard"] = fmt::format("{}", options.records_per_shard);
  out["the first clip"] = fmt::format("{}", options.first_clip);
  out["the number of records"] =
      options.max_records < 0 ? "all" : fmt::format("{}", options.max_records);
  out["timesteps_list"] = fmt::format("[{}]", fmt::join(options.timesteps, ", "));
  return out;
}

bool is_finite(const HostArray& array) {
  return std::ranges::all_of(array.as<float>(), [](float x) { return std::isfinite(x); });
}

/// `file_07-512.tfrec`; numbers are wide enough that names sort as numbers.
std::string shard_name(int64_t index, int64_t per_shard, int64_t most_shards) {
  const size_t digits = std::max<size_t>(2, fmt::format("{}", most_shards - 1).size());
  return fmt::format("file_{:0{}}-{}.tfrec", index, digits, (index + 1) * per_shard);
}

/// One call of prepare_records.
class Run {
 public:
  Run(const Options& options, const Encoders& models, const Hooks& hooks)
      : options_(options),
        encoders_(models),
        hooks_(hooks),
        clips_(listed(options)),
        folder_(options.output, all_settings(options, clips_)),
        captions_(models.text, [this](int64_t place) { return clips_.caption(place); }) {
    most_records_ = total();
    if (options.max_records >= 0) {
      most_records_ = std::min(most_records_, options.max_records);
    }
    per_shard_ =
        folder_.records_per_shard() > 0 ? folder_.records_per_shard() : options.records_per_shard;
    for (const Shard& shard : folder_.shards()) {
      out_.records += shard.records;
    }
    out_.records_found = out_.records;
    at_ = folder_.shards().empty() ? clips_.first() : folder_.shards().back().end_clip;
  }

  Prepared operator()() {
    {
      const AddSeconds watch(out_.seconds.total);
      if (at_ < clips_.end() && out_.records < most_records_) {
        make_records();
      }
    }
    finish();
    return std::move(out_);
  }

 private:
  static ListedClips listed(const Options& options) {
    ListedClips clips(options.clips, options.name,
                      {.first_clip = options.first_clip,
                       .max_clips = options.max_clips,
                       .format = options.format,
                       .buckets = options.buckets,
                       .threads = options.decode_threads});
    check_timesteps(options, clips.end() - clips.first());
    return clips;
  }

  /// The clips that are looked at.
  int64_t total() const { return clips_.end() - clips_.first(); }

  void make_records() {
    {
      // What fails here fails for every caption; what fails later is a caption's own.
      const AddSeconds watch(out_.seconds.text);
      captions_.begin(at_, end_of_captions(at_));
    }
    DecodeAhead ahead(clips_.end(), [this](int64_t place) { return clips_.read(place); },
                      {.first = at_,
                       .threads = options_.decode_threads,
                       .depth = std::max<int64_t>(options_.decode_ahead, 1)});
    tell_progress();
    while (out_.records < most_records_) {
      if (hooks_.stop_requested && hooks_.stop_requested()) {
        out_.stopped = true;
        return;
      }
      std::optional<DecodedClip> clip;
      {
        const AddSeconds watch(out_.seconds.waiting);
        clip = ahead.next();
      }
      if (!clip) {
        break;
      }
      use(*clip);
      at_ = clip->clip + 1;
      if (shard_ && (shard_records_ == per_shard_ || clips_.ends_bucket(clip->clip))) {
        close_shard();
      }
      tell_progress();
    }
    if (shard_) {
      close_shard();
    }
  }

  /// Puts the clip's record into the shard, or the clip on the list of those skipped.
  void use(const DecodedClip& clip) {
    const auto skip = [&](const std::string& reason) {
      // One line: what follows is a remedy for who named the one file.
      skipped_.push_back({clip.clip, clips_.where(clip.clip), reason.substr(0, reason.find('\n'))});
      if (hooks_.on_skip) {
        hooks_.on_skip(skipped_.back());
      }
    };
    if (!clip.problem.empty()) {
      return skip(clip.problem);
    }
    data::WanRecord record;
    try {
      const AddSeconds watch(out_.seconds.text);
      record.encoder_hidden_states = captions_.at(clip.clip, end_of_captions(clip.clip));
    } catch (const Error& error) {
      return skip(error.what());
    }
    {
      const AddSeconds watch(out_.seconds.latents);
      record.latents = encoders_.autoencoder.encode(clip.pixels);
    }
    if (encoders_.image_condition) {
      add_image(clip, record);
    }
    for (const auto& [array, what] : {std::pair{&record.latents, "latents"},
                                      std::pair{&record.encoder_hidden_states, "text states"},
                                      std::pair{&record.condition, "condition's latents"},
                                      std::pair{&record.image_states, "image states"}}) {
      if (!is_finite(*array)) {
        return skip(fmt::format("[prepare] its {} are not finite", what));
      }
    }
    append(std::move(record), clip.clip);
  }

  void add_image(const DecodedClip& clip, data::WanRecord& record) {
    const AddSeconds watch(out_.seconds.image);
    const encoders::GivenImages images{.first = data::first_frame(clip.pixels), .last = {}};
    const Dims& dims = clip.pixels.shape.dims;
    record.condition = encoders::image_condition(
        images, {.num_frames = dims[1], .height = dims[2], .width = dims[3]},
        encoders_.autoencoder);
    if (encoders_.image != nullptr) {
      record.image_states = encoders::image_tokens(images, *encoders_.image);
    }
  }

  /// No clip from here on is looked at if those before it, from `place` on, can be used.
  int64_t end_of_captions(int64_t place) const {
    return std::min(clips_.end(), place + most_records_ - out_.records);
  }

  void append(data::WanRecord record, int64_t place) {
    const AddSeconds watch(out_.seconds.writing);
    for (HostArray* array : {&record.latents, &record.encoder_hidden_states, &record.condition,
                             &record.image_states}) {
      if (options_.dtype != DType::F32 && !array->bytes.empty()) {
        *array = convert(*array, options_.dtype);
      }
    }
    if (!options_.timesteps.empty()) {
      const auto each = most_records_ / static_cast<int64_t>(options_.timesteps.size());
      record.timestep = options_.timesteps[static_cast<size_t>(out_.records / each)];
    }
    out_.latents = record.latents.shape;
    out_.text = record.encoder_hidden_states.shape;
    out_.condition = record.condition.shape;
    out_.image = record.image_states.shape;
    const std::string bytes = data::serialize_wan_record(record);
    if (per_shard_ == 0) {  // the first record tells how large those of the largest size may be
      const double largest = static_cast<double>(bytes.size()) * clips_.largest_over(place);
      per_shard_ =
          std::clamp<int64_t>(static_cast<int64_t>(kShardBytes / largest), 1, kRecordsPerShard);
    }
    if (!shard_) {
      name_ = shard_name(static_cast<int64_t>(folder_.shards().size()), per_shard_,
                         clips_.shards(per_shard_, most_records_));
      shard_ = std::make_unique<io::TfRecordWriter>(folder_.path() / name_);
      shard_records_ = 0;
    }
    shard_->append(bytes);
    ++shard_records_;
    ++out_.records;
  }

  void close_shard() {
    const AddSeconds watch(out_.seconds.writing);
    const Shard made{name_, shard_records_, static_cast<int64_t>(shard_->written()), at_};
    shard_->close();
    shard_.reset();
    folder_.add(made, skipped_, per_shard_);
    skipped_.clear();
    if (hooks_.on_shard) {
      hooks_.on_shard(made);
    }
  }

  void finish() {
    if (out_.stopped && shard_) {
      out_.records -= shard_records_;  // given up with the shard
      shard_.reset();
    }
    folder_.write_skipped(skipped_, options_.clips->left_out());
    out_.shards = folder_.shards();
    out_.skipped = folder_.skipped();
    out_.skipped.insert(out_.skipped.end(), skipped_.begin(), skipped_.end());
    if (!out_.skipped.empty() || !options_.clips->left_out().empty()) {
      out_.skipped_list = folder_.skipped_path();
    }
    out_.clips = total();
    out_.end_clip = at_;
    for (const Shard& shard : out_.shards) {
      out_.bytes += shard.bytes;
    }
    if (out_.stopped) {
      return;
    }
    check(out_.records > 0, "[prepare] none of the {} clips of {} can be used; the first: {}",
          out_.clips, options_.name, out_.skipped.empty() ? "" : out_.skipped.front().reason);
    check(options_.timesteps.empty() || out_.records == options_.max_records,
          "[prepare] {} evaluation records are asked for, but only {} clips of {} can be used",
          options_.max_records, out_.records, options_.name);
  }

  void tell_progress() const {
    if (!hooks_.on_clip) {
      return;
    }
    if (options_.max_records >= 0) {
      hooks_.on_clip(out_.records, most_records_);
    } else {
      hooks_.on_clip(at_ - clips_.first(), total());
    }
  }

  const Options& options_;
  const Encoders& encoders_;
  const Hooks& hooks_;
  ListedClips clips_;
  ShardFolder folder_;
  CaptionStates captions_;
  Prepared out_;
  int64_t most_records_ = 0;
  int64_t per_shard_ = 0;             // 0: the first record will tell
  int64_t at_ = 0;                    // the next place
  std::vector<SkippedClip> skipped_;  // since the last shard
  std::unique_ptr<io::TfRecordWriter> shard_;
  std::string name_;
  int64_t shard_records_ = 0;
};

}  // namespace

void check_sizes(const data::ClipFormat& format, const encoders::Autoencoder& autoencoder) {
  const encoders::LatentLayout layout = autoencoder.layout();
  check(format.height > 0 && format.width > 0 && format.num_frames > 0 && format.frame_stride > 0,
        "[prepare] height {}, width {}, num_frames {} and frame_stride {} must be positive",
        format.height, format.width, format.num_frames, format.frame_stride);
  encoders::check_clip_sizes(format.num_frames, format.height, format.width, layout);
}

Prepared prepare_records(const Options& options, const Encoders& models, const Hooks& hooks) {
  check(options.dtype == DType::F32 || options.dtype == DType::BF16,
        "[prepare] records of {} are not known: f32 or bf16", to_string(options.dtype));
  check(options.clips != nullptr, "[prepare] no clips were given");
  if (options.buckets.empty()) {
    check_sizes(options.format, models.autoencoder);
  }
  for (const data::Bucket& bucket : options.buckets) {
    check_sizes(data::sized(options.format, bucket), models.autoencoder);
  }
  return Run(options, models, hooks)();
}

}  // namespace kinema::preparation
