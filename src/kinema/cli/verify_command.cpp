#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/cli/device.h"
#include "kinema/cli/progress.h"
#include "kinema/verification/case.h"
#include "kinema/verification/verify.h"

namespace kinema::cli {
namespace {

struct VerifyOptions {
  std::string folder;
  std::string filter;
  std::string scan = "both";
  bool json = false;
  std::vector<std::string> words;
};

int64_t cases(const VerifyOptions& options) {
  const std::vector<std::string> names = verification::case_names(options.folder);
  return std::ranges::count_if(names, [&](const std::string& name) {
    return name.find(options.filter) != std::string::npos;
  });
}

int verify_folder(const VerifyOptions& options) {
  const config::Loaded loaded = load_arguments(options.words, /*need_file=*/false);
  check_flags(loaded);
  const pjrt::Client client = runtime::open_client(client_spec(loaded.config));
  verification::Options settings;
  settings.filter = options.filter;
  settings.scan_on = options.scan != "off";
  settings.scan_off = options.scan != "on";
  settings.program = program_options(loaded.config);
  std::optional<Progress> progress;
  int64_t done = 0;
  progress.emplace("verifying", cases(options));
  progress->update(0);
  settings.on_case = [&](const std::vector<verification::Row>& rows) {
    progress->update(++done, rows.front().name);
    for (const verification::Row& row : rows) {
      // JSON has no place for reasons; people read them beside it.
      if (options.json && !row.message.empty()) {
        warn(fmt::format("{} {}: {}", row.name, row.tensor, row.message));
      }
    }
  };
  const verification::Report report = verification::run(options.folder, client, settings);
  progress.reset();
  fmt::print("{}",
             options.json ? verification::to_json(report) + "\n" : verification::to_table(report));
  return report.ok() ? 0 : 1;
}

}  // namespace

void add_verify(Program& program) {
  Command command = program.add("verify", "Compare this build and device with reference cases");
  const auto options = std::make_shared<VerifyOptions>();
  command.option("FOLDER", options->folder, "a folder with io/ and model folders").required();
  command.option("key=value", options->words, "hardware, pjrt_plugin, ...");
  command.option("--filter", options->filter, "only cases whose name contains this");
  command.option("--scan", options->scan, "run the blocks in a loop, one by one, or both ways")
      .one_of({"on", "off", "both"});
  command.flag("--json", options->json, "print JSON and nothing else");
  command.run([options] { return verify_folder(*options); });
}

}  // namespace kinema::cli
