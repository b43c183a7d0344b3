#include "kinema/jobs/shared_generation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/core/quantities.h"
#include "kinema/io/json.h"
#include "kinema/jobs/same_inputs.h"
#include "kinema/resolve/device.h"
#include "kinema/world/consistency.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// The heartbeat detects lost processes; a video may take long.
world::Wait for_what(const char* what) { return {.what = what, .seconds = 30 * 24 * 3600.0}; }

std::string_view text_of(const HostArray& array) {
  return {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()};
}

void send(const HostArray& array, world::World& world) {
  const world::Wait wait = for_what("the results");
  world.communicator().send(
      io::Json::array({array.shape.dims.begin(), array.shape.dims.end()}).dump(-1), 0, wait);
  world.communicator().send(text_of(array), 0, wait);
}

HostArray receive(DType dtype, int64_t from, world::World& world) {
  const world::Wait wait = for_what("the results");
  const io::Json dims =
      io::Json::parse(world.communicator().receive(from, wait), world.name_of(from));
  const std::string bytes = world.communicator().receive(from, wait);
  if (bytes.empty()) {
    return {};
  }
  HostArray out(Shape{dtype, dims.as_ints()});
  check(out.bytes.size() == bytes.size(), "[generate] {} sent {} bytes for {}", world.name_of(from),
        bytes.size(), to_string(out.shape));
  std::memcpy(out.bytes.data(), bytes.data(), bytes.size());
  return out;
}

io::Json to_json(const sample::Timings& t) {
  return io::Json::array({t.load, t.text, t.image, t.compile, t.denoise, t.decode});
}

sample::Timings timings_of(const io::Json& json) {
  const auto at = [&](size_t i) { return json.items().at(i).as_number(); };
  return {.load = at(0),
          .text = at(1),
          .image = at(2),
          .compile = at(3),
          .denoise = at(4),
          .decode = at(5)};
}

/// The description of a process's videos for process 0, without their frames.
io::Json describe(const GenerateResult& result, const std::vector<sample::ListedVideo>& listed) {
  io::Json videos = io::Json::array();
  for (size_t i = 0; i < result.videos.size(); ++i) {
    const GenerateResult::Video& each = result.videos[i];
    videos.append(io::Json::object({{"path", each.path},
                                    {"prompt", each.prompt},
                                    {"index", each.index},
                                    {"frames_folder", each.frames_folder},
                                    {"file_name", listed[i].file_name}}));
  }
  return io::Json::object({{"videos", std::move(videos)},
                           {"steps", result.made.steps},
                           {"reused_steps", result.made.reused_steps},
                           {"peak_bytes", result.made.peak_bytes},
                           {"timings", to_json(result.made.timings)}});
}

void add(const io::Json& told, GenerateResult& result, std::vector<sample::ListedVideo>& listed) {
  for (const io::Json& each : told.at("videos").items()) {
    result.videos.push_back({.path = each.at("path").as_string(),
                             .prompt = each.at("prompt").as_string(),
                             .index = each.at("index").as_int(),
                             .frames_folder = each.at("frames_folder").as_string()});
    listed.push_back(
        {.file_name = each.at("file_name").as_string(), .prompt = each.at("prompt").as_string()});
  }
  sample::Generated& made = result.made;
  made.steps += told.at("steps").as_int();
  made.reused_steps += told.at("reused_steps").as_int();
  made.peak_bytes = std::max(made.peak_bytes, told.at("peak_bytes").as_int());
  const sample::Timings timings = timings_of(told.at("timings"));
  if (timings.total() > made.timings.total()) {
    made.timings = timings;
  }
}

}  // namespace

std::optional<int64_t> agree_on_checkpoint(const std::function<model_source::SelectedModel()>& find,
                                           const Job& job) {
  world::World& world = job.world();
  if (world.is_alone()) {
    return std::nullopt;
  }
  const std::optional<int64_t> own = world.is_first() ? find().step : std::nullopt;
  const std::string step =
      world.communicator().broadcast(own ? std::to_string(*own) : "", for_what("the checkpoint"));
  return step.empty() ? std::nullopt : std::optional(std::stoll(step));
}

void check_not_removed(const fs::path& checkpoint, bool removed, const Job& job) {
  const std::vector<std::string> all =
      job.world().communicator().gather(removed ? "removed" : "", for_what("the checkpoint"));
  if (std::ranges::any_of(all, [](const std::string& each) { return !each.empty(); })) {
    throw model_source::CheckpointRemoved(checkpoint);
  }
}

void read_together(const fs::path& checkpoint, const std::function<void()>& read, const Job& job) {
  if (job.world().is_alone()) {
    read();
    return;
  }
  std::exception_ptr problem;
  try {
    read();
  } catch (const Error&) {
    problem = std::current_exception();
  }
  check_not_removed(checkpoint, problem && model_source::was_removed(checkpoint), job);
  if (problem) {
    std::rethrow_exception(problem);
  }
}

void check_same_request(const sample::GenerateRequest& request, const fs::path& output,
                        const Job& job) {
  if (job.world().is_alone()) {
    return;
  }
  const auto print = [](std::string_view text) {
    return fmt::format("{:016x}", fingerprint(text));
  };
  world::check_consistent(
      job.world(),
      {{"the number of prompts", std::to_string(request.prompts.size())},
       {"the prompts", print(fmt::format("{}", fmt::join(request.prompts, "\n")))},
       {"the first image", print(text_of(request.files.images.first))},
       {"the last image", print(text_of(request.files.images.last))},
       {"the poses", print(text_of(request.files.animation.poses))},
       {"the faces", print(text_of(request.files.animation.faces))},
       {"the background", print(text_of(request.files.animation.background))},
       {"the masks", print(text_of(request.files.animation.mask))}},
      "the prompts");
  if (!output.empty()) {
    fs::path there = fs::absolute(output);  // the folder itself is created with the first video
    std::error_code ignored;
    while (!fs::is_directory(there, ignored) && there.has_relative_path()) {
      there = there.parent_path();
    }
    check_shared_folder(there, fmt::format("the folder of the {}s", request.noun), job);
  }
}

VideoDevices open_for_videos(const resolve::Settings& config, const Job& job) {
  std::optional<pjrt::Client> client = resolve::open_local_client(config, job);
  const auto count = std::ssize(client->addressable_devices());
  const int64_t asked = resolve::requested_devices(config);
  if (job.world().is_alone() || asked <= count) {
    check_same_devices(*client, job);
    return {.client = *client, .place = resolve::local_placement(config, *client)};
  }
  const int64_t all = count * job.world().size();
  check(asked == all,
        "[mesh] the axes of the mesh multiply to {}, but each of {} processes has {}\n  "
        "ici_*_parallelism and dcn_*_parallelism multiply to {} where each makes its own part, "
        "to {} where all make all of it together",
        asked, job.world().size(), counted(count, "device"), count, all);
  if (std::ssize(client->devices()) != all) {  // TPU plugins see all devices in any case
    client.reset();  // frees the GPU's memory before the next client takes it
    client = resolve::open_client(config, job);
  }
  check_same_devices(*client, job);
  return {.client = *client,
          .place = resolve::placement(config, *client, job.world().hosts()),
          .together = true};
}

void set_share(sample::GenerateRequest& request, bool together, const Job& job) {
  if (!together) {
    request.share.index = job.world().rank();
    request.share.count = job.world().size();
  } else if (!job.world().is_first()) {
    request.decodes = false;
    request.save_latents.clear();
  }
}

std::string first_problem(const std::string& own, const Job& job, double seconds) {
  const std::vector<std::string> all =
      job.world().communicator().gather(own, {.what = "the results", .seconds = seconds});
  const auto found =
      std::ranges::find_if(all, [](const std::string& each) { return !each.empty(); });
  if (found == all.end()) {
    return "";
  }
  const bool of_all = std::ranges::count(all, *found) == std::ssize(all);
  return of_all ? *found : fmt::format("[{}] {}", job.world().name_of(found - all.begin()), *found);
}

std::string agree_on_problem(const std::string& own, const Job& job) {
  return first_problem(own, job, for_what("the results").seconds);
}

void log_shares(const sample::GenerateRequest& whole, bool together, const Job& job) {
  const int64_t size = job.world().size();
  sample::GenerateRequest request = whole;
  request.share.count = size;
  if (size == 1) {
    return;
  }
  if (together) {
    job.line(fmt::format("{} over the devices of all {} processes",
                         counted(request.videos(), request.noun), size));
    return;
  }
  const int64_t most = sample::videos_in_share(request, 0).count;
  int64_t at_work = 0;
  for (int64_t i = 0; i < size; ++i) {
    at_work += sample::videos_in_share(request, i).count > 0 ? 1 : 0;
  }
  job.line(fmt::format(
      "{} over {} processes, at most {} each{}", counted(request.videos(), request.noun), size,
      most, at_work < size ? fmt::format("; those from process {} on have none", at_work) : ""));
}

void write_latents_of_all(const fs::path& path, std::span<const sample::GeneratedVideo> own,
                          const Job& job) {
  world::World& world = job.world();
  if (path.empty() || world.is_alone()) {
    return;
  }
  const world::Wait wait = for_what("the latents");
  if (!world.is_first()) {
    world.communicator().send(std::to_string(own.size()), 0, wait);
    for (const sample::GeneratedVideo& video : own) {
      send(video.latents, world);
    }
    return;
  }
  std::vector<HostArray> others;
  for (int64_t from = 1; from < world.size(); ++from) {
    for (int64_t left = std::stoll(world.communicator().receive(from, wait)); left > 0; --left) {
      others.push_back(receive(DType::F32, from, world));
    }
  }
  std::vector<const HostArray*> all;
  for (const sample::GeneratedVideo& video : own) {
    all.push_back(&video.latents);
  }
  for (const HostArray& each : others) {
    all.push_back(&each);
  }
  sample::save_latents(path, all);
}

void gather_videos(GenerateResult& result, std::vector<sample::ListedVideo>& listed,
                   const Job& job) {
  world::World& world = job.world();
  if (world.is_alone()) {
    return;
  }
  const world::Wait wait = for_what("the results");
  if (!world.is_first()) {
    world.communicator().send(describe(result, listed).dump(-1), 0, wait);
    for (const sample::ListedVideo& video : listed) {
      send(video.frames, world);
    }
    return;
  }
  for (int64_t from = 1; from < world.size(); ++from) {
    const size_t known = listed.size();
    add(io::Json::parse(world.communicator().receive(from, wait), world.name_of(from)), result,
        listed);
    for (size_t i = known; i < listed.size(); ++i) {
      listed[i].frames = receive(DType::U8, from, world);
    }
  }
}

}  // namespace kinema::jobs
