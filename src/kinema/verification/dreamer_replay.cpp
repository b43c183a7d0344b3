#include <algorithm>
#include <limits>
#include <set>

#include "kinema/core/error.h"
#include "kinema/replay/rates.h"
#include "kinema/replay/replay.h"
#include "kinema/replay/slices.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using Numbers = std::vector<double>;

HostArray as_array(const Numbers& numbers) {
  return HostArray::from<double>(DType::F64, {static_cast<int64_t>(numbers.size())}, numbers);
}

/// Adds a row for numbers.
void add_numbers(const Run& run, const std::string& what, const Numbers& actual,
                 const Numbers& expected) {
  run.add(what, as_array(actual), as_array(expected));
}

Numbers numbers_of(const io::Json& items) {
  Numbers out;
  for (const io::Json& item : items.items()) {
    out.push_back(item.as_number());
  }
  return out;
}

HostArray flag_of(bool value) {
  return HostArray::from<uint8_t>(DType::U8, {},
                                  std::vector<uint8_t>{value ? uint8_t{1} : uint8_t{0}});
}
HostArray number_of(float value) { return HostArray::f32({}, std::vector<float>{value}); }
HostArray integer_of(int32_t value) {
  return HostArray::from<int32_t>(DType::S32, {}, std::vector<int32_t>{value});
}

/// The number that a window's first step was given.
double first_id(const replay::Replay& replay, const replay::StepId& start) {
  return replay.window(start).at("id").as<int32_t>()[0];
}

/// Adds what the case says, comparing after each step.
void add_steps(const Run& run, const std::string& prefix, const io::Json& trace,
               replay::Replay& replay) {
  Numbers counts;
  Numbers expected;
  for (const io::Json& entry : trace.items()) {
    const std::vector<io::Json>& add = entry.at("add").items();
    const int64_t worker = add[0].as_int();
    const int64_t step = add[1].as_int();
    constexpr int64_t kWorkers = 10000;  // the case's rule of ids
    replay.add({{"id", integer_of(static_cast<int32_t>(worker * kWorkers + step))},
                {"is_first", flag_of(add[2].as_bool())},
                {"is_last", flag_of(add[3].as_bool())},
                {"is_terminal", flag_of(add[3].as_bool())},
                {"reward", number_of(static_cast<float>(step))},
                {"log/x", number_of(1.0F)}},
               worker);
    const std::vector<replay::StepId> starts = replay.starts();
    const bool any = !starts.empty();
    counts.insert(
        counts.end(),
        {static_cast<double>(replay.windows()), any ? first_id(replay, starts.front()) : -1.0,
         any ? first_id(replay, starts.back()) : -1.0, static_cast<double>(replay.chunks())});
    const auto or_none = [&](const char* key) {
      return entry.at(key).is_null() ? -1.0 : entry.at(key).as_number();
    };
    expected.insert(expected.end(), {entry.at("windows").as_number(), or_none("oldest"),
                                     or_none("newest"), entry.at("chunks").as_number()});
  }
  add_numbers(run, prefix + "after_every_add", counts, expected);
}

void add_scenario(const Run& run, const std::string& name, const io::Json& scenario) {
  const std::string prefix = "scenarios." + name + ".";
  replay::Replay replay({.length = scenario.at("length").as_int(),
                         .capacity = scenario.at("capacity").as_int(),
                         .chunk_size = scenario.at("chunksize").as_int(),
                         .online = scenario.at("online").as_bool()});
  add_steps(run, prefix, scenario.at("after_every_add"), replay);
  const auto ids = [&](const std::vector<replay::StepId>& starts) {
    Numbers out;
    for (const replay::StepId& start : starts) {
      out.push_back(first_id(replay, start));
    }
    return out;
  };
  const auto compared = [&](const char* key, const Numbers& actual) {
    add_numbers(run, prefix + key, actual, numbers_of(scenario.at(key)));
  };
  compared("legal_starts", ids(replay.starts()));
  const Numbers queued = ids(replay.queued());
  compared("online_queue_before_sampling", queued);
  Numbers order;
  std::set<std::string> names;
  constexpr int kBatches = 600;
  constexpr int64_t kRows = 2;
  for (int i = 0; i < kBatches; ++i) {
    const replay::Arrays batch = replay.sample(kRows);
    for (const auto& [key, value] : batch) {
      names.insert(key);
    }
    const HostArray& id = batch.at("id");
    for (int64_t row = 0; row < kRows; ++row) {
      order.push_back(id.as<int32_t>()[row * id.shape.dims[1]]);
    }
  }
  compared("first_from_online_queue",
           Numbers(order.begin(), order.begin() + static_cast<ptrdiff_t>(queued.size())));
  const std::set<double> sampled(order.begin(), order.end());
  compared("sampled_starts_in_600_batches_of_2", Numbers(sampled.begin(), sampled.end()));
  std::set<std::string> expected;
  for (const io::Json& key : scenario.at("sample_keys").items()) {
    expected.insert(key.as_string());
  }
  add_numbers(run, prefix + "sample_keys", {names == expected ? 1.0 : 0.0}, {1.0});
}

/// One window that is all there is.
void add_flags(const Run& run) {
  const HostArray first = run.tensor("flags.is_first");
  const HostArray last = run.tensor("flags.is_last");
  const int64_t length = first.shape.dims[1];
  replay::Replay replay({.length = length, .chunk_size = 2 * length});
  for (int64_t i = 0; i < length; ++i) {
    replay.add({{"is_first", flag_of(first.as<uint8_t>()[i] != 0)},
                {"is_last", flag_of(last.as<uint8_t>()[i] != 0)}});
  }
  const replay::Arrays batch = replay.sample(1);
  for (const char* name : {"is_first", "is_last"}) {
    const std::string tensor = std::string("flags.out.") + name;
    run.add(tensor, batch.at(name), run.tensor(tensor));
  }
}

/// Latents of a window's trained steps are written back; other windows see them.
void add_update(const Run& run) {
  const io::Json& about = run.about("update");
  const int64_t length = about.at("length").as_int();
  const int64_t context = about.at("context").as_int();
  constexpr int64_t kChunk = 4;  // sizes and values as the case's text has them
  constexpr int64_t kWidth = 2;
  constexpr float kFirst = 100.0F;
  replay::Replay replay({.length = length, .chunk_size = kChunk});
  for (int64_t i = 0; i < about.at("steps").as_int(); ++i) {
    replay.add(
        {{"is_first", flag_of(i == 0)},
         {"is_last", flag_of(false)},
         {"lat", HostArray::f32({kWidth}, std::vector<float>(kWidth, static_cast<float>(i)))}});
  }
  const std::vector<replay::StepId> starts = replay.starts();
  const replay::Arrays window =
      replay.window(starts.at(static_cast<size_t>(about.at("start").as_int())));
  const HostArray& ids = window.at("stepid");
  HostArray trained(Shape{DType::U8, {length - context, replay::StepId::kBytes}});
  std::copy(ids.bytes.begin() + context * replay::StepId::kBytes, ids.bytes.end(),
            trained.bytes.begin());
  std::vector<float> values;
  for (int64_t i = 0; i < (length - context) * kWidth; ++i) {
    values.push_back(kFirst + static_cast<float>(i));
  }
  replay.update(trained, {{"lat", HostArray::f32({length - context, kWidth}, values)}});
  std::vector<float> after;
  for (const replay::StepId& start : starts) {
    const HostArray latents = replay.window(start).at("lat");
    after.insert(after.end(), latents.as<float>().begin(), latents.as<float>().end());
  }
  run.add("update.lat_after", HostArray::f32({static_cast<int64_t>(after.size())}, after),
          run.tensor("update.lat_after"));
}

Numbers flat(const io::Json& nested) {
  if (!nested.is_array()) {
    return {nested.as_number()};
  }
  Numbers out;
  for (const io::Json& item : nested.items()) {
    const Numbers inner = flat(item);
    out.insert(out.end(), inner.begin(), inner.end());
  }
  return out;
}

void add_slices(const Run& run) {
  const io::Json& about = run.about("consec");
  const int64_t parts = about.at("consec").as_int();
  Numbers actual;
  for (const io::Json& source : about.at("source").items()) {
    const Numbers steps = flat(source);
    const replay::Arrays windows{
        {"x", HostArray::from<double>(DType::F64, {1, static_cast<int64_t>(steps.size())}, steps)}};
    for (int64_t i = 0; i < parts; ++i) {
      const replay::Arrays part =
          replay::window_part(windows, i, about.at("length").as_int(), about.at("prefix").as_int());
      const auto x = part.at("x").as<double>();
      const auto number = part.at("consec").as<int32_t>();
      actual.insert(actual.end(), x.begin(), x.end());
      actual.insert(actual.end(), number.begin(), number.end());
    }
  }
  add_numbers(run, "consec", actual, flat(about.at("slices")));
}

double number_or_infinity(const io::Json& json) {
  return json.is_string() ? std::numeric_limits<double>::infinity() : json.as_number();
}

/// Windows 0 .. 4 of three steps each.
void add_priorities(const Run& run) {
  int number = 0;
  for (const io::Json& entry : run.about("priority").items()) {
    const std::string prefix = "priority." + std::to_string(number++) + ".";
    const io::Json& settings = entry.at("settings");
    replay::Prioritized selector({.exponent = settings.at("exponent").as_number(),
                                  .maxfrac = settings.at("maxfrac").as_number(),
                                  .initial = number_or_infinity(settings.at("initial")),
                                  .zero_on_sample = settings.at("zero_on_sample").as_bool()},
                                 /*seed=*/0);
    const Numbers priorities = numbers_of(entry.at("priorities"));
    std::vector<replay::StepId> steps;
    for (size_t i = 0; i < priorities.size(); ++i) {
      steps.push_back({.chunk = 1, .index = static_cast<uint32_t>(i)});
    }
    const auto windows = static_cast<int64_t>(entry.at("aggregate").members().size());
    const size_t length = steps.size() + 1 - static_cast<size_t>(windows);
    for (int64_t k = 0; k < windows; ++k) {
      selector.insert(k, std::span(steps).subspan(static_cast<size_t>(k), length));
    }
    selector.prioritize(steps, priorities);
    const auto compared = [&](const char* key) {
      Numbers actual;
      Numbers expected;
      for (int64_t k = 0; k < windows; ++k) {
        actual.push_back(selector.priority(k));
        expected.push_back(entry.at(key).at(std::to_string(k)).as_number());
      }
      add_numbers(run, prefix + key, actual, expected);
    };
    compared("aggregate");
    selector.sampled(entry.at("sampled").as_int());
    compared("aggregate_after_sample");
  }
}

void add_recency(const Run& run) {
  const Numbers expected = numbers_of(run.about("recency").at("probabilities_40"));
  const replay::Recency selector(static_cast<int64_t>(expected.size()), 1.0, /*seed=*/0);
  add_numbers(run, "recency.probabilities_40", selector.probabilities(), expected);
}

void add_rates(const Run& run) {
  const io::Json& about = run.about("ratio");
  for (const auto& [name, expected] : about.members()) {
    if (name == "steps") {
      continue;
    }
    const size_t slash = name.find('/');
    const double ratio = name == "negative" ? -1.0
                         : slash == std::string::npos
                             ? std::stod(name)
                             : std::stod(name) / std::stod(name.substr(slash + 1));
    replay::StepRatio times(ratio);
    Numbers actual;
    for (const io::Json& step : about.at("steps").items()) {
      actual.push_back(static_cast<double>(times(step.as_int())));
    }
    add_numbers(run, "ratio." + name, actual, numbers_of(expected));
  }
}

void add_limiter(const Run& run) {
  const io::Json& about = run.about("limiter");
  replay::SampleLimiter limiter(about.at("samples_per_insert").as_number(),
                                about.at("tolerance").as_number(), about.at("minsize").as_int());
  Numbers actual;
  Numbers expected;
  for (const io::Json& entry : about.at("log").items()) {
    const std::vector<io::Json>& columns = entry.items();
    const bool may_insert = limiter.may_insert();
    const bool may_sample = limiter.may_sample();
    if (columns[0].as_string() == "i" && may_insert) {
      limiter.inserted();
    } else if (columns[0].as_string() == "s" && may_sample) {
      limiter.sampled();
    }
    actual.insert(actual.end(),
                  {may_insert ? 1.0 : 0.0, may_sample ? 1.0 : 0.0, limiter.available()});
    expected.insert(expected.end(), {columns[1].as_bool() ? 1.0 : 0.0,
                                     columns[2].as_bool() ? 1.0 : 0.0, columns[3].as_number()});
  }
  add_numbers(run, "limiter", actual, expected);
}

}  // namespace

void dreamer_replay_cases(const Run& run) {
  for (const auto& [name, scenario] : run.about("scenarios").members()) {
    add_scenario(run, name, scenario);
  }
  add_flags(run);
  add_update(run);
  add_slices(run);
  add_priorities(run);
  add_recency(run);
  add_rates(run);
  add_limiter(run);
}

}  // namespace kinema::verification
