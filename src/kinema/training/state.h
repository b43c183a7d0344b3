#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/host_parts.h"
#include "kinema/training/optimizer.h"

namespace kinema::training {

/// What parameters and moments are kept as between steps.
enum class StateDType {
  F32,      // whatever the network works in
  WEIGHTS,  // the dtypes the network works in: half the memory, and small updates round to nothing
};

/// How many updates were made, as the state of one network counts them. All three grow together; a
/// run that goes on without saved moments, or begins an average, counts those from 0.
enum Count : int64_t {
  UPDATES,     // in all
  OF_MOMENTS,  // since the optimizer's moments began at zero
  OF_AVERAGE,  // since the average began as the parameters
  COUNTS       // how many counts there are
};

/// What a run keeps between steps, by its parts: arrays, or what stands for them (specs, tensors of
/// a graph). Lists of parameters are in the order of the network's.
template <typename T>
struct StateParts {
  std::vector<T> frozen;    // parameters that no step changes
  std::vector<T> trained;   // parameters that steps change
  std::vector<T> mu;        // first moments of these, as many as the optimizer keeps
  std::vector<T> nu;        // second moments
  std::vector<T> ema;       // averages; none where none are kept
  std::optional<T> counts;  // S32 [COUNTS], see Count

  /// Calls f(list) with what steps change, part by part, in the order of a step's results.
  template <typename F>
  void each_changed(const F& f) const {
    for (const auto* part : {&trained, &mu, &nu, &ema}) {
      f(std::span<const T>(*part));
    }
    if (counts) {
      f(std::span<const T>(&*counts, 1));
    }
  }
  /// The same, with what stays before it: the order in which a step takes the state.
  template <typename F>
  void each(const F& f) const {
    f(std::span<const T>(frozen));
    each_changed(f);
  }

  /// All of it in that order.
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

  /// Another form of each, with the same parts.
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

  /// What steps change, from a list in the order of each_changed; returns how many it took.
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

/// The state as it lies on devices, and as it waits in the host's memory.
using State = StateParts<runtime::Array>;
using HostState = StateParts<runtime::HostParts>;

/// The network's parameters in its order, from those that are trained and those that are not;
/// `specs` say which are which.
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

/// The specs of those that are trained, or of the others.
std::vector<nn::ParamSpec> trained_of(std::span<const nn::ParamSpec> specs);
std::vector<nn::ParamSpec> frozen_of(std::span<const nn::ParamSpec> specs);

/// The specs in the dtypes that parameters are loaded, kept and saved in: frozen ones stay as the
/// network works on them.
std::vector<nn::ParamSpec> state_specs(std::span<const nn::ParamSpec> specs,
                                       StateDType state = StateDType::F32);

/// AdamW with its defaults, for what does not depend on numbers: which moments there are.
const Optimizer& plain_adamw();

/// The parts of the state of parameters that are kept like this (state_specs): moments are as the
/// optimizer keeps them, averages F32, because what one step adds is far below a BF16 step.
StateParts<nn::ParamSpec> state_parts(std::span<const nn::ParamSpec> kept, bool average,
                                      const Optimizer& optimizer = plain_adamw());

/// Bytes of it for each device; of these, what waits on the host where devices have a memory of
/// their own.
int64_t state_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement);
int64_t waiting_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement);

/// A state and the network that it is of.
struct StateView {
  std::span<const nn::ParamSpec> specs;  // in the dtypes the network works in
  const State& parts;
  /// What the moments are; empty: one of each trained parameter's shape.
  Moments<nn::ParamSpec> moments = {};

  /// The parameters in the network's order.
  std::vector<const runtime::Array*> params() const {
    return in_order<runtime::Array>(specs, parts.frozen, parts.trained);
  }
  /// The same with averages of those that are trained.
  std::vector<const runtime::Array*> averages() const {
    return in_order<runtime::Array>(specs, parts.frozen, parts.ema);
  }
};

}  // namespace kinema::training
