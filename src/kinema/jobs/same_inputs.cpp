#include "kinema/jobs/same_inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/world/consistency.h"

namespace kinema::jobs {
namespace {

std::string print_of(const HostArray& array) {
  const auto* const bytes = reinterpret_cast<const char*>(array.bytes.data());
  return fmt::format("{:016x}", fingerprint({bytes, array.bytes.size()}));
}

}  // namespace

void check_same_devices(const pjrt::Client& client, const Job& job) {
  if (job.world().is_alone()) {
    return;
  }
  const pjrt::Plugin& plugin = client.plugin();
  std::error_code error;
  world::StartRecord record;
  record.emplace_back("the plugin", fmt::format("{} {}, PJRT {}.{}, {} bytes",
                                                client.platform_name(), client.platform_version(),
                                                plugin.major_version(), plugin.minor_version(),
                                                std::filesystem::file_size(plugin.path(), error)));
  record.emplace_back("devices in all", std::to_string(client.devices().size()));
  record.emplace_back("devices of a process", std::to_string(client.addressable_devices().size()));
  world::check_consistent(job.world(), record, "the devices");
}

void check_shared_folder(const std::filesystem::path& folder, const std::string& key,
                         const Job& job) {
  world::World& world = job.world();
  if (world.is_alone()) {
    return;
  }
  constexpr double kTimeout = 10;  // seconds: network file systems show new files late
  const world::Wait wait{.what = "the folder " + folder.string(), .seconds = 300};
  std::string token;
  if (world.is_first()) {
    token = fmt::format(".seen-by-all-{}", getpid());
    io::make_folder(folder);
    io::write_file(folder / token, world.text());
  }
  token = world.communicator().broadcast(token, wait);
  bool sees = false;
  for (const Stopwatch watch; !sees && watch.seconds() < kTimeout;) {
    std::error_code error;
    sees = std::filesystem::exists(folder / token, error);
    if (!sees) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  const std::vector<std::string> all = world.communicator().gather(sees ? "" : "blind", wait);
  if (world.is_first()) {
    std::error_code ignored;
    std::filesystem::remove(folder / token, ignored);
  }
  std::vector<int64_t> blind;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      blind.push_back(static_cast<int64_t>(rank));
    }
  }
  check(blind.empty(),
        "[world] {} {} not see what process 0 writes to {}\n  {} must lie on a disk that all hosts "
        "share",
        world::ranks_text(blind), blind.size() == 1 ? "does" : "do", folder.string(), key);
}

void check_same_data(const data::Source& source, int64_t position, const Job& job) {
  if (job.world().is_alone()) {
    return;
  }
  const data::Sample first = source.at(position);
  world::check_consistent(job.world(),
                          {{"samples of the data", std::to_string(source.size())},
                           {"the next sample", first.id},
                           {"its latents", print_of(first.latents)},
                           {"its text states", print_of(first.encoder_hidden_states)}},
                          "the data");
}

}  // namespace kinema::jobs
