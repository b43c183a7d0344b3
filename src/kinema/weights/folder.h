#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/nn/params.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {

/// check_folder for a folder or file that is already open. Tensors that no spec asks for are
/// refused unless `ignored` says otherwise of their key.
void check_tensors(const Checkpoint& checkpoint, std::span<const nn::ParamSpec> specs,
                   const std::function<bool(const std::string& key)>& ignored = {});

/// load for a folder or file that is open and checked, over the devices of a mesh.
std::vector<runtime::Array> load_arrays(const Checkpoint& checkpoint,
                                        std::span<const nn::ParamSpec> specs,
                                        const runtime::Devices& devices,
                                        std::span<const Adapter> adapters = {});

/// load for a folder or file that is open and checked; its other tensors are left alone.
std::vector<pjrt::Buffer> load_tensors(const Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client,
                                       std::span<const Adapter> adapters = {});
/// The same of some of the parameters that the adapters were fitted to.
std::vector<pjrt::Buffer> load_tensors(const Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client, const Adapters& adapters);

}  // namespace kinema::weights
