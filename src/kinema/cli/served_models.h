#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/resolve/served_model.h"
#include "kinema/serve/catalogue.h"

namespace kinema::cli {

/// The models of `kinema serve`: one for each configuration, pipeline or hub id.
class ServedModels : public serve::Catalogue {
 public:
  /// `words`: the arguments of the first model; `more`: files, folders or ids of others, each with
  /// the same key=value words. Throws an Error for a configuration that cannot be read.
  ServedModels(const std::vector<std::string>& words, const std::vector<std::string>& more);

  std::vector<serve::Model> models() override;
  std::vector<serve::Lora> loras() override;
  void refresh() override;
  std::vector<serve::Key> keys(const std::string& model) override;
  std::vector<std::string> check(const serve::MakeRequest& request) override;
  serve::FoundSettings read_settings(const std::filesystem::path& file) override;
  std::vector<serve::Base> bases() override;
  std::vector<serve::Key> training_keys(const std::string& base) override;
  serve::CheckedRun check_run(const serve::RunRequest& request) override;
  std::vector<serve::PlanDevice> devices() override;
  void check_device(const std::string& device) override;
  std::string plan_config(const serve::MakeRequest& request) override;
  std::vector<serve::DiskFile> disk() override;
  void add_model(const std::string& source) override;

  struct Entry {
    serve::Model model;
    config::Loaded loaded;
    resolve::ServedModel served;
  };
  /// The first model, whose configuration is also that of the server.
  const Entry& first() const { return entries_.front(); }

 private:
  const Entry& find(const std::string& name);
  void add(const std::vector<std::string>& words);
  /// The configuration of a request. Throws a Refusal that names a key at fault.
  config::Loaded with_request(const serve::MakeRequest& request);

  std::mutex mutex_;
  std::deque<Entry> entries_;  // grows only, so that references stay valid
  std::vector<serve::Lora> loras_;
};

/// Where the weights of a configuration's model are, as far as they are here: a file, a pipeline's
/// folder, that in the hub's cache, or a run's newest checkpoint; empty: nowhere.
std::filesystem::path weights_of(const config::Config& config);

}  // namespace kinema::cli
