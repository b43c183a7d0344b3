// What a run has written: its metrics and its samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"
#include "kinema/serve/runs.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using metrics::MetricsRow;

io::Json number_or_null(double value) {
  return std::isfinite(value) ? io::Json(value) : io::Json();
}

/// The mean, lowest and highest of the finite values.
struct Summary {
  double sum = 0;
  int64_t count = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (std::isfinite(value)) {
      sum += value;
      ++count;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  double mean() const { return count == 0 ? std::nan("") : sum / static_cast<double>(count); }
};

bool is_sample(const fs::path& path) {
  const std::string name = path.filename().string();
  static constexpr std::string_view kEndings[] = {".mp4", ".png", ".jpg", ".webp"};
  return std::ranges::find(kEndings, path.extension().native()) != std::end(kEndings) &&
         name != "contact_sheet.png" && !name.starts_with('.');
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

io::Json sample_json(const std::string& name, int64_t step, int64_t index, const fs::path& file) {
  const std::string place =
      fmt::format("/runs/{}/samples/{}/{}", name, step, file.filename().string());
  const bool is_video = file.extension() == ".mp4";
  int64_t width = 0;
  int64_t height = 0;
  int64_t frames = 1;
  if (is_video) {
    const media::VideoProbe probe = media::probe_video(file);
    width = probe.width;
    height = probe.height;
    frames = probe.frames;
  } else {
    const io::MappedFile mapped = io::MappedFile::open(file);
    const media::ImageSize size = mapped.parsed(
        [&](auto bytes) { return media::measure_image(bytes, file.filename().string()); });
    width = size.width;
    height = size.height;
  }
  std::string prompt;
  std::error_code error;
  const fs::path settings = fs::path(file).replace_extension(".json");
  if (fs::exists(settings, error)) {
    const io::Json about = io::Json::read(settings);
    if (const io::Json* text = about.find("prompt"); text != nullptr && text->is_string()) {
      prompt = text->as_string();
    }
  }
  const bool has_sheet = fs::exists(file.parent_path() / "contact_sheet.png", error);
  const std::string thumb = is_video && has_sheet
                                ? fmt::format("/runs/{}/samples/{}/contact_sheet.png", name, step)
                                : place;
  return io::Json::object({{"step", step},
                           {"index", index},
                           {"prompt", prompt},
                           {"kind", is_video ? "video" : "image"},
                           {"url", place},
                           {"thumb", thumb},
                           {"width", width},
                           {"height", height},
                           {"frames", frames}});
}

}  // namespace

io::Json metrics_json(const metrics::MetricsReader& reader, int64_t after, int64_t buckets) {
  const std::vector<MetricsRow>& rows = reader.rows();
  const auto first = std::ranges::upper_bound(rows, after, {}, &MetricsRow::step);
  const int64_t count = rows.end() - first;
  const int64_t size = std::max<int64_t>(1, (count + buckets - 1) / std::max<int64_t>(1, buckets));
  io::Json steps = io::Json::array();
  io::Json loss = io::Json::array();
  io::Json low = io::Json::array();
  io::Json high = io::Json::array();
  io::Json rate = io::Json::array();
  io::Json seconds = io::Json::array();
  io::Json gradient = io::Json::array();
  for (auto row = first; row < rows.end();) {
    const auto end = rows.end() - row > size ? row + size : rows.end();
    Summary losses;
    Summary rates;
    Summary times;
    Summary gradients;
    int64_t step = 0;
    for (; row < end; ++row) {
      step = row->step;
      losses.add(row->loss);
      rates.add(row->learning_rate);
      times.add(row->seconds);
      gradients.add(row->gradient_norm);
    }
    steps.append(step);
    loss.append(number_or_null(losses.mean()));
    low.append(number_or_null(losses.low));
    high.append(number_or_null(losses.high));
    rate.append(number_or_null(rates.mean()));
    seconds.append(number_or_null(times.mean()));
    gradient.append(number_or_null(gradients.mean()));
  }
  io::Json evaluations = io::Json::array();
  for (const metrics::EvaluationRow& each : reader.evaluations()) {
    if (each.step > after) {
      evaluations.append(io::Json::object({{"step", each.step},
                                           {"loss", number_or_null(each.loss)},
                                           {"timesteps", io::Json::array()}}));
    }
  }
  return io::Json::object({{"step", std::move(steps)},
                           {"loss", std::move(loss)},
                           {"low", std::move(low)},
                           {"high", std::move(high)},
                           {"learning_rate", std::move(rate)},
                           {"seconds", std::move(seconds)},
                           {"gradient_norm", std::move(gradient)},
                           {"evaluations", std::move(evaluations)}});
}

io::Json samples_json(const std::string& name, const fs::path& run, int64_t first) {
  std::vector<int64_t> steps;
  for (const fs::path& folder : sorted_entries(run / "samples")) {
    if (is_number(folder.filename().string())) {
      steps.push_back(std::stoll(folder.filename().string()));
    }
  }
  std::ranges::sort(steps);
  io::Json out = io::Json::array();
  for (const int64_t step : steps) {
    int64_t index = 0;
    for (const fs::path& file : sorted_entries(run / "samples" / std::to_string(step))) {
      if (step < first || !is_sample(file)) {
        continue;
      }
      try {
        out.append(sample_json(name, step, index++, file));
      } catch (const Error&) {
        // It is being written; the next listing has it.
      }
    }
  }
  return out;
}

io::Json Runs::samples(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    find(name);
  }
  return samples_json(name, run_folder(name), -1);
}

fs::path Runs::sample_file(const std::string& name, const std::string& step,
                           const std::string& file) {
  {
    const std::lock_guard lock(mutex_);
    find(name);
  }
  for (const fs::path& each : sorted_entries(run_folder(name) / "samples")) {
    if (each.filename() != step || !is_number(step)) {
      continue;
    }
    for (const fs::path& sample : sorted_entries(each)) {
      if (sample.filename() == file && (is_sample(sample) || file == "contact_sheet.png")) {
        return sample;
      }
    }
  }
  throw http::Refusal(404, "there is no such sample");
}

}  // namespace kinema::serve
