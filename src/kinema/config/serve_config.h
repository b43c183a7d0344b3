#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/field.h"

namespace kinema::config {

/// `kinema serve`: where it listens, who may ask, and its limits.
struct ServeConfig {
  std::vector<std::string> serve_address{"127.0.0.1"};
  int64_t serve_port = 7865;
  std::string serve_folder;
  std::vector<std::string> serve_models;
  std::string serve_token = "file";
  std::vector<std::string> serve_hosts;
  std::vector<std::string> serve_origins;
  std::string tls_cert;
  std::string tls_key;
  int64_t serve_queue = 64;
  int64_t serve_upload_megabytes = 32;
  int64_t serve_unload_seconds = 600;
  int64_t serve_bin_days = 30;
  std::string serve_page;
  std::vector<std::string> serve_datasets;
  int64_t serve_keep_models = 1;
  std::string serve_training = "auto";
  bool serve_downloads = false;
  int64_t serve_preview_steps = 1;

  bool operator==(const ServeConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("serve_address", self.serve_address, UNRELATED,
          {.help = "serve: IP addresses to listen on; 0.0.0.0: every one of this machine",
           .min_items = 1,
           .distinct = true,
           .or_item = true,
           .of = Of::START});
    visit("serve_port", self.serve_port, UNRELATED,
          {.help = "serve: port", .min = 1, .max = 65535, .of = Of::START});
    visit("serve_folder", self.serve_folder, UNRELATED,
          {.help = "serve: folder of queue, outputs and uploads; empty: "
                   "~/.local/share/kinema/serve",
           .of = Of::START});
    visit("serve_models", self.serve_models, UNRELATED,
          {.help = "serve: more models: configurations, folders or hub ids of pipelines",
           .distinct = true,
           .or_item = true,
           .of = Of::START});
    visit("serve_token", self.serve_token, UNRELATED,
          {.help = "serve: file: clients need the token in the file `token` of serve_folder, which "
                   "is made at the first start; none: everyone on this machine may ask, on "
                   "loopback addresses only",
           .one_of = "file | none",
           .of = Of::START});
    visit("serve_hosts", self.serve_hosts, UNRELATED,
          {.help = "serve: names by which clients reach this server, with the port unless it is "
                   "that of their scheme: studio.example",
           .distinct = true,
           .or_item = true,
           .of = Of::START});
    visit("serve_origins", self.serve_origins, UNRELATED,
          {.help = "serve: sites whose scripts may ask, with the token: https://studio.example",
           .distinct = true,
           .or_item = true,
           .of = Of::START});
    visit("tls_cert", self.tls_cert, UNRELATED,
          {.help = "serve: PEM file with the certificate chain; empty: no TLS", .of = Of::START});
    visit("tls_key", self.tls_key, UNRELATED,
          {.help = "serve: PEM file with the certificate's key",
           .with = "tls_cert",
           .of = Of::START});
    visit("serve_queue", self.serve_queue, UNRELATED,
          {.help = "serve: jobs that may wait; more are refused",
           .min = 1,
           .max = 100000,
           .of = Of::START});
    visit("serve_upload_megabytes", self.serve_upload_megabytes, UNRELATED,
          {.help = "serve: size of a picture that clients may send",
           .min = 1,
           .max = 4096,
           .of = Of::START});
    visit("serve_unload_seconds", self.serve_unload_seconds, UNRELATED,
          {.help = "serve: seconds without work after which the model is unloaded; 0: never",
           .min = 0,
           .of = Of::START});
    visit("serve_bin_days", self.serve_bin_days, UNRELATED,
          {.help = "serve: days after which outputs in the bin are removed",
           .min = 0,
           .of = Of::START});
    visit("serve_page", self.serve_page, UNRELATED,
          {.help = "serve: folder with the files of the page; empty: those in the program",
           .of = Of::START});
    visit("serve_datasets", self.serve_datasets, UNRELATED,
          {.help = "serve: folders with clips and captions, which clients may look at, train with, "
                   "and change the captions of",
           .distinct = true,
           .or_item = true,
           .of = Of::START});
    visit("serve_keep_models", self.serve_keep_models, UNRELATED,
          {.help = "serve: models that stay loaded, as long as their memory is there",
           .min = 1,
           .max = 64,
           .of = Of::START});
    visit("serve_training", self.serve_training, UNRELATED,
          {.help = "serve: share: requests are made while a run trains; exclusive: the model is "
                   "unloaded, and requests wait; auto: share on a CPU with memory for both",
           .one_of = "auto | share | exclusive",
           .of = Of::START});
    visit("serve_downloads", self.serve_downloads, UNRELATED,
          {.help = "serve: clients may download models from the hub", .of = Of::START});
    visit("serve_preview_steps", self.serve_preview_steps, UNRELATED,
          {.help = "serve: a preview after every n-th step, at most two a second; 0: none",
           .min = 0,
           .max = 1000,
           .of = Of::START});
  }
};

}  // namespace kinema::config
