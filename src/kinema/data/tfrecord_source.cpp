#include "kinema/data/tfrecord_source.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/data/buckets.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/record.h"
#include "kinema/records/tfrecord.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

/// A TFRecord file, local or remote.
class Shard {
 public:
  virtual ~Shard() = default;
  virtual int64_t size() const = 0;
  virtual const std::string& path() const = 0;
  virtual Sample record(int64_t i) const = 0;
  virtual RecordShapes shapes(int64_t i) const = 0;
};

class LocalShard : public Shard {
 public:
  explicit LocalShard(const fs::path& path) : file_(records::TfRecordFile::open(path)) {}
  int64_t size() const override { return file_.size(); }
  const std::string& path() const override { return file_.path(); }
  Sample record(int64_t i) const override { return parse_record(file_.at(i), file_.where(i)); }
  RecordShapes shapes(int64_t i) const override {
    return read_record_shapes(file_.unchecked(i), file_.where(i));
  }

 private:
  records::TfRecordFile file_;
};

class RangedShard : public Shard {
 public:
  explicit RangedShard(records::RangedTfRecords file) : file_(std::move(file)) {}
  int64_t size() const override { return file_.size(); }
  const std::string& path() const override { return file_.path(); }
  Sample record(int64_t i) const override { return parse_record(file_.at(i), file_.where(i)); }
  RecordShapes shapes(int64_t i) const override {
    return read_record_shapes(file_.at(i), file_.where(i));
  }

 private:
  records::RangedTfRecords file_;
};

using Shards = std::vector<std::unique_ptr<const Shard>>;

Shards open_shards(const fs::path& folder) {
  check(fs::is_directory(folder), "[tfrecord] {} {}{}", folder.string(), not_a_folder(folder),
        is_dataset_file(folder) ? "\n  " + other_type_hint(folder, "tfrecord") : "");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      names.push_back(entry.path().filename().string());
    }
  }
  const std::string hint = other_type_hint(folder, "tfrecord");
  check(hint.empty(), "[tfrecord] {} holds no TFRecords\n  {}", folder.string(), hint);
  Shards shards;
  for (const std::string& name : records::shards_of(std::move(names))) {
    shards.push_back(std::make_unique<LocalShard>(folder / name));
  }
  return shards;
}

constexpr size_t kMostShapes = 256;

class TfRecordSource : public Source {
 public:
  TfRecordSource(Shards shards, const TfRecordOptions& options)
      : options_(options), shards_(std::move(shards)) {
    for (const auto& shard : shards_) {
      size_ += shard->size();
      ends_.push_back(size_);
    }
    if (options.split.is_on()) {
      choose();
    }
    if (options.max_samples >= 0) {
      size_ = std::min(size_, options.max_samples);
    }
    check(size_ > 0, "[tfrecord] {} holds no records", options.folder.string());
    if (options.by_shape) {
      group();
    }
  }

  int64_t size() const override { return size_; }

  Sample at(int64_t position) const override {
    if (order_) {
      const GroupedOrder::Place place = order_->at(position);
      return record(order_->groups()[place.group][static_cast<size_t>(place.index)]);
    }
    return record(options_.shuffle ? shuffled_index(options_.seed, position, size_)
                                   : position % size_);
  }

  std::vector<Sample> examples() const override {
    if (!order_) {
      return Source::examples();
    }
    std::vector<Sample> out;
    for (const std::vector<int64_t>& records : order_->groups()) {
      out.push_back(record(records.front()));
    }
    return out;
  }

 private:
  /// Removes the records that do not belong to the split's part.
  void choose() {
    std::vector<std::string> names;
    for (const auto& shard : shards_) {
      for (int64_t number = 0; number < shard->size(); ++number) {
        names.push_back(name_of(*shard, number));
      }
    }
    chosen_ = options_.split.chosen(names, options_.folder.string());
    size_ = static_cast<int64_t>(chosen_.size());
  }

  static std::string name_of(const Shard& shard, int64_t number) {
    return fs::path(shard.path()).filename().string() + " record " + std::to_string(number);
  }

  /// Groups the records by shape, in the order of first occurrence.
  void group() {
    std::vector<RecordShapes> shapes;
    std::vector<std::vector<int64_t>> groups;
    for (int64_t index = 0; index < size_; ++index) {
      const auto [shard, number] = find(index);
      RecordShapes own = shard->shapes(number);
      const auto known = std::ranges::find(shapes, own);
      const auto group = static_cast<size_t>(known - shapes.begin());
      if (known == shapes.end()) {
        shapes.push_back(std::move(own));
        groups.emplace_back();
        check(shapes.size() <= kMostShapes,
              "[tfrecord] the records of {} have more than {} shapes: each is a step of its own",
              options_.folder.string(), kMostShapes);
      }
      groups[group].push_back(index);
    }
    order_.emplace(std::move(groups), options_.batch, options_.seed, options_.shuffle);
  }

  /// The shard of a record and the record's index in it.
  std::pair<const Shard*, int64_t> find(int64_t index) const {
    index = chosen_.empty() ? index : chosen_[static_cast<size_t>(index)];
    const auto end = std::ranges::upper_bound(ends_, index);
    const auto shard = static_cast<size_t>(end - ends_.begin());
    return {shards_[shard].get(), index - (shard == 0 ? 0 : ends_[shard - 1])};
  }

  Sample record(int64_t index) const {
    const auto [shard, number] = find(index);
    Sample sample = shard->record(number);
    sample.id = name_of(*shard, number);
    return sample;
  }

  TfRecordOptions options_;
  Shards shards_;
  std::vector<int64_t> ends_;    // records up to the end of each shard
  std::vector<int64_t> chosen_;  // indices of the records that are read; empty: all
  int64_t size_ = 0;
  std::optional<GroupedOrder> order_;  // if records are grouped by shape
};

}  // namespace

std::unique_ptr<Source> tfrecord_source(const TfRecordOptions& options) {
  return std::make_unique<TfRecordSource>(open_shards(options.folder), options);
}

std::unique_ptr<Source> tfrecord_source(std::vector<records::RangedTfRecords> shards,
                                        const TfRecordOptions& options) {
  Shards all;
  for (records::RangedTfRecords& shard : shards) {
    all.push_back(std::make_unique<RangedShard>(std::move(shard)));
  }
  return std::make_unique<TfRecordSource>(std::move(all), options);
}

}  // namespace kinema::data
