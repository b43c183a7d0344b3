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

/// The loss on samples that are not trained on, at fixed timesteps and with fixed noise, so that
/// the numbers of different steps and runs compare.
namespace kinema::training {

struct EvaluationOptions {
  /// For sets whose samples bring no timestep: of the first `samples` of them, one after the other
  /// takes the next, and after the last the first again. So any number of samples will do.
  std::vector<int64_t> timesteps;
  int64_t samples = 0;
  /// Of each timestep, so many samples at most.
  int64_t most_of_a_timestep = 60;
  /// Of the noise; sample r has the noise number r.
  uint64_t seed = 0;
  runtime::ProgramOptions program = {};
};

/// What an evaluation gave: the mean of (noise - x0 - prediction)^2, not weighed.
struct Evaluation {
  std::map<int64_t, double> by_timestep;  // mean over its samples
  double loss = 0;                        // mean of these means
  int64_t samples = 0;
};

/// The timestep of sample `r` where samples bring none; negative: it takes no part.
int64_t shared_timestep(const EvaluationOptions& options, int64_t r);

/// Throws an Error where no sample of `source` would take part, or the model's schedule lacks a
/// timestep of the samples or of the options, so that an evaluation that cannot work is known
/// before the first step. Reads all samples where they bring timesteps, else until one takes part.
void check_evaluation(const EvaluationOptions& options, const ObjectiveOptions& objective,
                      const data::Source& source);

/// Parameters, and the timesteps that they are evaluated at.
struct EvaluatedPart {
  /// Asked when the part's turn comes; good until the next part's does.
  std::function<std::vector<const runtime::Array*>()> params;
  double from = 0;
  double below = std::numeric_limits<double>::infinity();
};

/// The forward pass over a batch as a compiled program.
class Evaluator {
 public:
  /// `model` without dropout; `batch` and `step` as of the training step, whose state's parameters
  /// `run` takes.
  Evaluator(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs,
            const Model& model, const BatchShapes& batch, StepOptions step,
            EvaluationOptions options);

  /// Goes through one epoch of `source`, which must not shuffle. Samples whose timestep the
  /// training does not draw take no part. Throws an Error where no sample
  /// takes part, or one has other sizes than the batch, and Stopped once that is asked for.
  Evaluation run(std::span<const runtime::Array* const> params, const data::Source& source,
                 const std::stop_token& stop = {}) const;
  /// The same with one network or another by the timestep: an epoch for each part.
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

/// The lines that say what an evaluation gave, after step `step`.
std::vector<std::string> evaluation_lines(int64_t step, const Evaluation& evaluation,
                                          double seconds);

}  // namespace kinema::training
