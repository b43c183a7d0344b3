// Any text as the config.json of each kind of model, or as a scheduler_config.json: an Error, or
// sizes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/models/zimage/control.h"
#include "kinema/networks/open.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  io::Json json;
  try {
    json = io::Json::parse({reinterpret_cast<const char*>(data), size}, "config.json");
  } catch (const Error&) {
    return 0;
  }
  const auto read = [&](const auto& reader) {
    const AllocationLimit limit(size);
    try {
      reader();
    } catch (const Error&) {
    }
  };
  read([&] { networks::from_config(json); });
  read([&] { model_files::parse_vae_config(json); });
  read([&] { kl_autoencoder::parse_config(json); });
  read([&] { weights::parse_t5_config(json); });
  read([&] { weights::parse_clip_config(json); });
  read([&] { weights::parse_clip_text_config(json); });
  read([&] { weights::parse_qwen3_config(json); });
  read([&] {
    const zimage::TransformerConfig tiny{
        .in_channels = 6, .dim = 24, .n_layers = 2, .n_heads = 2, .axes_dims = {4, 4, 4}};
    zimage::parse_control_config(json, tiny);
  });
  for (const schedulers::Sampler sampler :
       {schedulers::Sampler::UNIPC, schedulers::Sampler::FLOW_MATCH_EULER,
        schedulers::Sampler::EULER, schedulers::Sampler::DDIM}) {
    read([&] { sample::schedule_of(sampler, json); });
  }
  return 0;
}
