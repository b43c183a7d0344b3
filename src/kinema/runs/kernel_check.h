#pragma once

#include <filesystem>

#include "kinema/config/config.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/job.h"
#include "kinema/runtime/program.h"

namespace kinema::runs {

/// Whether the attention kernels of this device give the numbers of the same programs without them
/// (verification/kernels.h). Found out once for a kind of device, a plugin's version and these
/// kernels, and remembered in `folder`; a folder that cannot be written is found out every time.
///
/// Where the job knows a kinema program, that compiles the kernels first: a compiler that dies of
/// them ends its own process only. True for a device without kernels. Where it is false, the job is
/// told why.
bool kernels_agree(const pjrt::Client& client, const runtime::ProgramOptions& options,
                   const std::filesystem::path& folder, const Job& job);

/// Switches attention_kernels off, for an accelerator whose kernels do not agree.
void check_kernels(config::Config& config, const pjrt::Client& client, const Job& job);

}  // namespace kinema::runs
