#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/jobs/verify.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

struct Words {
  std::string folder;
  std::string filter;
  std::string scan = "both";
  bool kernels = false;
  bool json = false;
  std::vector<std::string> words;
};

int show(const verification::Report& report, bool json) {
  fmt::print("{}", json ? verification::to_json(report) + "\n" : verification::to_table(report));
  return report.ok() ? 0 : 1;
}

int verify_folder(const Words& given) {
  jobs::VerifyObserver observer;
  show_on_console(observer, !given.json);
  if (given.kernels) {
    std::vector<std::string> words = given.words;  // FOLDER is the first of them
    check(!fs::is_directory(given.folder),
          "[verify] --kernels takes a configuration, not the folder {}", given.folder);
    if (!given.folder.empty()) {
      words.insert(words.begin(), given.folder);
    }
    return show(
        jobs::verify_kernels(load_arguments(words, /*need_file=*/false), job_options(), observer),
        given.json);
  }
  check(!given.folder.empty(), "[verify] FOLDER is missing: a folder with io/ and model folders");
  observer.on_case = [&](const std::vector<verification::Row>& rows) {
    for (const verification::Row& row : rows) {
      // With --json the reasons go to stderr.
      if (given.json && !row.message.empty()) {
        warn(fmt::format("{} {}: {}", row.name, row.tensor, row.message));
      }
    }
  };
  const verification::Report report =
      jobs::verify(given.folder, load_arguments(given.words, /*need_file=*/false),
                   {.filter = given.filter,
                    .scan_on = given.scan != "off",
                    .scan_off = given.scan != "on",
                    .job = job_options()},
                   observer);
  return show(report, given.json);
}

}  // namespace

void add_verify(Program& program) {
  Command command = program.add("verify", "Compare this build and device with reference cases");
  const auto options = std::make_shared<Words>();
  command.option("FOLDER", options->folder, "a folder with io/ and model folders");
  command.option("key=value", options->words, "hardware, pjrt_plugin, ...");
  command.option("--filter", options->filter, "only cases whose name contains this");
  command.option("--scan", options->scan, "run the blocks in a loop, unrolled, or both")
      .one_of({"on", "off", "both"});
  command.flag("--kernels", options->kernels,
               "compare kernels of this device (attention, norm and rotation) with the same "
               "programs without them");
  command.flag("--json", options->json, "print JSON and nothing else");
  command.run([options] { return verify_folder(*options); });
}

}  // namespace kinema::cli
