#include "kinema/data/clip_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/data/set_rules.h"
#include "kinema/data/source.h"

namespace kinema::data {
namespace {

/// True for a clip without a problem that, if there are buckets, has one.
bool is_usable(int64_t clip, const ClipOrder::Options& options) {
  const auto i = static_cast<size_t>(clip);
  return (i >= options.problems.size() || options.problems[i].empty()) &&
         (options.buckets.empty() || options.buckets.bucket_of[i] >= 0);
}

}  // namespace

ClipOrder::ClipOrder(const ClipSet& clips, const Options& options)
    : batch_(options.buckets.empty() ? 1 : options.batch), shuffle_(options.shuffle) {
  check(options.buckets.empty() || std::ssize(options.buckets.bucket_of) >= options.clips,
        "[data] {} clips have a bucket, of {}", options.buckets.bucket_of.size(), options.clips);
  const std::vector<SetRules>& sets = clips.sets();
  std::vector<double> weights;
  for (const SetRules& set : sets) {
    weights.push_back(set.weight);
  }
  const bool weighted = std::ranges::any_of(weights, [](double weight) { return weight > 0; });
  const bool regularizes = !weighted && std::ranges::any_of(sets, &SetRules::regularization);
  if (regularizes) {
    weights = {1, 1};  // all other sets, and all of regularization pictures
  }
  const auto group_of = [&](int64_t clip) -> size_t {
    const size_t set = clips.set_of(clip);
    return weighted ? set : regularizes && sets[set].regularization ? 1 : 0;
  };
  std::vector<std::vector<int64_t>> usable(weighted || regularizes ? weights.size() : 1);
  for (int64_t clip = 0; clip < options.clips; ++clip) {
    if (is_usable(clip, options)) {
      usable[group_of(clip)].push_back(clip);
    }
  }
  for (size_t set = 0; set < usable.size(); ++set) {
    check(!usable[set].empty(), "[data] none of the {} clips {}{}", options.clips,
          options.buckets.empty() ? "can be used" : "fits a bucket",
          weighted ? fmt::format(" that are of {}, which has a weight", sets[set].name)
          : regularizes && set == 1 ? " that are regularization pictures"
                                    : "");
    add(std::move(usable[set]), options);
  }
  if (weighted || regularizes) {
    mixture_.emplace(weights, options.seed, options.shuffle);
  }
}

void ClipOrder::add(std::vector<int64_t> clips, const Options& options) {
  size_ += std::ssize(clips);
  // Sets of equal sizes must not have equal orders; the first keeps the seed.
  Group group{.seed = options.seed + groups_.size() * 0x9e3779b97f4a7c15U};
  if (options.buckets.empty()) {
    group.clips = std::move(clips);
  } else {
    std::vector<std::vector<int64_t>> members(options.buckets.buckets.size());
    for (const int64_t clip : clips) {
      members[static_cast<size_t>(options.buckets.bucket_of[static_cast<size_t>(clip)])].push_back(
          clip);
    }
    for (size_t bucket = 0; bucket < members.size(); ++bucket) {
      if (!members[bucket].empty()) {
        group.buckets.push_back(bucket);
      }
    }
    std::erase_if(members, [](const auto& each) { return each.empty(); });
    group.by_bucket.emplace(std::move(members), options.batch, group.seed, options.shuffle);
  }
  groups_.push_back(std::move(group));
}

ClipOrder::Place ClipOrder::at(int64_t position) const {
  const Group* group = &groups_.front();
  if (mixture_) {
    const Mixture::Place place = mixture_->at(position / batch_);
    group = &groups_[place.set];
    position = place.index * batch_ + position % batch_;
  }
  if (group->by_bucket) {
    const GroupedOrder::Place place = group->by_bucket->at(position);
    return {group->by_bucket->groups()[place.group], place.index};
  }
  const auto size = std::ssize(group->clips);
  return {group->clips, shuffle_ ? shuffled_index(group->seed, position, size) : position % size};
}

std::vector<std::span<const int64_t>> ClipOrder::of_buckets() const {
  std::vector<std::span<const int64_t>> out;
  std::set<size_t> seen;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.buckets.size(); ++i) {
      if (seen.insert(group.buckets[i]).second) {
        out.emplace_back(group.by_bucket->groups()[i]);
      }
    }
  }
  return out;
}

}  // namespace kinema::data
