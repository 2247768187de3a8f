"""Open a page in Chromium once, and try several things with it, each in a branch of the running browser."""

# The directory that this runs in has a directory "browser". The host has Chromium and
# ChromeDriver, and the daemon the runtime gvisor.
import json
from typing import Any

from forkcell import Cell, Forkcell

DRIVER = 9515
# The browser talks to its driver through a pipe: connections do not outlive a branch.
OPTIONS = {
    "binary": "/usr/bin/chromium",
    "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"],
}


def ask(cell: Cell, path: str, body: dict[str, Any]) -> Any:
    """Send a command to the driver in a cell, and return its value."""
    answer = cell.fetch(DRIVER, path, method="POST", content=json.dumps(body))
    if answer.status_code != 200:
        raise RuntimeError(answer.text)
    return answer.json()["value"]


def script(cell: Cell, session: str, code: str) -> Any:
    """Run a script in the page."""
    return ask(cell, f"/session/{session}/execute/sync", {"script": code, "args": []})


with Forkcell() as fc, fc.cells.create(source="./browser", runtime="gvisor") as browser:
    browser.start()
    started = browser.exec("./start.sh")
    if started.exit_code != 0:
        raise RuntimeError(started.stderr)
    wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": OPTIONS}}}
    session = ask(browser, "/session", wanted)["sessionId"]
    ask(browser, f"/session/{session}/url", {"url": f"file://{browser.status().mount_at}/page.html"})
    branch = browser.branch(n=2)
    print(f"{len(branch)} browsers after {max(c.first_answer_us for c in branch.result.children) / 1e6:.2f} s")
    click = "document.querySelector('button').click();"
    show = "return document.title + ': ' + document.querySelector('output').value"
    for clicks, attempt in enumerate(branch, 1):
        with attempt:
            print(f"attempt {clicks}: {script(attempt, session, click * clicks + show)}")
    print(f"untouched: {script(browser, session, show)}")
