#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/processes.h"
#include "kinema/cli/stopping.h"
#include "kinema/core/quantities.h"
#include "kinema/io/json.h"
#include "kinema/jobs/prepare.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The extra parts of records for image-conditioned models.
std::string of_images(const preparation::Prepared& made) {
  std::string out;
  if (!made.condition.dims.empty()) {
    out += ", image condition " + to_string(made.condition);
  }
  if (!made.image.dims.empty()) {
    out += ", image states " + to_string(made.image);
  }
  return out;
}

/// Prints what a folder of records contains and the time per record.
void print_folder(const jobs::PreparedFolder& folder) {
  const preparation::Prepared& made = folder.made;
  const auto made_now = static_cast<double>(made.records - made.records_found);
  print_line(
      fmt::format("{} for {}: {} in {} of {}{}, {:.1f} MB", made.stopped ? "stopped" : "prepared",
                  folder.kind, counted(made.records, "record"),
                  counted(static_cast<int64_t>(made.shards.size()), "shard"), folder.path,
                  made.records_found > 0 ? fmt::format(" ({} were there)", made.records_found) : "",
                  static_cast<double>(made.bytes) / 1e6));
  if (made_now > 0) {
    const preparation::Seconds& s = made.seconds;
    print_line(fmt::format(
        "{} record: {} and {}{}; {:.2f} s (latents {:.2f}, text {:.2f}{}, writing {:.2f}, waiting "
        "for clips {:.2f})",
        folder.has_buckets ? "the last" : "a", to_string(made.latents), to_string(made.text),
        of_images(made), s.total / made_now, s.latents / made_now, s.text / made_now,
        s.image > 0 ? fmt::format(", image {:.2f}", s.image / made_now) : "", s.writing / made_now,
        s.waiting / made_now));
  }
  if (!made.skipped.empty()) {
    print_line(fmt::format("skipped {}: {}",
                           counted(static_cast<int64_t>(made.skipped.size()), folder.noun),
                           made.skipped_list.string()));
  }
}

io::Json to_json(const jobs::PreparedFolder& folder) {
  const preparation::Prepared& made = folder.made;
  io::Json skipped = io::Json::array();
  for (const preparation::SkippedClip& clip : made.skipped) {
    io::Json each = io::Json::object();
    skipped.append(std::move(each.set("file", clip.file).set("reason", clip.reason)));
  }
  const preparation::Seconds& s = made.seconds;
  io::Json seconds = io::Json::object();
  seconds.set("total", s.total)
      .set("latents", s.latents)
      .set("text", s.text)
      .set("image", s.image)
      .set("writing", s.writing)
      .set("waiting", s.waiting);
  io::Json out = io::Json::object();
  out.set("kind", folder.kind)
      .set("folder", folder.path)
      .set("clips", made.clips)
      .set("records", made.records)
      .set("records_found", made.records_found)
      .set("shards", static_cast<int64_t>(made.shards.size()))
      .set("bytes", made.bytes)
      .set("skipped", std::move(skipped))
      .set("seconds", std::move(seconds))
      .set("stopped", made.stopped);
  return out;
}

int prepare_run(const std::vector<std::string>& words, bool json) {
  const std::stop_source stop;
  std::optional<Stopping> stopping;
  jobs::PrepareObserver observer;
  show_on_console(observer, !json);
  observer.on_begin = [&] { stopping.emplace("this clip; finished records are kept", stop); };
  observer.on_skip = [](const preparation::SkippedClip& clip) {
    const std::string file = fs::path(clip.file).filename();
    const bool named = clip.reason.find(file) != std::string::npos;
    warn(named ? "skipped: " + clip.reason
               : fmt::format("skipped: {}: {}", clip.file, clip.reason));
  };
  io::Json folders = io::Json::array();
  if (!json) {
    observer.on_shard = [](const preparation::Shard& shard) {
      print_line(fmt::format("{}: {}, {:.1f} MB", shard.name, counted(shard.records, "record"),
                             static_cast<double>(shard.bytes) / 1e6));
    };
    observer.on_folder = print_folder;
  }
  JobOptions job = job_options(stop.get_token());
  job.world =
      joined_world("prepare", words);  // first, so that errors in the arguments are reported once
  const config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  job.world = joined_world(loaded.config);
  const jobs::PrepareResult result = jobs::prepare(loaded, observer, job);
  if (json) {
    for (const jobs::PreparedFolder& folder : result.folders) {
      folders.append(to_json(folder));
    }
    io::Json left_out = io::Json::object();
    for (const data::CauseCount& each : result.left_out) {
      left_out.set(each.cause, each.count);
    }
    fmt::print("{}\n",
               io::Json::object({{"folders", folders}, {"left_out", std::move(left_out)}}).dump());
  }
  return 0;
}

}  // namespace

void add_prepare(Program& program) {
  Command command = program.add(
      "prepare", "Encode clips and captions as TFRecords; continues an interrupted call");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command
      .option("CONFIG key=value", *words,
              "a YAML file, and keys that override it: train_data_dir (clips or pictures), "
              "tfrecords_dir, height, width, num_frames, no_records_per_shard, ...")
      .required();
  command.flag("--json", *json, "print JSON about what was written, and no line per shard");
  command.run([words, json] { return prepare_run(*words, *json); });
}

}  // namespace kinema::cli
