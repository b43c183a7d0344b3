#include "kinema/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::data {
namespace {

/// A pseudorandom number from the seed and the name.
uint64_t place_of(uint64_t seed, const std::string& name) {
  const auto key = random_key(seed, "evaluation split: " + name);
  return (uint64_t{key[0]} << 32) | key[1];
}

class SplitClips : public ClipSet {
 public:
  SplitClips(std::unique_ptr<ClipSet> clips, std::vector<int64_t> chosen)
      : clips_(std::move(clips)), chosen_(std::move(chosen)) {}

  int64_t size() const override { return static_cast<int64_t>(chosen_.size()); }
  std::string name(int64_t clip) const override { return clips_->name(at(clip)); }
  std::string where(int64_t clip) const override { return clips_->where(at(clip)); }
  std::string path(int64_t clip) const override { return clips_->path(at(clip)); }
  std::string cause(int64_t clip) const override { return clips_->cause(at(clip)); }
  std::string caption(int64_t clip) const override { return clips_->caption(at(clip)); }
  CaptionRules caption_rules(int64_t clip, const CaptionRules& rules) const override {
    return clips_->caption_rules(at(clip), rules);
  }
  int64_t caption_variants(const CaptionRules& rules) const override {
    return clips_->caption_variants(rules);
  }
  ClipSize measure(int64_t clip) const override { return clips_->measure(at(clip)); }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    return clips_->read(at(clip), format, window);
  }
  HostArray read_mask(int64_t clip, const ClipFormat& format, const ClipWindow& window,
                      bool alpha) const override {
    return clips_->read_mask(at(clip), format, window, alpha);
  }
  ClipControl read_control(int64_t clip, const ClipFormat& format,
                           const ClipWindow& window) const override {
    return clips_->read_control(at(clip), format, window);
  }
  bool has_controls() const override { return clips_->has_controls(); }
  bool has_masks() const override { return clips_->has_masks(); }
  std::string stamp(int64_t clip) const override { return clips_->stamp(at(clip)); }
  std::string hash(int64_t clip) const override { return clips_->hash(at(clip)); }
  void verify(int64_t clip) const override { clips_->verify(at(clip)); }
  std::vector<SkippedFile> left_out() const override { return clips_->left_out(); }
  std::vector<std::string> notes() const override { return clips_->notes(); }
  const std::vector<SetRules>& sets() const override { return clips_->sets(); }
  size_t set_of(int64_t clip) const override { return clips_->set_of(at(clip)); }
  bool is_slow_to_measure() const override { return clips_->is_slow_to_measure(); }

 private:
  int64_t at(int64_t clip) const { return chosen_.at(static_cast<size_t>(clip)); }

  std::unique_ptr<ClipSet> clips_;
  std::vector<int64_t> chosen_;
};

}  // namespace

int64_t Split::held_out(int64_t samples) const {
  const auto nearest = static_cast<int64_t>(std::llround(share * static_cast<double>(samples)));
  return std::clamp<int64_t>(nearest, 1, std::max<int64_t>(samples - 1, 1));
}

std::vector<int64_t> Split::chosen(const std::vector<std::string>& names,
                                   const std::string& set) const {
  std::vector<int64_t> out(names.size());
  std::iota(out.begin(), out.end(), 0);
  if (!is_on() || names.empty()) {
    return out;
  }
  check(names.size() > 1,
        "[data] eval_split {:g} keeps one sample of {} out, which holds no other to train on\n  "
        "eval_split=0, or eval_data_dir=FOLDER with other samples",
        share, set);
  // Names break ties, so that the order of listing does not matter.
  std::vector<std::pair<uint64_t, std::string_view>> order;
  for (const std::string& name : names) {
    order.emplace_back(place_of(seed, name), name);
  }
  std::vector<std::pair<uint64_t, std::string_view>> sorted = order;
  const auto border = sorted.begin() + held_out(std::ssize(names));
  std::ranges::nth_element(sorted, border);
  std::erase_if(out, [&](int64_t i) {
    return (order[static_cast<size_t>(i)] < *border) != (part == Part::HELD_OUT);
  });
  return out;
}

std::unique_ptr<ClipSet> split_clips(std::unique_ptr<ClipSet> clips, const Split& split,
                                     const std::string& set) {
  if (!split.is_on()) {
    return clips;
  }
  std::vector<std::string> names;
  for (int64_t clip = 0; clip < clips->size(); ++clip) {
    names.push_back(clips->where(clip));
  }
  std::vector<int64_t> chosen = split.chosen(names, set);
  return std::make_unique<SplitClips>(std::move(clips), std::move(chosen));
}

}  // namespace kinema::data
