// The rules of the device, one after the other, against a collector that this script holds in its hands:
// `node device.mjs FOLDER`, or only some of them by their names: `node device.mjs FOLDER NAME…`.
import assert from "node:assert/strict";
import { join } from "node:path";
import { build } from "../../clients/javascript/src/mechanisms.js";
import { Scales } from "../../clients/javascript/src/scales.js";
import { hash, parse } from "../../clients/javascript/src/wire.js";
import { BrowserStorage, Device, FileStorage, KeyveilError, MemoryStorage, mechanisms } from "../../clients/javascript/node.js";

const [, , place, ...only] = process.argv;
let steps = 0;
const step = async (what, check) => {
  if (only.length && !only.includes(what)) return;
  try {
    await check();
  } catch (error) {
    console.error(`In the step "${what}":`);
    throw error;
  }
  steps++;
};
const refused = (code, attempt) => assert.rejects(attempt, (error) => assert.equal(error.code, code) ?? true);

/** A collector in which one round is open; it keeps what arrives, and answers as it is told to. */
class Collector {
  constructor() {
    Object.assign(this, { arrived: [], requests: [], behave: "accept" });
  }
  async open(changes = {}, round = {}) {
    const usual = { schema: { keys: ["burger", "fries", "pepsi"], low: 1, high: 5 }, protocol: { name: "kvue", epsilon: "1" }, rounds: [{}] };
    const plain = { purpose: "Snacks.", min_reports: 1000, enrolment: "none", retention_days: 30, contact: "" };
    const campaign = { keyveil: 1, name: "snacks", ...plain, ...usual, ...changes };
    const schema = await Scales.read(campaign.schema);
    const asked = { mechanism: "kvue", epsilon: campaign.protocol.epsilon, options: { bins: null }, part: ["0", "1"], round: 1, ...round };
    const made = await build({ name: asked.mechanism, schema, epsilon: parse(asked.epsilon), options: asked.options }, mechanisms);
    const document = { keyveil: 1, campaign: await hash(campaign), ...asked, report_bytes: made.codec.size };
    const shown = { number: asked.round, state: "open", hash: await hash(document), document };
    this.view = { campaign, hash: await hash(campaign), state: "open", round: shown };
  }
  async request(method, path, body, headers) {
    this.requests.push({ method, path, headers });
    const say = (status, content, type = "application/json") => ({
      status,
      headers: new Headers({ "content-type": type }),
      body: new TextEncoder().encode(JSON.stringify(content)),
    });
    await this.opened;
    if (path.includes("/dictionaries/")) return { ...say(200), body: new TextEncoder().encode(this.dictionary) };
    if (method === "GET") return say(200, this.view);
    this.arrived.push(Buffer.from(body).toString("hex"));
    if (this.behave === "lose") throw new KeyveilError("transport/unreachable");
    if (this.behave === "nonsense") return say(200, { accepted: "yes" });
    if (this.behave === "token") return say(401, { code: "enrolment/unknown" }, "application/problem+json");
    if (this.behave === "closed") return say(409, { code: "round/closed" }, "application/problem+json");
    return say(200, { accepted: 1, duplicates: 0, refused: [] });
  }
}

/** A collector with one open campaign, once `opened`. */
class Named extends Collector {
  constructor(name, more = {}) {
    super();
    this.opened = this.open({ name, ...more });
  }
}

let today = "2026-11-20";
const made = (collector, given = {}) =>
  new Device({
    storage: new MemoryStorage(),
    transport: collector,
    now: () => new Date(`${today}T12:00:00Z`),
    patience: { pace: 0, tries: 2 },
    sleep: async () => {},
    ...given,
  });

const collector = new Collector();
await collector.open();
const device = made(collector);

await step("nothing leaves without consent", async () => {
  await refused("consent/needed", device.report("snacks", { fries: 4 }));
  assert.equal(collector.arrived.length, 0);
});
await step("an explanation says the price", async () => {
  const shown = await device.explain("snacks");
  assert.match(shown.text, /costs epsilon 1, computed here from kvue/);
  assert.equal(shown.refusal, null);
  await device.consent("snacks", shown);
});
await step("a preview draws and spends nothing that counts", async () => {
  const seen = await device.preview("snacks", { fries: 4, tea: 1, burger: NaN, pepsi: 9 });
  assert.deepEqual(seen.ignored.map((one) => one.why), ["unknown", "unreadable", "clamped"]);
  assert.equal(seen.report.payload.length, 2);
  assert.deepEqual(await device.ledger(), []);
});
await step("a lost answer leaves the report waiting", async () => {
  collector.behave = "lose";
  const told = await device.report("snacks", { fries: 4 });
  assert.deepEqual([told.state, told.used], ["waiting", true]);
  assert.equal((await device.ledger()).length, 1);
});
await step("a retry sends the same bytes and costs nothing", async () => {
  collector.behave = "nonsense";
  assert.equal((await device.report("snacks", { burger: 1 })).state, "waiting");
  collector.behave = "accept";
  assert.equal((await device.flush())[0].state, "sent");
  assert.equal(new Set(collector.arrived).size, 1);
  assert.equal((await device.ledger()).length, 1);
});
await step("a round is answered once", async () => {
  const before = collector.arrived.length;
  assert.deepEqual((({ state, used }) => [state, used])(await device.report("snacks", { pepsi: 5 })), ["sent", false]);
  assert.equal(collector.arrived.length, before);
});
await step("the price is that of the integers", async () => {
  const [entry] = await device.ledger();
  assert.ok(Number(entry.epsilon) <= 1 && Number(entry.epsilon) > 0.999999999);
});
await step("changed terms need another consent", async () => {
  await collector.open({ purpose: "Something else." });
  await refused("campaign/changed", device.report("snacks", {}));
});
await step("caps refuse before anything is drawn", async () => {
  await collector.open({ name: "dear", protocol: { name: "kvue", epsilon: "1.5" } });
  await device.consent("dear");
  assert.equal((await device.explain("dear")).refusal, "budget/exceeded");
  await refused("budget/exceeded", device.report("dear", { fries: 4 }));
  assert.equal((await device.ledger()).length, 1);
});
await step("caps are tightened freely and loosened only by saying so", async () => {
  await device.limit({ life: "4" });
  await refused("budget/looser", device.limit({ life: "8" }));
  await device.limit({ life: "16" }, true);
  await refused("epsilon/cap", device.limit({ lives: "9" }));
});
await step("many campaigns stay within the caps", async () => {
  const greedy = made(collector);
  let [spent, silent] = [0, 0];
  for (let number = 0; number < 12; number++) {
    await collector.open({ name: `c${number}`, protocol: { name: "kvue", epsilon: "0.5" } });
    await greedy.consent(`c${number}`);
    await greedy.report(`c${number}`, {}).then((told) => (spent += Number(told.epsilon)), () => silent++);
  }
  assert.deepEqual([Math.round(spent * 1e6) / 1e6, silent], [2, 8]);
});
await step("withdrawal deletes what waits, and what has begun is not answered", async () => {
  const leaving = made(collector);
  await collector.open({ name: "leave", rounds: [{ opens: "2026-11-01", closes: "2026-12-01" }] });
  await leaving.consent("leave");
  collector.behave = "lose";
  await leaving.report("leave", { fries: 4 });
  assert.equal(await leaving.withdraw("leave"), 1);
  collector.behave = "accept";
  await refused("consent/withdrawn", leaving.report("leave", {}));
  await leaving.consent("leave");
  await refused("report/withdrawn", leaving.report("leave", {}));
  assert.equal((await leaving.ledger()).length, 1);
  for (const rounds of [[{ opens: "2026-11-20" }], [{}]]) {
    const unsure = made(collector);
    await collector.open({ name: "unsure", rounds });
    await unsure.consent("unsure");
    await unsure.withdraw("unsure");
    await unsure.consent("unsure");
    await refused("report/withdrawn", unsure.report("unsure", {}));
  }
  await collector.open({ name: "leave", rounds: [{ opens: "2026-11-01", closes: "2026-12-01" }] });
});
await step("a refusal of the collector is final", async () => {
  const late = made(collector);
  collector.behave = "closed";
  await late.consent("leave");
  assert.deepEqual((({ state, code }) => [state, code])(await late.report("leave", {})), ["refused", "round/closed"]);
  collector.behave = "accept";
});
await step("in a period the standing report is sent again, whatever the record has become", async () => {
  const standing = made(collector);
  const series = { name: "weekly", every_days: 7, renew_days: 28, renew_from: "2026-11-16" };
  const sent = [];
  for (const [opens, closes] of [["2026-11-16", "2026-11-22"], ["2026-11-23", "2026-11-29"], ["2026-12-14", "2026-12-20"]]) {
    today = closes;
    await collector.open({ ...series, rounds: [{ opens, closes }] });
    if (!sent.length) await standing.consent("weekly");
    const told = await standing.report("weekly", { fries: 1 + sent.length });
    sent.push([told.used, told.report, (await standing.export()).entries.at(-1).payload]);
  }
  assert.deepEqual(sent.map(([used]) => used), [true, false, true]);
  assert.equal(sent[0][1], sent[1][1]);
  assert.equal(sent[0][2], sent[1][2]);
  assert.notEqual(sent[0][1], sent[2][1]);
  today = "2026-11-20";
});
await step("one_in answers one of so many campaigns", async () => {
  const turns = made(collector, { caps: { schema_period: "9", schema_life: "9", period: "9" } });
  const told = [];
  for (let week = 0; week < 8; week++) {
    today = new Date(Date.UTC(2026, 10, 16 + 7 * week)).toISOString().slice(0, 10);
    await collector.open({ name: "turns", every_days: 7, one_in: 4, rounds: [{ opens: today, closes: today }] });
    if (!week) await turns.consent("turns");
    told.push((await turns.report("turns", {})).state);
  }
  assert.equal(told.filter((state) => state === "sent").length, 2);
  today = "2026-11-20";
});
await step("a clock far ahead is not believed, and one set back gives nothing back", async () => {
  await collector.open();
  const clock = made(collector);
  await clock.consent("snacks");
  today = "2031-01-01";
  await refused("device/clock", clock.report("snacks", {}));
  today = "2026-12-20";
  assert.equal((await clock.report("snacks", {})).state, "sent");
  today = "2026-11-01";
  await collector.open({ name: "back" });
  await clock.consent("back");
  assert.match((await clock.explain("back")).text, /Clock: it was once at 2026-12-20/);
  assert.equal((await clock.report("back", {})).state, "sent");
  assert.deepEqual((await clock.ledger()).map((one) => one.day), ["2026-12-20", "2026-12-20"]);
  today = "2031-01-01";
  await clock.trustClock();
  assert.equal((await clock.export()).latest, "2031-01-01");
  today = "2026-11-20";
  await collector.open();
});
await step("where storage may be forgotten only campaigns for browsers are answered", async () => {
  const fleeting = made(collector, { storage: new MemoryStorage(false) });
  await fleeting.consent("snacks");
  await refused("storage/fleeting", fleeting.report("snacks", {}));
  await collector.open({ browser: true, protocol: { name: "kvue", epsilon: "1", bins: null } });
  const shown = await fleeting.explain("snacks");
  assert.match(shown.text, /may forget what was spent/);
  await fleeting.consent("snacks", shown);
  assert.equal((await fleeting.report("snacks", {})).state, "sent");
});
await step("storage that vanishes or is replaced stops the device", async () => {
  for (const put of [null, made(collector)]) {
    const storage = new MemoryStorage();
    const losing = made(collector, { storage });
    await losing.consent("snacks");
    await put?.consent("snacks");
    storage.text = put?.storage.text ?? null;
    await refused("storage/vanished", losing.report("snacks", {}));
  }
});
await step("Global Privacy Control and Do Not Track are respected unless the page says otherwise", async () => {
  const usual = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  for (const signal of [{ globalPrivacyControl: true }, { doNotTrack: "1" }]) {
    Object.defineProperty(globalThis, "navigator", { value: signal, configurable: true });
    await refused("consent/signal", made(collector).consent("snacks"));
    const asked = made(collector, { ignoreSignals: true });
    await asked.consent("snacks");
    assert.equal((await asked.report("snacks", {})).state, "sent");
  }
  if (usual) Object.defineProperty(globalThis, "navigator", usual);
  else delete globalThis.navigator;
});
await step("enrolment is needed before anything is spent, and the token is not kept", async () => {
  await collector.open({ name: "members", enrolment: "token" });
  const member = made(collector);
  await member.consent("members");
  await refused("enrolment/needed", member.report("members", {}));
  assert.deepEqual(await member.ledger(), []);
  assert.equal((await member.report("members", {}, { token: "secret-1" })).state, "sent");
  assert.equal(collector.requests.at(-1).headers.Authorization, "Bearer secret-1");
  assert.doesNotMatch(member.storage.text, /secret-1/);
});
await step("a pilot's seat answers one of its rounds, within one epsilon", async () => {
  const pilot = { name: "pilot", protocol: { name: "pilot", epsilon: "1", share: "0.5" }, rounds: [{}, {}] };
  let answered = 0;
  for (let person = 0; person < 12; person++) {
    const one = made(collector);
    let mine = 0;
    await collector.open(pilot, { mechanism: "set-size", options: { most: 3 }, part: ["0", "0.5"] });
    await one.consent("pilot");
    mine += (await one.report("pilot", { fries: 2 })).state === "sent";
    const second = { mechanism: "ssr", options: { bins: null, goal: "both", max_pairs: 2, size: 1 }, part: ["0.5", "1"], round: 2 };
    await collector.open(pilot, second);
    mine += (await one.report("pilot", { fries: 2 })).state === "sent";
    assert.equal(mine, 1);
    answered += mine;
  }
  assert.equal(answered, 12);
});
await step("a record is no reason to raise", async () => {
  await collector.open({ name: "odd", protocol: { name: "kvue", epsilon: "0.1" } });
  const hostile = new Proxy({}, { ownKeys: () => { throw new Error("no"); } });
  for (const record of [null, 7, [], "x", hostile, new Map([["fries", 3]])]) {
    const odd = made(collector);
    await odd.consent("odd");
    assert.equal((await odd.report("odd", record)).state, "sent");
  }
});
await step("an explanation says what, why, how often, until when, at what price, and what a series costs", async () => {
  const dated = { rounds: [{ opens: "2026-11-16", closes: "2026-11-22" }], every_days: 7, purpose: "Snacks.\u001b[2J\u202e" };
  const page = async (terms) => {
    await collector.open({ name: "told", ...dated, ...terms });
    return (await made(collector).explain("told")).text;
  };
  const plain = await page({});
  for (const said of ["Why: Snacks.", "(burger, fries, pepsi)", "How often: one report", "Until: 2026-11-22", "at most every 7 days", "answered anew", "epsilon 1 for the whole campaign (kvue)", "costs epsilon 1, computed here from kvue", "at most 30 days", "before 1000 people", "Enrolment: none", "life: 0 of 16", "Consent: not given yet"])
    assert.ok(plain.includes(said), said);
  assert.doesNotMatch(plain, /[\u0000-\u0009\u000b-\u001f\u202e]/);
  assert.match(await page({ renew_days: 28, renew_from: "2026-11-16" }), /one report is drawn for each 28 days .* even if what you have changes/);
  assert.match(await page({ one_in: 3 }), /one in 3, chosen by a coin/);
  assert.match(await page({ schema: { keys: 20, low: 0, high: 1 } }), /0, 1, .*, 11, and 8 that are not named here/);
});
await step("consent is given to what was shown, and to nothing else", async () => {
  await collector.open({ name: "shown" });
  const one = made(collector);
  const shown = await one.explain("shown");
  await collector.open({ name: "shown", purpose: "Who are you?" });
  await one.consent("shown", shown);
  await refused("campaign/changed", one.report("shown", {}));
  assert.match((await one.explain("shown")).text, /given to something else/);
  await refused("consent/other", one.consent("other", shown));
  await refused("consent/other", one.report("shown", {}, { shown: await made(new Named("other")).explain("other") }));
});
await step("a period of a cap ends after so many days, a life never does", async () => {
  const patient = made(collector, { caps: { schema_period: "1", schema_life: "2", life: "2" } });
  const told = [];
  for (const day of ["2026-11-20", "2026-12-10", "2026-12-20", "2027-03-20"]) {
    today = day;
    await collector.open({ name: `on-${day}` });
    await patient.consent(`on-${day}`);
    told.push(await patient.report(`on-${day}`, {}).then((one) => one.state, (error) => error.code));
  }
  assert.deepEqual(told, ["sent", "budget/exceeded", "sent", "budget/exceeded"]);
  today = "2026-11-20";
});
await step("caps about one schema leave room for another", async () => {
  const both = made(collector, { caps: { schema_life: "1" } });
  for (const [name, keys, wanted] of [["one", 3, "sent"], ["same", 3, "budget/exceeded"], ["other", 4, "sent"]]) {
    await collector.open({ name, schema: { keys, low: 1, high: 5 } });
    await both.consent(name);
    assert.equal(await both.report(name, {}).then((told) => told.state, (error) => error.code), wanted, name);
  }
});
await step("caps that were named before are kept, and looser ones are refused when books are opened", async () => {
  const storage = new MemoryStorage();
  await made(collector, { storage, caps: { life: "2" } }).ledger();
  await refused("budget/looser", made(collector, { storage, caps: { life: "3" } }).ledger());
  assert.equal((await made(collector, { storage }).export()).caps.life, "2");
  await refused("budget/looser", made(collector, { storage }).limit({ days: 7 }));
});
await step("a pilot sets its whole price aside at the first round that is answered", async () => {
  const pilot = { name: "pilot", protocol: { name: "pilot", epsilon: "1", share: "0.999999" }, rounds: [{}, {}] };
  const first = { mechanism: "set-size", options: { most: 3 }, part: ["0", "0.999999"] };
  const price = async (campaign, round) => {
    await collector.open(campaign, round);
    return (await made(collector).explain(campaign.name)).epsilon;
  };
  const beside = { name: "beside", protocol: { name: "kvue", epsilon: "0.5" } };
  const [own, other] = [await price(pilot, first), await price(beside)];
  const scaled = (text) => BigInt(text.slice(2).padEnd(30, "0"));
  const both = String(scaled(own) + scaled(other)); // just enough for both prices, and not for the rest of the pilot's
  const few = made(collector, { caps: { period: `1.${both.slice(1)}` } });
  await collector.open(pilot, first);
  await few.consent("pilot");
  assert.equal((await few.report("pilot", {})).state, "sent");
  await collector.open(beside);
  await few.consent("beside");
  await refused("budget/exceeded", few.report("beside", {}));
  await few.withdraw("pilot");
  assert.equal((await few.report("beside", {})).state, "sent");
  const none = made(collector, { caps: { period: own } });
  await collector.open(pilot, first);
  await none.consent("pilot");
  await refused("budget/exceeded", none.report("pilot", {}));
});
await step("a series goes on under its terms, not sooner than it may, and not with other terms", async () => {
  const weekly = (opens, more = {}) => ({ name: "goes-on", every_days: 7, rounds: [{ opens, closes: opens }], ...more });
  const one = made(collector, { caps: { schema_period: "4" } });
  const told = [];
  for (const [day, more] of [["2026-11-20", {}], ["2026-11-24", {}], ["2026-11-27", {}], ["2026-12-04", { contact: "x" }], ["2026-11-20", {}]]) {
    today = day;
    await collector.open(weekly(day, more));
    if (!told.length) await one.consent("goes-on");
    told.push(await one.report("goes-on", {}).then((said) => said.state, (error) => error.code));
  }
  assert.deepEqual(told, ["sent", "campaign/changed", "sent", "campaign/changed", "campaign/changed"]);
  today = "2026-11-20";
});
await step("withdrawal ends a standing report, and the period counts as answered", async () => {
  const one = made(collector);
  const series = { name: "stood", every_days: 7, renew_days: 14, renew_from: "2026-11-16" };
  const on = async (day) => {
    today = day;
    await collector.open({ ...series, rounds: [{ opens: day, closes: day }] });
  };
  await on("2026-11-20");
  await one.consent("stood");
  const before = await one.report("stood", { fries: 2 });
  await one.withdraw("stood");
  await on("2026-11-27");
  await one.consent("stood");
  await refused("report/withdrawn", one.report("stood", { fries: 2 }));
  await on("2026-12-04");
  const after = await one.report("stood", { fries: 2 });
  assert.deepEqual([after.state, after.used, after.report === before.report], ["sent", true, false]);
  today = "2026-11-20";
});
await step("rounds do not change, and only move forward", async () => {
  const pilot = { name: "moving", protocol: { name: "pilot", epsilon: "1", share: "0.5" }, rounds: [{}, {}] };
  const second = (size) => ({ mechanism: "ssr", options: { bins: null, goal: "both", max_pairs: 2, size }, part: ["0.5", "1"], round: 2 });
  const one = made(collector);
  await collector.open(pilot, second(1));
  await one.consent("moving");
  await one.report("moving", {});
  await collector.open(pilot, second(2));
  await refused("round/changed", one.report("moving", {}));
  await collector.open(pilot, { mechanism: "set-size", options: { most: 3 }, part: ["0", "0.5"] });
  await refused("round/order", one.report("moving", {}));
});
await step("a round is answered within its dates only", async () => {
  await collector.open({ name: "dated", rounds: [{ opens: "2026-11-21", closes: "2026-11-22" }] });
  const one = made(collector);
  await one.consent("dated");
  for (const [day, wanted] of [["2026-11-20", "round/closed"], ["2026-11-23", "round/closed"], ["2026-11-22", "sent"]]) {
    today = day;
    assert.equal(await one.report("dated", {}).then((told) => told.state, (error) => error.code), wanted);
  }
  today = "2026-11-20";
});
await step("between two rounds the next one's day is told, and after the last nothing is asked", async () => {
  await collector.open({ name: "pauses", rounds: [{}, { opens: "2026-12-01" }] });
  const one = made(collector);
  await one.consent("pauses");
  collector.view = { ...collector.view, round: null };
  const { state, opens } = await one.report("pauses", {});
  assert.deepEqual([state, opens], ["between", "2026-12-01"]);
  collector.view = { ...collector.view, state: "finished" };
  assert.equal((await one.report("pauses", {})).state, "closed");
  await refused("round/closed", one.preview("pauses", {}));
});
await step("a round is held to the options that were named, and to the usual ones", async () => {
  const ssr = { bins: null, goal: "both", max_pairs: 2, size: 1 };
  const asked = async (protocol, options, mechanism = "ssr", more = {}) => {
    await collector.open({ name: "held", protocol: { name: mechanism, epsilon: "1", ...protocol }, ...more }, { mechanism, options });
    return made(collector).explain("held").then(() => "fits", (error) => error.code);
  };
  const split = { groups: "ssr:1,kvue:3", group_options: { ssr: { bins: null, goal: "both", size: 1 }, kvue: { bins: null } }, max_pairs: 2 };
  const cases = [
    [{ max_pairs: 2 }, ssr, "fits"],
    [{ max_pairs: "2", size: 1 }, ssr, "fits"],
    [{ max_pairs: 3 }, ssr, "campaign/round"],
    [{ max_pairs: 2, size: 2 }, ssr, "campaign/round"],
    [{ max_pairs: 2 }, { ...ssr, bins: 4, rounding: "grid" }, "campaign/round"],
    [{ max_pairs: 2, bins: 4 }, { ...ssr, bins: 4, rounding: "grid" }, "fits"],
    [{ max_pairs: 2, levels: 4 }, { ...ssr, bins: 4, rounding: "grid" }, "fits"],
    [{ max_pairs: 2, bins: 4 }, { ...ssr, bins: 4, rounding: "cell" }, "campaign/round"],
    [{ max_pairs: 2, goal: "mean" }, { ...ssr, bins: 3, rounding: "grid" }, "fits"],
    [{ max_pairs: 2 }, { ...ssr, overflow: "0.1" }, "campaign/round"],
    [{ max_pairs: 2, overflow: "0.10" }, { ...ssr, overflow: "0.1" }, "fits"],
    [{ max_pairs: 2, overflow: "0.2" }, { ...ssr, overflow: "0.1" }, "campaign/round"],
    [{ max_pairs: 2, overflow: "0.2" }, ssr, "campaign/round"],
    [{ max_pairs: 2 }, { max_pairs: 2, cells: 1024, arc: 5 }, "campaign/round", "wheel"],
    [{ max_pairs: 2 }, { max_pairs: 2, cells: 4096, arc: 5 }, "fits", "wheel"],
    [{ max_pairs: 2 }, { max_pairs: 2, split: "paper", estimator: "unbiased" }, "campaign/round", "pckv-grr"],
    [{ max_pairs: 2 }, { max_pairs: 2, bins: null, weights: [1, 2, 3] }, "campaign/round", "wsr"],
    [{ max_pairs: 2, weights: [1, 2, 3] }, { max_pairs: 2, bins: null, weights: [1, 2, 3] }, "fits", "wsr"],
    [{ groups: "ssr:0.25,kvue:0.75", max_pairs: 2 }, split, "fits", "split"],
    [{ groups: "ssr:0.5,kvue:0.5", max_pairs: 2 }, split, "campaign/round", "split"],
    [{ groups: "ssr:1,kvue:3", max_pairs: 2, options: "ssr.size=2" }, split, "campaign/round", "split"],
    [{ groups: "ssr:1,kvue:3", max_pairs: 2, options: { ssr: { size: 1 } } }, split, "fits", "split"],
    [ssr, ssr, "fits", "ssr", { browser: true }],
    [{ max_pairs: 2 }, ssr, "campaign/round", "ssr", { browser: true }],
  ];
  for (const [protocol, options, wanted, mechanism, more] of cases)
    assert.equal(await asked(protocol, options, mechanism, more), wanted, JSON.stringify([protocol, options]));
});
await step("two collectors see ids of their own, and each gets its own reports", async () => {
  const storage = new MemoryStorage();
  const [here, there] = [new Named("both"), new Named("both")];
  const at = async (collector, address) => {
    await collector.opened;
    const one = made(collector, { storage, collector: address, patience: { pace: 0, tries: 1 } });
    await one.consent("both");
    collector.behave = "lose";
    return [one, (await one.report("both", { fries: 2 })).report];
  };
  const [first, id] = await at(here, "https://one.example/");
  const [, other] = await at(there, "https://two.example");
  assert.notEqual(id, other);
  here.behave = "accept";
  assert.deepEqual((await first.flush()).map((told) => told.report), [id]);
  assert.equal(there.arrived.length, 1);
  assert.equal((await first.ledger()).length, 2);
});
await step("a fresh report leaves at a multiple of the pace after the reading, an old one at once", async () => {
  await collector.open({ name: "paced" });
  const naps = [];
  const one = made(collector, { patience: { pace: 0.25, tries: 1 }, sleep: async (seconds) => void naps.push(seconds) });
  await one.consent("paced");
  await one.report("paced", {});
  await one.report("paced", {});
  assert.equal(naps.length, 1);
  assert.ok(naps[0] > 0 && naps[0] <= 0.25);
});
await step("what is written must be read back, and what is no book is not read", async () => {
  await collector.open({ name: "kept" });
  const storage = new MemoryStorage();
  const one = made(collector, { storage });
  await one.consent("kept");
  const write = storage.write;
  storage.write = async () => {};
  const before = collector.arrived.length;
  await refused("storage/refused", one.report("kept", {}));
  assert.equal(collector.arrived.length, before);
  storage.write = write;
  for (const damage of ["{", "[]", "null", '{"keyveil":2}']) {
    storage.text = damage;
    await refused("device/file", made(collector, { storage }).ledger());
  }
});
await step("a step that fails changes nothing", async () => {
  const storage = new MemoryStorage();
  const one = made(collector, { storage });
  await one.consent("kept");
  const before = storage.text;
  one.coins.bytes = () => { throw new Error("no entropy"); };
  await assert.rejects(one.report("kept", {}), /no entropy/);
  assert.equal(storage.text, before);
});
await step("a token that was refused can be given again, with the same report", async () => {
  await collector.open({ name: "token", enrolment: "token" });
  const one = made(collector);
  await one.consent("token");
  collector.behave = "token";
  assert.equal((await one.report("token", {}, { token: "wrong" })).code, "enrolment/unknown");
  collector.behave = "accept";
  const before = collector.arrived.at(-1);
  assert.equal((await one.report("token", { fries: 5 }, { token: "right" })).state, "sent");
  assert.equal(collector.arrived.at(-1), before);
  assert.equal((await one.ledger()).length, 1);
  await refused("enrolment/token", one.report("token", {}, { token: "a b" }));
});
await step("a list of keys beside the document is fetched, and must be the one that is named", async () => {
  const { createHash } = await import("node:crypto");
  const names = JSON.stringify(["burger", "fries"]);
  const sha256 = createHash("sha256").update(names).digest("hex");
  const listed = new Named("listed", { schema: { keys: ["burger", "fries"], low: 1, high: 5 } });
  await listed.opened;
  const { view } = listed;
  const campaign = { ...view.campaign, schema: { ...view.campaign.schema, keys: { sha256, count: 2 } } };
  const document = { ...view.round.document, campaign: await hash(campaign) };
  listed.view = { ...view, campaign, hash: await hash(campaign), round: { ...view.round, document, hash: await hash(document) } };
  listed.dictionary = names;
  assert.match((await made(listed).explain("listed")).text, /burger, fries/);
  listed.dictionary = JSON.stringify(["burger", "tea"]);
  await refused("campaign/dictionary", made(listed).explain("listed"));
});
await step("plain HTTP is for this machine only, and nothing tells who asks", async () => {
  for (const [address, code] of [["http://collector.example", "transport/plain"], ["ftp://localhost", "transport/plain"], ["https://me:secret@collector.example", "transport/address"]])
    assert.throws(() => new Device({ collector: address, storage: new MemoryStorage() }), (error) => error.code === code);
  const usual = globalThis.fetch;
  let asked;
  globalThis.fetch = async (address, options) => ((asked = { address, ...options }), new Response("{}"));
  await refused("campaign/document", new Device({ collector: "http://localhost:8000/", storage: new MemoryStorage() }).explain("snacks"));
  globalThis.fetch = async () => { throw new TypeError("offline"); };
  await refused("transport/unreachable", new Device({ collector: "https://collector.example", storage: new MemoryStorage() }).explain("snacks"));
  globalThis.fetch = usual;
  const { address, credentials, referrerPolicy, cache, redirect, headers } = asked;
  assert.equal(`${address}`, "http://localhost:8000/v1/campaigns/snacks");
  assert.deepEqual({ credentials, referrerPolicy, cache, redirect }, { credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store", redirect: "error" });
  assert.equal(headers, undefined);
  for (const name of ["../../etc", "a/b", "A", "", "a\r\nHost: x"]) await refused("campaign/name", made(collector).explain(name));
});
await step("a browser's storage needs locks and a database, and says whether it lasts", async () => {
  const usual = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  const browser = (value) => Object.defineProperty(globalThis, "navigator", { value, configurable: true });
  const locks = { request: async (name, task) => task() };
  browser({});
  await refused("storage/locks", new BrowserStorage().alone(async () => 1));
  browser({ locks });
  await refused("storage/refused", new BrowserStorage().read());
  for (const [storage, wanted] of [[undefined, false], [{}, false], [{ persist: async () => true }, true], [{ persist: async () => false }, false]]) {
    browser({ locks, storage });
    assert.equal(await new BrowserStorage().durable(), wanted);
  }
  if (usual) Object.defineProperty(globalThis, "navigator", usual);
  else delete globalThis.navigator;
});
await step("the small device answers ssr and kvue, and knows nothing else", async () => {
  const { Device: Small } = await import("../../clients/javascript/small.js");
  const { explained } = await import("../../clients/javascript/src/client/explain.js");
  const small = (view, more) => new Small({ storage: new MemoryStorage(), transport: view, now: () => new Date("2026-11-20T12:00:00Z"), patience: { pace: 0 }, ...more });
  await collector.open({ name: "few" });
  await refused("device/options", small(collector).explain("few"));
  await collector.open({ name: "few", browser: true, protocol: { name: "kvue", epsilon: "1", bins: null } });
  const one = small(collector);
  const shown = await one.explain("few"); // the words are the page's own, or those of another module
  assert.deepEqual([shown.text, shown.epsilon.slice(0, 4), shown.refusal], ["", "0.99", null]);
  assert.match((await small(collector, { explained }).explain("few")).text, /costs epsilon 1, computed here from kvue/);
  await one.consent("few", shown);
  assert.equal((await one.report("few", { fries: 3 })).state, "sent");
  await collector.open({ name: "more", browser: true, protocol: { name: "wsr", epsilon: "1", max_pairs: 1, bins: null, weights: null } }, { mechanism: "wsr", options: { max_pairs: 1, bins: null, weights: null } });
  await refused("mechanism/unknown", small(collector).explain("more"));
});
await step("options of a group that is called like a prototype change no prototype", async () => {
  const options = { groups: "ssr:1,kvue:3", max_pairs: 2, group_options: { ssr: { bins: null, goal: "both", size: 1 }, kvue: { bins: null } } };
  const protocol = { name: "split", epsilon: "1", groups: "ssr:1,kvue:3", max_pairs: 2, options: "__proto__.browser=yes" };
  const named = new Named("named");
  await named.open({ name: "named", protocol }, { mechanism: "split", options });
  const one = made(named);
  await one.consent("named");
  await one.report("named", {}).catch(() => {});
  assert.equal({}.browser, undefined);
});
await step("documents that would keep a device busy are refused, or take no time", async () => {
  const ssr = { bins: null, goal: "both", max_pairs: 1 };
  const many = { keys: 65536, low: 1, high: 5 };
  const own = { ...many, low: Array.from({ length: 65536 }, (_, key) => key % 5 ? key : `${key}.5`), high: 70000 };
  const groups = `ssr:1,kvue${" ".repeat(300000)}x:3`;
  const split = { groups: "ssr:1,kvue:3", max_pairs: 2, group_options: { ssr: { bins: null, goal: "both", size: 1 }, kvue: { bins: null } } };
  const topsel = { mode: "cover", set_sizes: "1", padding: 0, buckets: 1 << 24, marked: 1, hashing: "partition", kappa: null, cohorts: 0, refine: false };
  const snacks = { keys: 3, low: 1, high: 5 };
  for (const [code, schema, protocol, options] of [
    ["device/limits", many, { name: "ssr" }, { ...ssr, size: 65536 }],
    ["device/limits", many, { name: "ssr" }, { ...ssr, max_pairs: 64, size: 65536 }],
    ["nothing", many, { name: "ssr" }, { ...ssr, size: 46340 }],
    ["nothing", own, { name: "kvue" }, { bins: null }],
    ["mechanism/option", snacks, { name: "topsel" }, topsel],
    ["campaign/round", snacks, { name: "split", groups, max_pairs: 2 }, split],
  ]) {
    const busy = new Named("busy");
    await busy.opened;
    const campaign = { ...busy.view.campaign, schema, protocol: { epsilon: "1", ...protocol } };
    let size = 1;
    if (code !== "device/limits" && options !== topsel) size = (await build({ name: protocol.name, schema: await Scales.read(schema), epsilon: parse("1"), options }, mechanisms)).codec.size;
    const document = { ...busy.view.round.document, campaign: await hash(campaign), mechanism: protocol.name, options, report_bytes: size };
    busy.view = { ...busy.view, campaign, hash: await hash(campaign), round: { ...busy.view.round, document, hash: await hash(document) } };
    const start = process.cpuUsage().user;
    assert.equal(await made(busy).explain("busy").then(() => "nothing", (error) => error.code), code, JSON.stringify(options).slice(0, 80));
    const seconds = (process.cpuUsage().user - start) / 1e6;
    assert.ok(seconds < 3, `${seconds} seconds for ${JSON.stringify(options).slice(0, 80)}`);
  }
});
await step("lists in lists are read without reading them again at each depth", async () => {
  const text = `{"campaign":${"[1,".repeat(150)}"${"…".repeat(1e6)}"${"]".repeat(150)}}`;
  const deep = { request: async () => ({ status: 200, headers: new Headers(), body: new TextEncoder().encode(text) }) };
  const start = process.cpuUsage().user;
  await refused("campaign/document", made(deep).explain("deep"));
  assert.ok(process.cpuUsage().user - start < 1e6);
});
await step("two devices on one file spend once", async () => {
  await collector.open({ name: "file" });
  const path = join(place, "device.json");
  const both = [1, 2].map(() => made(collector, { storage: new FileStorage(path) }));
  await both[0].consent("file");
  const told = await Promise.all(both.map((one) => one.report("file", { fries: 3 })));
  assert.deepEqual(told.map((one) => one.used).sort(), [false, true]);
  assert.equal((await both[1].ledger()).length, 1);
});
console.log(JSON.stringify({ steps }));
