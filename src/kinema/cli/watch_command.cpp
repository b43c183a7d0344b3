#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "kinema/checkpoints/run_lock.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/drawing.h"
#include "kinema/cli/keys.h"
#include "kinema/cli/run_screen.h"
#include "kinema/cli/stop_signal.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"
#include "kinema/stores/local_copies.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

struct WatchOptions {
  std::string run;  // as given: a folder, or its path in a store
  bool once = false;
  bool json = false;
  double every = 2.0;
};

/// A run whose files are read repeatedly.
class WatchedRun {
 public:
  explicit WatchedRun(std::string given)
      : given_(std::move(given)), files_(stores::watched_copy(given_)), reader_(files_.metrics) {
    reader_.poll();
  }

  const reports::RunFiles& files() const { return files_; }
  bool has_steps() const { return !reader_.rows().empty(); }
  reports::RunOverview overview() const {
    // A run in a store has no lock to check.
    const bool is_running = remote::is_store_path(given_) || checkpoints::is_training(files_.run);
    return {.files = files_, .rows = reader_.rows(), .is_running = is_running};
  }

  /// Reads the files again. On an error the old values stay: a store may be unreachable, a run may
  /// be removed.
  void read() {
    try {
      const reports::RunFiles now(stores::watched_copy(given_));
      if (now.metrics != files_.metrics) {
        reader_ = metrics::MetricsReader(now.metrics);
      }
      files_ = now;
    } catch (const Error&) {
    }
    reader_.poll();
  }

 private:
  std::string given_;
  reports::RunFiles files_;
  metrics::MetricsReader reader_;
};

/// Redraws the screen in place; lines beyond the last row are not shown.
void draw(std::vector<std::string> lines, const TerminalSize& size) {
  lines.resize(std::min(lines.size(), static_cast<size_t>(size.rows)));
  std::string text = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    text += (i > 0 ? "\n" : "") + lines[i] + "\x1b[K";
  }
  std::fputs((text + "\x1b[J").c_str(), stdout);
  std::fflush(stdout);
}

/// Redraws until the run is done, or until `q` or a signal.
void follow(WatchedRun& run, const WatchOptions& options) {
  constexpr double kStoreSeconds = 10;  // seconds between reads from a store
  const double every =
      remote::is_store_path(options.run) ? std::max(options.every, kStoreSeconds) : options.every;
  const StopSignal stop;
  const Keys keys;
  const Stopwatch since_start;
  std::fputs("\x1b[?25l\x1b[2J", stdout);  // hides the cursor and clears the screen
  bool over = false;
  while (!over) {
    const TerminalSize size = terminal_size();
    if (run.has_steps()) {
      const reports::RunOverview now = run.overview();
      draw(screen_lines(now, size, /*pictures=*/true), size);
      over = now.state() == reports::RunOverview::State::DONE;
    } else {
      const bool begun = checkpoints::is_training(run.files().run);
      draw(flowed(
               {run.files().run.string(),
                fmt::format("{} ... {}", begun ? "waiting for its first step" : "waiting for a run",
                            clock_text(since_start.seconds())),
                "q ends"},
               size.columns),
           size);
    }
    const Stopwatch since_drawn;
    // Redraw each second while only a clock is shown.
    while (!over && since_drawn.seconds() < (run.has_steps() ? every : std::min(every, 1.0))) {
      constexpr int kPause = 50;
      over = keys.wait(kPause) == 'q' || StopSignal::requested();
    }
    run.read();
  }
  std::fputs("\x1b[?25h\n", stdout);
}

int watch_run(const WatchOptions& options) {
  WatchedRun run(options.run);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (terminal && !options.once && !options.json) {
    follow(run, options);
    return 0;
  }
  check(run.has_steps(),
        "[watch] {} has no step yet\n  on a terminal, without --once and --json, "
        "kinema watch waits for the first one",
        run.files().metrics.string());
  const reports::RunOverview now = run.overview();
  if (options.json) {
    print_line(now.json().dump());
  } else {
    for (const std::string& line : screen_lines(now, terminal_size(), terminal)) {
      print_line(line);
    }
  }
  return 0;
}

}  // namespace

void add_watch(Program& program) {
  Command command =
      program.add("watch", "Draw a running run's loss, step time and samples in the terminal");
  const auto options = std::make_shared<WatchOptions>();
  command
      .option("RUN", options->run, "the run's folder, or its path in a store: output_dir/run_name")
      .required();
  command.flag("--once", options->once, "draw the current state, and end");
  command.flag("--json", options->json, "print the newest numbers as JSON, and end");
  command.option("--every", options->every, "seconds between drawings; q ends").between(0.1, 3600);
  command.run([options] { return watch_run(*options); });
}

}  // namespace kinema::cli
