#include "kinema/plans/kernel_check.h"

#include <fmt/format.h>

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/graph.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/kernels/attention_call.h"
#include "kinema/kernels/collecting.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/settings.h"
#include "kinema/planning/compile_job.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/plans/check_cache.h"
#include "kinema/resolve/attention_notices.h"
#include "kinema/resolve/device.h"
#include "kinema/runtime/executable_cache.h"

namespace kinema::plans {
namespace {

namespace fs = std::filesystem;
using verification::KernelKind;

/// The name of a kind, and the start of the message that its kernels are not used.
std::string kernels_of(KernelKind kind) {
  return kind == KernelKind::ATTENTION ? "attention kernels" : "the kernel of norm and rotation";
}
std::string without_kernels(KernelKind kind) {
  return kind == KernelKind::ATTENTION ? "attention runs without kernels, which"
                                       : "norm and rotation run without their kernel, which";
}

/// The kernel kind of a call; nothing for other nodes.
std::optional<KernelKind> kind_of_call(const Node& node) {
  if (kernels::attention_call(node)) {
    return KernelKind::ATTENTION;
  }
  const Body* body = node.op == &kCall ? node.get<std::shared_ptr<Body>>().get() : nullptr;
  const bool rotates =
      body != nullptr && std::any_cast<kernels::RmsNormRotateSettings>(&body->settings) != nullptr;
  return rotates ? std::optional(KernelKind::NORM_ROTATION) : std::nullopt;
}

/// The smallest target with the client's kind of device; empty if `plan` does not support it.
std::string small_target(const pjrt::Client& client) {
  if (client.platform_name() == "cpu") {
    return "cpu:1";
  }
  const std::string kind = client.devices().front().description().kind;
  // Plugins show a v4 chip as one device or two; kernels are the same for both.
  const std::string chip = kind == "TPU v4" ? "v4" : std::string(planning::chip_of_kind(kind));
  if (chip.empty()) {
    return "";
  }
  const planning::Chip& known = planning::chip_of_target(chip);
  return chip + (known.family == planning::Family::CUDA ? ":1"
                 : known.grid_axes == 2                 ? ":2x2"
                                                        : ":2x2x1");
}

/// The result of compiling a program in a child process.
struct Tried {
  std::string problem;  // empty: none
  bool lasting = true;  // the result may be cached
};

Tried compile_elsewhere(const pjrt::Client& client, const std::string& program,
                        const pjrt::CompileOptions& options, const Job& job) {
  const std::string target = small_target(client);
  if (job.program().empty() || target.empty()) {
    return {.lasting = false};
  }
  const auto task = job.task("compiling kernels");
  planning::CompileJob compile{.target = planning::parse_target(target),
                               .plugin = client.plugin().path(),
                               .program = program,
                               .options = options,
                               .kernels = true};
  try {
    planning::compile_in_child(compile, job.program(), job.stop());
  } catch (const Stopped&) {
    throw;
  } catch (const planning::NotRequested&) {
    return {.lasting = false};
  } catch (const Error& error) {
    const std::string said = error.what();
    // Signal 9: the system ran out of memory, which may not happen again.
    return {.problem = said.substr(0, said.find('\n')),
            .lasting = said.find("signal 9 ") == std::string::npos};
  }
  return {};
}

fs::path kernels_folder() { return fs::path(runtime::cache_folder()) / "kernels"; }

/// A program with only this call, on arguments; empty if `lowering` does not write a kernel as
/// text.
std::string program_of_call(const Node& node, const Lowering& lowering) {
  Graph graph;
  std::vector<Tensor> in;
  for (const Tensor x : node.inputs) {
    in.push_back(graph.input(x.shape()));
  }
  Node& call = graph.add_multi(*node.op, std::move(in), node.attrs, node.results);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < node.results.size(); ++i) {
    outputs.push_back(call.result(static_cast<int64_t>(i)));
  }
  const auto texts = std::make_shared<std::vector<kernels::KernelText>>();
  std::string program = emit(graph, outputs, {.lowering = kernels::collecting(lowering, texts)});
  return texts->empty() ? "" : program;
}

/// `options` with the device's kernels, each checked first; `told` is called with problems.
runtime::ProgramOptions with_lowering(
    runtime::ProgramOptions options, const pjrt::Client& client, const MeshAxes& mesh,
    const Job& job, const std::function<void(KernelKind kind, const std::string& why)>& told) {
  const std::string platform = client.platform_name();
  if (platform == "cpu" || !options.kernels || options.emit.lowering) {
    return options;
  }
  const kernels::KernelOptions wanted{.gpu_attention = options.gpu_attention,
                                      .norm_rotation = options.norm_rotation};
  kernels::Target target{.platform = platform, .chip = client.devices().front().description().kind};
  const Lowering alone = kernels::for_target(target, wanted).lowering;
  target.mesh = mesh;
  const Lowering lowering = kernels::for_target(target, wanted).lowering;
  if (!lowering) {
    return options;
  }
  options.emit.lowering = with_fallback(
      lowering, alone,
      [client, compile = options.compile, job, told](KernelKind kind, const std::string& program) {
        std::string why = kernel_problem(client, program, compile, kernels_folder(), job);
        if (!why.empty()) {
          told(kind, why);
        }
        return why;
      });
  return options;
}

std::string problem_of(const verification::Row& row) {
  if (row.ok || row.unsupported) {
    return "";
  }
  return row.compared ? fmt::format("{}: {} is off by {:.3g}, expected at most {:.3g}", row.name,
                                    row.tensor, row.max_diff, row.limit)
                      : fmt::format("{}: {}", row.name, row.message);
}

std::string problem_of_numbers(KernelKind kind, const pjrt::Client& client,
                               const runtime::ProgramOptions& options, const Job& job) {
  const auto task = job.task("checking " + kernels_of(kind), verification::kernel_case_count(kind));
  int64_t done = 0;
  std::string problem;
  const auto on_case = [&](const std::vector<verification::Row>& rows) {
    job.check_stop();
    for (const verification::Row& row : rows) {
      problem = problem.empty() ? problem_of(row) : problem;
    }
    task->update(++done);
  };
  verification::verify_kernels(kind, client, options, on_case);
  return problem;
}

}  // namespace

std::string kernel_problem(const pjrt::Client& client, const std::string& program,
                           const pjrt::CompileOptions& options, const fs::path& folder,
                           const Job& job) {
  const std::string key = runtime::ExecutableCache::key(client, program, options.serialize());
  const fs::path file = folder / ("compiled-" + key + ".json");
  if (const std::optional<std::string> known = plans::read_check(file)) {
    return *known;
  }
  const Tried tried = compile_elsewhere(client, program, options, job);
  if (tried.lasting) {
    plans::write_check(file, tried.problem);
  }
  return tried.problem;
}

Lowering with_fallback(
    Lowering lowering, Lowering alone,
    std::function<std::string(KernelKind kind, const std::string& program)> problem) {
  return [lowering = std::move(lowering), alone = std::move(alone), problem = std::move(problem)](
             const Node& node, Emitter& out) {
    if (const std::optional<KernelKind> kind = kind_of_call(node)) {
      const std::string program = program_of_call(node, alone);
      if (!program.empty() && !problem(*kind, program).empty()) {
        return false;
      }
    }
    return lowering(node, out);
  };
}

runtime::ProgramOptions with_kernel_check(runtime::ProgramOptions options,
                                          const pjrt::Client& client, const MeshAxes& mesh,
                                          const Job& job) {
  const auto told = std::make_shared<std::set<std::string>>();
  const auto tell = [job, told](KernelKind kind, const std::string& why) {
    const std::string line = fmt::format("{} {} not compile: {}", without_kernels(kind),
                                         kind == KernelKind::ATTENTION ? "do" : "does", why);
    if (told->insert(line).second) {
      job.notice(line);
    }
  };
  return with_lowering(std::move(options), client, mesh, job, tell);
}

runtime::ProgramOptions with_kernel_check(runtime::ProgramOptions options,
                                          const runtime::Devices& devices, const Job& job) {
  const mesh::Placement& place = devices.placement();
  return with_kernel_check(std::move(options), devices.client(),
                           place.active() ? place.mesh().axes : MeshAxes{}, job);
}

runtime::ProgramOptions with_required_kernels(runtime::ProgramOptions options,
                                              const pjrt::Client& client, const Job& job) {
  options.gpu_attention.must = false;  // a shape without a kernel is not an error here
  return with_lowering(std::move(options), client, {}, job,
                       [](KernelKind, const std::string& why) { fail("{}", why); });
}

bool kernels_agree(KernelKind kind, const pjrt::Client& client,
                   const runtime::ProgramOptions& given, const fs::path& folder, const Job& job) {
  runtime::ProgramOptions options = given;
  options.saved.clear();
  options.dump.clear();
  options.emit = {.lowering = given.emit.lowering};
  const std::string program = verification::kernel_program(kind, client, options);
  if (program.empty()) {
    return true;
  }
  const fs::path file =
      folder /
      (runtime::ExecutableCache::key(client, program, options.compile.serialize()) + ".json");
  std::optional<std::string> problem = plans::read_check(file);
  if (!problem) {
    const Tried tried = compile_elsewhere(client, program, options.compile, job);
    problem =
        tried.problem.empty() ? problem_of_numbers(kind, client, options, job) : tried.problem;
    if (tried.problem.empty() || tried.lasting) {
      plans::write_check(file, *problem);
    }
  }
  if (!problem->empty()) {
    job.notice(fmt::format(
        "{} {} not agree on this device: {}; `kinema verify --kernels` shows all",
        without_kernels(kind), kind == KernelKind::ATTENTION ? "do" : "does", *problem));
  }
  return problem->empty();
}

resolve::Settings with_checked_kernels(const resolve::Settings& settings,
                                       const pjrt::Client& client, const Job& job) {
  const std::string platform = client.platform_name();
  job.notice(resolve::attention_notices(
      settings, platform == "tpu" ? client.devices().front().description().kind : ""));
  const resolve::Kernels wanted = resolve::wanted_kernels(settings);
  if (platform == "cpu" || !wanted.attention) {
    return settings;
  }
  const auto agree = [&](KernelKind kind) {
    return kernels_agree(kind, client, resolve::program_options(settings), kernels_folder(), job);
  };
  resolve::Kernels checked = wanted;
  checked.attention = agree(KernelKind::ATTENTION);
  if (checked.attention && checked.norm_rotation) {
    checked.norm_rotation = agree(KernelKind::NORM_ROTATION);
  }
  return resolve::with_kernels(settings, checked);
}

}  // namespace kinema::plans
