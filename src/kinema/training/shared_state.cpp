#include "kinema/training/shared_state.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace kinema::training {
namespace {

/// Each layer of a stack as a separate parameter.
std::vector<nn::ParamSpec> layers_of(std::span<const nn::ParamSpec> specs) {
  std::vector<nn::ParamSpec> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      nn::ParamSpec& one = out.emplace_back(spec);
      one.name = spec.key(layer);
      one.shape = spec.layer_shape();
      one.layers = 0;
    }
  }
  return out;
}

using Kept = StateSource::Kept;

}  // namespace

/// Consecutive parameters of about equal bytes per process, so that the files of a part follow one
/// another.
std::vector<int64_t> SharedState::owners(std::span<const nn::ParamSpec> specs) const {
  int64_t total = 0;
  for (const nn::ParamSpec& spec : specs) {
    total += spec.shape.bytes();
  }
  std::vector<int64_t> out;
  int64_t before = 0;
  for (const nn::ParamSpec& spec : specs) {
    const double share =
        static_cast<double>(before) / static_cast<double>(std::max<int64_t>(total, 1));
    out.push_back(
        std::min(processes_ - 1, static_cast<int64_t>(share * static_cast<double>(processes_))));
    before += spec.shape.bytes();
  }
  return out;
}

std::vector<Kept> SharedState::copy(std::span<const nn::ParamSpec> specs,
                                    std::span<const runtime::Array* const> arrays,
                                    std::vector<int64_t> owners) {
  std::vector<Kept> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    const nn::ParamSpec& spec = specs[i];
    const Sharding sharding = spec.sharding(devices_.placement());
    std::vector<bool> wanted;
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      wanted.push_back(owners[out.size() + wanted.size()] == process_);
    }
    std::vector<HostArray> read;
    if (spec.layers > 0) {
      read = reader_.read_layers(*arrays[i], sharding, wanted);
    } else {
      read.push_back(reader_.read(*arrays[i], sharding, wanted.front()));
    }
    for (HostArray& layer : read) {
      const auto held = std::make_shared<HostArray>(std::move(layer));
      out.push_back({.dtype = arrays[i]->shape().dtype,
                     .to_host = [held] { return std::move(*held); },
                     .owner = owners[out.size()]});
    }
  }
  return out;
}

StateSource SharedState::copy(const StateView& state, const Held& held) {
  const StateSource plain = source_of(state);  // for the specs of its moments
  StateSource out{.specs = layers_of(state.specs),
                  .parts = {},
                  .moments = {.mu = layers_of(plain.moments.mu), .nu = layers_of(plain.moments.nu)},
                  .process = process_,
                  .processes = processes_};
  const std::vector<nn::ParamSpec> trained = trained_specs(state.specs);
  // An adapter is one small file.
  const auto first = [](std::span<const nn::ParamSpec> specs) {
    return std::vector<int64_t>(specs.size(), 0);
  };
  const State& parts = state.parts;
  const auto list = [&](std::span<const nn::ParamSpec> specs,
                        const std::vector<runtime::Array>& arrays, bool by_first) {
    const std::vector<nn::ParamSpec> layers = layers_of(specs);
    return copy(specs, pointers_to<runtime::Array>(arrays),
                by_first ? first(layers) : owners(layers));
  };
  // The network's parameters are in one list of files, with trained and frozen ones mixed.
  const auto network = [&](const std::vector<const runtime::Array*>& arrays,
                           std::vector<Kept>& frozen, std::vector<Kept>& changed) {
    std::vector<Kept> all = copy(state.specs, arrays, owners(out.specs));
    for (size_t i = 0; i < all.size(); ++i) {
      (out.specs[i].trained ? changed : frozen).push_back(std::move(all[i]));
    }
  };
  if (held.frozen) {
    network(state.params(), out.parts.frozen, out.parts.trained);
    if (!parts.ema.empty()) {
      std::vector<Kept> again;
      network(state.averages(), again, out.parts.ema);
    }
  } else {
    out.parts.trained = list(trained, parts.trained, /*by_first=*/true);
    out.parts.ema = parts.ema.empty() ? std::vector<Kept>() : list(trained, parts.ema, true);
  }
  if (held.optimizer) {
    out.parts.mu = list(plain.moments.mu, parts.mu, /*by_first=*/false);
    out.parts.nu = list(plain.moments.nu, parts.nu, /*by_first=*/false);
  }
  const auto counts = std::make_shared<HostArray>(parts.counts->to_host());
  out.parts.counts = Kept{.dtype = DType::S32, .to_host = [counts] { return *counts; }};
  return out;
}

}  // namespace kinema::training
