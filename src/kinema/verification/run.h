#pragma once

#include <fmt/ranges.h>

#include <any>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/verification/case.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/verify.h"
#include "kinema/weights/lora.h"

namespace kinema::verification {

/// Computed arrays, with their names in the case.
using Values = std::vector<std::pair<std::string, HostArray>>;

/// The array with this name, or null.
const HostArray* find_value(const Values& values, std::string_view name);
/// The array with this name; throws an Error if there is none.
const HostArray& value_of(const Values& values, std::string_view name);

/// A spec's stacked tensor as one array per layer under the checkpoint's key, or the array itself.
Values unstack(const nn::ParamSpec& spec, const HostArray& stacked);

/// Shared by the cases of one run: the device, compiled programs and loaded models.
struct Session {
  Session(const pjrt::Client& device, const Options& asked);

  pjrt::Client client;
  Options options;
  std::shared_ptr<sample::StepPrograms> step_programs;
  std::map<std::string, runtime::Program> programs;  // by the text of their graphs
  std::map<std::string, std::any> models;            // see shared

  /// The result of `make`, a shared pointer, cached by key.
  template <typename Make>
  auto shared(const std::string& key, const Make& make) {
    std::any& known = models[key];
    if (!known.has_value()) {
      known = make();
    }
    return std::any_cast<decltype(make())>(known);
  }
};

/// A row that counts prompts with another result, and describes the first.
struct Count {
  Row row;

  explicit Count(std::string tensor) : row{.tensor = std::move(tensor), .ok = true} {}
  template <typename T>
  void add(const std::string& prompt, const std::vector<T>& got, const std::vector<T>& want) {
    if (got != want && row.ok) {
      row.message = fmt::format("prompt `{}`: {}, the reference has {}", prompt,
                                fmt::join(got, " "), fmt::join(want, " "));
    }
    row.ok = row.ok && got == want;
    row.max_diff += got == want ? 0.0 : 1.0;
  }
};

/// One case in one form of its models: its inputs, and the comparisons. Each comparison is a row: a
/// computed array against the case's tensor with the same name, within the case's limits.
class Run {
 public:
  Run(const Case& given, Session& shared, Limits limits, std::vector<Row>& rows);

  const Case& c;
  Session& session;
  /// Models are computed in f32 at the device's highest precision, with blocks as a scan unless
  /// that is off.
  nn::ModelOptions options;

  bool has(const std::string& tensor) const { return c.has(tensor); }
  HostArray tensor(const std::string& name) const { return c.tensor(name); }
  /// A member of the case's JSON.
  const io::Json& about(std::string_view key) const { return c.about().at(key); }
  /// True if the case's JSON lists the tensor as `expected`, rather than as an input.
  bool expects(const std::string& tensor) const;
  /// The file or folder of the case's set that a member of the JSON names.
  std::filesystem::path path(std::string_view key) const {
    return c.folder() / about(key).as_string();
  }
  const runtime::ProgramOptions& program() const { return session.options.program; }

  /// The requested forms: unrolled blocks, and `NAME (scan)`.
  std::vector<Run> forms() const;
  /// A copy with `suffix` after the case's name, or with limits before the others.
  Run with(const std::string& suffix) const;
  Run with(const LimitTable& limits) const;

  /// Adds a row for a tensor that the case must have; or against another array.
  void add(const std::string& tensor, const HostArray& value) const;
  void add(const std::string& tensor, const HostArray& value, const HostArray& expected) const;
  void add(const Values& values) const;
  /// Adds rows for the tensors that the case's JSON lists as `expected`, in its order. A tensor
  /// that was not computed fails.
  void add_expected(const Values& values) const;
  /// Adds a row if the case has the tensor.
  void add_known(const std::string& tensor, const HostArray& value) const;
  void add_known(const Values& values) const;
  /// Adds the worst of several rows: one that fails, else the one with the largest difference.
  void add_worst(const std::string& tensor, std::span<const HostArray> values,
                 std::span<const HostArray> expected) const;
  /// Adds rows for the case's tensors that start with `prefix`, in its order; for tensors that were
  /// not computed `absent`, or no row.
  void add_all(const std::string& prefix, const Values& values, std::optional<Row> absent) const;
  /// The same, only for tensors that were not computed.
  void add_absent(const std::string& prefix, const Values& values, std::optional<Row> absent) const;
  /// Adds a row from another comparison, with this case's name.
  void add(Row row) const;

  /// Values for `absent`: a failure, or `unsupported`. With a scan over the blocks, tensors inside
  /// them are not available, so these are nothing; unrolled blocks must have all.
  std::optional<Row> fails() const;
  std::optional<Row> is_unsupported() const;

  /// Calls `make`, which adds rows; if it throws, adds a failed row for `tensor`.
  template <typename Make>
  void attempt(const std::string& tensor, const Make& make) const {
    try {
      make();
    } catch (const Stopped&) {
      throw;
    } catch (const std::exception& error) {
      add(failed(name_, tensor, error.what()));
    }
  }

 private:
  std::string name_;
  Limits limits_;
  std::vector<Row>* rows_;
};

/// One program of a case: a graph with the values of its inputs and the names of its outputs.
class CaseGraph {
 public:
  explicit CaseGraph(const Run& run) : program(run.program()), run_(run) {
    program.name = run.c.name();
  }

  /// Adds inputs for parameters, with these values, or with those of files with adapters merged.
  std::vector<Tensor> parameters(std::span<const nn::ParamSpec> specs,
                                 std::vector<pjrt::Buffer> values);
  std::vector<Tensor> parameters(std::span<const nn::ParamSpec> specs,
                                 const model_files::Checkpoint& files,
                                 std::span<const weights::Adapter> adapters = {});
  /// Adds an input with this value, or with that of the case's tensor. The latter is the same
  /// tensor for the same name.
  Tensor input(const HostArray& value, const std::string& name = "");
  Tensor input(const std::string& name);
  /// The inputs whose names start with `prefix`, by the rest of their names: those added so far,
  /// and the case's tensors that it does not expect.
  std::map<std::string, Tensor> inputs(const std::string& prefix);
  /// Gives the input with this name another value for later runs.
  void set(const std::string& name, const HostArray& value);
  /// Adds an output; a second value with the same name is ignored.
  void output(const std::string& name, Tensor value);
  /// Adds tensors with the specs' shapes as outputs: one per layer of a stack, named PREFIX and its
  /// key in checkpoints.
  void outputs(const std::string& prefix, std::span<const nn::ParamSpec> specs,
               std::span<const Tensor> values);
  /// A tap for models: values for which the case has a tensor PREFIXname become outputs.
  std::function<void(const std::string& name, Tensor value)> tap(const std::string& prefix);
  /// Compiles and runs; returns the outputs in order. Graphs with the same text share a program.
  Values run();
  /// The same; outputs with the name of an input become its value for later runs.
  Values step();
  Graph& graph() { return graph_; }

  /// How it is compiled.
  runtime::ProgramOptions program;

 protected:
  Run run_;

 private:
  struct Input {
    Tensor tensor;
    size_t argument = 0;
  };
  struct Output {
    std::string name;  // or the prefix of the keys of `spec`
    Tensor value;
    std::optional<nn::ParamSpec> spec;
  };

  Graph graph_;
  std::vector<pjrt::Buffer> arguments_;
  std::map<std::string, Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace kinema::verification
