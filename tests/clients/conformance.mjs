// Vectors of coins, seen from JavaScript: `check FILE` holds what Python wrote against the client, and
// `write FILE OUT` answers the same questions with other streams, for Python to check.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { hex, unhex } from "../../clients/javascript/src/canonical.js";
import { pad, reportBytes } from "../../clients/javascript/src/codecs.js";
import { Coins } from "../../clients/javascript/src/coins.js";
import { build } from "../../clients/javascript/src/mechanisms.js";
import { Schema } from "../../clients/javascript/src/schema.js";
import { mechanisms } from "../../clients/javascript/src/table.js";

const digest = (text) => createHash("sha256").update(text).digest("hex").slice(0, 16);

class StreamCoins extends Coins {
  constructor(seed) {
    super((count) => this.take(count));
    Object.assign(this, { seed, blocks: 0, rest: Buffer.alloc(0), steps: [] });
  }
  take(count) {
    while (this.rest.length < count) {
      const counter = Buffer.alloc(4);
      counter.writeUInt32LE(this.blocks++);
      this.rest = Buffer.concat([this.rest, createHash("sha256").update(this.seed).update(counter).digest()]);
    }
    const taken = Uint8Array.from(this.rest.subarray(0, count));
    this.rest = this.rest.subarray(count);
    this.steps.push(`${count} bytes`);
    return taken;
  }
  below(bound) {
    const drawn = super.below(bound);
    this.steps.push(`${bound}:${drawn}`);
    return drawn;
  }
}

function bits(payload) {
  const octets = new Uint8Array((payload.length + 7) >> 3);
  payload.forEach((bit, at) => (octets[at >> 3] |= bit << (at & 7)));
  return hex(octets);
}

function answer(made, schema, { record, id, seed }, isBits) {
  const coins = new StreamCoins(seed);
  const given = Object.fromEntries(Object.entries(record).map(([key, value]) => [key, value === "NaN" ? NaN : value]));
  const payload = made.respond(schema.look(given).pairs, unhex(id), coins);
  const padded = pad(made.encode(payload, unhex(id)), reportBytes(made.codec), made.codec.varies);
  const shown = isBits && Array.isArray(payload) ? JSON.stringify(bits(payload)) : JSON.stringify(payload).replaceAll(",", ", ");
  return { steps: digest(coins.steps.join(";")), payload: digest(shown), report: hex(padded) };
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
const reduced = ([above, below]) => [above, below].map((part) => String(part / gcd(above, below)));

const [, , what, path, out] = process.argv;
const listed = JSON.parse(readFileSync(path, "utf8"));
let [total, differences] = [0, []];
for (const one of listed) {
  const schema = await Schema.read(one.schema);
  let made;
  try {
    made = await build({ name: one.mechanism, schema, epsilon: one.epsilon, options: one.options }, mechanisms);
  } catch (error) {
    differences.push(`${one.mechanism} ${JSON.stringify(one.options)}: ${error.message}`);
    continue;
  }
  const told = { fingerprint: hex(made.fingerprint), report_bytes: reportBytes(made.codec), ratio: reduced(made.ratio) };
  for (const [name, value] of Object.entries(told))
    if (JSON.stringify(value) !== JSON.stringify(one[name])) differences.push(`${one.mechanism} ${JSON.stringify(one.options)} ${one.epsilon}: ${name} ${value} ${one[name]}`);
  for (const at of one.cases.keys()) {
    if (what === "write") Object.assign(one.cases[at], { id: randomBytes(16).toString("hex"), seed: randomBytes(8).toString("hex") });
    const mine = answer(made, schema, one.cases[at], one.mechanism === "set-size");
    total++;
    if (what === "write") Object.assign(one.cases[at], mine);
    else for (const name in mine) if (mine[name] !== one.cases[at][name]) differences.push(`${one.mechanism} ${JSON.stringify(one.options)} ${one.cases[at].seed}: ${name}`);
  }
}
if (what === "write") writeFileSync(out, JSON.stringify(listed));
console.log(JSON.stringify({ total, differences: differences.length, first: differences.slice(0, 20) }));
