#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/model_files/checkpoint.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {

/// check_folder for an open folder or file. Tensors without a spec are errors unless `ignored`
/// returns true for their key.
void check_tensors(const model_files::Checkpoint& checkpoint, std::span<const nn::ParamSpec> specs,
                   const std::function<bool(const std::string& key)>& ignored = {});

/// load for an open and checked folder or file, over the devices of a mesh.
std::vector<runtime::Array> load_arrays(const model_files::Checkpoint& checkpoint,
                                        std::span<const nn::ParamSpec> specs,
                                        const runtime::Devices& devices,
                                        std::span<const Adapter> adapters = {});

/// load for an open and checked folder or file; its other tensors are ignored.
std::vector<pjrt::Buffer> load_tensors(const model_files::Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client,
                                       std::span<const Adapter> adapters = {});
/// The same for some of the parameters of the adapters.
std::vector<pjrt::Buffer> load_tensors(const model_files::Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client, const Adapters& adapters);

}  // namespace kinema::weights
