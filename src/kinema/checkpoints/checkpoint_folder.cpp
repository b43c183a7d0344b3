#include "kinema/checkpoints/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "kinema/checkpoints/lazy_checkpoint.h"
#include "kinema/checkpoints/together.h"
#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/safetensors.h"

namespace kinema::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWriting = ".writing";
constexpr const char* kReplaced = ".replaced";

void check_finite(const fs::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  for (const io::TensorView& tensor : file.tensors()) {
    // The path of the file shows which expert it belongs to.
    check(all_finite(tensor.bytes, tensor.shape.dtype),
          "[checkpoint] {}: {} is not finite: it is not written",
          (path.parent_path().filename() / path.filename()).string(), tensor.name);
  }
}

/// Files below a folder without the manifest, as sorted relative paths.
std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) {
      files.push_back(entry.path().lexically_relative(folder).generic_string());
    }
  }
  std::erase(files, kManifest);
  std::sort(files.begin(), files.end());
  return files;
}

std::string manifest_text(io::Json files) {
  return io::Json::object({{"format", 1}, {"files", std::move(files)}}).dump() + "\n";
}

/// Moves the files of all processes into the checkpoint's folder, and lists them.
void join_parts(const fs::path& folder, const std::vector<std::string>& entries,
                const std::function<fs::path(int64_t rank)>& part) {
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    const fs::path from = part(static_cast<int64_t>(rank));
    const io::Json files = io::Json::parse(entries[rank], from.string());
    for (const io::Json& entry : files.items()) {
      const std::string& name = entry.at("path").as_string();
      fs::create_directories((folder / name).parent_path());
      fs::rename(from / name, folder / name);
    }
    fs::remove_all(from);
  }
  io::write_file(folder / kManifest, joined_manifest(entries));
}

void sync_below(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) {
      io::sync_folder(entry.path());
    }
  }
  io::sync_folder(folder);
}

/// True if a path of a manifest stays inside the folder.
bool stays_inside(const std::string& path) {
  const fs::path relative(path);
  return !path.empty() && relative.is_relative() &&
         std::none_of(relative.begin(), relative.end(),
                      [](const fs::path& part) { return part == ".."; });
}

std::string file_problem(const fs::path& folder, const io::Json& entry) {
  const std::string& name = entry.at("path").as_string();
  if (!stays_inside(name)) {
    return fmt::format("its manifest names `{}`", name);
  }
  std::error_code error;
  const auto bytes = fs::file_size(folder / name, error);
  if (error) {
    return fmt::format("{} is missing", name);
  }
  const int64_t expected = entry.at("bytes").as_int();
  if (static_cast<int64_t>(bytes) != expected) {
    return fmt::format("{} has {} bytes, its manifest says {}", name, bytes, expected);
  }
  if (!has_holes(entry) && io::hash_file(folder / name) != entry.at("xxh3_128").as_string()) {
    return fmt::format("{} does not match its checksum", name);
  }
  return "";
}

}  // namespace

std::string damage_text(const std::vector<CorruptCheckpoint>& damaged) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < damaged.size() && i < kMost; ++i) {
    out += fmt::format("{}{}: {}", i == 0 ? "" : "; ", damaged[i].folder.string(),
                       damaged[i].reason.substr(0, damaged[i].reason.find('\n')));
  }
  return damaged.size() > kMost ? fmt::format("{}; and {} more", out, damaged.size() - kMost) : out;
}

std::optional<int64_t> parse_step(const std::string& name) {
  const bool digits = !name.empty() && name.size() <= 18 &&
                      name.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || (name.size() > 1 && name[0] == '0')) {
    return std::nullopt;
  }
  return std::stoll(name);
}

std::vector<int64_t> steps_to_remove(const std::vector<int64_t>& steps, const Keep& keep) {
  std::vector<int64_t> out;
  int64_t newer = 0;  // valid ones
  for (auto step = steps.rbegin(); keep.newest > 0 && step != steps.rend(); ++step) {
    const bool is_of_period = keep.period > 0 && *step % keep.period == 0;
    if (newer >= keep.newest && !is_of_period) {
      out.push_back(*step);
    }
    newer += keep.corrupt.contains(*step) ? 0 : 1;
  }
  std::ranges::reverse(out);
  return out;
}

int64_t max_new_checkpoints(std::vector<int64_t> steps, const SavedSteps& run, Keep keep,
                            int64_t enough) {
  const auto before = std::ssize(steps);
  int64_t most = 0;
  const auto save = [&](int64_t step) {
    steps.push_back(step);
    most = std::max(most, std::ssize(steps) - before);
    keep.corrupt.erase(step);
    for (const int64_t old : steps_to_remove(steps, keep)) {
      std::erase(steps, old);
    }
  };
  // If old checkpoints are removed, the number soon becomes constant; otherwise a run may save a
  // million times.
  constexpr int64_t kLooked = 10000;
  int64_t saved = run.first;
  for (int64_t i = 0; run.every > 0 && i < kLooked && most < enough; ++i) {
    const int64_t next = (saved / run.every + 1) * run.every;
    if (next > run.last) {
      break;
    }
    save(next);
    saved = next;
  }
  if (run.at_end && saved < run.last && most < enough) {
    save(run.last);
  }
  return most;
}

std::vector<std::string> manifest_files(const std::string& text, const std::string& source) {
  const io::Json manifest = io::Json::parse(text, source);
  check(manifest.at("format").as_int() == 1, "[checkpoint] {} is of a later version of kinema",
        source);
  std::vector<std::string> out;
  for (const io::Json& entry : manifest.at("files").items()) {
    out.push_back(entry.at("path").as_string());
    check(stays_inside(out.back()), "[checkpoint] {} names `{}`", source, out.back());
  }
  return out;
}

io::Json manifest_entries(const fs::path& folder) {
  io::Json files = io::Json::array();
  for (const std::string& name : files_below(folder)) {
    if (fs::path(name).extension() == ".safetensors") {
      check_finite(folder / name);
    }
    files.append(io::Json::object({{"path", name},
                                   {"bytes", static_cast<int64_t>(fs::file_size(folder / name))},
                                   {"xxh3_128", io::hash_file(folder / name)}}));
  }
  return files;
}

void write_manifest(const fs::path& folder) {
  io::write_file(folder / kManifest, manifest_text(manifest_entries(folder)));
}

std::string joined_manifest(const std::vector<std::string>& entries) {
  std::map<std::string, io::Json> all;
  for (const std::string& of_process : entries) {
    const io::Json files = io::Json::parse(of_process, kManifest);
    for (const io::Json& entry : files.items()) {
      const std::string& name = entry.at("path").as_string();
      check(all.emplace(name, entry).second, "[checkpoint] two processes wrote {}", name);
    }
  }
  io::Json files = io::Json::array();
  for (auto& [name, entry] : all) {
    files.append(std::move(entry));
  }
  return manifest_text(std::move(files));
}

bool checkpoint_exists(const fs::path& folder) {
  try {
    const std::vector<std::string> files =
        manifest_files(io::read_text(folder / kManifest), kManifest);
    return std::ranges::all_of(files,
                               [&](const std::string& file) { return fs::exists(folder / file); });
  } catch (const std::exception&) {
    return false;
  }
}

std::string manifest_problem(const fs::path& folder) {
  if (!fs::exists(folder / kManifest)) {
    return "it has no manifest.json";
  }
  try {
    const io::Json manifest = io::Json::read(folder / kManifest);
    if (manifest.at("format").as_int() != 1) {
      return "its manifest is of a later version";
    }
    std::set<std::string> listed;
    for (const io::Json& entry : manifest.at("files").items()) {
      std::string problem = file_problem(folder, entry);
      if (!problem.empty()) {
        return problem;
      }
      listed.insert(entry.at("path").as_string());
    }
    for (const std::string& name : files_below(folder)) {
      if (!listed.contains(name)) {
        return fmt::format("{} is not in its manifest", name);
      }
    }
  } catch (const std::exception& error) {  // unreadable files and invalid JSON are corruption too
    return error.what();
  }
  return "";
}

std::string describe_parts(const fs::path& folder) {
  constexpr size_t kDigits = 12;
  std::map<std::string, std::string> parts;  // the checksums of a part's files
  const io::Json manifest = io::Json::read(folder / kManifest);
  for (const io::Json& entry : manifest.at("files").items()) {
    const fs::path path = entry.at("path").as_string();
    // A model is a part; each moment of the optimizer is a part, which may have several files.
    const std::string first = path.begin()->string();
    const std::string stem = path.filename().string();
    const std::string name = !path.has_parent_path() ? path.stem().string()
                             : first.starts_with("optimizer")
                                 ? first + "/" + stem.substr(0, stem.find_first_of(".-"))
                                 : first;
    parts[name] += path.generic_string() + entry.at("xxh3_128").as_string();
  }
  std::string out;
  for (const auto& [name, sums] : parts) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name,
                       io::hash_bytes(std::as_bytes(std::span(sums))).substr(0, kDigits));
  }
  return out;
}

void CheckpointFolder::write(int64_t step, const std::function<void(const fs::path&)>& fill) {
  publish(step, [&](const fs::path& folder) {
    fill(folder);
    write_manifest(folder);
  });
  remove_old(step);
}

void CheckpointFolder::write_together(int64_t step,
                                      const std::function<void(const fs::path&)>& fill,
                                      world::Communicator& others) {
  Together together(others, step);
  const fs::path shared = folder_ / (std::to_string(step) + kWriting);
  const auto own_folder = [&](int64_t rank) { return shared / fmt::format("process-{}", rank); };
  try {
    together.first([&] {
      fs::remove_all(shared);
      fs::create_directories(shared);
    });
    const std::vector<std::string> files = together.run([&] {
      const fs::path own = own_folder(together.rank());
      fs::create_directories(own);
      fill(own);
      const std::string entries = manifest_entries(own).dump(-1);
      sync_below(own);
      return entries;
    });
    together.first([&] {
      publish(
          step, [&](const fs::path& writing) { join_parts(writing, files, own_folder); },
          /*fresh=*/false);
      remove_old(step);
    });
  } catch (...) {
    std::error_code ignored;
    if (together.is_first()) {
      fs::remove_all(shared, ignored);
    }
    throw;
  }
}

std::string CheckpointFolder::bring(int64_t step,
                                    const std::function<void(const fs::path&)>& fill) const {
  struct Damaged {};
  std::string problem;
  try {
    publish(step, [&](const fs::path& folder) {
      fill(folder);
      problem = manifest_problem(folder);
      if (!problem.empty()) {
        throw Damaged();
      }
    });
  } catch (const Damaged&) {
    return problem;
  }
  return "";
}

void CheckpointFolder::publish(int64_t step, const std::function<void(const fs::path&)>& fill,
                               bool fresh) const {
  const fs::path final_path = path(step);
  const fs::path writing = folder_ / (std::to_string(step) + kWriting);
  try {
    if (fresh) {
      fs::remove_all(writing);
      fs::create_directories(writing);
    }
    fill(writing);
    sync_below(writing);
    if (fs::exists(final_path)) {  // a corrupt one that was skipped, or the same step again
      replace(writing, step);
    } else {
      fs::rename(writing, final_path);
      io::sync_folder(folder_);
    }
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(writing, ignored);
    fail("[checkpoint] {} could not be written: {}", final_path.string(), errno_text(error.code()));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(writing, ignored);
    throw;
  }
}

void CheckpointFolder::replace(const fs::path& complete, int64_t step) const {
  const fs::path final_path = path(step);
  fs::path old = complete;  // the name of the old checkpoint after the exchange
  if (!io::exchange(complete, final_path)) {
    old = folder_ / (std::to_string(step) + kReplaced);
    fs::remove_all(old);
    fs::rename(final_path, old);
    try {
      fs::rename(complete, final_path);
    } catch (...) {
      std::error_code ignored;  // else clean() does it
      fs::rename(old, final_path, ignored);
      throw;
    }
  }
  io::sync_folder(folder_);
  std::error_code ignored;  // else clean() removes it
  fs::remove_all(old, ignored);
}

void CheckpointFolder::remove(int64_t step) const {
  std::error_code ignored;  // an old checkpoint that stays does no harm
  fs::remove_all(path(step), ignored);
}

void CheckpointFolder::remove_old(int64_t step) {
  keep_.corrupt.erase(step);
  for (const int64_t old : steps_to_remove(steps(), keep_)) {
    remove(old);
  }
}

std::map<int64_t, fs::path> CheckpointFolder::folders() const {
  std::map<int64_t, fs::path> found;
  std::map<int64_t, fs::path> aside;
  std::error_code error;  // the folder does not exist, or an entry was removed during the listing
  for (auto entry = fs::directory_iterator(folder_, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path name = entry->path().filename();
    std::error_code gone;
    if (!entry->is_directory(gone)) {
      continue;
    }
    if (const std::optional<int64_t> step = parse_step(name.string())) {
      found[*step] = entry->path();
    } else if (const auto old = parse_step(name.stem().string());
               old && name.extension() == kReplaced) {
      aside[*old] = entry->path();
    }
  }
  found.merge(aside);  // if no other exists
  return found;
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> out;
  for (const auto& [step, folder] : folders()) {
    out.push_back(step);
  }
  return out;
}

Found CheckpointFolder::newest() const {
  for (std::map<int64_t, fs::path> all = folders();;) {
    Found found;
    for (auto each = all.rbegin(); each != all.rend() && !found.step; ++each) {
      const auto& [step, folder] = *each;
      const std::string problem = manifest_problem(folder);
      if (problem.empty()) {
        found.step = step;
        found.folder = folder;
      } else {
        found.corrupt.push_back({folder, problem});
      }
    }
    std::map<int64_t, fs::path> now = folders();
    if (found.corrupt.empty() || now == all) {
      return found;
    }
    all = std::move(now);
  }
}

void CheckpointFolder::clean() const {
  std::vector<fs::path> left;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder_, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path name = entry->path().filename();
    const bool ours = parse_step(name.stem().string()).has_value();
    if (ours && (name.extension() == kWriting || name.extension() == kReplaced)) {
      left.push_back(entry->path());
    }
  }
  for (const fs::path& path : left) {
    std::error_code ignored;
    const fs::path place = folder_ / path.stem();
    if (path.extension() == kReplaced && !fs::exists(place, ignored)) {
      fs::rename(path, place, ignored);
    } else {
      fs::remove_all(path, ignored);
    }
  }
}

}  // namespace kinema::checkpoints
