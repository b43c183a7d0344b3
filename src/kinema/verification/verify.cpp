#include "kinema/verification/verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <sstream>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/verification/case.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/kinds.h"

namespace kinema::verification {
namespace {

/// The kind of a case; null if this build does not support it.
const Kind* kind_of(std::string_view name) {
  static const std::vector<Kind> known = [] {
    std::vector<Kind> all;
    for (const auto kinds :
         {network_kinds, controlnet_kinds, quantization_kinds, training_kinds, text_kinds,
          picture_kinds, schedule_kinds, pipeline_kinds, dreamer_kinds}) {
      std::ranges::move(kinds(), std::back_inserter(all));
    }
    return all;
  }();
  for (const Kind& kind : known) {
    std::istringstream patterns{std::string(kind.cases)};
    for (std::string pattern; patterns >> pattern;) {
      if (matches(pattern, name)) {
        return &kind;
      }
    }
  }
  return nullptr;
}

std::vector<Row> run_case(const std::filesystem::path& folder, const std::string& name,
                          Session& session) {
  const Kind* kind = kind_of(name);
  if (kind == nullptr) {
    return {unsupported(name)};
  }
  try {
    const Case c(folder, name);
    std::vector<Row> made;
    const Run run(c, session, Limits(c.about(), kind->which, kind->limits), made);
    for (const Run& form : kind->forms == Kind::Forms::EACH ? run.forms() : std::vector{run}) {
      kind->compute(form);
    }
    return made.empty() ? std::vector<Row>{failed(name, "", "the case has nothing to compare")}
                        : made;
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception& error) {
    // A corrupt file, or a program that does not compile, must not hide the other cases.
    return {failed(name, "", error.what())};
  }
}

/// Cases that share a session, as indices in the list of names. Pipelines share programs; other
/// cases have none in common.
using Unit = std::vector<size_t>;

std::vector<Unit> units_of(const std::vector<std::string>& names) {
  // The longest first, so that they do not run alone at the end.
  std::vector<Unit> training;
  std::vector<Unit> others;
  Unit pipelines;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].starts_with("pipeline_")) {
      pipelines.push_back(i);
    } else {
      const bool trains = names[i].starts_with("train") || names[i] == "experts";
      (trains ? training : others).push_back({i});
    }
  }
  training.insert(training.end(), others.begin(), others.end());
  if (!pipelines.empty()) {
    training.push_back(pipelines);
  }
  return training;
}

}  // namespace

Report run(const std::filesystem::path& folder, const pjrt::Client& client,
           const Options& options) {
  const std::vector<std::string> all = case_names(folder);
  std::vector<std::string> names = all;
  std::erase_if(names, [&](const std::string& name) {
    const auto has = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    return !has(options.filter) || std::ranges::any_of(options.skip, has);
  });
  constexpr size_t kShown = 8;
  const auto shown = std::span(all).first(std::min(all.size(), kShown));
  check(!names.empty(), "[verify] no case in {} has `{}` in its name\n  there are {}: {}{}",
        folder.string(), options.filter, all.size(), fmt::join(shown, ", "),
        all.size() > kShown ? ", ..." : "");
  const std::vector<Unit> units = units_of(names);
  std::vector<std::vector<Row>> rows(names.size());  // by case; each written by one thread
  std::mutex reporting;
  // Several threads: compilation takes most of the time, on one core per program.
  const int threads = options.threads > 0 ? options.threads : std::min(processor_threads(), 4);
  for_each_in_parallel(units.size(), threads, [&](size_t unit) {
    Session session(client, options);
    for (const size_t i : units[unit]) {
      rows[i] = run_case(folder, names[i], session);
      if (options.on_case) {
        const std::scoped_lock lock(reporting);
        options.on_case(rows[i]);
      }
    }
  });
  Report report;
  for (const std::vector<Row>& each : rows) {
    report.rows.insert(report.rows.end(), each.begin(), each.end());
  }
  return report;
}

}  // namespace kinema::verification
