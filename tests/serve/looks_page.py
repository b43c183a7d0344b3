"""The page on a phone, in light and dark, by keys alone, for screen readers, and without a token."""

import unittest

from browser import Keys, axe_script
from page_case import REAL, PageTest

AREAS = ("make", "gallery", "train", "new-run", "models")


class Looks(PageTest):
    outputs = 40

    def areas(self):
        runs = self.browser.request("GET", "/api/runs")["runs"]
        datasets = self.browser.request("GET", "/api/datasets")["datasets"]
        return [*AREAS, *[f"train/{run['name']}" for run in runs[:1]], *[f"data/{each['name']}" for each in datasets[:1]]]

    def settle(self, area):
        self.browser.go(area)
        self.browser.driver.execute_async_script("setTimeout(arguments[0], 400)")

    def test_fits_a_phone(self):
        self.add("a red fox in snow, golden hour, with a very long prompt that takes several lines", Steps="2")
        self.browser.phone(True)
        for area in self.areas():
            with self.subTest(area=area):
                self.settle(area)
                self.browser.screenshot(f"phone_{area.replace('/', '_')}")
                wide, width = self.browser.js("return [document.documentElement.scrollWidth, innerWidth]")
                self.assertLessEqual(wide, width)
                self.assertEqual(len(self.browser.all("nav a")), 4)
                small = self.browser.js("""
                    return [...document.querySelectorAll('button, nav a, .button')].filter(each => each.offsetParent &&
                      (each.getBoundingClientRect().height < 24 || each.getBoundingClientRect().width < 24)).map(each => each.outerHTML.slice(0, 80))""")
                self.assertEqual(small, [])

    def test_has_no_fault_that_axe_finds(self):
        axe = axe_script()
        if not axe:
            self.skipTest("axe-core is not installed (tests/serve/requirements.txt)")
        self.add("a red fox", Steps="2")
        self.until_state("a red fox", "done")
        for dark in (False, True):
            self.browser.dark(dark)
            for area in self.areas():
                with self.subTest(area=area, dark=dark):
                    self.settle(area)
                    self.browser.screenshot(f"{'dark' if dark else 'light'}_{area.replace('/', '_')}")
                    self.assertEqual(self.browser.violations(axe), [])
            with self.subTest(area="viewer", dark=dark):
                self.settle("gallery")
                self.browser.all(".cell .thumb")[0].click()
                self.browser.named("Use settings")
                self.browser.screenshot(f"{'dark' if dark else 'light'}_viewer")
                self.assertEqual(self.browser.violations(axe), [])
                self.browser.keys(Keys.ESCAPE)
        model = next((each for each in self.models if "mask" in each["inputs"]), None)
        if model:
            with self.subTest(area="painter"):
                self.browser.go("make")
                self.browser.choose("Model", model["name"])
                self.give_picture("Picture to change")
                self.browser.press("Paint")
                self.browser.one(".painter canvas")
                self.browser.screenshot("dark_painter")
                self.assertEqual(self.browser.violations(axe), [])

    def test_makes_a_picture_without_a_mouse(self):
        self.browser.open(self.url)  # without a part after #, at which the tab key would begin
        self.browser.keys(Keys.TAB)
        self.assertEqual(self.browser.focused().text, "Skip to the content")
        self.browser.keys(Keys.ENTER, Keys.TAB)
        prompt = self.browser.field("Prompt")
        self.assertEqual(self.browser.focused(), prompt)
        self.browser.keys("by keys alone")
        self.browser.keys(Keys.ENTER, held=Keys.CONTROL)
        self.until_state("by keys alone", "running", "done")

        # On to the buttons of the job: each stop of the tab key can be seen.
        for _ in range(60):
            self.browser.keys(Keys.TAB)
            outline = self.browser.js("const s = getComputedStyle(document.activeElement); return s.outlineStyle + ' ' + s.outlineWidth")
            self.assertNotIn("none", outline, self.browser.js("return document.activeElement.outerHTML.slice(0, 200)"))
            if ": by keys alone" in (self.browser.focused().get_attribute("aria-label") or ""):
                break
        else:
            self.fail("the job's buttons are not reached")

    def test_paints_a_mask_without_a_mouse(self):
        model = next((each for each in self.models if "mask" in each["inputs"]), None)
        if model is None:
            self.skipTest("no model takes a mask")
        self.browser.choose("Model", model["name"])
        self.give_picture("Picture to change")
        self.browser.named("Paint").send_keys(Keys.ENTER)
        self.browser.until(lambda: self.browser.focused().tag_name == "canvas", "the canvas has the focus")
        self.browser.keys(Keys.ARROW_RIGHT, " ", Keys.ARROW_DOWN, " ")
        self.browser.named("Use this mask").send_keys(Keys.ENTER)

        self.browser.one(".slot[data-input=mask] img")

    @unittest.skipIf(REAL and "token=" not in REAL, "the link has no token")
    def test_says_that_a_token_is_needed(self):
        self.browser.driver.delete_all_cookies()
        answer = self.browser.request("GET", "/api/state")
        self.assertIn("error", answer)
        self.browser.js("dispatchEvent(new HashChangeEvent('hashchange'))")
        self.browser.driver.execute_async_script("import('/state.js').then(m => m.begin()).then(arguments[0], arguments[0])")

        self.browser.until(lambda: "token" in self.browser.visible_text(), "the page says so")
        self.browser.open(self.url)
