#include "kinema/preparation/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/data/record.h"
#include "kinema/data/set_rules.h"
#include "kinema/encoders/clip_sizes.h"
#include "kinema/preparation/content_index.h"
#include "kinema/preparation/listed_clips.h"
#include "kinema/preparation/record_maker.h"
#include "kinema/preparation/remote_records.h"
#include "kinema/records/tfrecord.h"
#include "kinema/world/consistency.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRecordsPerShard = 64;
constexpr int64_t kShardBytes = 128'000'000;

void check_timesteps(const Options& options, int64_t clips) {
  check(options.max_records < 0 || options.max_records <= clips,
        "[prepare] {} records are requested, but {} has {} clips", options.max_records,
        options.name, clips);
  if (!options.timesteps.empty()) {
    const auto count = static_cast<int64_t>(options.timesteps.size());
    check(options.max_records > 0 && options.max_records % count == 0,
          "[prepare] {} evaluation records cannot be shared out over {} timesteps evenly",
          options.max_records, count);
  }
}

/// Every size that the records may have.
std::vector<data::Bucket> own_sizes(const Options& options) {
  return data::possible_sizes(options.clips->sets(),
                              {.buckets = options.buckets, .automatic = std::nullopt},
                              options.format);
}

/// `list` and `contents`: the fingerprints of the clips.
Settings all_settings(const Options& options, const std::string& list,
                      const std::string& contents) {
  Settings out = options.settings;
  out["the list of clips"] = list;
  out["the list of clips, contents"] = contents;
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
  if (options.alpha_mask) {
    out["alpha_mask"] = "true";
  }
  if (!options.mask_kinds.empty()) {
    out["training masks"] = data::text_of(options.mask_kinds, options.mask_seed);
  }
  if (options.own_sizes) {
    std::vector<std::string> sizes;
    for (const data::Bucket& size : own_sizes(options)) {
      sizes.push_back(to_string(size));
    }
    out["sizes of the data sets"] = fmt::format("[{}]", fmt::join(sizes, ", "));
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

/// The fingerprint of the clips' contents.
std::string contents_of(const ListedClips& clips, const Options& options) {
  ContentIndex index(contents_path(options.output));
  std::string out = clips.contents(index);
  index.save();
  return out;
}

/// `file_07-512.tfrec`; numbers are padded so that names sort as numbers.
std::string shard_name(int64_t index, int64_t per_shard, int64_t most_shards) {
  const size_t digits = std::max<size_t>(2, fmt::format("{}", most_shards - 1).size());
  return fmt::format("file_{:0{}}-{}.tfrec", index, digits, (index + 1) * per_shard);
}

bool is_shared(const Options& options) {
  return options.world != nullptr && !options.world->is_alone();
}

ListedClips listed(const Options& options) {
  ListedClips clips(options.clips, options.name,
                    {.first_clip = options.first_clip,
                     .max_clips = options.max_clips,
                     .format = options.format,
                     .buckets = options.buckets,
                     .alpha_mask = options.alpha_mask,
                     .mask_kinds = options.mask_kinds,
                     .mask_seed = options.mask_seed,
                     .own_sizes = options.own_sizes,
                     .threads = options.decode_threads});
  check_timesteps(options, clips.end() - clips.first());
  return clips;
}

/// One call of prepare_records, in the process that writes.
class Run {
 public:
  /// `list`: the fingerprint of the clips' names and captions.
  Run(const Options& options, const Encoders& models, const Hooks& hooks, const ListedClips& clips,
      const std::string& list)
      : options_(options),
        encoders_(models),
        hooks_(hooks),
        clips_(clips),
        folder_(options.output, all_settings(options, list, contents_of(clips, options))) {
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
    const bool some = at_ < clips_.end() && out_.records < most_records_;
    std::optional<RemoteRecords> others;
    if (is_shared(options_)) {
      others.emplace(*options_.world, some ? at_ : -1);
    }
    if (some) {
      const AddSeconds watch(out_.seconds.total);
      make_records(others ? &*others : nullptr);
    }
    finish();
    if (others) {
      others->finish(out_);
    }
    return std::move(out_);
  }

 private:
  /// The clips to process.
  int64_t total() const { return clips_.end() - clips_.first(); }

  void make_records(RemoteRecords* others) {
    RecordMaker own(options_, encoders_, clips_,
                    {.first = at_, .stride = others == nullptr ? 1 : options_.world->size()},
                    end_of_captions());
    tell_progress();
    while (out_.records < most_records_ && at_ < clips_.end()) {
      if ((hooks_.stop_requested && hooks_.stop_requested()) ||
          (others != nullptr && others->stop_requested())) {
        out_.stopped = true;
        return;
      }
      const int64_t maker = others == nullptr ? 0 : others->maker(at_);
      std::optional<EncodedRecord> made;
      if (maker == 0) {
        made = own.next(end_of_captions());
      } else {
        const AddSeconds watch(out_.seconds.waiting);
        made = others->take(maker);
      }
      check(made && made->place == at_, "[prepare] the record of clip {} was expected", at_);
      use(std::move(*made));
      ++at_;
      if (shard_ && (shard_records_ == per_shard_ || clips_.ends_bucket(at_ - 1))) {
        close_shard();
      }
      tell_progress();
    }
    if (shard_) {
      close_shard();
    }
  }

  /// Writes the clip's record to the shard, or adds the clip to the skipped ones.
  void use(EncodedRecord made) {
    out_.seconds.add(made.seconds);
    if (made.problem.empty()) {
      append(std::move(made.record), made.place);
      return;
    }
    skipped_.push_back({made.place, clips_.where(made.place), made.problem});
    if (hooks_.on_skip) {
      hooks_.on_skip(skipped_.back());
    }
  }

  /// The end of the clips that are needed if all before it can be used.
  int64_t end_of_captions() const {
    return std::min(clips_.end(), at_ + most_records_ - out_.records);
  }

  void append(data::Sample record, int64_t place) {
    const AddSeconds watch(out_.seconds.writing);
    if (!options_.timesteps.empty()) {
      const auto each = most_records_ / static_cast<int64_t>(options_.timesteps.size());
      record.timestep = options_.timesteps[static_cast<size_t>(out_.records / each)];
    }
    out_.latents = record.latents.shape;
    out_.text = record.encoder_hidden_states.shape;
    out_.condition = record.condition.shape;
    out_.image = record.image_states.shape;
    const std::string bytes = data::serialize_record(record);
    if (per_shard_ == 0) {  // the first record determines the maximum size of records
      const double largest = static_cast<double>(bytes.size()) * clips_.largest_over(place);
      per_shard_ =
          std::clamp<int64_t>(static_cast<int64_t>(kShardBytes / largest), 1, kRecordsPerShard);
    }
    if (!shard_) {
      name_ = shard_name(static_cast<int64_t>(folder_.shards().size()), per_shard_,
                         clips_.shards(per_shard_, most_records_));
      shard_ = std::make_unique<records::TfRecordWriter>(folder_.path() / name_);
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
      out_.records -= shard_records_;  // discarded with the shard
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
          "[prepare] {} evaluation records are requested, but only {} clips of {} can be used",
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
  const ListedClips& clips_;
  ShardFolder folder_;
  Prepared out_;
  int64_t most_records_ = 0;
  int64_t per_shard_ = 0;             // 0: determined by the first record
  int64_t at_ = 0;                    // the next place
  std::vector<SkippedClip> skipped_;  // since the last shard
  std::unique_ptr<records::TfRecordWriter> shard_;
  std::string name_;
  int64_t shard_records_ = 0;
};

}  // namespace

void Seconds::add(const Seconds& more) {
  waiting += more.waiting;
  latents += more.latents;
  text += more.text;
  image += more.image;
  writing += more.writing;
  total += more.total;
}

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
  if (options.buckets.empty() && !options.own_sizes) {
    check_sizes(options.format, models.autoencoder);
  }
  for (const data::Bucket& bucket : options.own_sizes ? own_sizes(options) : options.buckets) {
    check_sizes(data::sized(options.format, bucket), models.autoencoder);
  }
  const ListedClips clips = listed(options);
  const std::string list = clips.fingerprint();
  if (is_shared(options)) {
    world::check_consistent(*options.world, {{"the list of clips", list}}, "the clips");
    if (!options.world->is_first()) {
      return make_records_for_first(*options.world, options, models, hooks, clips);
    }
  }
  return Run(options, models, hooks, clips, list)();
}

}  // namespace kinema::preparation
