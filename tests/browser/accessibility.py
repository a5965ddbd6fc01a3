"""What a page needs so that everybody can use it, looked for in a real browser: names, landmarks, order and contrast.

These are checks of our own for what matters most. They do not replace a look at the page, nor a screen reader.
"""

from __future__ import annotations

from playwright.sync_api import Page

LOOK = """() => {
  const found = [], say = (what, one) => found.push(`${what}: ${(one.outerHTML || one).slice(0, 120)}`);
  const shown = (one) => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
  const named = (one) => (one.getAttribute("aria-label") || one.textContent || one.title || "").trim() !== "";
  if (!document.documentElement.lang) say("no language", "html");
  if (!document.title) say("no title", "head");
  for (const mark of ["main", "header", "footer", "h1"])
    if (document.querySelectorAll(mark).length !== 1) say("not exactly one", mark);
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => say("id twice", id));
  for (const one of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (shown(one) && !one.labels.length) say("no label", one);
  for (const one of document.querySelectorAll("[aria-describedby]"))
    if (!document.getElementById(one.getAttribute("aria-describedby"))) say("describes nothing", one);
  for (const one of document.querySelectorAll("a, button, svg[role=img], nav, [role=region]"))
    if (shown(one) && !named(one)) say("no name", one);
  for (const one of document.querySelectorAll("table")) if (!one.caption) say("no caption", one);
  for (const one of document.querySelectorAll("th")) if (!one.scope) say("no scope", one);
  let level = 0;
  for (const one of document.querySelectorAll("h1, h2, h3, h4")) {
    const now = Number(one.tagName[1]);
    if (now > level + 1) say("skips a heading", one);
    level = now;
  }
  const rgba = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3])).concat(1);
  const behind = (one) => {
    const stack = [];
    for (let at = one; at; at = at.parentElement) stack.push(rgba(getComputedStyle(at).backgroundColor));
    return stack.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (colour) => colour.slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = words.nextNode(); text; text = words.nextNode()) {
    const one = text.parentElement;
    if (!text.data.trim() || !shown(one) || one.closest("svg, option, script, title")) continue;
    const style = getComputedStyle(one), ground = behind(one), ink = over(rgba(style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, one);
  }
  return found;
}"""


def complaints(page: Page) -> list[str]:
    """Everything that is wrong with the page that is shown, in light and in dark."""
    found: list[str] = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}: {one}" for one in page.evaluate(LOOK)]
    page.emulate_media(color_scheme="light")
    return found
