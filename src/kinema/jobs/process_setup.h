#pragma once

namespace kinema::jobs {

/// Settings of the whole process, which the library never changes without this call. Call it first,
/// before the program starts threads, as `kinema` does.
struct ProcessSetup {
  /// Installs a SIGBUS handler: a model file that another process truncates, or a failing disk,
  /// causes an Error instead of killing the process.
  bool guard_mapped_files = true;
  /// Hides libprotobuf's log lines about invalid messages.
  bool quiet_protobuf = true;
  /// Hides XLA's log lines on stderr, with TF_CPP_MIN_LOG_LEVEL unless it is set.
  bool quiet_plugins = true;
  /// Sets AWS_EC2_METADATA_DISABLED on machines outside Amazon, where it makes s3:// faster.
  bool no_metadata_server = true;
  /// Makes writes to a closed pipe or socket return an error instead of killing the process.
  bool ignore_sigpipe = true;
  /// Raises the limit of open files to the maximum: each of a thousand processes has one or two
  /// connections to every other one.
  bool raise_open_file_limit = true;

  /// Resets SIGCHLD if the parent ignored it: XLA's plugins run compilers (ptxas) and would not see
  /// their failures.
  bool notice_children = true;

  void apply() const;
};

}  // namespace kinema::jobs
