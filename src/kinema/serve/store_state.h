#pragma once

// Private to the module: what the parts of Store share.

#include <filesystem>
#include <optional>
#include <string>

#include "kinema/io/descriptor.h"
#include "kinema/serve/database.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

struct Store::State {
  /// Locks the folder, and makes the tables or brings them up to date.
  explicit State(const std::filesystem::path& folder);

  io::Descriptor lock;
  bool is_locked;
  std::optional<Database> database;
};

/// A request as it is stored.
MakeRequest stored_request(const std::string& text);

}  // namespace kinema::serve
