#include "kinema/sample/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/runtime/device_memory.h"

namespace kinema::sample {
namespace {

std::string gib(double bytes) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  return bytes < 0.01 * kGiB ? fmt::format("{:.1f} MiB", bytes / (1024.0 * 1024.0))
                             : fmt::format("{:.2f} GiB", bytes / kGiB);
}

/// The size for messages: `81 frames of 480 x 832`.
std::string name_of(const VideoSizes& sizes) {
  return fmt::format("{} of {} x {}",
                     sizes.is_image ? "an image" : fmt::format("{} frames", sizes.num_frames),
                     sizes.height, sizes.width);
}
std::string takes(const VideoSizes& sizes) {
  return name_of(sizes) + (sizes.is_image ? " takes" : " take");
}

/// True if weights_memory=host is possible and not set.
bool may_wait(const nn::ModelOptions& options, const runtime::Devices& devices) {
  return runtime::has_device_memory(devices.client()) && options.weights_memory == Memory::DEVICE &&
         options.scan_layers;
}

void check_weights_fit(const nn::ModelOptions& options, const runtime::Devices& devices,
                       double weights, double free) {
  check(weights < free,
        "[sample] the transformer's weights alone take {}, but {} are free\n"
        "  weights_dtype=bfloat16 stores two bytes per value, weights_storage=int8 one{}",
        gib(weights), gib(free),
        may_wait(options, devices) ? "; weights_memory=host keeps them in host memory" : "");
}

/// Changes that need less memory.
std::string smaller(const StepSpec& spec, const VideoSizes& sizes,
                    const runtime::Devices& devices) {
  return fmt::format("smaller {} {}need less{}", sizes.is_image ? "images" : "frames",
                     spec.latents[0] > 1 ? "and fewer at a time " : "",
                     may_wait(spec.options, devices) ? ", and so does weights_memory=host" : "");
}

/// While an image is decoded, one more is in memory in f32.
void check_images_fit(int64_t images, const VideoSizes& sizes, int64_t available) {
  const int64_t decoded = sizes.height * sizes.width * 3;
  const int64_t working = decoded * 4;
  const int64_t all = images * decoded + working;
  const int64_t fit = std::max<int64_t>(0, available - working) / decoded;
  check(all <= available,
        "[sample] the pixels of {} of {} x {} take {}, but {} are free\n"
        "  {}",
        counted(images, "image"), sizes.height, sizes.width, gib(static_cast<double>(all)),
        gib(static_cast<double>(available)),
        fit == 0 ? "not even one fits; smaller ones need less"
                 : fmt::format("{} of them fit; smaller ones and fewer at a time need less", fit));
}

double beside_parameters(StepPrograms& programs, const StepSpec& spec) {
  return static_cast<double>(programs.get(spec).report().memory.total() -
                             parameter_bytes(spec.network, spec.options, programs.devices()));
}

/// The maximum number of latent frames for which a step was measured to need at most `available`
/// bytes in addition to the parameters; 0 for none. The next guess follows from the last two
/// measurements.
int64_t latent_frames_that_fit(StepPrograms& programs, StepSpec spec, double available) {
  constexpr int kMeasurements = 5;
  const int64_t patch = spec.network.sizes().patch_size[0];
  const auto measure = [&](int64_t frames) {
    spec.latents[2] = frames;
    return std::pair{static_cast<double>(spec.network.sizes().tokens(spec.latents)),
                     beside_parameters(programs, spec)};
  };
  int64_t fits = 0;
  int64_t too_many = spec.latents[2];
  auto before = measure(too_many);
  int64_t guess = std::max(patch, too_many / 4 / patch * patch);
  for (int i = 0; i < kMeasurements && too_many - fits > patch; ++i) {
    const auto now = measure(guess);
    (now.second <= available ? fits : too_many) = guess;
    const auto growth = StepGrowth::through(now.first, now.second, before.first, before.second);
    const double per_frame = now.first / static_cast<double>(guess);
    guess = too_many - patch;
    while (guess > fits + patch &&
           growth.bytes(per_frame * static_cast<double>(guess)) > available) {
      guess -= patch;
    }
    if (guess <= fits + fits / 16) {
      break;
    }
    before = now;
  }
  return fits;
}

}  // namespace

int64_t available_bytes(const runtime::Devices& devices, int64_t held_by_host) {
  const int64_t free = runtime::free_bytes(devices);
  if (devices.client().platform_name() != "cpu") {
    return free;
  }
  const int64_t share = held_by_host / static_cast<int64_t>(devices.count());
  return runtime::temporaries_within(devices, std::max<int64_t>(0, free - share));
}

int64_t parameter_bytes(const networks::Network& network, const nn::ModelOptions& options,
                        const runtime::Devices& devices) {
  const bool all = !runtime::has_device_memory(devices.client());
  int64_t bytes = 0;
  for (const nn::ParamSpec& spec : network->parameters(options)) {
    if (!all && spec.memory != Memory::DEVICE) {
      continue;
    }
    bytes +=
        runtime::bytes_per_device(spec.shape, spec.sharding(options.place), options.place.mesh());
  }
  return bytes;
}

StepGrowth StepGrowth::through(double tokens_1, double bytes_1, double tokens_2, double bytes_2) {
  const double per_token_1 = bytes_1 / tokens_1;
  const double per_token_2 = bytes_2 / tokens_2;
  const double square = tokens_1 == tokens_2
                            ? 0.0
                            : std::max(0.0, (per_token_2 - per_token_1) / (tokens_2 - tokens_1));
  return {.linear = std::max(0.0, per_token_2 - square * tokens_2), .square = square};
}

void check_frames_fit(int64_t videos, const VideoSizes& sizes, const encoders::LatentLayout& layout,
                      int64_t available) {
  if (sizes.is_image) {
    check_images_fit(videos, sizes, available);
    return;
  }
  const int64_t frame = videos * sizes.height * sizes.width * 3;
  if (frame * sizes.num_frames <= available) {
    return;
  }
  const int64_t alone = layout.first_frame_alone ? 1 : 0;
  const int64_t room = available / frame;
  const int64_t most =
      room < alone ? 0 : (room - alone) / layout.temporal * layout.temporal + alone;
  fail(
      "[sample] {} decoded frames of {} x {} for each of {} at a time take {}, but {} are free\n"
      "  {} frames fit; smaller frames and fewer at a time need less",
      sizes.num_frames, sizes.height, sizes.width, videos,
      gib(static_cast<double>(frame * sizes.num_frames)), gib(static_cast<double>(available)),
      most);
}

void check_decode_fits(const VideoSizes& sizes, int64_t bytes, int64_t available) {
  check(bytes <= available,
        "[sample] decoding {} takes {}, but {} are free\n"
        "  vae_tiling=true{} or vae_dtype=bfloat16 needs less",
        name_of(sizes), gib(static_cast<double>(bytes)), gib(static_cast<double>(available)),
        sizes.is_image ? "" : ", vae_decode_chunk=1");
}

int64_t least_step_bytes(const StepSpec& spec, const runtime::Devices& devices) {
  // Keys and values of all tokens, and the tokens; in a UNet, the skip connections.
  constexpr int64_t kAtOnce = 3;
  const networks::Value tokens =
      spec.network->block_sum_value(spec.options, spec.latents[0], spec.latents);
  return parameter_bytes(spec.network, spec.options, devices) +
         kAtOnce * tokens.shape.bytes() / static_cast<int64_t>(devices.total());
}

void check_size_fits(const StepSpec& spec, const runtime::Devices& devices, const VideoSizes& sizes,
                     bool loaded, int64_t available) {
  const auto weights = static_cast<double>(parameter_bytes(spec.network, spec.options, devices));
  const auto least = static_cast<double>(least_step_bytes(spec, devices));
  const auto free = static_cast<double>(available) + (loaded ? weights : 0.0);
  check_weights_fit(spec.options, devices, weights, free);
  check(least <= free, "[sample] {} at least {} ({} of it weights), but {} are free\n  {}",
        takes(sizes), gib(least), gib(weights), gib(free), smaller(spec, sizes, devices));
}

bool step_fits(StepPrograms& programs, const StepSpec& spec, bool loaded, int64_t available) {
  const double rest = beside_parameters(programs, spec);
  const auto weights =
      static_cast<double>(parameter_bytes(spec.network, spec.options, programs.devices()));
  return rest + (loaded ? 0.0 : weights) <= static_cast<double>(available);
}

void check_step_fits(StepPrograms& programs, const StepSpec& spec, const VideoSizes& sizes,
                     const encoders::LatentLayout& layout, bool loaded, int64_t available) {
  const auto weights =
      static_cast<double>(parameter_bytes(spec.network, spec.options, programs.devices()));
  const double rest = beside_parameters(programs, spec);
  const auto free = static_cast<double>(available) + (loaded ? weights : 0.0);
  if (weights + rest <= free) {
    return;
  }
  check_weights_fit(spec.options, programs.devices(), weights, free);
  const std::string less = smaller(spec, sizes, programs.devices());
  check(!sizes.is_image, "[sample] {} {} ({} of it weights), but {} are free\n  {}", takes(sizes),
        gib(weights + rest), gib(weights), gib(free), less);
  const int64_t fit = latent_frames_that_fit(programs, spec, free - weights);
  const int64_t alone = layout.first_frame_alone ? 1 : 0;
  const std::string remedy =
      fit == 0 ? fmt::format("not even {} frames of this size fit",
                             (spec.network.sizes().patch_size[0] - alone) * layout.temporal + alone)
               : fmt::format("about {} frames of this size fit",
                             (fit - alone) * layout.temporal + alone);
  fail("[sample] {} {} ({} of it weights), but {} are free\n  {}; {}", takes(sizes),
       gib(weights + rest), gib(weights), gib(free), remedy, less);
}

}  // namespace kinema::sample
