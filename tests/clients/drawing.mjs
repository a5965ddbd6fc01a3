// The client as a black box that lives as long as somebody asks: `node drawing.mjs CLIENT QUESTION`.
// QUESTION is JSON: {mechanism, schema, epsilon, options, records, seed}. A request on stdin is the number of a record
// (1 byte), how many reports (4 bytes, the lowest first), whether the id is given (1 byte), and 16 bytes for it. The
// answer on stdout is, for each report, its id and the padded payload as a device would send it. All randomness is the
// stream of the seed, so that a run can be repeated.
import { createCipheriv, createHash } from "node:crypto";
import { readSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , client, question] = process.argv;
const from = (path) => import(pathToFileURL(`${client}/src/${path}`).href);
const [{ Coins }, { build }, { Scales }, { mechanisms }, { parse }] = await Promise.all(
  ["coins.js", "mechanisms.js", "scales.js", "table.js", "wire.js"].map(from),
);

const asked = JSON.parse(question);
const schema = await Scales.read(asked.schema);
const made = await build({ name: asked.mechanism, schema, epsilon: parse(asked.epsilon), options: asked.options }, mechanisms);
const { size } = made.codec;
const key = createHash("sha256").update(asked.seed).digest().subarray(0, 16);
const stream = createCipheriv("aes-128-ctr", key, Buffer.alloc(16));
let ahead = Buffer.alloc(0);
const coins = new Coins((count) => {
  if (ahead.length < count) ahead = Buffer.concat([ahead, stream.update(Buffer.alloc(count + (1 << 16)))]);
  const taken = Uint8Array.from(ahead.subarray(0, count));
  ahead = ahead.subarray(count);
  return taken;
});
const records = asked.records.map((record) => schema.look(record).pairs);

const request = Buffer.alloc(22);
const heard = () => {
  for (let at = 0; at < request.length; ) {
    const count = readSync(0, request, at, request.length - at, null);
    if (!count) return false;
    at += count;
  }
  return true;
};
while (heard()) {
  const [record, count, given] = [records[request[0]], request.readUInt32LE(1), request[5]];
  const answer = Buffer.alloc(count * (16 + size));
  for (let number = 0; number < count; number++) {
    const id = given ? Uint8Array.from(request.subarray(6)) : coins.bytes(16);
    const payload = made.encode(made.respond(record, id, coins), id);
    answer.set(id, number * (16 + size));
    answer.set(payload, number * (16 + size) + 16);
  }
  for (let at = 0; at < answer.length; ) at += writeSync(1, answer, at);
}
