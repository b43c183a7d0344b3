#include "kinema/checkpoints/stored_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "kinema/checkpoints/together.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"

namespace kinema::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kUnsent = ".unsent";
constexpr const char* kOfHost = ".of-";
constexpr int kTransfers = 4;

fs::path mark_in(const fs::path& checkpoints, int64_t step) {
  return checkpoints / (std::to_string(step) + kUnsent);
}

/// The local checkpoint folders on this machine, of runs of one and of several processes.
std::vector<CheckpointFolder> folders_in(const fs::path& root) {
  std::vector<CheckpointFolder> out{CheckpointFolder(root)};
  std::vector<fs::path> of_hosts;
  std::error_code error;
  for (auto entry = fs::directory_iterator(root, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kOfHost)) {
      of_hosts.push_back(entry->path());
    }
  }
  std::ranges::sort(of_hosts);
  for (fs::path& each : of_hosts) {
    out.emplace_back(std::move(each));
  }
  return out;
}

/// The steps with a marker file in the folder, oldest first.
std::vector<int64_t> marked(const CheckpointFolder& folder) {
  std::vector<int64_t> out = folder.steps();
  std::erase_if(out, [&](int64_t step) { return !fs::exists(mark_in(folder.path(), step)); });
  return out;
}

std::string manifest_name(int64_t step) { return std::to_string(step) + "/" + kManifest; }

/// Steps with a manifest, oldest first.
std::vector<int64_t> stored_steps(const remote::Store& store) {
  std::vector<int64_t> out;
  for (const remote::StoredFile& file : store.list()) {
    const std::optional<int64_t> step = parse_step(file.name.substr(0, file.name.find('/')));
    if (step && file.name == manifest_name(*step)) {
      out.push_back(*step);
    }
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

std::optional<int64_t> newest_step(const remote::Store& store) {
  const std::vector<int64_t> steps = stored_steps(store);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::optional<int64_t> newest_unsent(const fs::path& root) {
  std::optional<int64_t> out;
  for (const CheckpointFolder& folder : folders_in(root)) {
    for (const int64_t step : marked(folder)) {
      if (checkpoint_exists(folder.path(step))) {
        out = std::max(step, out.value_or(step));
      }
    }
  }
  return out;
}

StoredCheckpoints::StoredCheckpoints(remote::Store store, fs::path root, Keep keep, Say say,
                                     const std::string& host)
    : store_(std::move(store)),
      root_(std::move(root)),
      local_(host.empty() ? root_ : root_ / (kOfHost + host)),
      keep_(std::move(keep)),
      say_(std::move(say)) {}

void StoredCheckpoints::keep(const Keep& which) {
  keep_.newest = which.newest;
  keep_.period = which.period;
  keep_.corrupt.insert(which.corrupt.begin(), which.corrupt.end());
}

fs::path StoredCheckpoints::mark(int64_t step) const { return mark_in(local_.path(), step); }

/// Valid local checkpoints that the store lacks, oldest first.
std::vector<int64_t> StoredCheckpoints::unsent() const { return marked(local_); }

/// True if a local folder has the same manifest as the store.
bool StoredCheckpoints::is_copy(const CheckpointFolder& folder, int64_t step) const {
  const fs::path local = folder.path(step) / kManifest;
  return fs::exists(local) && io::read_text(local) == store_.read(manifest_name(step));
}

/// Checkpoints that runs on this machine could not upload, of one or of several processes.
std::vector<StoredCheckpoints::Unsent> StoredCheckpoints::local_unsent() const {
  const std::vector<int64_t> stored = stored_steps(store_);
  std::vector<Unsent> out;
  for (const CheckpointFolder& folder : folders_in(root_)) {
    for (const int64_t step : marked(folder)) {
      std::error_code ignored;
      if (std::ranges::binary_search(stored, step) && is_copy(folder, step)) {
        fs::remove(mark_in(folder.path(), step), ignored);
      } else if (const std::string problem = manifest_problem(folder.path(step)); problem.empty()) {
        out.push_back({.step = step,
                       .checkpoints = folder.path(),
                       .manifest = io::hash_file(folder.path(step) / kManifest)});
      } else {
        say_(fmt::format("{}, which was not sent to {}, is skipped: {}", folder.path(step).string(),
                         store_.path().text(), problem));
      }
    }
  }
  return out;
}

/// A run resumes from the checkpoints of one folder; several hosts may share that folder.
void StoredCheckpoints::check_one_history(const std::vector<Unsent>& all) const {
  std::map<std::pair<int64_t, std::string>, std::set<std::string>> by_folder;
  for (const Unsent& each : all) {
    by_folder[{each.rank, each.checkpoints.string()}].insert(std::to_string(each.step) + " " +
                                                             each.manifest);
  }
  for (const auto& [place, held] : by_folder) {
    const auto& [first, first_held] = *by_folder.begin();
    check(held == first_held,
          "[train] {} (process {}) and {} (process {}) hold different checkpoints that were not "
          "sent to {}: the run can resume from only one of these folders\n  remove the folders "
          "with the checkpoints that you do not want",
          first.second, first.first, place.second, place.first, store_.path().text());
  }
}

/// Uploads them; folders of other kinds of runs are then removed.
void StoredCheckpoints::send_unsent(const std::vector<Unsent>& left) {
  for (const Unsent& each : left) {
    const CheckpointFolder from(each.checkpoints);
    say_(fmt::format("{}, which an earlier run could not send, is sent to {}",
                     from.path(each.step).string(), store_.path().text()));
    send(from, each.step);
    if (each.checkpoints != local_.path()) {
      from.remove(each.step);
    }
  }
}

/// The process of lowest rank that sees a checkpoint uploads it; all processes know the list and
/// the result.
void StoredCheckpoints::send_unsent_together(world::World& world, bool looks) {
  constexpr double kLongest = 4 * 3600;  // seconds
  const auto agree = [&](const std::function<std::string()>& work) {
    std::string said;
    try {
      said = "+" + work();
    } catch (const std::exception& error) {
      said = std::string("-") + error.what();
    }
    std::vector<std::string> all = world.communicator().gather(
        said, {.what = "checkpoints that were not sent", .seconds = kLongest});
    for (std::string& each : all) {
      check(each.starts_with('+'), "{}", each.substr(1));
      each.erase(0, 1);
    }
    return all;
  };
  std::vector<Unsent> own;
  const std::vector<std::string> told = agree([&] {
    io::Json list = io::Json::array();
    own = looks ? local_unsent() : std::vector<Unsent>();
    for (const Unsent& each : own) {
      list.append(io::Json::object({{"step", each.step},
                                    {"folder", each.checkpoints.string()},
                                    {"manifest", each.manifest}}));
    }
    return list.dump(-1);
  });
  std::vector<Unsent> all;
  for (size_t rank = 0; rank < told.size(); ++rank) {
    const io::Json list = io::Json::parse(told[rank], "checkpoints that were not sent");
    for (const io::Json& each : list.items()) {
      all.push_back({.step = each.at("step").as_int(),
                     .checkpoints = each.at("folder").as_string(),
                     .manifest = each.at("manifest").as_string(),
                     .rank = static_cast<int64_t>(rank)});
    }
  }
  check_one_history(all);
  if (all.empty()) {
    return;
  }
  agree([&] {
    if (all.front().rank == world.rank()) {
      send_unsent(own);
    }
    return std::string();
  });
}

void StoredCheckpoints::begin(int64_t step) const {
  io::make_folder(local_.path());
  io::write_file(mark(step), "");
}

void StoredCheckpoints::send(const CheckpointFolder& from, int64_t step) {
  const fs::path folder = from.path(step);
  const std::vector<std::string> files =
      manifest_files(io::read_text(folder / kManifest), (folder / kManifest).string());
  const std::string there = std::to_string(step);
  store_.remove(manifest_name(step));  // of another checkpoint of this step
  for_each_in_parallel(files.size(), kTransfers,
                       [&](size_t i) { store_.upload(folder / files[i], there + "/" + files[i]); });
  store_.upload(folder / kManifest, manifest_name(step));
  keep_.corrupt.erase(step);
  std::error_code ignored;  // else it would be uploaded again
  fs::remove(mark_in(from.path(), step), ignored);
}

void StoredCheckpoints::push() {
  std::string problem;
  try {
    std::vector<int64_t> steps = unsent();
    std::ranges::reverse(steps);
    for (const int64_t step : steps) {
      send(local_, step);
    }
    remove_old();
  } catch (const std::exception& error) {
    problem = error.what();
    say_(problem.substr(0, problem.find('\n')) + "\n  the checkpoint is in " +
         local_.path().string() + "; it is sent with the next one");
  }
  const std::scoped_lock lock(mutex_);
  problem_ = problem;
}

void StoredCheckpoints::check_sent() const {
  const std::vector<int64_t> left = unsent();
  if (left.empty()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  fail("[checkpoint] step {} is not in {}: {}\n  it is complete in {}; the same command uploads it",
       left.back(), store_.path().text(), problem_.substr(0, problem_.find('\n')),
       local_.path(left.back()).string());
}

void StoredCheckpoints::remove_old() const {
  const std::vector<int64_t> stored = stored_steps(store_);
  for (const int64_t step : steps_to_remove(stored, keep_)) {
    store_.remove(manifest_name(step));
    store_.remove_folder(std::to_string(step));
  }
  // Only the newest is needed locally: a restarted run resumes from it without a download.
  const std::vector<int64_t> local = local_.steps();
  for (size_t i = 0; i + 1 < local.size(); ++i) {
    if (!fs::exists(mark(local[i]))) {
      local_.remove(local[i]);
    }
  }
}

void StoredCheckpoints::pull() {
  io::make_folder(local_.path());
  local_.clean();
  const std::vector<Unsent> left = local_unsent();
  check_one_history(left);
  send_unsent(left);
  const std::vector<int64_t> stored = stored_steps(store_);
  for (const int64_t step : local_.steps()) {
    const bool is_stored = std::ranges::binary_search(stored, step);
    if (!fs::exists(mark(step)) && !(is_stored && is_copy(local_, step))) {
      local_.remove(step);  // the store has another one, or none
    }
  }
  restore_newest(stored);
}

/// Ignores a checkpoint of the store.
void StoredCheckpoints::skip(int64_t step, const std::string& problem) {
  keep_.corrupt.insert(step);
  say_(fmt::format("{} is skipped: {}", store_.path().below(std::to_string(step)).text(), problem));
}

void StoredCheckpoints::restore_newest(const std::vector<int64_t>& stored) {
  for (auto step = stored.rbegin(); step != stored.rend(); ++step) {
    if (manifest_problem(local_.path(*step)).empty()) {
      return;  // a copy: pull() removed the others
    }
    const std::string problem =
        local_.bring(*step, [&](const fs::path& folder) { receive(*step, folder); });
    if (problem.empty()) {
      return;
    }
    skip(*step, problem);
  }
  check(stored.empty(),
        "[train] the run's checkpoints are all corrupt: refusing to start over\n  restore {} "
        "completely, remove the folder, or choose another run_name",
        stored.empty() ? "" : store_.path().below(std::to_string(stored.back())).text());
}

/// Downloads the files in the manifest; files that are missing in the store stay missing.
void StoredCheckpoints::receive(int64_t step, const fs::path& folder) const {
  const std::string manifest = store_.read(manifest_name(step));
  io::write_file(folder / kManifest, manifest);
  std::vector<std::string> files;
  try {
    files = manifest_files(manifest, kManifest);
  } catch (const Error&) {
    return;  // the reader of the folder reports the reason
  }
  for_each_in_parallel(files.size(), kTransfers, [&](size_t i) {
    const auto file = store_.find(std::to_string(step) + "/" + files[i]);
    if (file) {
      io::make_folder((folder / files[i]).parent_path());
      store_.download(*file, folder / files[i]);
    }
  });
}

void StoredCheckpoints::pull_together(world::World& world) {
  const world::Wait wait{.what = "the newest checkpoint", .seconds = 4 * 3600};
  const bool brings = world.launch().local_rank.value_or(0) == 0;
  if (brings) {
    io::make_folder(local_.path());
    local_.clean();
  }
  send_unsent_together(world, brings);
  std::string listed;
  if (world.is_first()) {
    for (const int64_t step : stored_steps(store_)) {
      listed = fmt::format("{} {}", step, listed);  // newest first
    }
  }
  listed = world.communicator().broadcast(listed, wait);
  std::istringstream steps(listed);
  for (int64_t step = 0; steps >> step;) {
    std::string problem;
    if (brings && !(manifest_problem(local_.path(step)).empty() && is_copy(local_, step))) {
      local_.remove(step);
      problem = local_.bring(
          step, [&](const fs::path& folder) { LazyCheckpoint::make(store_, step, folder); });
    }
    std::string found;
    for (const std::string& each : world.communicator().gather(problem, wait)) {
      found = each.empty() ? found : each;
    }
    for (const int64_t other : brings ? local_.steps() : std::vector<int64_t>()) {
      if (other != step || !found.empty()) {
        local_.remove(other);
      }
    }
    if (found.empty()) {
      lazy_.emplace(store_, step, local_.path(step));
      return;
    }
    skip(step, found);
  }
  check(listed.empty(),
        "[train] the run's checkpoints are all corrupt: refusing to start over\n  restore {} "
        "completely, remove the folder, or choose another run_name",
        store_.path().below(listed.substr(0, listed.find(' '))).text());
}

std::string StoredCheckpoints::restored(world::World& world) {
  if (!lazy_) {
    return "";
  }
  constexpr double kMega = 1e6;
  const int64_t step = lazy_->step();
  const auto whole = static_cast<double>(lazy_->bytes());
  const std::vector<std::string> all =
      world.communicator().gather(std::to_string(lazy_->bytes_downloaded()),
                                  {.what = "the restored checkpoint", .seconds = 4 * 3600});
  lazy_.reset();
  if (world.launch().local_rank.value_or(0) == 0) {
    local_.remove(step);
  }
  double sum = 0;
  std::string each;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const double came = std::stod(all[rank]);
    sum += came;
    if (came > 0 && rank < 8) {
      each += fmt::format("{}process {} {:.1f} MB", each.empty() ? "" : ", ", rank, came / kMega);
    }
  }
  if (sum == 0) {
    return "";
  }
  return fmt::format("{:.1f} MB were downloaded from {}, which has {:.1f} MB ({})", sum / kMega,
                     store_.path().below(std::to_string(step)).text(), whole / kMega, each);
}

/// Tries again while the store cannot be written.
void StoredCheckpoints::send_part(int64_t step, const fs::path& part,
                                  const io::Json& entries) const {
  constexpr double kLongest = 1800;  // seconds
  bool told = false;
  for (const Stopwatch watch;;) {
    try {
      for_each_in_parallel(entries.items().size(), kTransfers, [&](size_t i) {
        const std::string& name = entries.items()[i].at("path").as_string();
        store_.upload(part / name, std::to_string(step) + "/" + name);
      });
      return;
    } catch (const Error& error) {
      if (watch.seconds() > kLongest) {
        throw;
      }
      const std::string what = error.what();
      if (!std::exchange(told, true)) {
        say_(what.substr(0, what.find('\n')) + "\n  the checkpoint is sent when it can be again");
      }
      std::this_thread::sleep_for(std::chrono::seconds(10));
    }
  }
}

void StoredCheckpoints::write_together(int64_t step,
                                       const std::function<void(const fs::path&)>& fill,
                                       world::Communicator& others) {
  Together together(others, step);
  const fs::path own =
      local_.path() / fmt::format("{}.writing", step) / fmt::format("process-{}", together.rank());
  const auto gone = [&] {
    std::error_code ignored;
    fs::remove_all(own, ignored);
    fs::remove(own.parent_path(), ignored);  // by the last process of this host
  };
  try {
    together.first([&] { store_.remove(manifest_name(step)); });
    const std::vector<std::string> files = together.run([&] {
      fs::remove_all(own);
      fs::create_directories(own);
      fill(own);
      const io::Json entries = manifest_entries(own);
      send_part(step, own, entries);
      return entries.dump(-1);
    });
    together.first([&] {
      store_.write(manifest_name(step), joined_manifest(files));
      keep_.corrupt.erase(step);
      for (const int64_t old : steps_to_remove(stored_steps(store_), keep_)) {
        store_.remove(manifest_name(old));
        store_.remove_folder(std::to_string(old));
      }
    });
  } catch (...) {
    gone();
    throw;
  }
  gone();
}

}  // namespace kinema::checkpoints
