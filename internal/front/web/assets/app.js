// Adds live updates, keys and folding to the pages. Everything works without it.
"use strict";
(() => {
  const one = (selector, from) => (from || document).querySelector(selector);
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  // Live updates: the server says that something has changed, and the page loads itself
  // again in the background. The reader's place, open parts and what was typed stay.
  const news = one("#news");
  const say = (text, link) => {
    news.textContent = text + " ";
    if (link) {
      const a = document.createElement("a");
      a.href = location.href;
      a.textContent = link;
      news.append(a);
    }
    news.hidden = false;
  };
  const busy = () => {
    const form = one("#decide");
    const touched = form && (form.elements.reason.value !== "" || all("input[name=path]:not(:checked)").length > 0);
    return touched || all("textarea").some((t) => t.value !== t.defaultValue);
  };
  const changed = () => say("The cell has changed since you opened this page.", "Load the present state");
  const ended = () => say("The daemon was restarted, or your session has ended.", "Sign in again");

  // Output: who reads the end stays there. Who reads something else, or has selected it,
  // keeps it until that is over.
  const terms = () => all("#output pre.term");
  const atEnd = (t) => t.scrollHeight - t.scrollTop - t.clientHeight < 8;
  const toEnd = () => terms().forEach((t) => { t.scrollTop = t.scrollHeight; });
  let held = null;
  const reading = () => {
    const chosen = document.getSelection();
    const box = one("#output");
    return !terms().every(atEnd) || Boolean(box && chosen && !chosen.isCollapsed && box.contains(chosen.anchorNode));
  };
  const showOutput = (html) => {
    const box = one("#output");
    if (!box) return;
    held = reading() ? html : null;
    if (held !== null) return;
    const focused = terms().findIndex((t) => t === document.activeElement);
    const page = new DOMParser().parseFromString(html, "text/html");
    box.replaceChildren(...Array.from(page.body.childNodes).map((n) => document.importNode(n, true)));
    toEnd();
    if (focused >= 0 && terms()[focused]) terms()[focused].focus({ preventScroll: true });
  };
  const release = () => { if (held !== null && !reading()) showOutput(held); };
  document.addEventListener("scroll", release, true);
  document.addEventListener("selectionchange", release);

  // The newest states are at the right end of the graph.
  const showHead = () => {
    const graph = one(".graph"), head = one(".graph a.head");
    if (!head) return;
    const over = head.getBoundingClientRect().right + 24 - graph.getBoundingClientRect().right;
    if (over > 0) graph.scrollLeft += over;
  };
  showHead();

  const renew = async () => {
    if (busy()) {
      changed();
      return;
    }
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status === 401) {
      ended();
      return;
    }
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = one("main", page);
    if (!fresh) return;
    if (busy()) { // since the page was asked for
      changed();
      return;
    }
    const places = reading() ? terms().map((t) => t.scrollTop) : null;
    const folds = new Map(all("details[id]").map((d) => [d.id, d.open]));
    const at = window.scrollY;
    const shown = one(".graph") && one(".graph").scrollLeft;
    one("main").replaceChildren(...Array.from(fresh.childNodes).map((n) => document.importNode(n, true)));
    for (const [id, open] of folds) {
      const d = document.getElementById(id);
      if (d) d.open = open;
    }
    showTicks();
    held = null;
    toEnd();
    if (places) terms().forEach((t, i) => { t.scrollTop = places[i] ?? t.scrollHeight; });
    if (one(".graph") && shown !== null) one(".graph").scrollLeft = shown;
    window.scrollTo(0, at);
    // A session that went back to a turn goes on as another run.
    if (page.body.dataset.live !== document.body.dataset.live) {
      document.body.dataset.live = page.body.dataset.live || "";
      document.dispatchEvent(new Event("visibilitychange"));
    }
  };

  // A browser has few connections to one host, so only a tab that is seen follows.
  const follow = () => {
    let source = null;
    let last = null;
    let lost = false;
    const close = () => {
      if (source) source.close();
      source = null;
    };
    const refused = async () => {
      const answer = await fetch(location.href, { method: "HEAD", credentials: "same-origin" });
      if (answer.status === 401) ended();
      else say("This page does not update by itself any more. Too many are open.", "Load the present state");
    };
    const open = () => {
      const address = document.body.dataset.live;
      const box = one("#output");
      source = new EventSource(box && address.includes("run=") ? address + "&shown=" + box.dataset.shown : address);
      source.addEventListener("output", (e) => showOutput(JSON.parse(e.data)));
      source.addEventListener("state", (e) => {
        if (last !== null && e.data !== last) renew().catch(() => {});
        last = e.data;
        if (lost) {
          lost = false;
          news.hidden = true;
        }
      });
      source.onerror = () => {
        lost = true;
        if (source && source.readyState === EventSource.CLOSED) refused().catch(() => {});
        else say("The daemon does not answer. What is shown may be old.");
      };
    };
    document.addEventListener("visibilitychange", () => {
      close();
      if (document.hidden) return;
      if (last === null) renew().catch(() => {});
      open();
    });
    window.addEventListener("pagehide", close);
    if (!document.hidden) open();
  };
  if (document.body.dataset.live && window.EventSource) follow();
  if ((document.body.dataset.live || "").includes("run=")) toEnd();

  // What was unticked stays so: on the other pages of the list, in another view, after
  // a look at another page. The form sends what other pages list, too.
  const store = "unticked " + location.pathname;
  const unticked = () => {
    try {
      return new Set(JSON.parse(sessionStorage.getItem(store)));
    } catch {
      return new Set();
    }
  };
  const others = one("#others") && one("#others").textContent;
  const showTicks = () => {
    const form = one("#decide");
    if (!form) return;
    const away = unticked();
    for (const tick of all("input[name=path]")) {
      if (away.has(tick.value)) tick.checked = false;
      away.delete(tick.value);
    }
    for (const old of all("input[name=left]")) old.remove();
    for (const value of away) {
      const left = document.createElement("input");
      left.type = "hidden";
      left.name = "left";
      left.value = value;
      form.append(left);
    }
    const text = one("#others");
    if (text && away.size > 0) text.textContent = "Left out of other pages of the list: " + away.size + ".";
    else if (text) text.textContent = others;
  };
  document.addEventListener("change", (e) => {
    if (!e.target.matches("input[name=path]")) return;
    const away = unticked();
    if (e.target.checked) away.delete(e.target.value);
    else away.add(e.target.value);
    try {
      sessionStorage.setItem(store, JSON.stringify(Array.from(away)));
    } catch {
      // The ticks of this page count all the same.
    }
  });
  showTicks();

  // A change that is folded is loaded when it is opened.
  document.addEventListener("toggle", async (e) => {
    const link = e.target.open && one("a[data-load]", e.target);
    if (!link) return;
    link.removeAttribute("data-load");
    const answer = await fetch(link.href, { credentials: "same-origin" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = one("[data-part]", page);
    if (part) link.parentElement.replaceWith(document.importNode(part, true));
  }, true);

  // A tick in the head of a file does not fold it.
  document.addEventListener("click", (e) => {
    if (e.target.matches("summary input")) e.stopPropagation();
    const question = e.target.dataset && e.target.dataset.confirm;
    if (question && !window.confirm(question)) e.preventDefault();
  });

  // Keys.
  let place = -1;
  const go = (step) => {
    const files = all("details.file");
    if (files.length === 0) return;
    if (place >= 0 && files[place]) files[place].classList.remove("at");
    place = Math.min(files.length - 1, Math.max(0, place + step));
    files[place].classList.add("at");
    files[place].scrollIntoView({ block: "start" });
    one("summary", files[place]).focus({ preventScroll: true });
  };
  const help = () => {
    let box = one("#keys");
    if (!box) {
      box = document.createElement("dialog");
      box.id = "keys";
      box.className = "keys";
      const title = document.createElement("h2");
      title.textContent = "Keys";
      box.append(title);
      for (const [key, text] of [["j", "next file"], ["k", "file before"], ["o", "fold or unfold"], ["x", "tick or untick"], ["a", "go to Accept, Enter accepts"], ["r", "go to Reject, Enter rejects"], ["c", "write a reason"], ["/", "search"], ["?", "this help"]]) {
        const line = document.createElement("p");
        const kbd = document.createElement("kbd");
        kbd.textContent = key;
        line.append(kbd, " " + text);
        box.append(line);
      }
      const close = document.createElement("button");
      close.textContent = "Close";
      close.addEventListener("click", () => box.close());
      box.append(close);
      document.body.append(box);
    }
    if (box.open) box.close();
    else box.showModal();
  };
  const focus = (selector) => {
    const e = one(selector);
    if (e) e.focus();
    return e;
  };
  const here = () => all("details.file")[place];
  const keys = {
    j: () => go(1),
    k: () => go(-1),
    o: () => { if (here()) here().open = !here().open; },
    x: () => {
      const tick = here() && one("input[type=checkbox]", here());
      if (tick) tick.click();
    },
    a: () => focus("#accept") || focus("#apply"),
    r: () => focus("#reject"),
    c: () => focus("#reason"),
    "/": () => focus("#search"),
    "?": help,
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select")) return;
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
})();
