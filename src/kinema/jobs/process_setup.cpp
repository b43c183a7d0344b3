#include "kinema/jobs/process_setup.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "kinema/io/mapped_file.h"
#include "kinema/records/example_proto.h"
#include "kinema/remote/store.h"

namespace kinema::jobs {

void ProcessSetup::apply() const {
  if (ignore_sigpipe) {
    std::signal(SIGPIPE, SIG_IGN);
  }
  if (notice_children) {
    std::signal(SIGCHLD, SIG_DFL);
  }
  if (rlimit limit{}; raise_open_file_limit && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // on failure, connections report the error
  }
  if (quiet_plugins) {
    // Plugins read it when they are loaded. With 3 they print only the lines before an abort; the
    // caller gets errors as values.
    ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*replace=*/0);
  }
  if (guard_mapped_files) {
    io::guard_mappings();
  }
  if (quiet_protobuf) {
    records::quiet_protobuf();
  }
  if (no_metadata_server) {
    remote::disable_metadata_server();
  }
}

}  // namespace kinema::jobs
