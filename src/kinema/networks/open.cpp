#include "kinema/networks/open.h"

#include "kinema/networks/wan.h"

// Where a configuration, a checkpoint or a name is told which family it is of: there is one.
namespace kinema::networks {

Network open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    io::Json config = io::Json::read(path / "config.json");
    if (!weights::is_original_config(config)) {
      return from_config(config);  // without a look at the weights
    }
  }
  return open(weights::Checkpoint::open(path));
}

Network open(const weights::Checkpoint& checkpoint) { return wan_from_checkpoint(checkpoint); }

Network from_config(const io::Json& config) { return wan_from_config(config); }

std::optional<io::Json> released_config(std::string_view name) { return released_wan_config(name); }

io::Json default_config() { return *released_wan_config("Wan2.1-T2V-1.3B"); }

}  // namespace kinema::networks
