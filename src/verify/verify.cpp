#include "verify/verify.h"

#include <exception>
#include <map>

#include "core/error.h"
#include "verify/case.h"
#include "verify/compare.h"
#include "verify/session.h"

namespace kinema::verify {
namespace {

using CaseRows = std::vector<Row> (*)(const Case& c, Session& session);

/// The code for a case of this name; null when there is none yet.
CaseRows rows_for(const std::string& name) {
  static const std::map<std::string, CaseRows> known{
      {"transformer", forward_rows},       {"transformer_edge", forward_rows},
      {"transformer_i2v", forward_rows},   {"transformer_ti2v", forward_rows},
      {"transformer_grad", gradient_rows}, {"train", train_rows},
      {"train_weighted", train_rows},      {"sched", scheduler_rows},
      {"variants", variant_rows},          {"dataset", dataset_rows},
  };
  if (name.starts_with("pipeline_")) {
    return pipeline_rows;
  }
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second;
}

std::vector<Row> run_case(const std::filesystem::path& folder, const std::string& name,
                          Session& session) {
  const CaseRows rows = rows_for(name);
  if (rows == nullptr) {
    return {unsupported(name)};
  }
  try {
    return rows(Case(folder, name), session);
  } catch (const std::exception& error) {
    // One damaged file or one program that does not compile must not hide the other cases.
    return {failed(name, "", error.what())};
  }
}

}  // namespace

Report run(const std::filesystem::path& folder, const pjrt::Client& client,
           const Options& options) {
  Session session(client, options);
  Report report;
  for (const std::string& name : case_names(folder)) {
    if (name.find(options.filter) == std::string::npos) {
      continue;
    }
    const std::vector<Row> rows = run_case(folder, name, session);
    if (options.on_case) {
      options.on_case(rows);
    }
    report.rows.insert(report.rows.end(), rows.begin(), rows.end());
  }
  check(!report.rows.empty(), "[verify] no case in {} has `{}` in its name", folder.string(),
        options.filter);
  return report;
}

}  // namespace kinema::verify
