#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/core/quantities.h"
#include "kinema/inspection/accept.h"
#include "kinema/inspection/clips.h"
#include "kinema/inspection/contents.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/jobs/preview.h"
#include "kinema/media/image.h"
#include "kinema/media/png_text.h"
#include "kinema/stores/local_copies.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using io::Json;

void check_usable(const std::string& path, int64_t bad, const Json& clips) {
  std::fflush(stdout);  // prints the table before the error
  check(bad == 0, "[data] {}: {} of {} files cannot be used", path, bad, clips.items().size());
}

/// Prints each unusable clip on a line; false if there are any.
int check_clips(const std::string& path, const inspection::ClipTable& table, bool json) {
  const bool ok = table.bad.empty();
  if (json) {
    Json report = Json::object();
    report.set("path", path)
        .set("ok", ok)
        .set("summary", (ok ? "accepted: " : "") + table.summary)
        .set("clips", table.report.at("clips"))
        .set("left_out", table.report.at("left_out"))
        .set("causes", table.report.at("causes"));
    fmt::print("{}\n", report.dump());
    return ok ? 0 : 1;
  }
  for (const std::string& line : table.bad) {
    fmt::print("{}\n", printable_line(line));
  }
  for (const Json& each : table.report.at("left_out").items()) {
    fmt::print("skipped: {}: {}\n", printable_line(each.at("file").as_string()),
               printable_line(each.at("reason").as_string()));
  }
  check_usable(path, std::ssize(table.bad), table.report.at("clips"));
  fmt::print("accepted: {}\n", printable_line(table.summary));
  return 0;
}

int check_path(const std::string& path, bool json) {
  const Job job = console_job();
  const fs::path local = stores::local_copy(path, job);
  if (inspection::may_be_clips(local)) {
    if (const auto table =
            inspection::clip_table(local, /*verify=*/true, job.progress("reading clips"))) {
      return check_clips(path, *table, json);
    }
  }
  const std::string line = inspection::accept(local);
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("ok", true).set("summary", line);
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{}\n", printable_line(line));
  }
  return 0;
}

int print_contents(const std::string& path, bool json) {
  const Job job = console_job();
  const inspection::Contents contents =
      inspection::contents(stores::local_copy(path, job), job.progress("reading clips"));
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("summary", contents.summary).set("parts", contents.parts);
    if (!contents.left_out.is_null()) {
      report.set("left_out", contents.left_out).set("causes", contents.causes);
    }
    if (!contents.problem.empty()) {
      report.set("problem", contents.problem);
    }
    fmt::print("{}\n", report.dump());
    return contents.bad_clips == 0 && contents.problem.empty() ? 0 : 1;
  }
  for (const std::string& line : contents.lines) {
    fmt::print("{}\n", printable_line(line));
  }
  fmt::print("{}\n", printable_line(contents.summary));
  check_usable(path, contents.bad_clips, contents.parts);
  check(contents.problem.empty(), "{}", contents.problem);
  return 0;
}

const media::PngText kSheetMark{.keyword = "Software", .text = "kinema inspect --preview"};

/// Only a sheet of before may be replaced, never a picture of the user or a sample of the data.
void check_sheet_place(const fs::path& file, const std::string& data) {
  std::error_code ignored;
  if (fs::is_directory(data, ignored)) {
    const fs::path inside = fs::weakly_canonical(file, ignored);
    const fs::path folder = fs::weakly_canonical(data, ignored);
    const auto differ =
        std::mismatch(folder.begin(), folder.end(), inside.begin(), inside.end()).first;
    check(differ != folder.end(),
          "[inspect] --preview is {}, in the data {}, of which it would be a sample\n  give a name "
          "outside of it",
          file.string(), data);
  }
  if (fs::exists(fs::symlink_status(file, ignored))) {
    io::check_file_place(file);
    const io::MappedFile old = io::MappedFile::open(file);
    const bool ours =
        media::is_png(old.bytes()) &&
        std::ranges::any_of(
            media::read_image_texts(old.bytes(), file.string()), [](const media::PngText& each) {
              return each.keyword == kSheetMark.keyword && each.text == kSheetMark.text;
            });
    check(ours,
          "[inspect] {} exists and is not a sheet of --preview: it is kept\n  give another name",
          file.string());
  }
  check(file.extension() == ".png",
        "[inspect] --preview is {}, expected a name that ends with .png", file.string());
}

/// Writes samples of a data set as a PNG, as `train` sees them. `words`: config=CONFIG.yml and
/// keys.
int write_preview(const std::string& path, std::vector<std::string> words, const std::string& file,
                  int64_t samples, bool json) {
  constexpr std::string_view kConfig = "config=";
  for (std::string& word : words) {
    if (word.starts_with(kConfig)) {
      word.erase(0, kConfig.size());
    }
  }
  check_sheet_place(file, path);
  Observer observer;
  show_on_console(observer, !json);
  const jobs::Preview preview =
      jobs::preview(load_arguments(words, /*need_file=*/false), path, samples, observer);
  media::write_png(file, preview.sheet, {&kSheetMark, 1});
  if (json) {
    Json report = Json::object();
    report.set("path", path)
        .set("preview", file)
        .set("samples", preview.samples)
        .set("of", preview.of)
        .set("bad_clips", preview.bad_clips);
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{}: {} of {} samples as train sees them\n", printable_line(file), preview.samples,
               preview.of);
  }
  std::fflush(stdout);
  check(preview.bad_clips == 0,
        "[inspect] `train` stops at {} of {} that cannot be used, unless skip_bad_clips is true",
        counted(preview.bad_clips, "clip"), path);
  return 0;
}

}  // namespace

void add_inspect(Program& program) {
  Command command =
      program.add("inspect", "Print the contents of a file or folder, or whether it is accepted");
  const auto path = std::make_shared<std::string>();
  const auto only_check = std::make_shared<bool>(false);
  const auto json = std::make_shared<bool>(false);
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto preview = std::make_shared<std::string>();
  const auto samples = std::make_shared<int64_t>(24);
  command
      .option("PATH", *path,
              "safetensors or TFRecord file, video, folder or tar of clips, Parquet file, model "
              "folder, pipeline, run or checkpoint")
      .required();
  command.flag(
      "--check", *only_check,
      "only check which commands and keys accept it: exit 0, or 1 with the reason; decodes "
      "clips completely");
  command.option("config=CONFIG.yml key=value", *words,
                 "--preview: the sizes and preprocessing of the samples");
  command.option("--preview", *preview,
                 "write the first samples of a data set, as train sees them, with their captions, "
                 "to this PNG");
  command.option("--samples", *samples, "--preview: how many").between(1, 400).shows_default();
  command.flag("--json", *json, "print JSON");
  command.run([path, only_check, json, words, preview, samples] {
    check(words->empty() || !preview->empty(), "[inspect] `{}` is for --preview FILE.png",
          words->empty() ? "" : words->front());
    if (!preview->empty()) {
      check(!*only_check, "[inspect] --check and --preview exclude each other");
      return write_preview(*path, *words, *preview, *samples, *json);
    }
    return *only_check ? check_path(*path, *json) : print_contents(*path, *json);
  });
}

}  // namespace kinema::cli
