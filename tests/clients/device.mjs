// The rules of the device, one after the other, against a collector that this script holds in its hands.
import assert from "node:assert/strict";
import { join } from "node:path";
import { hash } from "../../clients/javascript/src/canonical.js";
import { reportBytes } from "../../clients/javascript/src/codecs.js";
import { build } from "../../clients/javascript/src/mechanisms.js";
import { Schema } from "../../clients/javascript/src/schema.js";
import { Device, FileStorage, MemoryStorage, mechanisms } from "../../clients/javascript/node.js";

const [, , place] = process.argv;
let steps = 0;
const step = async (what, check) => {
  try {
    await check();
  } catch (error) {
    error.message = `${what}: ${error.message}`;
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
    const schema = await Schema.read(campaign.schema);
    const asked = { mechanism: "kvue", epsilon: campaign.protocol.epsilon, options: { bins: null }, part: ["0", "1"], round: 1, ...round };
    const made = await build({ name: asked.mechanism, schema, epsilon: asked.epsilon, options: asked.options }, mechanisms);
    const document = { keyveil: 1, campaign: await hash(campaign), ...asked, report_bytes: reportBytes(made.codec) };
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
    if (method === "GET") return say(200, this.view);
    this.arrived.push(Buffer.from(body).toString("hex"));
    if (this.behave === "lose") throw new (await import("../../clients/javascript/src/errors.js")).KeyveilError("transport/unreachable", "Lost.");
    if (this.behave === "nonsense") return say(200, { accepted: "yes" });
    if (this.behave === "closed") return say(409, { code: "round/closed" }, "application/problem+json");
    return say(200, { accepted: 1, duplicates: 0, refused: [] });
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
  assert.match((await device.explain("dear")).refusal, /would exceed/);
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
  today = "2026-11-20";
  assert.equal((await clock.report("snacks", {})).state, "sent");
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
