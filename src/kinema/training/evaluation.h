#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"
#include "kinema/training/step.h"

/// The loss on held-out samples, at fixed timesteps and with fixed noise, so that the losses of
/// different steps and runs are comparable.
namespace kinema::training {

struct EvaluationOptions {
  /// For sets whose samples have no timestep: the first `samples` samples get these timesteps
  /// cyclically. Any number of samples works.
  std::vector<int64_t> timesteps;
  int64_t samples = 0;
  /// Maximum number of samples per timestep.
  int64_t max_samples_per_timestep = 60;
  /// Of the noise; sample r has noise number r.
  uint64_t seed = 0;
  runtime::ProgramOptions program = {};
};

/// The result of an evaluation: the mean of (noise - x0 - prediction)^2, unweighted.
struct Evaluation {
  std::map<int64_t, double> by_timestep;  // mean over its samples
  double loss = 0;                        // mean of these means
  int64_t samples = 0;
};

/// The timestep of sample `r` if samples have none; negative: the sample is not evaluated.
int64_t shared_timestep(const EvaluationOptions& options, int64_t r);

/// Throws an Error if the objective's schedule lacks one of the timesteps of the options.
void check_timesteps(const EvaluationOptions& options, const ObjectiveOptions& objective);

/// Throws an Error if no sample of `source` would be evaluated, or if the model's schedule lacks a
/// timestep of the samples or of the options, so that an invalid evaluation fails before the first
/// step. Reads all samples if they have timesteps, else until one is evaluated.
void check_evaluation(const EvaluationOptions& options, const ObjectiveOptions& objective,
                      const data::Source& source);

/// Parameters, and the timesteps at which they are evaluated.
struct EvaluatedPart {
  /// Called before the part is evaluated; its result must be valid until the next part's call.
  std::function<std::vector<const runtime::Array*>()> params;
  double from = 0;
  double below = std::numeric_limits<double>::infinity();
};

/// The forward pass over a batch as a compiled program.
class Evaluator {
 public:
  /// `model` without dropout; `batch` and `step` are those of the training step; `run` takes the
  /// parameters of its state.
  Evaluator(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs,
            const Model& model, const BatchShapes& batch, StepOptions step,
            EvaluationOptions options);

  /// Evaluates one epoch of `source`, which must not shuffle. Samples with timesteps outside the
  /// training's bounds are skipped. Throws an Error if no sample is evaluated, or if one has other
  /// sizes than the batch, and Stopped after a stop request.
  Evaluation run(std::span<const runtime::Array* const> params, const data::Source& source,
                 const std::stop_token& stop = {}) const;
  /// The same with two networks, chosen by the timestep: one epoch per part.
  Evaluation run(std::span<const EvaluatedPart> parts, const data::Source& source,
                 const std::stop_token& stop = {}) const;

 private:
  struct Chosen;
  void add_part(const EvaluatedPart& part, const data::Source& source, const std::stop_token& stop,
                std::map<int64_t, std::vector<double>>& losses) const;
  void add_losses(std::span<const runtime::Array* const> params, const data::Source& source,
                  std::vector<Chosen> chosen, std::map<int64_t, std::vector<double>>& losses) const;
  std::vector<int64_t> own_rows(size_t params) const;

  runtime::Devices devices_;
  BatchShapes batch_;
  ObjectiveOptions objective_;
  EvaluationOptions options_;
  runtime::Program program_;
};

/// The log lines of an evaluation after step `step`.
std::vector<std::string> evaluation_lines(int64_t step, const Evaluation& evaluation,
                                          double seconds);

}  // namespace kinema::training
