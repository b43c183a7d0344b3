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

namespace kinema::jobs {

/// Why a process of its own does not compile a program of kernels for the client's kind of device;
/// empty where it does. A compiler that dies of them ends that process only. Found out once for a
/// plugin's version, and remembered in `folder`. Empty too where there is no such process: the job
/// knows no kinema program, nothing is known of the device, or the compiler cannot be asked there.
std::string problem_of_kernels(const pjrt::Client& client, const std::string& program,
                               const pjrt::CompileOptions& options,
                               const std::filesystem::path& folder, const Job& job);

/// Does what `lowering` does, but leaves to the compiler the calls of attention, or of norm and
/// rotation, whose kernels have a problem: `problem` is asked, with a program of the call alone on
/// one device as `alone` writes it, and answers with nothing where there is none. Calls without a
/// kernel that is a text are not asked about.
Lowering tried_first(
    Lowering lowering, Lowering alone,
    std::function<std::string(verification::KernelKind kind, const std::string& program)> problem);

/// `options` for a program over a mesh (without axes: on one device): kernels that this machine has
/// not compiled yet go to a process of their own first. Where that does not compile one, the job is
/// told why in a line, and that call is computed by the compiler's own operations. Unchanged on a
/// CPU, whose kernels no compiler sees.
runtime::ProgramOptions trying_kernels(runtime::ProgramOptions options, const pjrt::Client& client,
                                       const MeshAxes& mesh, const Job& job);
runtime::ProgramOptions trying_kernels(runtime::ProgramOptions options,
                                       const runtime::Devices& devices, const Job& job);
/// The same for programs that are nothing without their kernels, on one device: an Error says why.
runtime::ProgramOptions demanding_kernels(runtime::ProgramOptions options,
                                          const pjrt::Client& client, const Job& job);

/// Whether this device's kernels of a kind give the numbers of the same programs without them
/// (verification/kernels.h). Found out once for a kind of device, a plugin's version and these
/// kernels, and remembered in `folder`; a folder that cannot be written is found out every time.
///
/// They are compiled in a process of its own first, as problem_of_kernels does. True for a device
/// without kernels. Where it is false, the job is told why.
bool kernels_agree(verification::KernelKind kind, const pjrt::Client& client,
                   const runtime::ProgramOptions& options, const std::filesystem::path& folder,
                   const Job& job);

/// The configuration with attention_kernels and norm_rotation_kernel off for an accelerator on
/// which those kernels do not agree.
resolve::Settings with_checked_kernels(const resolve::Settings& settings,
                                       const pjrt::Client& client, const Job& job);

}  // namespace kinema::jobs
