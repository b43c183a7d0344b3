#include "kinema/runs/checkpoint_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "kinema/core/error.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

std::string gigabytes(int64_t bytes) {
  constexpr double kMega = 1e6;
  constexpr double kGiga = 1e9;
  const auto value = static_cast<double>(bytes);
  return value < kGiga ? fmt::format("{:.1f} MB", value / kMega)
                       : fmt::format("{:.1f} GB", value / kGiga);
}

std::string kept(const checkpoints::Keep& keep) {
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
  const fs::space_info space = fs::space(folder.empty() ? fs::path(".") : folder, error);
  constexpr auto kMost = static_cast<uintmax_t>(std::numeric_limits<int64_t>::max());
  // What cannot be asked is not held against the run.
  return static_cast<int64_t>(error ? kMost : std::min<uintmax_t>(space.available, kMost));
}

}  // namespace

CheckpointRoom checkpoint_room(const fs::path& folder, int64_t bytes,
                               const checkpoints::SavedSteps& run, const checkpoints::Keep& keep) {
  CheckpointRoom out{
      .folder = folder, .bytes = bytes, .available = free_bytes(folder), .keep = keep};
  const int64_t enough = out.available / std::max<int64_t>(bytes, 1) + 1;
  out.most = checkpoints::most_new_checkpoints(checkpoints::CheckpointFolder(folder).steps(), run,
                                               keep, enough);
  return out;
}

std::string describe(const CheckpointRoom& room) {
  return room.most == 0
             ? ""
             : fmt::format("checkpoints: {} each, {}, {} are free", gigabytes(room.bytes),
                           kept(room.keep), gigabytes(room.available));
}

std::vector<std::string> check_room(const CheckpointRoom& room) {
  check(
      room.most == 0 || room.bytes <= room.available,
      "[train] a checkpoint takes {}, but {} are free in {}\n  checkpoint_dir names another disk; "
      "save_optimizer=false leaves the optimizer out",
      gigabytes(room.bytes), gigabytes(room.available), room.folder.string());
  if (static_cast<double>(room.most) * static_cast<double>(room.bytes) <=
      static_cast<double>(room.available)) {
    return {};
  }
  return {fmt::format(
      "the disk will be full before the run ends: checkpoints take {} each and {}, but {} are free "
      "in {}; checkpoints_to_keep says how many stay",
      gigabytes(room.bytes), kept(room.keep), gigabytes(room.available), room.folder.string())};
}

}  // namespace kinema::runs
