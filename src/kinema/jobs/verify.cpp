#include "kinema/jobs/verify.h"

#include <algorithm>

#include "kinema/plans/kernel_check.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/device.h"
#include "kinema/verification/case.h"
#include "kinema/verification/kernels.h"

namespace kinema::jobs {

verification::Report verify(const std::string& folder, const resolve::Settings& loaded,
                            const VerifyOptions& options, const VerifyObserver& observer) {
  const Job job(observer, options.job);
  job.check_stop();
  resolve::check_flags(loaded, job);
  const pjrt::Client client = runtime::open_client(resolve::client_spec(loaded));
  const std::vector<std::string> names = verification::case_names(folder);
  const auto task =
      job.task("verifying", std::ranges::count_if(names, [&](const std::string& name) {
                 return name.find(options.filter) != std::string::npos;
               }));
  task->update(0);
  verification::Options settings;
  settings.filter = options.filter;
  settings.scan_on = options.scan_on;
  settings.scan_off = options.scan_off;
  settings.program = resolve::program_options(loaded);
  settings.check_stop = [&job] { job.check_stop(); };
  settings.on_case = [&, done = int64_t{0}](const std::vector<verification::Row>& rows) mutable {
    job.check_stop();
    task->update(++done, rows.front().name);
    job.tell(observer.on_case, rows);
  };
  return verification::run(folder, client, settings);
}

verification::Report verify_kernels(const resolve::Settings& loaded, const JobOptions& options,
                                    const Observer& observer) {
  const Job job(observer, options);
  job.check_stop();
  resolve::check_flags(loaded, job);
  const pjrt::Client client = runtime::open_client(resolve::client_spec(loaded));
  using verification::KernelKind;
  const runtime::ProgramOptions program = resolve::program_options(loaded);
  std::vector<KernelKind> kinds{KernelKind::ATTENTION};
  // Most devices do not have this kernel: no line about it.
  if (!verification::kernel_program(KernelKind::NORM_ROTATION, client, program).empty()) {
    kinds.push_back(KernelKind::NORM_ROTATION);
  }
  int64_t cases = 0;
  for (const KernelKind kind : kinds) {
    cases += verification::kernel_case_count(kind);
  }
  const auto task = job.task("checking kernels", cases);
  int64_t done = 0;
  const auto on_case = [&](const std::vector<verification::Row>& rows) {
    job.check_stop();
    task->update(++done, rows.front().name);
  };
  verification::Report report;
  for (const KernelKind kind : kinds) {
    const verification::Report more = verification::verify_kernels(
        kind, client, plans::with_required_kernels(program, client, job), on_case);
    report.rows.insert(report.rows.end(), more.rows.begin(), more.rows.end());
  }
  return report;
}

}  // namespace kinema::jobs
