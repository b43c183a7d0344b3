#include "kinema/data/joined_clips.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"

namespace kinema::data {
namespace {

class JoinedClips : public ClipSet {
 public:
  JoinedClips(std::vector<JoinedPart> parts, std::vector<std::string> notes)
      : parts_(std::move(parts)), notes_(std::move(notes)) {
    for (const JoinedPart& part : parts_) {
      begins_.push_back(size_);
      sets_.push_back(part.own);
      size_ += part.clips->size() * part.repeats;
    }
  }

  int64_t size() const override { return size_; }
  std::string name(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->name(number);
  }
  std::string where(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->own.name + "/" + part->clips->where(number);
  }
  std::string path(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->path(number);
  }
  std::string cause(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->cause(number);
  }
  std::string caption(int64_t clip) const override {
    const auto [part, number] = at(clip);
    std::string out = part->clips->caption(number);
    if (!part->caption_prefix.empty()) {
      out = part->caption_prefix + " " + out;
    }
    return part->caption_suffix.empty() ? out : out + " " + part->caption_suffix;
  }
  CaptionRules caption_rules(int64_t clip, const CaptionRules& rules) const override {
    const auto [part, number] = at(clip);
    return part->rules ? part->rules(rules) : rules;
  }
  int64_t caption_variants(const CaptionRules& rules) const override {
    int64_t most = 1;
    for (const JoinedPart& part : parts_) {
      most = std::max(most, (part.rules ? part.rules(rules) : rules).count());
    }
    return most;
  }
  ClipSize measure(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->measure(number);
  }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    const auto [part, number] = at(clip);
    return part->clips->read(number, format, window);
  }
  HostArray read_mask(int64_t clip, const ClipFormat& format, const ClipWindow& window,
                      bool alpha) const override {
    const auto [part, number] = at(clip);
    return part->clips->read_mask(number, format, window, alpha);
  }
  ClipControl read_control(int64_t clip, const ClipFormat& format,
                           const ClipWindow& window) const override {
    const auto [part, number] = at(clip);
    return part->clips->read_control(number, format, window);
  }
  bool has_controls() const override {
    return std::ranges::any_of(parts_,
                               [](const JoinedPart& part) { return part.clips->has_controls(); });
  }
  bool has_masks() const override {
    return std::ranges::any_of(parts_,
                               [](const JoinedPart& part) { return part.clips->has_masks(); });
  }
  std::string stamp(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->stamp(number);
  }
  std::string hash(int64_t clip) const override {
    const auto [part, number] = at(clip);
    return part->clips->hash(number);
  }
  void verify(int64_t clip) const override {
    const auto [part, number] = at(clip);
    part->clips->verify(number);
  }
  std::vector<SkippedFile> left_out() const override {
    std::vector<SkippedFile> out;
    for (const JoinedPart& part : parts_) {
      for (SkippedFile each : part.clips->left_out()) {
        each.file = part.own.name + "/" + each.file;
        out.push_back(std::move(each));
      }
    }
    return out;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> out = notes_;
    for (const JoinedPart& part : parts_) {
      out.push_back(fmt::format("{}: {}{}", part.own.name, counted(part.clips->size(), "clip"),
                                rules_text(part)));
      for (const std::string& note : part.clips->notes()) {
        out.push_back(part.own.name + "/" + note);
      }
    }
    return out;
  }
  const std::vector<SetRules>& sets() const override { return sets_; }
  size_t set_of(int64_t clip) const override {
    return static_cast<size_t>(at(clip).first - parts_.data());
  }
  bool is_slow_to_measure() const override {
    return std::ranges::any_of(
        parts_, [](const JoinedPart& part) { return part.clips->is_slow_to_measure(); });
  }

 private:
  /// What a note says of a part's rules.
  std::string rules_text(const JoinedPart& part) const {
    std::string out;
    if (part.repeats != 1) {
      out += fmt::format(", each {} times an epoch", part.repeats);
    }
    if (part.own.weight > 0) {
      double sum = 0;
      for (const SetRules& set : sets_) {
        sum += set.weight;
      }
      out += fmt::format(", {:.3g} % of the samples", 100 * part.own.weight / sum);
    }
    if (part.own.regularization) {
      out += ", regularization";
    }
    if (part.own.loss_weight != 1) {
      out += fmt::format(", {:g} in the loss", part.own.loss_weight);
    }
    const SampleSizes& sizes = part.own.sizes;
    if (sizes.automatic) {
      out += fmt::format(", sizes of up to {} pixels by aspect ratio", sizes.automatic->area);
    } else if (sizes.buckets.size() == 1) {
      out += fmt::format(", at {}x{}", sizes.buckets[0].height, sizes.buckets[0].width);
    } else if (!sizes.buckets.empty()) {
      out += fmt::format(", in {} buckets", sizes.buckets.size());
    }
    return out;
  }

  std::pair<const JoinedPart*, int64_t> at(int64_t clip) const {
    check(clip >= 0 && clip < size_, "[data] clip {} of {}", clip, size_);
    const auto after = std::ranges::upper_bound(begins_, clip);
    const auto i = static_cast<size_t>(after - begins_.begin()) - 1;
    return {&parts_[i], (clip - begins_[i]) % parts_[i].clips->size()};
  }

  std::vector<JoinedPart> parts_;
  std::vector<std::string> notes_;
  std::vector<int64_t> begins_;
  std::vector<SetRules> sets_;
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<ClipSet> joined_clips(std::vector<JoinedPart> parts,
                                      std::vector<std::string> notes) {
  return std::make_unique<JoinedClips>(std::move(parts), std::move(notes));
}

}  // namespace kinema::data
