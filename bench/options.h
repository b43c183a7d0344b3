#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

#include "allocator/large_blocks.h"
#include "core/dtype.h"
#include "models/wan/config.h"

/// The command line of the benches; their peers take the same words.
namespace kinema::bench {

/// How often, in which precision, and where compiled programs go.
struct RunSettings {
  int64_t runs = 5, warmup = 1;
  std::string dtype = "float32", isa = "auto", cache, dump;

  DType precision() const { return *dtype_from_string(dtype); }
  void add_to(CLI::App& app, const std::string& name_of_runs = "--runs") {
    app.add_option(name_of_runs, runs);
    app.add_option("--warmup", warmup);
    app.add_option("--dtype", dtype)->check(CLI::IsMember({"float32", "bfloat16"}));
    app.add_option("--isa", isa, "the most of the instruction set that kinema uses");
    app.add_option("--cache", cache, "executable cache folder");
    app.add_option("--dump", dump, "folder for the programs' text");
  }
};

/// A Wan transformer and what it is given.
struct TransformerSettings {
  int64_t layers, heads, head_dim, ffn;
  int64_t frames, height, width, text = 512, text_dim = 4096, channels = 16;

  void add_to(CLI::App& app) {
    app.add_option("--layers", layers);
    app.add_option("--heads", heads);
    app.add_option("--head-dim", head_dim);
    app.add_option("--ffn", ffn);
    app.add_option("--frames", frames, "latent frames");
    app.add_option("--height", height, "latent rows");
    app.add_option("--width", width, "latent columns");
    app.add_option("--text", text, "text tokens");
    app.add_option("--text-dim", text_dim);
    app.add_option("--channels", channels);
  }
  wan::TransformerConfig config() const {
    wan::TransformerConfig config;
    config.num_layers = layers;
    config.num_attention_heads = heads;
    config.attention_head_dim = head_dim;
    config.ffn_dim = ffn;
    config.text_dim = text_dim;
    config.in_channels = config.out_channels = channels;
    return config;
  }
};

/// Reads the command line and runs; an error is one line, and 1 is returned.
template <typename Run>
int parse_and_run(CLI::App& app, int argc, char** argv, const Run& run) {
  CLI11_PARSE(app, argc, argv);
  allocator::keep_large_blocks();  // as kinema itself does
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << app.get_name() << ": " << error.what() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace kinema::bench
