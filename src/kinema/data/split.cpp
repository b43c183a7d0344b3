#include "kinema/data/split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"

namespace kinema::data {
namespace {

/// A number in [0, 1) of the seed and the name.
double place_of(uint64_t seed, const std::string& name) {
  constexpr double kTwoToThe32 = 4294967296.0;
  return random_key(seed, "evaluation split: " + name)[0] / kTwoToThe32;
}

class SplitClips : public ClipSet {
 public:
  SplitClips(std::unique_ptr<ClipSet> clips, std::vector<int64_t> chosen)
      : clips_(std::move(clips)), chosen_(std::move(chosen)) {}

  int64_t size() const override { return static_cast<int64_t>(chosen_.size()); }
  std::string name(int64_t clip) const override { return clips_->name(at(clip)); }
  std::string where(int64_t clip) const override { return clips_->where(at(clip)); }
  std::string caption(int64_t clip) const override { return clips_->caption(at(clip)); }
  ClipSize measure(int64_t clip) const override { return clips_->measure(at(clip)); }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    return clips_->read(at(clip), format, window);
  }
  std::string stamp(int64_t clip) const override { return clips_->stamp(at(clip)); }
  std::string hash(int64_t clip) const override { return clips_->hash(at(clip)); }
  void verify(int64_t clip) const override { clips_->verify(at(clip)); }
  std::vector<LeftOut> left_out() const override { return clips_->left_out(); }
  std::vector<std::string> notes() const override { return clips_->notes(); }
  bool is_slow_to_measure() const override { return clips_->is_slow_to_measure(); }

 private:
  int64_t at(int64_t clip) const { return chosen_.at(static_cast<size_t>(clip)); }

  std::unique_ptr<ClipSet> clips_;
  std::vector<int64_t> chosen_;
};

}  // namespace

bool Split::takes(const std::string& name) const {
  return !is_on() || (place_of(seed, name) < share) == (part == Part::KEPT_OUT);
}

std::vector<int64_t> Split::chosen(const std::vector<std::string>& names,
                                   const std::string& set) const {
  std::vector<int64_t> out;
  double first = 1;
  double last = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const double place = place_of(seed, names[i]);
    first = std::min(first, place);
    last = std::max(last, place);
    if (takes(names[i])) {
      out.push_back(static_cast<int64_t>(i));
    }
  }
  // In thousandths upwards and downwards: what is printed must do what is said of it.
  check(!is_on() || names.empty() || first < share,
        "[data] eval_split {:g} keeps none of the {} samples of {} for evaluation\n  "
        "eval_split={:.3f} keeps one",
        share, names.size(), set, std::floor(first * 1000 + 1) / 1000);
  check(!is_on() || names.empty() || last >= share,
        "[data] eval_split {:g} leaves none of the {} samples of {} to train on\n  a smaller share "
        "does, or eval_data_dir=FOLDER with other samples",
        share, names.size(), set);
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
