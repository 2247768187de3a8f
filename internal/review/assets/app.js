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
  const renew = async () => {
    if (busy()) {
      say("The cell has changed since you opened this page.", "Load the present state");
      return;
    }
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status === 401) {
      say("The daemon was restarted, or your session has ended.", "Sign in again");
      return;
    }
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = one("main", page);
    if (!fresh) return;
    const folds = new Map(all("details[id]").map((d) => [d.id, d.open]));
    const at = window.scrollY;
    one("main").replaceChildren(...Array.from(fresh.childNodes).map((n) => document.importNode(n, true)));
    for (const [id, open] of folds) {
      const d = document.getElementById(id);
      if (d) d.open = open;
    }
    window.scrollTo(0, at);
  };
  const live = document.body.dataset.live;
  if (live && window.EventSource) {
    let last = null;
    let lost = false;
    const source = new EventSource(live);
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
      if (source.readyState === EventSource.CLOSED) say("The daemon was restarted, or your session has ended.", "Sign in again");
      else say("The daemon does not answer. What is shown may be old.");
    };
    window.addEventListener("pagehide", () => source.close());
  }

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
      if (tick) tick.checked = !tick.checked;
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
