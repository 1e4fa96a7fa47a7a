"use strict";
(() => {
  const every = 2000, patience = 10000;
  const state = document.getElementById("state");
  const button = document.getElementById("pause");
  if (!document.getElementById("live") || !state || !button) return;
  let paused = false, busy = false, timer = 0, last = new Date();

  // What the reader has opened, scrolled, selected or focused stays as it is.
  function take(next) {
    const selection = document.getSelection();
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = next.getElementById(old.id);
      if (!fresh) { old.remove(); continue; }
      for (const opened of old.querySelectorAll("details[open][id]")) {
        const same = fresh.querySelector("#" + CSS.escape(opened.id));
        if (same) same.open = true;
      }
      if (old.isEqualNode(fresh)) continue;
      if (selection && !selection.isCollapsed && selection.containsNode(old, true)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const places = [...old.querySelectorAll(".wide[id]")].map((e) => [e.id, e.scrollLeft, e.scrollTop]);
      const path = focused ? way(old, focused) : null;
      const added = document.adoptNode(fresh);
      old.replaceWith(added);
      for (const [id, left, top] of places) {
        const place = document.getElementById(id);
        if (place) { place.scrollLeft = left; place.scrollTop = top; }
      }
      if (path) follow(added, path, focused.tagName)?.focus({ preventScroll: true });
    }
  }

  // way is where an element stands below another one, as numbers of children.
  function way(from, to) {
    const path = [];
    for (let e = to; e !== from; e = e.parentElement) path.unshift([...e.parentElement.children].indexOf(e));
    return path;
  }

  function follow(from, path, tag) {
    let e = from;
    for (const i of path) e = e?.children[i];
    return e?.tagName === tag ? e : null;
  }

  // A section that has come since is not on this page yet: then the page is taken as a whole.
  function complete(next) {
    return [...next.querySelectorAll("[data-live]")].every((e) => document.getElementById(e.id));
  }

  async function refresh() {
    clearTimeout(timer);
    if (busy || paused || document.hidden) return;
    busy = true;
    const limit = new AbortController();
    const alarm = setTimeout(() => limit.abort(), patience);
    try {
      const answer = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" }, signal: limit.signal });
      if (!answer.ok) throw new Error("status " + answer.status);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const live = next.getElementById("live");
      if (!live) throw new Error("another page");
      if (paused) return;
      if (complete(next)) take(next);
      else document.getElementById("live").replaceWith(document.adoptNode(live));
      last = new Date();
      say("");
    } catch (error) {
      const why = error.name === "AbortError" ? "no answer within " + patience / 1000 + " s" : error.name === "TypeError" ? "no connection" : error.message;
      say("These numbers are of " + last.toLocaleTimeString() + ": " + why + ". Trying again.");
    } finally {
      clearTimeout(alarm);
      busy = false;
      if (!paused && !document.hidden) timer = setTimeout(refresh, every);
    }
  }

  function say(text) {
    if (state.textContent !== text) state.textContent = text;
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    if (paused) clearTimeout(timer);
    else refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  timer = setTimeout(refresh, every);
})();
