#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/jobs/generate.h"
#include "kinema/mesh/placement.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/output.h"

/// Sampling by several processes. Either they divide the videos: each process makes complete
/// videos, and process 0 writes the files about all of them. Or, if the mesh covers the devices of
/// all processes, they make each video together, and process 0 decodes and writes it. All functions
/// are collective, and do nothing with one process.
namespace kinema::jobs {

/// The step of process 0's newest checkpoint, which all processes use, because a later look may
/// find a newer one. Nothing with one process, or without a checkpoint.
std::optional<int64_t> agree_on_checkpoint(const std::function<model_source::SelectedModel()>& find,
                                           const Job& job);

/// Throws CheckpointRemoved in all processes if it was `removed` for any of them.
void check_not_removed(const std::filesystem::path& checkpoint, bool removed, const Job& job);
/// Calls `read`, which reads the checkpoint, in all processes; throws CheckpointRemoved in all if
/// one failed because the checkpoint was removed. With one process it only calls `read`.
void read_together(const std::filesystem::path& checkpoint, const std::function<void()>& read,
                   const Job& job);

/// Throws an Error unless all have the same prompts and images, and all see the folder of the
/// videos (empty: it is in a store).
void check_same_request(const sample::GenerateRequest& request, const std::filesystem::path& output,
                        const Job& job);

/// The devices that make videos.
struct VideoDevices {
  pjrt::Client client;
  mesh::Placement place;
  bool together = false;  // they are those of all processes
};
/// Opens this process's devices, or those of all processes if the mesh has more than that.
VideoDevices open_for_videos(const resolve::Settings& config, const Job& job);

/// Sets this process's share of the request.
void set_share(sample::GenerateRequest& request, bool together, const Job& job);

/// Prints how many videos each process makes.
void log_shares(const sample::GenerateRequest& request, bool together, const Job& job);

/// The first process's problem, with the name of its process unless all have it; empty: none. Waits
/// up to `seconds` for the others.
std::string first_problem(const std::string& own, const Job& job, double seconds);
/// The same for PipelineOptions::agree.
std::string agree_on_problem(const std::string& own, const Job& job);

/// Process 0 writes the latents of all videos to `path`, if it is given.
void write_latents_of_all(const std::filesystem::path& path,
                          std::span<const sample::GeneratedVideo> own, const Job& job);

/// Appends the other processes' videos to those of process 0: paths of their files, frames for the
/// contact sheet, the longest times, and the sums of steps.
void gather_videos(GenerateResult& result, std::vector<sample::ListedVideo>& listed,
                   const Job& job);

}  // namespace kinema::jobs
