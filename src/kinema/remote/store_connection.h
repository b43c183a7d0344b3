#pragma once

#include <arrow/filesystem/filesystem.h>
#include <arrow/status.h>

#include <functional>
#include <memory>
#include <string>

#include "kinema/remote/store.h"

/// The store's use of libarrow; for the store's files only.
namespace kinema::remote {

/// A client for the scheme, configured by the environment.
std::shared_ptr<arrow::fs::FileSystem> connect(const StorePath& path, const Timeouts& timeouts);

/// A failure, explained for the user.
struct StoreFailure {
  enum class Kind { MISSING, REFUSED, UNREACHABLE };
  Kind kind = Kind::UNREACHABLE;
  std::string reason;  // one line
  std::string remedy;  // may be empty
};
StoreFailure failure_of(const arrow::Status& status, const StorePath& path);

struct Store::Connection {
  std::shared_ptr<arrow::fs::FileSystem> files;
  Timeouts timeouts;

  static std::string key(const StorePath& path);
  /// Runs `work` until it succeeds, fails permanently, or the retries end. `verb`: `read`.
  void attempt(const StorePath& path, const char* verb,
               const std::function<arrow::Status()>& work) const;
};

}  // namespace kinema::remote
