#include "kinema/resolve/redux.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/encoders/redux_encoder.h"
#include "kinema/resolve/given_frames.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {
namespace {

constexpr int64_t kReduxWidth = 4096;  // of T5-XXL's states, which its tokens follow

}  // namespace

std::shared_ptr<const encoders::TextEncoder> with_redux(
    const config::Config& config, std::shared_ptr<const encoders::TextEncoder> encoder,
    const networks::Sizes& network, const pjrt::Client& client, const Job& job) {
  const config::GenerateConfig& g = config.generate;
  std::vector<std::string> names = g.redux_image;
  std::erase(names, "");
  if (g.redux.empty()) {
    return encoder;
  }
  check(!names.empty(), "[generate] redux is given without redux_image=FILE");
  check(network.text_dim == kReduxWidth && network.makes_images,
        "[generate] redux makes text tokens of {} numbers, but this model takes {}\n  FLUX.1 takes "
        "them",
        kReduxWidth, network.text_dim);
  check(g.redux_scale.size() == 1 || g.redux_scale.size() == names.size(),
        "[generate] redux_scale has {} values for {} pictures, expected one for all or for each",
        g.redux_scale.size(), names.size());
  const std::filesystem::path folder =
      stores::local_model(g.redux, config.model.revision,
                          {.parts = {"image_encoder", "image_embedder", "feature_extractor"}}, job);
  std::error_code ignored;
  check(std::filesystem::is_directory(folder / "image_embedder", ignored),
        "[generate] redux {} is no folder of FLUX.1 Redux: it has no image_embedder", g.redux);
  const encoders::ReduxEncoder redux(client, folder);
  std::vector<encoders::ReduxImage> images;
  for (size_t i = 0; i < names.size(); ++i) {
    const double scale = g.redux_scale[g.redux_scale.size() == 1 ? 0 : i];
    images.push_back(
        {.tokens = redux.encode(read_given_image(names[i], "redux_image", config, job)).tokens,
         .scale = scale,
         .pooled_scale = scale});
  }
  return encoders::with_redux(std::move(encoder), std::move(images));
}

}  // namespace kinema::resolve
