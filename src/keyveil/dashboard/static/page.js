// What pages do beyond what browsers do by themselves: turn, sort and search a long table in place.
// Without it every link and form works as well, by loading the page again.
"use strict";

const GONE = "The collector does not answer. Is it still running? Reload the page to try again.";

function enhance(region) {
  let latest = 0;

  async function turn(address) {
    const mine = ++latest;
    region.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${address}${address.includes("?") ? "&" : "?"}part=rows`, { redirect: "manual" });
      if (mine !== latest) return; // a later question is under way
      if (answer.type === "opaqueredirect") { location.reload(); return; } // signed out
      const part = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-rows]");
      if (part === null) { location.assign(address); return; }
      const focus = document.activeElement === null ? "" : document.activeElement.id;
      for (const name of ["table", "turn"]) {
        const [old, fresh] = [region, part].map((one) => one.querySelector(`[data-${name}]`));
        if (old && fresh) old.replaceWith(fresh);
      }
      history.replaceState(null, "", address);
      if (focus) { const same = document.getElementById(focus); if (same) same.focus(); }
      say("");
    } catch (error) {
      if (mine === latest) say(GONE);
    } finally {
      if (mine === latest) region.removeAttribute("aria-busy");
    }
  }

  function say(sentence) {
    const place = region.querySelector("[data-says]");
    if (place) { place.textContent = sentence; place.hidden = sentence === ""; }
  }

  region.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-turn-to]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    turn(link.href);
  });

  const search = region.querySelector("form[data-search]");
  if (search) {
    const ask = () => turn(`${search.action}?${new URLSearchParams(new FormData(search))}`);
    let waiting = 0;
    search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 150); });
    search.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); ask(); });
  }
}

document.querySelectorAll("[data-rows]").forEach(enhance);

for (const button of document.querySelectorAll("button[data-sure]")) { // what cannot be taken back is asked twice
  button.addEventListener("click", (event) => { if (!confirm(button.dataset.sure)) event.preventDefault(); });
}
