#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/inspection/accept.h"
#include "kinema/inspection/clips.h"
#include "kinema/inspection/contents.h"
#include "kinema/io/json.h"
#include "kinema/runs/stores.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using io::Json;

void check_usable(const std::string& path, int64_t bad, const Json& clips) {
  std::fflush(stdout);  // the table before the error
  check(bad == 0, "[data] {}: {} of {} clips cannot be used", path, bad, clips.items().size());
}

/// All clips that cannot be used, each on a line, and whether there are any.
int check_clips(const std::string& path, const inspection::ClipTable& table, bool json) {
  const bool ok = table.bad.empty();
  if (json) {
    Json report = Json::object();
    report.set("path", path)
        .set("ok", ok)
        .set("summary", (ok ? "accepted: " : "") + table.summary)
        .set("clips", table.report.at("clips"))
        .set("left_out", table.report.at("left_out"));
    fmt::print("{}\n", report.dump());
    return ok ? 0 : 1;
  }
  for (const std::string& line : table.bad) {
    fmt::print("{}\n", printable(line));
  }
  for (const Json& each : table.report.at("left_out").items()) {
    fmt::print("left out: {}: {}\n", printable(each.at("file").as_string()),
               printable(each.at("reason").as_string()));
  }
  check_usable(path, std::ssize(table.bad), table.report.at("clips"));
  fmt::print("accepted: {}\n", printable(table.summary));
  return 0;
}

int check_path(const std::string& path, bool json) {
  const runs::Job job = console_job();
  const fs::path local = runs::local_copy(path, job);
  if (inspection::may_be_clips(local)) {
    weights::refuse_other_formats(local);
    if (const auto table =
            inspection::clip_table(local, /*verify=*/true, job.progress("looking at clips"))) {
      return check_clips(path, *table, json);
    }
  }
  const std::string line = inspection::accept(local);
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("ok", true).set("summary", line);
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{}\n", printable(line));
  }
  return 0;
}

int print_contents(const std::string& path, bool json) {
  const runs::Job job = console_job();
  const inspection::Contents contents =
      inspection::contents(runs::local_copy(path, job), job.progress("looking at clips"));
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("summary", contents.summary).set("parts", contents.parts);
    if (!contents.left_out.is_null()) {
      report.set("left_out", contents.left_out);
    }
    fmt::print("{}\n", report.dump());
    return contents.bad_clips == 0 ? 0 : 1;
  }
  for (const std::string& line : contents.lines) {
    fmt::print("{}\n", printable(line));
  }
  fmt::print("{}\n", printable(contents.summary));
  check_usable(path, contents.bad_clips, contents.parts);
  return 0;
}

}  // namespace

void add_inspect(Program& program) {
  Command command =
      program.add("inspect", "Print what a file or folder holds, or whether it is accepted");
  const auto path = std::make_shared<std::string>();
  const auto only_check = std::make_shared<bool>(false);
  const auto json = std::make_shared<bool>(false);
  command
      .option("PATH", *path,
              "safetensors or TFRecord file, video, folder or tar of clips, Parquet file, model "
              "folder, pipeline, run or checkpoint")
      .required();
  command.flag("--check", *only_check,
               "only say whether it would be accepted: exit 0, or 1 and why; clips are decoded to "
               "their ends");
  command.flag("--json", *json, "print JSON");
  command.run([path, only_check, json] {
    return *only_check ? check_path(*path, *json) : print_contents(*path, *json);
  });
}

}  // namespace kinema::cli
