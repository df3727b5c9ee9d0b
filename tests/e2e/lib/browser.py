#!/usr/bin/env python3
"""Opens pages in a headless Chromium and says what a reader would see go wrong.

    browser.py [--shots FOLDER] PAGE...

Prints a line for each fault: an error on the console, a request for anything but the page itself,
a page wider than the window (at 360, 800 and 1600 pixels, in light and dark), a table cut off at
1200, text that cannot be read on its background, a plot without curves or without values on hover.
Speaks Chromium's DevTools protocol over a pipe; needs nothing but Python."""
import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WIDTHS = (360, 800, 1600)
TABLE_WIDTH = 1200
# Run in the page; each gives a list of sentences.
TOO_WIDE = """
  const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
  return wide > room ? ["is " + wide + " pixels wide in a window of " + room] : [];"""
TABLES = """
  return [...document.querySelectorAll("table")].filter(t => {
    for (let box = t.parentElement; box; box = box.parentElement)
      if (t.getBoundingClientRect().right > box.getBoundingClientRect().right + 1) return true;
    return false;
  }).map(t => "a table is cut off: " + t.innerText.slice(0, 40).replace(/\\s+/g, " "));"""
PLOTS = """
  const faults = [], seen = e => e.getClientRects().length;
  for (const plot of [...document.querySelectorAll(".plots svg")].filter(seen)) {
    const lines = [...plot.querySelectorAll("path, polyline, circle, rect")];
    const box = e => { const b = e.getBBox(); return b.width + b.height; };
    const name = plot.getAttribute("aria-label");
    if (!lines.some(e => box(e) > 0)) faults.push("nothing is drawn: " + name);
    if (!plot.querySelector("title")) faults.push("no values on hover: " + name);
  }
  return faults;"""
CONTRAST = """
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 :
    ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.5) return c; } return parts(getComputedStyle(
      document.documentElement).colorScheme === "dark" ? "rgb(18,18,18)" : "rgb(255,255,255)"); };
  const faults = new Set();
  for (const e of document.querySelectorAll("h1, h2, h3, p, td, th, summary, li")) {
    if (!e.innerText || !e.innerText.trim() || !e.getClientRects().length) continue;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))];
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3)
      faults.add("cannot be read: " + e.innerText.slice(0, 30));
  }
  return [...faults];"""


class Browser:
    def __init__(self, program, folder):
        to_read, to_write = os.pipe(), os.pipe()

        def pipes():
            # DevTools takes commands from descriptor 3 and answers on 4.
            commands, answers = os.dup(to_read[0]), os.dup(to_write[1])
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--user-data-dir=" + folder, "about:blank"], preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read[0])
        os.close(to_write[1])
        self.out, self.answers, self.number, self.events, self.session = (
            to_read[1], os.fdopen(to_write[0], "rb"), 0, [], None)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        text = b""
        while not text.endswith(b"\0"):
            byte = self.answers.read(1)
            if not byte:
                sys.exit("browser.py: Chromium ended")
            text += byte
        return json.loads(text[:-1])

    def call(self, method, **parameters):
        self.number += 1
        order = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            order["sessionId"] = self.session
        os.write(self.out, json.dumps(order).encode() + b"\0")
        while True:
            got = self.message()
            if got.get("id") == self.number:
                if "error" in got:
                    sys.exit("browser.py: %s: %s" % (method, got["error"]))
                return got["result"]
            self.events.append(got)

    def open(self, url):
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def ask(self, script):
        got = self.call("Runtime.evaluate", expression="(() => {%s})()" % script,
                        returnByValue=True)
        if "exceptionDetails" in got:
            sys.exit("browser.py: %s" % got["exceptionDetails"])
        return got["result"]["value"]

    def window(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])


def faults_of(browser, page, shots):
    url = pathlib.Path(page).resolve().as_uri()
    for scheme in ("light", "dark"):
        for width in WIDTHS + (TABLE_WIDTH,):
            browser.window(width, scheme)
            browser.open(url)
            where = "%s, %d pixels: " % (scheme, width)
            for script in (TOO_WIDE, CONTRAST):
                yield from (where + fault for fault in browser.ask(script))
            if width == TABLE_WIDTH:
                yield from (where + fault for fault in browser.ask(TABLES))
                yield from (where + fault for fault in browser.ask(PLOTS))
            for event in browser.events:
                method, told = event.get("method"), event.get("params", {})
                if method == "Network.requestWillBeSent" and \
                        not told["request"]["url"].startswith((url, "data:")):
                    yield where + "asks for " + told["request"]["url"]
                if method == "Runtime.exceptionThrown":
                    yield where + "throws " + told["exceptionDetails"]["text"]
                if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                    yield where + told["entry"]["text"]
            if shots:
                name = "%s-%s-%d.png" % (pathlib.Path(page).stem, scheme, width)
                size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
                shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
                    "x": 0, "y": 0, "width": width, "height": min(size["height"], 6000),
                    "scale": 1})
                with open(os.path.join(shots, name), "wb") as f:
                    f.write(base64.b64decode(shot["data"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shots", metavar="FOLDER")
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("pages", nargs="+", metavar="PAGE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(options.browser, folder)
        for page in options.pages:
            for fault in faults_of(browser, page, options.shots):
                print("%s: %s" % (os.path.basename(page), fault))
        browser.call("Page.disable")
        browser.process.terminate()
        browser.process.wait()


main()
