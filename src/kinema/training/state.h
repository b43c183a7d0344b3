#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/nn/params.h"
#include "kinema/optimizers/optimizer.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/host_parts.h"

namespace kinema::training {

/// The dtypes of parameters and moments between steps.
enum class StateDType {
  F32,      // for any dtype of computation
  WEIGHTS,  // the dtypes of computation: half the memory, but small updates round to zero
};

/// Numbers of updates of one network. All three are incremented together; a run that resumes
/// without saved moments, or starts an average, counts those from 0.
enum Count : int64_t {
  UPDATES,     // in total
  OF_MOMENTS,  // since the optimizer's moments started at zero
  OF_AVERAGE,  // since the average started as the parameters
  COUNTS       // how many counts there are
};

/// The state of a run between steps, by parts: arrays, specs, or tensors of a graph. Lists of
/// parameters are in the network's order.
template <typename T>
struct StateParts {
  std::vector<T> frozen;    // parameters that no step changes
  std::vector<T> trained;   // parameters that steps change
  std::vector<T> mu;        // first moments of these, as many as the optimizer has, after its
                            // common state if it has one
  std::vector<T> nu;        // second moments
  std::vector<T> ema;       // averages; empty without EMA
  std::optional<T> counts;  // S32 [COUNTS], see Count

  /// Calls f(list) for the parts that steps change, in the order of a step's results.
  template <typename F>
  void each_changed(const F& f) const {
    for (const auto* part : {&trained, &mu, &nu, &ema}) {
      f(std::span<const T>(*part));
    }
    if (counts) {
      f(std::span<const T>(&*counts, 1));
    }
  }
  /// The same, with frozen parameters first: the order of a step's inputs.
  template <typename F>
  void each(const F& f) const {
    f(std::span<const T>(frozen));
    each_changed(f);
  }

  /// All elements in that order.
  std::vector<const T*> all() const {
    std::vector<const T*> out;
    each([&](std::span<const T> part) {
      for (const T& x : part) {
        out.push_back(&x);
      }
    });
    return out;
  }
  std::vector<T*> mutable_all() {
    std::vector<T*> out;
    for (auto* part : {&frozen, &trained, &mu, &nu, &ema}) {
      for (T& x : *part) {
        out.push_back(&x);
      }
    }
    if (counts) {
      out.push_back(&*counts);
    }
    return out;
  }
  size_t changed() const {
    return trained.size() + mu.size() + nu.size() + ema.size() + (counts ? 1 : 0);
  }
  size_t size() const { return frozen.size() + changed(); }
  bool empty() const { return size() == 0; }

  /// The same parts with f applied to each element.
  template <typename F>
  auto map(const F& f) const {
    StateParts<std::invoke_result_t<F, const T&>> out;
    const auto each_of = [&](const std::vector<T>& from, auto& to) {
      to.reserve(from.size());
      for (const T& x : from) {
        to.push_back(f(x));
      }
    };
    each_of(frozen, out.frozen);
    each_of(trained, out.trained);
    each_of(mu, out.mu);
    each_of(nu, out.nu);
    each_of(ema, out.ema);
    if (counts) {
      out.counts = f(*counts);
    }
    return out;
  }

  /// Sets what steps change from a list in the order of each_changed; returns the number of
  /// elements used.
  size_t set_changed(std::span<T> from) {
    size_t at = 0;
    for (auto* part : {&trained, &mu, &nu, &ema}) {
      for (T& x : *part) {
        x = std::move(from[at++]);
      }
    }
    if (counts) {
      *counts = std::move(from[at++]);
    }
    return at;
  }
};

/// The state on devices, and in host memory.
using State = StateParts<runtime::Array>;
using HostState = StateParts<runtime::HostParts>;

/// The network's parameters in its order, from the trained and the frozen ones; `specs` tell which
/// are which.
template <typename T>
std::vector<const T*> in_order(std::span<const nn::ParamSpec> specs, std::span<const T> frozen,
                               std::span<const T> trained) {
  std::vector<const T*> out;
  size_t i = 0;
  size_t j = 0;
  for (const nn::ParamSpec& spec : specs) {
    out.push_back(spec.trained ? &trained[i++] : &frozen[j++]);
  }
  check(i == trained.size() && j == frozen.size(),
        "[state] {} trained and {} frozen parameters for a network with {} and {}", trained.size(),
        frozen.size(), i, j);
  return out;
}

template <typename T>
std::vector<const T*> pointers_to(std::span<const T> list) {
  std::vector<const T*> out;
  for (const T& each : list) {
    out.push_back(&each);
  }
  return out;
}

/// The specs of the trained, or of the frozen parameters.
std::vector<nn::ParamSpec> trained_specs(std::span<const nn::ParamSpec> specs);
std::vector<nn::ParamSpec> frozen_specs(std::span<const nn::ParamSpec> specs);

/// The number of a network's parameters, without adapters and scales of codes.
int64_t network_parameters(std::span<const nn::ParamSpec> specs);
/// The number of parameters that steps change.
int64_t trained_parameters(std::span<const nn::ParamSpec> specs);

/// The specs in the dtypes in which parameters are loaded, stored and saved; frozen ones have the
/// dtype of computation.
std::vector<nn::ParamSpec> state_specs(std::span<const nn::ParamSpec> specs,
                                       StateDType state = StateDType::F32);

/// AdamW with its defaults, when only the kinds of moments matter.
const optimizers::Optimizer& plain_adamw();

/// The parts of the state for parameters with these specs (state_specs): moments according to the
/// optimizer, averages in F32, because the change of one step is far below a BF16 step.
StateParts<nn::ParamSpec> state_parts(std::span<const nn::ParamSpec> kept, bool average,
                                      const optimizers::Optimizer& optimizer = plain_adamw());

/// Its bytes per device, and those in host memory if devices have separate memory.
int64_t state_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement);
int64_t offloaded_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement);

/// A state and its network.
struct StateView {
  std::span<const nn::ParamSpec> specs;  // in the dtypes of computation
  const State& parts;
  /// Specs of the moments; empty: one with each trained parameter's shape.
  optimizers::Moments<nn::ParamSpec> moments = {};

  /// The parameters in the network's order.
  std::vector<const runtime::Array*> params() const {
    return in_order<runtime::Array>(specs, parts.frozen, parts.trained);
  }
  /// The same, with the averages of trained parameters.
  std::vector<const runtime::Array*> averages() const {
    return in_order<runtime::Array>(specs, parts.frozen, parts.ema);
  }
};

}  // namespace kinema::training
