#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kinema/graph/emit.h"
#include "kinema/job/job.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"
#include "kinema/verification/kernels.h"

namespace kinema::plans {

/// Compiles a program with kernels for the client's kind of device in a child process, so that a
/// compiler crash ends only the child. Returns the error; empty if there is none. The result is
/// cached in `folder`, per version of the plugin. Empty too if no child can be started: the job has
/// no path of a kinema program, the device is unknown, or the compiler does not run there.
std::string kernel_problem(const pjrt::Client& client, const std::string& program,
                           const pjrt::CompileOptions& options, const std::filesystem::path& folder,
                           const Job& job);

/// A lowering that checks kernels of attention, and of norm and rotation, before it uses them. It
/// calls `problem` with a program that contains only the call, on one device, emitted with `alone`.
/// If that returns an error, the compiler's own operations compute the call. Calls without a kernel
/// in text form are not checked.
Lowering with_fallback(
    Lowering lowering, Lowering alone,
    std::function<std::string(verification::KernelKind kind, const std::string& program)> problem);

/// `options` for a program over a mesh (without axes: on one device), with kernels that are
/// compiled in a child process first. If a kernel does not compile, the job logs why, and the
/// compiler's own operations compute that call. Unchanged on a CPU, whose kernels are not compiled
/// by the plugin.
runtime::ProgramOptions with_kernel_check(runtime::ProgramOptions options,
                                          const pjrt::Client& client, const MeshAxes& mesh,
                                          const Job& job);
runtime::ProgramOptions with_kernel_check(runtime::ProgramOptions options,
                                          const runtime::Devices& devices, const Job& job);
/// The same for programs that are useless without their kernels, on one device: throws an Error
/// with the reason.
runtime::ProgramOptions with_required_kernels(runtime::ProgramOptions options,
                                              const pjrt::Client& client, const Job& job);

/// True if this device's kernels of a kind give the same numbers as the same programs without them
/// (verification/kernels.h), or if the device has no kernels. The result is cached in `folder`, per
/// kind of device, version of the plugin and of these kernels; without a writable folder, each call
/// checks again.
///
/// The kernels are compiled in a child process first, as in kernel_problem. If the result is
/// false, the job logs why.
bool kernels_agree(verification::KernelKind kind, const pjrt::Client& client,
                   const runtime::ProgramOptions& options, const std::filesystem::path& folder,
                   const Job& job);

/// The configuration with attention_kernels and norm_rotation_kernel off if those kernels do not
/// agree on this accelerator.
resolve::Settings with_checked_kernels(const resolve::Settings& settings,
                                       const pjrt::Client& client, const Job& job);

}  // namespace kinema::plans
