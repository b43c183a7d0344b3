#include <algorithm>
#include <filesystem>

#include "kinema/data/video_source.h"
#include "kinema/encoders/umt5_encoder.h"
#include "kinema/text/clean.h"
#include "kinema/text/tokenizer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/counting.h"
#include "kinema/verification/session.h"
#include "kinema/weights/embedding.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/t5.h"

namespace kinema::verification {
namespace {

namespace fs = std::filesystem;

constexpr Limit kHidden{.absolute = 1e-4};

void pad(const text::Tokenizer& tokenizer, const text::Tokens& tokens, std::span<int64_t> ids,
         std::span<int64_t> mask) {
  std::ranges::fill(ids, tokenizer.pad());
  std::ranges::copy(tokens.ids, ids.begin());
  std::ranges::fill(mask.first(tokens.ids.size()), 1);
}

/// `KEY.ids` and `KEY.mask` of prompts, padded to the table's width.
void add_table(std::vector<Row>& rows, const Case& c, const text::Tokenizer& tokenizer,
               const std::string& prefix, const std::vector<std::string>& prompts) {
  const HostArray want = c.tensor(prefix + "ids");
  HostArray ids(want.shape);
  HostArray mask(want.shape);
  const int64_t width = want.shape.dims.back();
  check(want.shape.elements() == width * static_cast<int64_t>(prompts.size()),
        "[verify] {}ids is {} for {} prompts", prefix, to_string(want.shape), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto row = static_cast<size_t>(width);
    pad(tokenizer, tokenizer.encode(prompts[i], width), ids.as<int64_t>().subspan(i * row, row),
        mask.as<int64_t>().subspan(i * row, row));
  }
  rows.push_back(compare(c.name(), prefix + "ids", ids, want, {}));
  rows.push_back(compare(c.name(), prefix + "mask", mask, c.tensor(prefix + "mask"), {}));
}

/// The encoder of a folder on given ids and mask; with the taps asked for, by their names.
std::map<std::string, HostArray> run_umt5(const fs::path& folder, const HostArray& ids,
                                          const HostArray& mask, t5::EncoderOptions options,
                                          const std::vector<std::string>& taps, Session& session) {
  const io::ModelFolder files = io::ModelFolder::open(folder);
  const t5::EncoderConfig config = weights::parse_t5_config(files.config());
  weights::check_t5_tensors(files, config);
  const auto specs = t5::parameters(config, options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  const HostArray rows = convert(
      weights::embedding_rows(weights::t5_embedding(files), ids.shape.dims, ids.as<int64_t>()),
      DType::F32);
  std::vector<std::string> names{"hidden"};
  std::vector<Tensor> outputs(1);
  t5::EncoderInputs in{.embeddings = graph.input(rows.shape, "embeddings"),
                       .mask = graph.input(mask.shape, "mask")};
  in.tap = [&](const std::string& name, Tensor value) {
    if (std::ranges::find(taps, name) != taps.end()) {
      names.push_back(name);
      outputs.push_back(value);
    }
  };
  outputs[0] = t5::encoder(params, config, options, in);
  const runtime::Program& program = session.program(graph, outputs, "umt5");
  std::vector<pjrt::Buffer> buffers = weights::load_tensors(files, specs, session.client());
  buffers.push_back(session.client().to_device(rows));
  buffers.push_back(session.client().to_device(mask));
  const auto results = program.run(std::span<const pjrt::Buffer>(buffers));
  std::map<std::string, HostArray> out;
  for (size_t i = 0; i < results.size(); ++i) {
    out.emplace(names[i], results[i].to_host());
  }
  return out;
}

t5::EncoderOptions encoder_options(const Session::Form& form) {
  return {.precision = form.options.precision, .scan_layers = form.options.scan_layers};
}

/// `short` and `long`: ids and mask to hidden states, with what lies between.
void add_hidden(std::vector<Row>& rows, const Case& c, const std::string& key,
                const Session::Form& form, Session& session) {
  const std::string name = c.name() + form.suffix;
  const std::string prefix = key + ".tap.";
  std::vector<std::string> taps;
  for (const std::string& tap : c.names(prefix)) {
    taps.push_back(tap.substr(prefix.size()));
  }
  const auto values = run_umt5(c.model(), c.tensor(key + ".ids"), c.tensor(key + ".mask"),
                               encoder_options(form), taps, session);
  rows.push_back(
      compare(name, key + ".hidden", values.at("hidden"), c.tensor(key + ".hidden"), kHidden));
  for (const std::string& tap : taps) {
    if (const auto value = values.find(tap); value != values.end()) {
      rows.push_back(compare(name, prefix + tap, value->second, c.tensor(prefix + tap), kHidden));
    } else if (!form.options.scan_layers) {
      rows.push_back(unsupported(name, prefix + tap));
    }
  }
}

}  // namespace

std::vector<Row> tokenizer_rows(const Case& c, Session& /*session*/) {
  const auto tokenizer = text::Tokenizer::open(c.folder() / c.about().at("tokenizer").as_string());
  std::vector<Row> rows;
  Count cleaned(c, "cleaned");
  Count tokens(c, "tokens");
  Count raw(c, "raw_ids");
  std::vector<std::string> prompts;
  const int64_t width = c.tensor("ids").shape.dims.back();
  for (const io::Json& each : c.about().at("prompts").items()) {
    const std::string& name = each.at("name").as_string();
    const std::string& prompt = each.at("prompt").as_string();
    const std::string& want = each.at("cleaned").as_string();
    const std::string got = text::clean_prompt(prompt);
    cleaned.add(got == want, name, io::Json(got).dump(), io::Json(want).dump());
    prompts.push_back(got);
    raw.add(name, tokenizer.encode(prompt, width).ids, each.at("raw_ids").as_ints());
    std::vector<std::string> texts;
    for (const int64_t id : tokenizer.encode(want, width).ids) {
      texts.push_back(tokenizer.token(id));
    }
    tokens.add(name, texts, strings(each.at("tokens")));
  }
  rows = {cleaned.row, raw.row, tokens.row};
  add_table(rows, c, tokenizer, "", prompts);
  for (const std::string& tensor : c.names("truncated")) {
    if (tensor.ends_with(".ids")) {
      add_table(rows, c, tokenizer, tensor.substr(0, tensor.size() - 3), {prompts.back()});
    }
  }
  return rows;
}

std::vector<Row> umt5_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    for (const char* key : {"short", "long"}) {
      add_hidden(rows, c, key, form, session);
    }
  }
  const io::Json& about = c.about().at("prompt_embeds");
  for (const bool batched : {false, true}) {
    const HostArray states = session
                                 .text_encoder(c.model().parent_path(),
                                               about.at("max_sequence_length").as_int(), batched)
                                 .encode(strings(about.at("prompts")))
                                 .states;
    rows.push_back(compare(c.name() + (batched ? " (batched)" : ""), "prompt_embeds", states,
                           c.tensor("prompt_embeds"), kHidden));
  }
  return rows;
}

std::vector<Row> text_variant_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const std::string& tensor : c.names("text_")) {
    const std::string variant = tensor.substr(0, tensor.find('.')).substr(5);
    for (const Session::Form& form : session.forms()) {
      const std::string name = c.name() + form.suffix;
      try {
        const HostArray ids = c.tensor("text.ids");
        const HostArray mask = HostArray::from<int64_t>(
            DType::S64, ids.shape.dims,
            std::vector<int64_t>(static_cast<size_t>(ids.shape.elements()), 1));
        const auto values = run_umt5(c.folder() / "variants" / ("text_encoder_" + variant), ids,
                                     mask, encoder_options(form), {}, session);
        rows.push_back(compare(name, tensor, values.at("hidden"), c.tensor(tensor), kHidden));
      } catch (const Error& error) {
        rows.push_back(failed(name, tensor, error.what()));
      }
    }
  }
  return rows;
}

std::vector<Row> caption_rows(const Case& c, Session& session) {
  constexpr std::string_view kModel = "/text_encoder";
  constexpr std::string_view kStates = ".encoder_hidden_states";
  const std::string& models = c.about().at("model").as_string();
  const size_t end = models.find(kModel);
  check(end != std::string::npos, "[verify] {} names no text_encoder",
        c.about().at("model").where());
  const size_t space = models.rfind(' ', end);
  const size_t start = space == std::string::npos ? 0 : space + 1;
  const fs::path pipeline = c.folder() / models.substr(start, end - start);
  std::vector<Row> rows;
  const auto clips = data::list_clips(c.folder() / "dataset");
  for (const std::string& tensor : c.names("clip_")) {
    if (!tensor.ends_with(kStates)) {
      continue;
    }
    const std::string stem = tensor.substr(0, tensor.size() - kStates.size());
    const auto clip = std::ranges::find_if(
        clips, [&](const data::CaptionedClip& each) { return each.path.stem() == stem; });
    check(clip != clips.end(), "[verify] the data set has no clip {}", stem);
    const HostArray want = c.tensor(tensor);
    rows.push_back(compare(c.name(), tensor,
                           session.text_encoder(pipeline, want.shape.dims.at(0))
                               .encode(std::span(&clip->caption, 1))
                               .states,
                           want, kHidden));
  }
  return rows;
}

std::vector<Row> prompt_rows(const Case& c, Session& session) {
  const io::Json& call = c.about().at("call");
  const encoders::TextEncoder& encoder = session.text_encoder(
      c.folder() / c.about().at("pipeline").as_string(), call.at("max_sequence_length").as_int());
  std::vector<Row> rows;
  const auto add = [&](const char* key, const char* tensor) {
    const io::Json* prompt = call.find(key);
    if (c.has(tensor)) {
      // Without a negative prompt the empty one stands for it.
      const std::string text = prompt == nullptr || prompt->is_null() ? "" : prompt->as_string();
      rows.push_back(compare(c.name(), tensor, encoder.encode(std::span(&text, 1)).states,
                             c.tensor(tensor), kHidden));
    }
  };
  add("prompt", "prompt_embeds");
  add("negative_prompt", "negative_prompt_embeds");
  return rows;
}

}  // namespace kinema::verification
