"""A small driver of headless Chromium for tests of pages: DevTools protocol over a pipe, nothing to install beside the browser.

A page is opened as a reader would open it, at some width and in some colour scheme. What it said while loading is collected, and
`problems` lists what is wrong with what is shown.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import pytest

Scheme = Literal["light", "dark"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60.0  # that an answer may take: two workers share two cores with everything else
LEAST_FONT = 11  # pixels
LEAST_CONTRAST = 4.5  # of text, as WCAG 2 asks at level AA

_INSPECT = """
(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]).concat(1);
  const ground = element => {
    if (!element) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, ground(element.parentElement));
  };
  const light = color => {
    const [r, g, b] = color.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest('script, style, [aria-hidden=true]')) continue;
    const style = getComputedStyle(element), below = ground(element);
    const [a, b] = [light(over(parse(style.color), below)), light(below)].sort((x, y) => y - x);
    texts.push({text: text.slice(0, 40), size: parseFloat(style.fontSize), contrast: (a + 0.05) / (b + 0.05)});
  }
  const box = element => { const {width, height, right} = element.getBoundingClientRect(); return {width, height, right}; };
  const figures = [...document.querySelectorAll('figure')].map(figure => ({
    name: (figure.querySelector('figcaption')?.textContent ?? '').trim(),
    parts: [...figure.querySelectorAll('svg:not([aria-hidden]), img')].map(part => ({
      ...box(part),
      named: part.tagName === 'IMG' ? part.alt : (part.getAttribute('aria-label') ?? ''),
      loaded: part.tagName !== 'IMG' || (part.complete && part.naturalWidth > 0),
    })),
  }));
  return {
    width: document.documentElement.scrollWidth, figures, texts,
    headers: [...document.querySelectorAll('th')].filter(cell => !cell.scope).map(cell => cell.textContent),
    repeated: [...document.querySelectorAll('[id]')].map(e => e.id).filter((id, n, all) => all.indexOf(id) !== n),
  };
})()
"""


def find_chromium() -> str:
    """The browser; a test that needs one is skipped where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip(f"no browser here: none of {', '.join(NAMES)} is installed")


class Browser:
    """Headless Chromium, from `with` to the end of its block."""

    def __enter__(self) -> Self:
        program = find_chromium()
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._number, self._answers, self._buffer = 0, {}, b""
        self.events: list[dict[str, Any]] = []
        self._read, browser_writes = _pipe()
        browser_reads, self._write = _pipe()
        log = str(Path(self._folder.name) / "log.txt")
        command = [
            program,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # a container's root has no other way
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={self._folder.name}",
            "about:blank",
        ]
        self._process = os.posix_spawn(
            program,
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                (os.POSIX_SPAWN_DUP2, browser_reads, 3),
                (os.POSIX_SPAWN_DUP2, browser_writes, 4),
            ],
            setpgroup=0,
        )
        os.close(browser_reads)
        os.close(browser_writes)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # it may be gone already
            self.send("Browser.close")
        deadline = time.monotonic() + 10
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                break
            time.sleep(0.02)
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def open(self, page: Path, *, width: int = 1280, height: int = 900, scheme: Scheme = "light", media: str = "") -> Page:
        """Loads a file as a window of that width shows it."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        opened = Page(self, session, target, width)
        for domain in ("Page", "Runtime", "Network", "Log"):
            opened.call(f"{domain}.enable")
        opened.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        opened.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        opened.call("Page.navigate", url=page.resolve().as_uri())
        opened.wait_for("Page.loadEventFired")
        opened.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # laid out and painted
        return opened

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        number = self.send(method, session, **parameters)
        while number not in self._answers:
            self.receive()
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def send(self, method: str, session: str | None = None, **parameters: Any) -> int:
        """Sends a command; returns the number that its answer will have."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._number

    def receive(self) -> None:
        """Waits for one message: an answer or an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                log = Path(self._folder.name, "log.txt").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"Chromium {'ended' if ready else f'did not answer in {SECONDS:g} s'}. It said:\n{log}")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        said = json.loads(message)
        if "id" in said:
            self._answers[said["id"]] = said
        else:
            self.events.append(said)


class Page:
    """A page that was opened."""

    def __init__(self, browser: Browser, session: str, target: str, width: int) -> None:
        self.browser, self.session, self.target, self.width = browser, session, target, width

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command to this page."""
        return self.browser.call(method, self.session, **parameters)

    def wait_for(self, method: str) -> None:
        """Waits for an event of this page."""
        while not any(event["method"] == method for event in self.events):
            self.browser.receive()

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that happened on this page so far."""
        return [event for event in self.browser.events if event.get("sessionId") == self.session]

    @property
    def complaints(self) -> list[str]:
        """Exceptions, errors in the console, loads that failed, and loads from anywhere but the file itself."""
        found, addresses = [], {}
        for event in self.events:
            said = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    details = said["exceptionDetails"]
                    found.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
                case "Runtime.consoleAPICalled" if said["type"] in ("error", "warning", "assert"):
                    found.append(f"console {said['type']}: {[item.get('value') for item in said['args']]}")
                case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                    found.append(f"log {said['entry']['level']}: {said['entry']['text']}")
                case "Network.requestWillBeSent":
                    addresses[said["requestId"]] = said["request"]["url"]
                    if not said["request"]["url"].startswith(("file:", "data:")):
                        found.append(f"loads from the network: {said['request']['url']}")
                case "Network.loadingFailed":
                    found.append(f"failed to load {addresses.get(said['requestId'], '?')[:200]}: {said['errorText']}")
        return found

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of the promise that it makes."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def screenshot(self, path: Path) -> Path:
        """The whole page from top to bottom as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def close(self) -> None:
        """Closes the tab."""
        self.browser.call("Target.closeTarget", targetId=self.target)

    def problems(self) -> list[str]:
        """Everything wrong with the page as it is shown here; empty if a reader has nothing to complain about."""
        found = self.complaints
        seen = self.evaluate(_INSPECT)
        if seen["width"] > self.width:  # not innerWidth: a phone's window grows with what overflows it
            found.append(f"the page is {seen['width']} pixels wide in a window of {self.width}")
        if not seen["figures"]:
            found.append("there is no figure")
        for figure in seen["figures"]:
            what = f"figure {figure['name'][:60]!r}"
            if not figure["name"]:
                found.append("a figure has no caption")
            if not figure["parts"]:
                found.append(f"{what} is empty")
            for part in figure["parts"]:
                if part["width"] < 40 or part["height"] < 10:
                    found.append(f"{what} has a part of {part['width']:.0f} x {part['height']:.0f} pixels")
                if not part["loaded"]:
                    found.append(f"{what} has an image that did not load")
                if not part["named"]:
                    found.append(f"{what} has a part without a description")
        for text in seen["texts"]:
            if text["size"] < LEAST_FONT:
                found.append(f"{text['text']!r} is {text['size']:g} pixels high, below {LEAST_FONT}")
            if text["contrast"] < LEAST_CONTRAST:
                found.append(f"{text['text']!r} has contrast {text['contrast']:.2f}, below {LEAST_CONTRAST}")
        found += [f"table header {name!r} says not what it heads" for name in seen["headers"]]
        found += [f"id {name!r} is there twice" for name in seen["repeated"]]
        return found


def _pipe() -> tuple[int, int]:
    """A pipe whose ends lie above the numbers that the browser's own get; neither end is inherited by chance."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
