"""A browser for the tests of the page: Debian's chromium by selenium, and words to find things by."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

SKIPPED = 77
try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("skipped: selenium is not installed (tests/serve/requirements.txt)")
    sys.exit(SKIPPED)

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
SCREENSHOTS = os.environ.get("KINEMA_SCREENSHOTS")
PATIENCE = float(os.environ.get("KINEMA_PATIENCE", 20))  # seconds; a real model takes longer than the stand-in

__all__ = ["ActionChains", "Browser", "By", "Keys", "PATIENCE"]


def axe_script():
    """The source of axe-core, from one of the packages that bring it; None without one."""
    for folder in map(Path, sys.path):
        for file in ("axe_playwright_python/axe.min.js", "axe_selenium_python/node_modules/axe-core/axe.min.js"):
            if (folder / file).exists():
                return (folder / file).read_text()
    return None


class Browser:
    def __init__(self, width=1280, height=900):
        if not CHROMIUM or not DRIVER:
            print("skipped: chromium and chromium-driver are not installed")
            sys.exit(SKIPPED)
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.set_script_timeout(60)

    def quit(self):
        self.driver.quit()

    def open(self, url):
        self.driver.get(url)
        self.until(self.is_live, "the page is connected")

    def is_live(self):
        return self.js("return document.body.dataset.live") == "yes"

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def request(self, method, path, body=None):
        """A request of the page's own, by its cookie; returns the answer's JSON."""
        return self.driver.execute_async_script("""
            const [method, path, body, done] = arguments;
            const options = body === null ? {} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
            fetch(path, {method, ...options}).then(answer => answer.json()).then(done, problem => done({problem: String(problem)}));
        """, method, path, body)

    def until(self, condition, what, seconds=PATIENCE):
        """The first result of `condition` that counts as true; elements may be replaced meanwhile."""
        end = time.monotonic() + seconds
        while True:
            try:
                result = condition()
                if result:
                    return result
            except StaleElementReferenceException:
                pass
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.complaints()}\n" + self.visible_text().replace("\n", " | ")[-600:])
            time.sleep(0.05)

    def visible_text(self):
        return self.js("return document.body.innerText")

    # ---- by selector and by name

    def all(self, selector, root=None):
        return [each for each in (root or self.driver).find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]

    def one(self, selector, root=None):
        return self.until(lambda: self.all(selector, root), f"`{selector}` is there")[0]

    def named(self, name, root=None):
        """The button or link that people and screen readers know by this name (or its beginning)."""
        def found():
            nodes = self.all("button, a", root)
            names = [(node, node.get_attribute("aria-label") or node.text.strip()) for node in nodes]
            return [node for node, text in names if text == name] or [node for node, text in names if text.startswith(name)]
        return self.until(found, f"a button `{name}`")[0]

    def press(self, name, root=None):
        self.named(name, root).click()

    def field(self, label, root=None):
        """The input with this label."""
        def found():
            for each in self.all("label[for]", root):
                if each.text.strip() == label:
                    return self.driver.find_element(By.ID, each.get_attribute("for"))
            return None
        return self.until(found, f"a field `{label}`")

    def write(self, label, text, root=None):
        node = self.field(label, root)
        node.send_keys(Keys.CONTROL, "a")
        node.send_keys(Keys.DELETE)
        node.send_keys(text, Keys.TAB)
        return node

    def choose(self, label, value, root=None):
        """Chooses the option with this value, as a person does: with input and change events."""
        node = self.field(label, root)
        self.js("arguments[0].value = arguments[1];"
                "for (const name of ['input', 'change']) arguments[0].dispatchEvent(new Event(name, {bubbles: true}))", node, value)

    def go(self, area):
        self.js("location.hash = arguments[0]", f"#{area}")
        name = {"new-run": "train", "data": "train"}.get(area.split("/")[0], area.split("/")[0])
        self.until(lambda: self.all(f"#{name}"), f"the area {name}")

    def keys(self, *keys, held=None):
        """Presses keys where the focus is, while `held` (a modifier) is down."""
        chain = ActionChains(self.driver)
        chain = chain.key_down(held).send_keys(*keys).key_up(held) if held else chain.send_keys(*keys)
        chain.perform()

    def focused(self):
        return self.driver.switch_to.active_element

    # ---- looks

    def dark(self, dark):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def phone(self, on):
        if on:
            size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        else:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def screenshot(self, name):
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{SCREENSHOTS}/{name}.png")

    def violations(self, script):
        """What axe-core finds wrong, one line for each element; rules of WCAG 2.2 AA and best practice."""
        if not self.js("return Boolean(window.axe)"):
            self.js(script)
        result = self.driver.execute_async_script("axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")
        return [f"{each['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary'].splitlines()[-1].strip()}"
                for each in result["violations"] for node in each["nodes"]]

    def complaints(self):
        """Errors in the console: of scripts, of the Content-Security-Policy, of files that are not there."""
        lines = [json.dumps(line["message"]) for line in self.driver.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]
        # That an answer had the status 4xx is what several tests ask for.
        return [line for line in lines if "the server responded with a status of 4" not in line]
