#include "kinema/checkpoints/checkpoint_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "kinema/core/error.h"

namespace kinema::checkpoints {
namespace {

namespace fs = std::filesystem;

std::string gigabytes(int64_t bytes) {
  constexpr double kMega = 1e6;
  constexpr double kGiga = 1e9;
  const auto value = static_cast<double>(bytes);
  return value < kGiga ? fmt::format("{:.1f} MB", value / kMega)
                       : fmt::format("{:.1f} GB", value / kGiga);
}

std::string kept(const Keep& keep) {
  if (keep.newest == 0) {
    return "all are kept";
  }
  const std::string newest =
      keep.newest == 1 ? "the newest is kept" : fmt::format("the newest {} are kept", keep.newest);
  return keep.period == 0 ? newest : fmt::format("{}, and every {} steps", newest, keep.period);
}

int64_t free_bytes(fs::path folder) {
  std::error_code error;
  while (!folder.empty() && !fs::exists(folder, error) && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const fs::space_info info = fs::space(folder.empty() ? fs::path(".") : folder, error);
  constexpr auto kMost = static_cast<uintmax_t>(std::numeric_limits<int64_t>::max());
  // What cannot be asked is not held against the run.
  return static_cast<int64_t>(error ? kMost : std::min<uintmax_t>(info.available, kMost));
}

}  // namespace

CheckpointSpace checkpoint_space(const fs::path& folder, int64_t bytes, const SavedSteps& run,
                                 const Keep& keep) {
  CheckpointSpace out{
      .folder = folder, .bytes = bytes, .available = free_bytes(folder), .keep = keep};
  const int64_t enough = out.available / std::max<int64_t>(bytes, 1) + 1;
  out.most = max_new_checkpoints(CheckpointFolder(folder).steps(), run, keep, enough);
  return out;
}

std::string describe(const CheckpointSpace& space) {
  return space.most == 0
             ? ""
             : fmt::format("checkpoints: {} each, {}, {} are free", gigabytes(space.bytes),
                           kept(space.keep), gigabytes(space.available));
}

std::vector<std::string> check_space(const CheckpointSpace& space) {
  check(
      space.most == 0 || space.bytes <= space.available,
      "[train] a checkpoint takes {}, but {} are free in {}\n  checkpoint_dir names another disk; "
      "save_optimizer=false leaves the optimizer out",
      gigabytes(space.bytes), gigabytes(space.available), space.folder.string());
  if (static_cast<double>(space.most) * static_cast<double>(space.bytes) <=
      static_cast<double>(space.available)) {
    return {};
  }
  return {fmt::format(
      "the disk will be full before the run ends: checkpoints take {} each and {}, but {} are free "
      "in {}; checkpoints_to_keep says how many stay",
      gigabytes(space.bytes), kept(space.keep), gigabytes(space.available), space.folder.string())};
}

}  // namespace kinema::checkpoints
