"""Train: runs that are put together, watched, stopped and continued; data sets; plans."""

import time

from browser import By
from page_case import PageTest, stand_in_only


class Train(PageTest):
    steps = 60

    def start_run(self, name, **settings):
        """A new run by the form; returns its name, which no other run has."""
        name = f"{name}-{time.time_ns() % 10 ** 9}"
        self.browser.go("new-run")
        self.browser.write("Name", name)
        for key, value in {"max_train_steps": self.steps, **settings}.items():
            self.browser.write(key, str(value))
        self.browser.press("Start", self.browser.one(".new-run"))
        self.browser.until(lambda: self.browser.all(".run h2"), "the run is shown")
        return name

    def step(self, name):
        return self.browser.request("GET", f"/api/runs/{name}")["step"]

    def state(self, name):
        return self.browser.request("GET", f"/api/runs/{name}")["state"]

    def curve(self):
        """What screen readers hear of the curve."""
        return self.browser.one(".chart-canvas").get_attribute("aria-label")

    def test_starts_watches_stops_and_continues_a_run(self):
        name = self.start_run("kites", max_train_steps=400)
        self.browser.until(lambda: "to" in self.curve(), "the curve begins")
        before = self.curve()
        self.browser.until(lambda: self.curve() != before, "the curve grows")
        self.browser.screenshot("train")
        figures = self.browser.one(".figures").text
        for word in ("Loss", "Learning rate", "Step time", "planned", "Memory"):
            self.assertIn(word, figures)

        self.browser.press("Stop", self.browser.one(".run"))
        self.browser.until(lambda: self.state(name) == "stopped", "it stops")
        stopped = self.step(name)
        time.sleep(0.6)
        self.assertEqual(self.step(name), stopped)

        self.browser.press("Go on", self.browser.one(".run"))
        self.browser.until(lambda: self.step(name) > stopped, "it continues after that step")
        steps = self.browser.request("GET", f"/api/runs/{name}/metrics?after=-1&buckets=1000")["step"]
        self.assertEqual(steps, sorted(set(steps)))
        self.browser.press("Stop", self.browser.one(".run"))
        self.browser.until(lambda: self.state(name) == "stopped", "it stops")

    def test_saves_and_samples_when_asked(self):
        name = self.start_run("asked", max_train_steps=2000)
        self.browser.until(lambda: self.step(name) > 3, "it runs")
        saved = len(self.browser.request("GET", f"/api/runs/{name}")["checkpoints"])

        self.browser.press("Save now", self.browser.one(".run"))
        self.browser.until(lambda: len(self.browser.request("GET", f"/api/runs/{name}")["checkpoints"]) > saved, "a checkpoint")
        self.browser.press("Sample now", self.browser.one(".run"))
        self.browser.until(lambda: self.browser.all(".samples img, .samples video"), "samples")
        self.browser.until(lambda: "step" in self.browser.one("[aria-label=Samples] output").text, "their step")
        self.browser.press("Stop", self.browser.one(".run"))
        self.browser.until(lambda: self.state(name) == "stopped", "it stops")

    def test_watches_a_run_after_a_reload_and_deletes_it(self):
        name = self.start_run("reloaded", max_train_steps=2000)
        self.browser.until(lambda: self.step(name) > 3, "it runs")
        self.browser.driver.refresh()
        self.browser.until(lambda: "to" in self.curve(), "the curve is there again")
        self.browser.until(lambda: self.browser.one(".log").text, "the log")
        self.browser.press("Stop", self.browser.one(".run"))
        self.browser.press("Delete", self.browser.until(lambda: self.browser.all(".run"), "the run")[0])
        self.browser.press("Delete", self.browser.one("dialog"))

        self.browser.until(lambda: name not in [run["name"] for run in self.browser.request("GET", "/api/runs")["runs"]], "it is gone")

    def test_refuses_at_the_key(self):
        self.browser.go("new-run")
        self.browser.write("Name", "bad name/..")
        steps = self.browser.write("max_train_steps", "-5")
        self.browser.press("Start", self.browser.one(".new-run"))

        self.browser.until(lambda: self.browser.all(".new-run [aria-invalid=true]"), "a field is marked")
        self.browser.write("Name", "good-name")
        self.browser.press("Start", self.browser.one(".new-run"))
        self.browser.until(lambda: steps.get_attribute("aria-invalid") == "true", "the steps are marked")
        self.assertNotIn("good-name", [run["name"] for run in self.browser.request("GET", "/api/runs")["runs"]])

    def test_takes_yaml(self):
        name = f"yaml-{time.time_ns() % 10 ** 9}"
        self.browser.go("new-run")
        self.browser.write("Name", name)
        self.browser.press("YAML")
        area = self.browser.field("Keys as in a configuration file")
        area.send_keys("max_train_steps: 12\nno_such_key: 3")
        self.browser.until(lambda: "no_such_key" in self.browser.one("[aria-label='New run'] [role=alert]").text, "the key is refused")
        self.browser.js("arguments[0].value = ''", area)
        area.send_keys("max_train_steps: 12\nlearning_rate: 0.001")
        self.browser.until(lambda: "learning_rate" in self.browser.one("pre[aria-label^='What differs']").text, "what it will be")
        self.browser.press("Only create it")

        self.browser.until(lambda: self.browser.all(".run h2"), "the run is shown")
        self.assertEqual(self.state(name), "created")
        self.assertEqual(self.browser.request("GET", f"/api/runs/{name}")["steps"], 12)

    def test_shows_two_runs_beside_each_other(self):
        for name in (first := self.start_run("left", max_train_steps=20), second := self.start_run("right", max_train_steps=20)):
            self.browser.until(lambda: self.state(name) in ("done", "stopped", "failed"), "it ends")
        self.browser.go(f"train/{first}")
        self.browser.choose("Beside", second)

        self.browser.until(lambda: len(self.browser.all(".figures")) == 2, "the figures of both")
        self.browser.until(lambda: first in self.curve() and second in self.curve(), "both curves")
        self.browser.screenshot("beside")

    def test_edits_captions(self):
        name = self.browser.request("GET", "/api/datasets")["datasets"][0]["name"]
        self.browser.go(f"data/{name}")
        area = self.browser.one(".clip textarea")
        before = area.get_attribute("value")
        area.send_keys(", edited")
        self.browser.one(".clip .name").click()
        self.browser.until(lambda: "saved" in self.browser.one(".clip").text, "it is saved")

        clip = self.browser.request("GET", f"/api/datasets/{name}?limit=1")["clips"][0]
        self.assertEqual(clip["caption"], f"{before}, edited")
        changed = {"caption": "of somebody else", "was": clip["caption"]}
        self.browser.request("PATCH", f"/api/datasets/{name}/{clip['id']}", changed)
        area.send_keys("!")
        self.browser.one(".clip .name").click()
        self.browser.until(lambda: "of somebody else" in self.browser.one(".clip .wrong").text, "it says that the caption was changed")
        self.browser.request("PATCH", f"/api/datasets/{name}/{clip['id']}", {"caption": before, "was": "of somebody else"})

    @stand_in_only
    def test_plans_for_devices_that_are_not_here(self):
        self.browser.go("new-run")
        self.browser.choose("Device", "gpu h100")
        self.browser.press("Plan")
        self.browser.until(lambda: "Fits: 31 of 80 GB" in self.browser.one(".plan-result").text, "it fits")
        self.browser.choose("Device", "tpu v5e-8")
        self.browser.press("Plan")
        self.browser.until(lambda: "Does not fit" in self.browser.one(".plan-result").text, "it does not fit")
        self.assertIn("per_device_batch_size=0.5 fits", self.browser.one(".plan-result").text)
        self.browser.choose("Device", "gpu h100")
        self.browser.press("Plan")
        self.browser.press("Cancel the plan")
        self.browser.until(lambda: "cancelled" in self.browser.one(".plan-result").text, "it is cancelled")
        self.browser.choose("Device", "gpu rtx4090")
        self.browser.press("Plan")
        self.browser.until(lambda: "kinema doctor" in self.browser.one(".plan-result").text, "the compiler is missing")

    @stand_in_only
    def test_chooses_samples_by_step(self):
        self.browser.go("train/kites")
        slider = self.browser.one("input[aria-label='Step of the samples']")
        self.assertIn("step 400", self.browser.until(lambda: self.browser.one("[aria-label=Samples] output").text, "the newest"))
        last = self.browser.one(".samples img").get_attribute("src")

        self.browser.js("arguments[0].value = 0; arguments[0].dispatchEvent(new Event('input'))", slider)

        self.assertIn("step 100", self.browser.one("[aria-label=Samples] output").text)
        self.assertNotEqual(self.browser.one(".samples img").get_attribute("src"), last)
        timesteps = self.browser.driver.find_elements(By.CSS_SELECTOR, ".chart-canvas")[2].get_attribute("aria-label")
        self.assertIn("timestep 900", timesteps)


class Models(PageTest):
    def test_loads_and_unloads_a_model(self):
        self.browser.go("models")
        name = next(each["name"] for each in self.models if not each["loaded"])
        self.browser.press(f"Load {name}")
        engine = lambda: self.browser.request("GET", "/api/state")["engine"]
        self.browser.until(lambda: engine()["model"] == name and engine()["state"] == "ready", "it is loaded")
        self.browser.until(lambda: f"{name}: ready" in self.browser.one(".engine-words").text, "the page says so")
        self.browser.press("Unload")

        self.browser.until(lambda: "nothing is loaded" in self.browser.one(".engine-words").text, "it is unloaded")

    @stand_in_only
    def test_says_what_files_are(self):
        self.browser.go("models")
        self.browser.one("input[aria-label='Find a file']").send_keys("pickle")

        self.browser.until(lambda: len(self.browser.all(".models .table tbody tr")) == 1, "one is found")
        self.assertIn("kinema convert", self.browser.one(".models .table tbody").text)

    @stand_in_only
    def test_downloads_with_progress_and_cancels(self):
        self.browser.go("models")
        self.browser.write("Model on the hub", "not a name")
        self.browser.press("Download")
        self.browser.until(lambda: "owner/name" in self.browser.one("[aria-label=Downloads] .wrong").text, "it is refused")
        self.browser.write("Model on the hub", "owner/model")
        self.browser.press("Download")
        self.browser.until(lambda: "of 1.0 GB" in self.browser.one("[aria-label=Downloads] li").text, "progress")
        self.browser.press("Cancel owner/model")

        self.browser.until(lambda: "cancelled" in self.browser.one("[aria-label=Downloads] li").text, "it is cancelled")
