/** The page "Try it": everything is drawn here, by the modules of the client; nothing is sent. */
import { Coins } from "./client/src/coins.js";
import { build } from "./client/src/mechanisms.js";
import { Schema } from "./client/src/schema.js";
import { mechanisms } from "./client/src/table.js";
import { hex, parse } from "./client/src/wire.js";
import { bar, course, gauge, times } from "./charts.js";
import { law } from "./law.js";

const DRAWS = 2000;
const ASKED = 100;
const SCHEMA = { keys: ["burger", "fries", "pepsi"], low: 1, high: 5 };
const ROWS = [["fries", "4"], ["pepsi", "5"], ["", ""]];

/** Resolved options, as a round's document has them; tests/browser/test_try_it.py holds them to the Python device. */
export const OPTIONS = {
  ssr: { max_pairs: 2, bins: null, size: 1, goal: "both" },
  kvue: { bins: null },
  "pckv-grr": { max_pairs: 2, split: "tight", estimator: "unbiased" },
};

const OTHERS = {
  "nothing at all": {},
  "the same, rated 1": null,
  "burger, rated 5": { burger: 5 },
  "burger, rated 1": { burger: 1 },
  "all three, rated 1": { burger: 1, fries: 1, pepsi: 1 },
};

const find = (name) => document.getElementById(name);
const coins = new Coins();
const schema = await Schema.read(SCHEMA);
const now = {}; // mechanism, record, id, payload and laws that are shown

/** What is typed: keys with numbers, or text that is none. */
function typed() {
  const rows = [...document.querySelectorAll(".pair")].map((row) => [...row.querySelectorAll("input")].map((one) => one.value.trim()));
  return Object.fromEntries(rows.filter(([key]) => key).map(([key, value]) => [key, value === "" ? NaN : Number(value)]));
}

const answer = (pairs) => {
  const id = coins.bytes(16);
  return { id, payload: now.mechanism.respond(pairs, id, coins) };
};

/** The key that a report at an id is about, where it is about one: the only one that changes the law. */
function askedKey(id) {
  const nothing = law(now.mechanism, [], id);
  const differs = (one) => [...one].some(([bytes, { probability }]) => Math.abs(probability - (nothing.get(bytes)?.probability ?? 0)) > 1e-9);
  return SCHEMA.keys.find((key) => differs(law(now.mechanism, schema.look({ [key]: 5 }).pairs, id)));
}

/** A payload in words: keys, each rated high or low. */
function words(payload) {
  const rated = (key, high) => `${key} ${high ? "high" : "low"}`;
  if (now.mechanism.name === "kvue") return payload ? rated(now.key, payload === 2) : `no ${now.key}`;
  const symbols = Array.isArray(payload) ? payload : [payload];
  const known = symbols.filter((symbol) => symbol < 2 * SCHEMA.keys.length);
  return known.length ? known.map((symbol) => rated(SCHEMA.keys[symbol >> 1], symbol & 1)).join(", ") : "none";
}

/** What of a record does not count as it was typed. */
const NOTES = {
  unknown: (key) => `Nobody asks about “${key}”: it counts as nothing.`,
  unreadable: (key) => `The rating of “${key}” is no number: it counts as nothing.`,
  clamped: (key) => `The rating of “${key}” counts as ${SCHEMA.low} or ${SCHEMA.high}, whichever is nearer.`,
};

const MEANING = {
  ssr: "A set of pairs was drawn, here of one or none. Sets that meet what you have are e^ε times as likely as others, and no more.",
  kvue: "The report's id decides which key is asked. The true answer is e^ε times as likely as each other one.",
  "pckv-grr": "One of your pairs, or an empty place, was chosen; then it was often exchanged for another one at random.",
};

/** Show a picture as wide as its place is, now and whenever that changes. */
function picture(name, make) {
  now[name] = () => find(name).replaceChildren(make(find(name).clientWidth));
  now[name]();
}

/** A new mechanism, or new pairs: everything is drawn again. */
async function renew() {
  const [name, epsilon] = [find("mechanism").value, Number(find("epsilon").value)];
  find("epsilon-shown").value = String(epsilon);
  now.epsilon = epsilon;
  now.mechanism = await build({ name, schema, epsilon: parse(String(epsilon)), options: OPTIONS[name] }, mechanisms);
  const { pairs, ignored } = schema.look(typed());
  now.pairs = pairs;
  const { cap } = now.mechanism;
  const notes = ignored.map(({ why, key }) => NOTES[why](key));
  if (cap !== undefined && pairs.length > cap) notes.push(`Of ${pairs.length} pairs only ${cap} count, chosen at random.`);
  find("ignored").replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
  find("meaning").textContent = MEANING[name];
  draw();
  ask();
}

/** Another report of the same record. */
function draw() {
  Object.assign(now, answer(now.pairs));
  now.key = now.mechanism.name === "kvue" ? askedKey(now.id) : null;
  now.mine = law(now.mechanism, now.pairs, now.id);
  now.bytes = hex(now.mechanism.encode(now.payload, now.id));
  find("told").textContent = `“${words(now.payload)}”`;
  find("id").textContent = hex(now.id);
  find("payload").textContent = now.bytes;
  compare();
}

/** The record that somebody suspects instead of the one that was typed. */
function suspected() {
  const chosen = OTHERS[find("other").value];
  const record = chosen ?? Object.fromEntries(Object.keys(typed()).map((key) => [key, 1]));
  return schema.look(record).pairs;
}

/** Odds for the typed record against the suspected one after one report at an id. */
const ratio = (mine, theirs, bytes) => mine.get(bytes).probability / theirs.get(bytes).probability;

function compare() {
  const theirs = law(now.mechanism, suspected(), now.id);
  find("other-name").textContent = find("other").value;
  histogram(theirs);
  const odds = ratio(now.mine, theirs, now.bytes);
  const worst = Math.max(...[...now.mine.keys()].map((bytes) => Math.max(ratio(now.mine, theirs, bytes), 1 / ratio(now.mine, theirs, bytes))));
  Object.assign(find("odds").dataset, { odds, worst });
  find("odds").textContent = `After this report: ${times(odds)} for what you typed.`;
  picture("gauge", (width) => gauge(odds, now.epsilon, width));
  find("bound").textContent =
    `Before it was 1 : 1. The most that any report can do here is ${times(worst)}; nothing can go beyond e^ε\u00a0:\u00a01, which is ${times(Math.exp(now.epsilon))}.`;
}

function histogram(theirs) {
  const counts = new Map();
  for (let number = 0; number < DRAWS; number++) {
    const bytes = hex(now.mechanism.encode(now.mechanism.respond(now.pairs, now.id, coins), now.id));
    counts.set(bytes, (counts.get(bytes) ?? 0) + 1);
  }
  const all = [...now.mine].sort(([, one], [, other]) => other.probability - one.probability);
  const shares = (bytes) => [(counts.get(bytes) ?? 0) / DRAWS, now.mine.get(bytes).probability, theirs.get(bytes).probability];
  const most = Math.max(...all.flatMap(([bytes]) => shares(bytes)));
  const rows = all.map(([bytes, { payload }]) => {
    const row = document.createElement("tr");
    const [drawn, exact, other] = shares(bytes);
    row.className = bytes === now.bytes ? "this" : "";
    Object.assign(row.dataset, { bytes, count: counts.get(bytes) ?? 0, exact, other });
    const head = Object.assign(document.createElement("th"), { scope: "row", textContent: words(payload) });
    const picture = document.createElement("td");
    picture.append(bar(drawn, exact, other, most));
    const cell = (share) => Object.assign(document.createElement("td"), { textContent: `${(100 * share).toFixed(1)} %` });
    row.append(head, picture, cell(drawn), cell(exact), cell(other));
    return row;
  });
  find("histogram").tBodies[0].replaceChildren(...rows);
}

/** A hundred campaigns: with a new report each, and with the one report of a series. */
function ask() {
  const other = suspected();
  const known = new Map();
  const laws = (id) => {
    const at = now.mechanism.name === "kvue" ? hex(id) : ""; // elsewhere the id changes nothing
    if (!known.has(at)) known.set(at, [law(now.mechanism, now.pairs, id), law(now.mechanism, other, id)]);
    return known.get(at);
  };
  const told = ({ id, payload }) => Math.log(ratio(...laws(id), hex(now.mechanism.encode(payload, id))));
  const first = answer(now.pairs);
  const fresh = [];
  for (let place = 0, sum = 0; place < ASKED; place++) fresh.push((sum += told(place ? answer(now.pairs) : first)));
  const standing = fresh.map(() => told(first)); // the same id and the same bytes: nothing new is learnt
  Object.assign(find("asked").dataset, { fresh: fresh.at(-1), standing: standing.at(-1) });
  find("asked").textContent =
    `After a hundred new reports: ${times(Math.exp(fresh.at(-1)))}. With the series rule: ${times(Math.exp(standing.at(-1)))}.`;
  picture("course", (width) => course(fresh, standing, now.epsilon, width));
}

for (const [place, [key, value]] of ROWS.entries()) {
  const input = (label, given, more) => {
    const field = Object.assign(document.createElement("input"), { value: given, autocomplete: "off", ...more });
    const around = document.createElement("label");
    around.append(label, field);
    return around;
  };
  const row = Object.assign(document.createElement("div"), { className: "pair" });
  row.append(input(`Key ${place + 1}`, key, { spellcheck: false }), input("Rating", value, { inputMode: "decimal" }));
  find("pairs").append(row);
}
find("other").replaceChildren(...Object.keys(OTHERS).map((name) => new Option(name)));

find("record").addEventListener("submit", (event) => event.preventDefault());
find("record").addEventListener("input", renew);
find("other").addEventListener("change", () => (compare(), ask()));
find("again").addEventListener("click", draw);
find("ask").addEventListener("click", ask);
addEventListener("resize", () => (now.gauge(), now.course()));
await renew();
document.body.dataset.ready = "yes";
