#include "kinema/inspection/clips.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/quantities.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/survey.h"
#include "kinema/text/unicode.h"

namespace kinema::inspection {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// `videos` or `hf`, as in dataset_type; empty: no clips.
std::string kind_of(const fs::path& path) {
  if (data::is_dataset_file(path)) {
    return "videos";
  }
  std::error_code ignored;
  const std::string found = data::detect_dataset_type(
      fs::is_directory(path, ignored) ? data::file_names(path)
                                      : std::vector<std::string>{path.filename().string()});
  const bool file = fs::is_regular_file(path, ignored);
  const bool set = !file || found == "hf" || path.extension() == ".tar";
  return set && found != "tfrecord" ? found : "";
}

/// The first `count` characters of a caption, on one line.
std::string shortened(const std::string& text, size_t count) {
  std::string out = text;
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' '; }, ' ');
  const std::vector<size_t> ends = text::grapheme_ends(out);
  return ends.size() <= count ? out : out.substr(0, ends[count - 2]) + "..";
}

std::string length_text(double seconds) {
  return seconds >= 60 ? clock_text(seconds) : fmt::format("{:.2f} s", seconds);
}

/// Sorted by frequency: `768x512: 800, 64x96: 12`.
std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, count] : counts) {
    sorted.emplace_back(-count, name);
  }
  std::ranges::sort(sorted);
  std::string out;
  for (size_t i = 0; i < sorted.size() && i < 4; ++i) {
    out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", sorted[i].second, -sorted[i].first);
  }
  return out + (sorted.size() > 4 ? ", ..." : "");
}

/// Decodes each clip without a known problem.
void verify_all(const data::ClipSet& clips, data::Survey& survey, int threads) {
  for_each_in_parallel(survey.problems.size(), threads, [&](size_t i) {
    if (survey.problems[i].empty()) {
      try {
        clips.verify(static_cast<int64_t>(i));
      } catch (const Error& error) {
        survey.problems[i] = error.what();
        survey.causes[i] = "damaged";
      }
    }
  });
}

std::string caption_or_none(const data::ClipSet& clips, int64_t clip) {
  try {
    return clips.caption(clip);
  } catch (const Error&) {
    return "";  // the problem is listed for the clip
  }
}

class Table {
 public:
  Table(const data::ClipSet& clips, const data::Survey& survey) : clips_(clips), survey_(survey) {
    for (int64_t clip = 0; clip < count(); ++clip) {
      const size_t wide = text::decode_utf8(printable(clips.where(clip))).size();
      name_width_ = std::max(name_width_, std::min<size_t>(wide, 40));
    }
    out_.lines.push_back(fmt::format("{:<{}}  {:>9}  {:>6}  {:>5}  {:>8}  {}", "clip", name_width_,
                                     "h x w", "frames", "fps", "length", "caption"));
    for (int64_t clip = 0; clip < count(); ++clip) {
      add(clip);
    }
    for (const data::SkippedFile& each : survey.left_out) {
      out_.lines.push_back(fmt::format("skipped: {}: {}", printable(each.file), each.reason));
    }
    for (const std::string& each : survey.notes) {
      out_.lines.push_back(printable(each));
    }
  }

  ClipTable take() {
    const int64_t bad = survey_.bad();
    const size_t others = survey_.left_out.size();
    const char* noun = images_ == count() - bad && images_ > 0 ? "picture" : "clip";
    out_.summary = fmt::format(
        "data set: {} with captions{}; {}{} cannot be used, {} skipped",
        counted(count() - bad, noun),
        seconds_ > 0 ? fmt::format(", {} in all", length_text(seconds_)) : "",
        survey_.empty_captions > 0
            ? fmt::format("{} of {} {} an empty caption, ", survey_.empty_captions,
                          counted(count(), noun), survey_.empty_captions == 1 ? "has" : "have")
            : "",
        bad, counted(static_cast<int64_t>(others), "file"));
    if (!sizes_.empty()) {
      out_.summary += fmt::format("; sizes (height x width) {}", counts_text(sizes_));
    }
    if (!rates_.empty()) {
      out_.summary += fmt::format("; frames a second {}", counts_text(rates_));
    }
    if (const int64_t alpha = count_of(&data::ClipSize::has_alpha); alpha > 0) {
      out_.summary += fmt::format("; {} with an alpha channel", alpha);
    }
    if (const int64_t hdr = count_of(&data::ClipSize::is_hdr); hdr > 0) {
      out_.summary += fmt::format("; {} HDR", hdr);
    }
    Json causes = Json::object();
    std::string text;
    for (const data::CauseCount& each : data::count_causes(survey_)) {
      causes.set(printable(each.cause), each.count);
      text += fmt::format("{} {} {}", text.empty() ? "; skipped:" : ",", printable(each.cause),
                          each.count);
    }
    out_.summary += text;
    Json left_out = Json::array();
    for (const data::SkippedFile& each : survey_.left_out) {
      Json file = Json::object();
      left_out.append(
          std::move(file.set("file", printable(each.file)).set("reason", printable(each.reason))));
    }
    out_.report.set("clips", std::move(parts_))
        .set("left_out", std::move(left_out))
        .set("causes", std::move(causes))
        .set("usable", count() - bad)
        .set("empty_captions", survey_.empty_captions)
        .set("seconds", seconds_);
    return std::move(out_);
  }

 private:
  int64_t count() const { return static_cast<int64_t>(survey_.sizes.size()); }

  /// The number of usable clips with this property.
  int64_t count_of(bool data::ClipSize::*is_so) const {
    int64_t out = 0;
    for (size_t i = 0; i < survey_.sizes.size(); ++i) {
      out += survey_.problems[i].empty() && survey_.sizes[i].*is_so ? 1 : 0;
    }
    return out;
  }

  /// Escapes bytes that are not UTF-8, for terminals and JSON.
  static std::string printable(std::string name) {
    for (size_t bad = 0; (bad = text::invalid_utf8_at(name)) != std::string::npos;) {
      name[bad] = '?';
    }
    return name;
  }

  void add(int64_t clip) {
    const auto i = static_cast<size_t>(clip);
    const data::ClipSize& size = survey_.sizes[i];
    const std::string name = printable(clips_.where(clip));
    const std::string caption = printable(caption_or_none(clips_, clip));
    const bool again = !shown_.emplace(name, caption).second;  // a set may repeat clips
    const std::string why = survey_.problems[i].empty()
                                ? ""
                                : printable(data::short_reason(clips_, clip, survey_.problems[i]));
    Json part = Json::object();
    part.set("file", name);
    if (why.empty()) {
      const std::string shape = fmt::format("{}x{}", size.height, size.width);
      const std::string rate = size.fps > 0 ? fmt::format("{:.4g}", size.fps) : "-";
      if (!again) {
        out_.lines.push_back(fmt::format(
            "{:<{}}  {:>9}  {:>6}  {:>5}  {:>8}  {}", name, name_width_, shape, size.frames, rate,
            length_text(size.seconds), caption.empty() ? "(none)" : shortened(caption, 60)));
      }
      images_ += size.frames == 1 && size.fps <= 0 ? 1 : 0;
      ++sizes_[shape];
      if (size.fps > 0) {
        ++rates_[rate];
      }
      seconds_ += size.seconds;
      part.set("width", size.width)
          .set("height", size.height)
          .set("frames", size.frames)
          .set("fps", size.fps)
          .set("seconds", size.seconds)
          .set("has_alpha", size.has_alpha)
          .set("is_hdr", size.is_hdr);
    } else if (!again) {
      out_.bad.push_back(fmt::format("cannot be used: {}", why));
      out_.lines.push_back(fmt::format("{:<{}}  {}", name, name_width_, out_.bad.back()));
    }
    if (again) {
      return;
    }
    part.set("caption", caption)
        .set("problem", why.empty() ? Json() : Json(why))
        .set("cause", survey_.causes[i].empty() ? Json() : Json(survey_.causes[i]));
    parts_.append(std::move(part));
  }

  const data::ClipSet& clips_;
  const data::Survey& survey_;
  ClipTable out_;
  size_t name_width_ = 4;
  Json parts_ = Json::array();
  std::map<std::string, int64_t> sizes_;
  std::map<std::string, int64_t> rates_;
  std::set<std::pair<std::string, std::string>> shown_;  // names and captions
  int64_t images_ = 0;
  double seconds_ = 0;
};

}  // namespace

std::optional<ClipTable> clip_table(const fs::path& path, bool verify,
                                    const ClipProgress& progress) {
  const std::string kind = kind_of(path);
  if (kind.empty()) {
    return std::nullopt;
  }
  const std::unique_ptr<data::ClipSet> clips =
      kind == "hf" ? data::hf_clips({.folder = path})
                   : data::folder_clips(path, "text", /*keep_bad=*/true);
  const int threads = processor_threads();
  data::Survey survey = data::survey_clips(*clips, {.clips = clips->size(),
                                                    .any_length = true,
                                                    .threads = threads,
                                                    .on_progress = [&](int64_t done) {
                                                      if (progress) {
                                                        progress(done, clips->size());
                                                      }
                                                    }});
  if (verify) {
    verify_all(*clips, survey, threads);
  }
  return Table(*clips, survey).take();
}

}  // namespace kinema::inspection
