#pragma once

namespace kinema::jobs {

/// What a program may want of its whole process; the library touches none of it by itself. A
/// program's first call, before it starts threads: what `kinema` itself does.
struct ProcessSetup {
  /// A handler of SIGBUS: a model file that another process shortens, or a disk that fails, is an
  /// Error and not the end of the process.
  bool guard_mapped_files = true;
  /// libprotobuf's own lines about bytes that are no message.
  bool quiet_protobuf = true;
  /// XLA's own lines on stderr, by TF_CPP_MIN_LOG_LEVEL where it is not set.
  bool quiet_plugins = true;
  /// AWS_EC2_METADATA_DISABLED, on machines that are not Amazon's: s3:// answers sooner.
  bool no_metadata_server = true;
  /// Writing to a closed pipe or socket is an error of that write, not the end of the process.
  bool ignore_sigpipe = true;
  /// As many open files as the system lets the process ask for: one of a thousand processes has a
  /// connection or two to each.
  bool many_open_files = true;

  /// SIGCHLD as by default, where the parent had it ignored: XLA's plugins run compilers (ptxas),
  /// and would not learn that one failed.
  bool notice_children = true;

  void apply() const;
};

}  // namespace kinema::jobs
