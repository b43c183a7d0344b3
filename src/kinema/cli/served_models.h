#pragma once

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

  /// The configuration of the first model, which is also that of the server.
  const config::Loaded& first() const { return entries_.front().loaded; }

 private:
  struct Entry {
    serve::Model model;
    config::Loaded loaded;
    resolve::ServedModel served;
  };
  const Entry& find(const std::string& name);
  void add(const std::vector<std::string>& words);

  std::vector<Entry> entries_;  // never changes after the constructor
  std::mutex mutex_;
  std::vector<serve::Lora> loras_;
};

}  // namespace kinema::cli
