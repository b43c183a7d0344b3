#include "kinema/training/memory.h"

#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"

namespace kinema::training {

namespace {

int64_t batch_bytes(const BatchShapes& batch) {
  int64_t bytes = batch.latents.bytes() + batch.text.bytes();
  for (const ExtraShape& extra : kExtraShapes) {
    const std::optional<Shape>& shape = batch.*extra.shape;
    bytes += shape ? shape->bytes() : 0;
  }
  return bytes;
}

}  // namespace

MemoryUse memory_use(const Trainer& trainer, const runtime::Devices& devices, int64_t batches_ahead,
                     const IdleBytes& idle) {
  const bool is_host = devices.client().platform_name() == "cpu";
  const int64_t shares = is_host ? static_cast<int64_t>(devices.count()) : 1;
  int64_t largest = 0;
  for (size_t i = 0; i < trainer.shapes(); ++i) {
    largest = std::max(largest, batch_bytes(trainer.batch(i)));
  }
  runtime::release_free_memory();  // of the compiler
  return {.before = runtime::peak_bytes(devices),
          .held = runtime::held_bytes(devices),
          .state = shares * (trainer.state_bytes() + idle.device) + (is_host ? idle.host : 0),
          .step = shares * (trainer.step_bytes() - trainer.state_bytes()),
          // one more is being copied to the devices
          .data = is_host ? (batches_ahead + 1) * largest : 0};
}

void check_fits(const std::string& what, int64_t wanted, const runtime::Devices& devices,
                std::span<const Alternative> alternatives) {
  const int64_t free = runtime::free_bytes(devices);
  if (wanted <= free) {
    return;
  }
  const auto gb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  std::string remedy =
      "a smaller batch (per_device_batch_size), a smaller model, fewer or smaller frames need less";
  for (const Alternative& each : alternatives) {
    if (each.least && each.least() > free) {
      continue;
    }
    if (const int64_t bytes = each.bytes(); bytes <= free) {
      remedy = fmt::format("with {} it needs {:.1f} GB", each.change, gb(bytes));
      break;
    }
  }
  fail("[train] {} needs {:.1f} GB, but {:.1f} GB are free\n  {}", what, gb(wanted), gb(free),
       remedy);
}

}  // namespace kinema::training
