"""What the tests of the page have in common: a server, a browser, and the steps that most of them take."""

import os
import tempfile
import unittest
from pathlib import Path

from browser import Browser, By
from stand_in import serve
from stand_in_world import png

REAL = os.environ.get("KINEMA_SERVE_URL")
stand_in_only = unittest.skipIf(REAL, "only the stand-in can be made to do this")


class PageTest(unittest.TestCase):
    """A browser and a server for each class; each test begins with an empty queue and the form's defaults."""
    outputs = 0

    @classmethod
    def setUpClass(cls):
        cls.server, cls.url = (None, REAL) if REAL else cls.start()
        cls.browser = Browser()

    @classmethod
    def start(cls):
        return serve(outputs=cls.outputs)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        if cls.server:
            cls.server.shutdown()

    def setUp(self):
        self.browser.phone(False)
        self.browser.open(self.url)
        state = self.browser.request("GET", "/api/state")
        self.browser.request("POST", "/api/queue", {"paused": False})
        for job in state["jobs"]:
            if not job["ended"]:
                self.browser.request("POST", f"/api/jobs/{job['id']}/cancel", {})
        self.browser.js("localStorage.clear(); location.hash = '#make'; location.reload()")
        self.browser.until(self.browser.is_live, "the page is connected")
        self.browser.complaints()
        self.models = state["models"]

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    # ---- what most tests do

    @property
    def form(self):
        return self.browser.one(".make-form")

    def add(self, prompt, **settings):
        """Adds a request by the form, and returns its card in the queue."""
        self.browser.go("make")
        self.browser.write("Prompt", prompt)
        for label, value in settings.items():
            self.browser.write(label, value)
        self.browser.press("Add to queue")
        return self.card(prompt)

    def card(self, prompt):
        def found():
            return [each for each in self.browser.all(".job") if prompt in each.find_element(By.CSS_SELECTOR, ".job-prompt").text]
        return self.browser.until(found, f"a job `{prompt}`")[0]

    def state_of(self, prompt):
        return self.card(prompt).get_attribute("data-state")

    def until_state(self, prompt, *states):
        self.browser.until(lambda: self.state_of(prompt) in states, f"`{prompt}` is {' or '.join(states)}")

    def waiting(self):
        return [each.find_element(By.CSS_SELECTOR, ".job-prompt").text for each in self.browser.all(".job[data-state=waiting]")]

    def pause(self):
        self.browser.press("Pause")
        self.browser.named("Resume")

    def picture_file(self):
        file = Path(self.enterContext(tempfile.TemporaryDirectory())) / "picture.png"
        file.write_bytes(png(128, 96, 5))
        return str(file)

    def give_picture(self, label):
        chooser = self.browser.driver.find_element(By.CSS_SELECTOR, f"input[type=file][aria-label='{label}']")
        chooser.send_keys(self.picture_file())
        self.browser.one(f".slot img[alt='{label}']")

