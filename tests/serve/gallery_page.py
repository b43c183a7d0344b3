"""Gallery: what was made, also when it is ten thousand."""

import time

from browser import Keys
from page_case import PageTest, stand_in_only


class Gallery(PageTest):
    outputs = 60

    def setUp(self):
        super().setUp()
        while self.browser.request("GET", "/api/outputs?limit=1")["total"] < 3:
            self.add(f"a picture {time.monotonic():.3f}", Steps="2")
            self.browser.until(lambda: not self.browser.all(".job[data-state=running], .job[data-state=waiting]"), "it is made")
        self.browser.go("gallery")
        self.browser.one(".cell")

    def first(self):
        self.browser.until(lambda: self.browser.all(".cell .thumb[aria-label]"), "a picture")
        return self.browser.all(".cell .thumb")[0]

    def total(self):
        return int(self.browser.one(".bar [role=status]").text.split()[0].replace(",", ""))

    def test_uses_the_settings_of_a_picture(self):
        output = self.browser.request("GET", "/api/outputs?limit=1")["outputs"][0]
        self.first().click()
        self.browser.press("Use settings")

        self.assertEqual(self.browser.field("Prompt").get_attribute("value"), output["prompt"])
        self.assertEqual(self.browser.field("Seed").get_attribute("value"), str(output["seed"]))
        self.assertEqual(self.browser.all("dialog"), [])

    def test_searches_by_words_of_the_prompt(self):
        prompt = self.browser.request("GET", "/api/outputs?limit=1")["outputs"][0]["prompt"]
        expected = self.browser.request("GET", f"/api/outputs?q={prompt.replace(' ', '+').replace(',', '')}")["total"]
        self.browser.one("input[aria-label='Search prompts']").send_keys(prompt.replace(",", ""))

        self.browser.until(lambda: self.total() == expected, "only those are left")
        self.assertTrue(all(prompt in each.get_attribute("aria-label") for each in self.browser.all(".cell .thumb")))

    def test_stars_and_shows_starred_ones(self):
        self.first().click()
        self.browser.press("Star", self.browser.one("dialog"))
        self.browser.named("Starred", self.browser.one("dialog"))
        self.browser.press("Close")
        self.browser.press("Starred")

        starred = self.browser.request("GET", "/api/outputs?starred=1")["total"]
        self.browser.until(lambda: self.total() == starred, "starred ones")
        self.assertGreater(starred, 0)

    def test_puts_into_the_bin_restores_and_deletes_for_ever(self):
        before = self.total()
        self.first().click()
        self.browser.press("To the bin")
        self.browser.until(lambda: self.total() == before - 1, "one less")
        self.browser.press("Undo")
        self.browser.until(lambda: self.total() == before, "it is back")

        self.first().click()
        self.browser.press("To the bin")
        self.browser.until(lambda: self.total() == before - 1, "one less")
        self.browser.press("Bin")
        self.browser.until(lambda: self.total() == 1, "one in the bin")
        self.first().click()
        self.browser.press("Delete for ever")
        self.browser.press("Delete", self.browser.one("dialog.small"))
        self.browser.until(lambda: self.browser.all(".gallery .empty"), "the bin is empty")
        self.browser.press("All")
        self.browser.until(lambda: self.total() == before - 1, "it is gone")

    def test_compares_two(self):
        cells = self.browser.all(".cell .thumb")
        cells[0].click()
        self.browser.press("Compare")
        self.browser.until(lambda: not self.browser.all("dialog"), "the viewer closes")
        cells[1].click()
        self.browser.press("Compare")

        self.browser.until(lambda: len(self.browser.all(".comparison figure")) == 2, "two beside each other")
        self.browser.until(lambda: "prompt" in self.browser.one(".compare-body table").text, "what differs")
        self.browser.screenshot("compare")
        self.browser.press("Over each other")
        self.assertEqual(len(self.browser.all("input[aria-label='border between both']")), 1)

    def test_is_used_without_a_mouse(self):
        self.first().send_keys("")
        self.browser.js("document.querySelector('.cell .thumb').focus()")
        self.browser.keys(Keys.ARROW_RIGHT)
        second = self.browser.focused().get_attribute("aria-label")
        self.browser.keys(Keys.ENTER)
        self.browser.until(lambda: self.browser.all("dialog .prompt-text"), "the viewer opens")
        self.assertTrue(second.startswith(self.browser.one(".prompt-text").text))
        self.browser.keys(Keys.ARROW_RIGHT)
        self.browser.until(lambda: not second.startswith(self.browser.one(".prompt-text").text), "the next one")
        self.browser.keys(Keys.ESCAPE)

        self.browser.until(lambda: self.browser.focused().get_attribute("aria-label") == second, "the focus is back")

    def test_downloads_with_a_link(self):
        self.first().click()
        link = self.browser.named("Download")

        self.assertTrue(link.get_attribute("href").endswith("?download"))
        header = self.browser.driver.execute_async_script(
            "fetch(arguments[0]).then(a => arguments[1](a.headers.get('Content-Disposition')))", link.get_attribute("href"))
        self.assertIn("attachment", header)


@stand_in_only
class TenThousand(PageTest):
    outputs = 10_000

    def scroll(self):
        """Seconds to the first pictures, and milliseconds of each frame while the page is scrolled, from small to large."""
        self.browser.driver.refresh()
        self.browser.until(self.browser.is_live, "the page is connected")
        begin = time.monotonic()
        self.browser.go("gallery")
        self.browser.until(lambda: self.browser.all(".cell .thumb[aria-label]"), "pictures")
        first = time.monotonic() - begin
        # To the end, to the middle, and by many small steps.
        frames = self.browser.driver.execute_async_script("""
            const done = arguments[0], frames = [];
            let last = performance.now(), n = 0;
            const end = document.documentElement.scrollHeight;
            const step = now => {
              frames.push(now - last); last = now;
              scrollTo(0, n < 5 ? end : n < 10 ? end / 2 : (n - 10) * 120);
              if (++n < 120) requestAnimationFrame(step);
              else done(frames.slice(1).sort((a, b) => a - b));
            };
            requestAnimationFrame(step);""")
        self.browser.go("make")
        return first, frames

    def test_stay_quick(self):
        # The quickest of some passes: other programs of the machine only add to it.
        passes = [self.scroll() for _ in range(4)]
        first = min(each for each, _ in passes)
        median, most = (min(frames[int(len(frames) * part)] for _, frames in passes) for part in (0.5, 0.95))
        self.browser.go("gallery")
        cells = len(self.browser.all(".cell"))
        print(f"first pictures {first * 1000:.0f} ms, frames: median {median:.0f} ms, 95 % {most:.0f} ms, {cells} cells")

        self.assertIn("10,000", self.browser.one(".bar [role=status]").text)
        self.assertLess(first, 2)
        self.assertLess(median, 50)
        self.assertLess(most, 200)
        self.assertLess(cells, 250)  # few elements exist

        self.browser.js("scrollTo(0, document.documentElement.scrollHeight)")
        self.browser.until(lambda: self.browser.all(".cell .thumb[aria-label$='fog, 2'], .cell .thumb[aria-label*=', 0']"), "the oldest")

    def test_are_searched_quickly(self):
        self.browser.go("gallery")
        self.browser.one(".cell")
        begin = time.monotonic()
        self.browser.one("input[aria-label='Search prompts']").send_keys("lighthouse 9997")

        self.browser.until(lambda: self.browser.one(".bar [role=status]").text == "1 item", "the one that fits")
        self.assertLess(time.monotonic() - begin, 3)

    def test_keys_reach_the_last(self):
        self.browser.go("gallery")
        self.browser.until(lambda: self.browser.all(".cell .thumb[aria-label]"), "pictures")
        self.browser.js("document.querySelector('.cell .thumb').focus()")
        self.browser.keys(Keys.END)

        self.browser.until(lambda: (self.browser.focused().get_attribute("aria-label") or "").startswith("a red fox in snow, 0"), "the oldest has the focus")
