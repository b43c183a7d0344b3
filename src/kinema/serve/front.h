#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/http/server.h"
#include "kinema/serve/catalogue.h"
#include "kinema/serve/downloads.h"
#include "kinema/serve/queue.h"
#include "kinema/serve/sharing.h"

/// `kinema serve`: an HTTP server in front of an engine process. The front has no compiler and no
/// device in its process, keeps jobs and outputs in a database, and loses nothing that it has
/// acknowledged when any of the processes is killed.
namespace kinema::serve {

struct FrontOptions {
  std::filesystem::path folder;           // of database, outputs and uploads
  http::ServerOptions server;             // addresses, port, TLS
  std::vector<std::string> hosts = {};    // names of this server besides its addresses
  std::vector<std::string> origins = {};  // http::GateOptions
  /// The token; empty: none is asked for, which is allowed on loopback addresses only.
  std::string token = {};
  QueueOptions queue = {};
  std::vector<std::string> train = {};     // the command of a training run, RunsOptions::command
  std::vector<std::string> plan = {};      // PlansOptions::command
  std::vector<std::string> look = {};      // of Looks
  std::vector<std::string> datasets = {};  // folders of clips
  WhileTraining while_training = WhileTraining::AUTO;
  /// How models are downloaded; empty: they are not.
  Fetch fetch = {};
  int64_t upload_bytes = 32 << 20;
  int64_t bin_days = 30;            // outputs in the bin are removed after that
  std::filesystem::path page = {};  // serves the page from this folder instead of from the program
  std::string version = {};
};

/// The token of a folder, from its file `token`, which is made with a new one where it is missing
/// and readable by its owner only. Throws an Error for a file that others may read.
std::string folder_token(const std::filesystem::path& folder);

/// A running server.
class Front {
 public:
  /// Throws an Error if the folder or the port cannot be used.
  Front(FrontOptions options, Catalogue& catalogue);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  /// As stop(0).
  ~Front();

  uint16_t port() const;
  /// The address with the token, for a browser.
  std::string link() const;
  /// Takes no more requests, tells event streams, gives answers that are being made `grace`, stops
  /// the running job, which waits again, and ends the engine.
  void stop(std::chrono::milliseconds grace);
  Queue& queue();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::serve
