#include "kinema/runs/verify.h"

#include <algorithm>

#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/device.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/verification/case.h"
#include "kinema/verification/kernels.h"

namespace kinema::runs {

verification::Report verify(const std::string& folder, const config::Loaded& loaded,
                            const VerifyOptions& options, const VerifyObserver& observer) {
  const Job job(observer, options.job);
  job.check_stop();
  check_flags(loaded, job);
  const pjrt::Client client = runtime::open_client(client_spec(loaded.config));
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
  settings.program = program_options(loaded.config);
  settings.check_stop = [&job] { job.check_stop(); };
  settings.on_case = [&, done = int64_t{0}](const std::vector<verification::Row>& rows) mutable {
    job.check_stop();
    task->update(++done, rows.front().name);
    if (observer.on_case) {
      observer.on_case(rows);
    }
  };
  return verification::run(folder, client, settings);
}

verification::Report verify_kernels(const config::Loaded& loaded, const JobOptions& options,
                                    const Observer& observer) {
  const Job job(observer, options);
  job.check_stop();
  check_flags(loaded, job);
  const pjrt::Client client = runtime::open_client(client_spec(loaded.config));
  const auto task = job.task("checking attention kernels", verification::kernel_case_count());
  return verification::verify_kernels(
      client, demanding_kernels(program_options(loaded.config), client, job),
      [&, done = int64_t{0}](const std::vector<verification::Row>& rows) mutable {
        job.check_stop();
        task->update(++done, rows.front().name);
      });
}

}  // namespace kinema::runs
