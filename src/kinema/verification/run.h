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
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/verification/case.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/verify.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/lora.h"

namespace kinema::verification {

/// Arrays that were computed, by the names that a case has for them.
using Values = std::vector<std::pair<std::string, HostArray>>;

/// The array of that name, or null.
const HostArray* find_value(const Values& values, std::string_view name);
/// The array of that name; throws an Error when there is none.
const HostArray& value_of(const Values& values, std::string_view name);

/// A spec's stacked tensor as one array per layer under the checkpoint's key, or the array itself.
Values unstack(const nn::ParamSpec& spec, const HostArray& stacked);

/// What the cases of one run share: the device and the programs compiled so far.
struct Session {
  Session(const pjrt::Client& device, const Options& asked);

  pjrt::Client client;
  Options options;
  std::shared_ptr<sample::StepPrograms> step_programs;
  std::map<std::string, runtime::Program> programs;  // by their graphs' text
  std::map<std::string, std::any> models;            // see shared

  /// What `make` makes, as a shared pointer; once for each key.
  template <typename Make>
  auto shared(const std::string& key, const Make& make) {
    std::any& known = models[key];
    if (!known.has_value()) {
      known = make();
    }
    return std::any_cast<decltype(make())>(known);
  }
};

/// A row that counts: how many of the prompts differ, and how the first does.
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

/// One case, in one of the forms that models are computed in: what it gives, and the comparer that
/// makes its rows, each of an array that was computed and the case's tensor of the same name, by
/// the case's limits.
class Run {
 public:
  Run(const Case& given, Session& shared, Limits limits, std::vector<Row>& rows);

  const Case& c;
  Session& session;
  /// How models are computed: in f32 at the device's highest precision; blocks as a loop unless
  /// that is switched off.
  nn::ModelOptions options;

  bool has(const std::string& tensor) const { return c.has(tensor); }
  HostArray tensor(const std::string& name) const { return c.tensor(name); }
  /// The member of the case's JSON.
  const io::Json& about(std::string_view key) const { return c.about().at(key); }
  /// The file or folder of the case's set that the JSON names there.
  std::filesystem::path path(std::string_view key) const {
    return c.folder() / about(key).as_string();
  }
  const runtime::ProgramOptions& program() const { return session.options.program; }

  /// The forms that are asked for: blocks one after the other, and `NAME (scan)` as a loop.
  std::vector<Run> forms() const;
  /// The same with `suffix` behind the case's name, or with a limit before the others.
  Run with(const std::string& suffix) const;
  Run with(const std::string& pattern, const Limit& limit) const;

  /// A row for a tensor that the case must have; or against another array.
  void add(const std::string& tensor, const HostArray& value) const;
  void add(const std::string& tensor, const HostArray& value, const HostArray& expected) const;
  void add(const Values& values) const;
  /// A row where the case has the tensor.
  void add_known(const std::string& tensor, const HostArray& value) const;
  void add_known(const Values& values) const;
  /// The worst of several rows: one that misses its limit, else that of the largest difference.
  void add_worst(const std::string& tensor, std::span<const HostArray> values,
                 std::span<const HostArray> expected) const;
  /// Rows for the case's tensors that begin with `prefix`, in its order; of those that were not
  /// computed `absent`, or none.
  void add_all(const std::string& prefix, const Values& values, std::optional<Row> absent) const;
  /// Of these only the ones that were not computed.
  void add_absent(const std::string& prefix, const Values& values, std::optional<Row> absent) const;
  /// A row that was made otherwise, under this case's name.
  void add(Row row) const;

  /// What `absent` may be: a failure, or `unsupported`. A loop over the blocks offers nothing
  /// inside them, so that there is none; one after the other must offer all.
  std::optional<Row> fails() const;
  std::optional<Row> is_unsupported() const;

  /// The rows that `make` adds; where it throws, one that says why there is no such tensor.
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
  explicit CaseGraph(const Run& run) : run_(run) {}

  /// Inputs for parameters, with their values; or with those of files, and what adapters add to
  /// them.
  std::vector<Tensor> parameters(std::span<const nn::ParamSpec> specs,
                                 std::vector<pjrt::Buffer> values);
  std::vector<Tensor> parameters(std::span<const nn::ParamSpec> specs,
                                 const weights::Checkpoint& files,
                                 std::span<const weights::Adapter> adapters = {});
  /// An input with this value, or the case's tensor of that name.
  Tensor input(const HostArray& value, const std::string& name = "");
  Tensor input(const std::string& name) { return input(run_.tensor(name), name); }
  /// A name that is already there keeps its first value.
  void output(const std::string& name, Tensor value);
  /// Tensors of the specs' shapes: each layer of a stack is an output, PREFIX before its key in
  /// checkpoints.
  void outputs(const std::string& prefix, std::span<const nn::ParamSpec> specs,
               std::span<const Tensor> values);
  /// A model's tap: what the case has a tensor PREFIXname for becomes an output.
  std::function<void(const std::string& name, Tensor value)> tap(const std::string& prefix);
  /// Compiles and runs; the outputs in the order in which they were named. Graphs that emit the
  /// same text share a program.
  Values run();

 protected:
  Run run_;

 private:
  struct Output {
    std::string name;  // or what goes before the keys of `spec`
    Tensor value;
    std::optional<nn::ParamSpec> spec;
  };

  Graph graph_;
  std::vector<pjrt::Buffer> arguments_;
  std::vector<Output> outputs_;
};

}  // namespace kinema::verification
