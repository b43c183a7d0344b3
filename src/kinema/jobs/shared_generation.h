#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/jobs/generate.h"
#include "kinema/mesh/placement.h"
#include "kinema/model_source/model_to_use.h"
#include "kinema/pjrt/client.h"
#include "kinema/sample/output.h"

/// Videos of one job by several processes. Either they share them out: each makes some, all of a
/// video by itself, and process 0 writes what they have together. Or, where the mesh is for the
/// devices of all, they make each of them together, and process 0 decodes and writes. All processes
/// call each of these at the same point; none does anything in one process.
namespace kinema::jobs {

/// The step of process 0's newest checkpoint, which all processes use: a process that looks a
/// moment later may find a newer one. Nothing in one process, or where there is none.
std::optional<int64_t> agree_on_checkpoint(const std::function<model_source::ModelToUse()>& find,
                                           const Job& job);

/// Throws CheckpointRemoved in all processes where it was `removed` for any of them.
void check_still_there(const std::filesystem::path& checkpoint, bool removed, const Job& job);
/// `read`, which reads the checkpoint in all processes; throws CheckpointRemoved in all where it
/// failed in one because the checkpoint was removed. In one process `read` alone.
void read_together(const std::filesystem::path& checkpoint, const std::function<void()>& read,
                   const Job& job);

/// That prompts and images are the same, and that all see the folder of the videos (empty: it is in
/// a store).
void check_same_request(const sample::GenerateRequest& request, const std::filesystem::path& output,
                        const Job& job);

/// The devices that videos are made over.
struct VideoDevices {
  pjrt::Client client;
  mesh::Placement place;
  bool together = false;  // they are those of all processes
};
/// Opens this process's own; where the axes of the mesh multiply to more, those of all processes.
VideoDevices open_for_videos(const resolve::Settings& config, const Job& job);

/// What this process does of the request.
void set_share(sample::GenerateRequest& request, bool together, const Job& job);

/// How many videos each process makes, as a line.
void log_shares(const sample::GenerateRequest& request, bool together, const Job& job);

/// What is wrong in the first process in which something is, with whose it is unless all have it;
/// empty: nothing. Waits so many seconds for the others.
std::string first_problem(const std::string& own, const Job& job, double seconds);
/// The same for PipelineOptions::agree.
std::string agree_on_problem(const std::string& own, const Job& job);

/// Process 0 writes the latents of all to `path`, where one is given.
void write_latents_of_all(const std::filesystem::path& path,
                          std::span<const sample::GeneratedVideo> own, const Job& job);

/// Process 0 gets what the others have made behind its own: where their files are and what the
/// contact sheet shows, what took longest, and the sums of steps.
void gather_videos(GenerateResult& result, std::vector<sample::ListedVideo>& listed,
                   const Job& job);

}  // namespace kinema::jobs
