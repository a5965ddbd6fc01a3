// Vectors of coins, seen from JavaScript (tests/clients/vectors.py says what they are): `check FILE` holds what Python
// wrote against the client, and `write FILE OUT` answers the same questions with other streams, for Python to check.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { Coins } from "../../clients/javascript/src/coins.js";
import { build, packed } from "../../clients/javascript/src/mechanisms.js";
import { Scales } from "../../clients/javascript/src/scales.js";
import { mechanisms } from "../../clients/javascript/src/table.js";
import { hex, parse } from "../../clients/javascript/src/wire.js";

const CHUNK = 16;

class StreamCoins extends Coins {
  constructor(seed) {
    super((count) => this.take(count));
    Object.assign(this, { hash: createHash("sha256").update(seed), blocks: 0, rest: Buffer.alloc(0), steps: [] });
    this.id = this.take(16);
  }
  take(count) {
    while (this.rest.length < count) {
      const counter = Buffer.alloc(4);
      counter.writeUInt32LE(this.blocks++);
      this.rest = Buffer.concat([this.rest, this.hash.copy().update(counter).digest()]);
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

/** The pairs that count of every record, the digests of all chunks of cases, and the reports of the first. */
function answers(made, schema, { mechanism, records, salt, cases }) {
  const given = (record) => Object.fromEntries(Object.entries(record).map(([key, value]) => [key, value === "NaN" ? NaN : value]));
  const pairs = records.map((record) => schema.look(given(record)).pairs);
  const [digests, reports] = [[], []];
  for (let number = 0, lines = ""; number < cases; number++) {
    const coins = new StreamCoins(`${salt}/${number}`);
    const payload = made.respond(pairs[number % pairs.length], coins.id, coins);
    const padded = hex(made.encode(payload, coins.id));
    const shown = mechanism === "set-size" && Array.isArray(payload) ? hex(packed(payload, (payload.length + 7) >> 3)) : `${payload}`;
    lines += `${coins.steps.join(";")} ${shown} ${padded}\n`;
    if (number < CHUNK) reports.push(padded);
    if (number % CHUNK === CHUNK - 1 || number === cases - 1) {
      digests.push(createHash("sha256").update(lines).digest("hex").slice(0, 16));
      lines = "";
    }
  }
  return { pairs: pairs.map((held) => held.map(([key, z]) => `${key}:${z}`).join(" ")), digests, reports };
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);
const reduced = ([above, below]) => [above, below].map((part) => String(part / gcd(above, below)));

const [, , what, path, out] = process.argv;
const listed = JSON.parse(readFileSync(path, "utf8"));
let [total, differences] = [0, []];
for (const one of listed) {
  const called = `${one.mechanism} ${JSON.stringify(one.options)} ${one.epsilon}`;
  try {
    const schema = await Scales.read(one.schema);
    const made = await build({ name: one.mechanism, schema, epsilon: parse(one.epsilon), options: one.options }, mechanisms);
    const told = { fingerprint: hex(made.fingerprint), report_bytes: made.codec.size, ratio: reduced(made.ratio) };
    if (what === "write") one.salt = randomBytes(8).toString("hex");
    const mine = { ...told, ...answers(made, schema, one) };
    for (const name in mine)
      if (what === "write") one[name] = mine[name];
      else if (!Array.isArray(mine[name])) differences.push(...(mine[name] === one[name] ? [] : [`${called}: ${name}`]));
      else mine[name].forEach((part, at) => part === one[name][at] || differences.push(`${called}: ${name} ${at}`));
    total += one.cases;
  } catch (error) {
    differences.push(`${called}: ${error.message}`);
  }
}
if (what === "write") writeFileSync(out, JSON.stringify(listed));
console.log(JSON.stringify({ total, differences: differences.length, first: differences.slice(0, 20) }));
