// The conformance kit of the wire format (docs/wire.md), as far as a device has a part in it.
import { readFileSync } from "node:fs";
import { readNotice } from "../../clients/javascript/src/client/campaign.js";
import { parting } from "../../clients/javascript/src/groups.js";
import { batch } from "../../clients/javascript/src/client/http.js";
import { build, denseMembers, members, packed, symbol } from "../../clients/javascript/src/mechanisms.js";
import { fraction } from "../../clients/javascript/src/numbers.js";
import { reading } from "../../clients/javascript/src/client/rounds.js";
import { Scales } from "../../clients/javascript/src/scales.js";
import { labelledKeys, noisyBits } from "../../clients/javascript/src/sparse.js";
import { mechanisms } from "../../clients/javascript/src/table.js";
import { hash, hex, idOf, index, json, parse, period, unhex, utf8, wordOf } from "../../clients/javascript/src/wire.js";

const kit = JSON.parse(readFileSync(process.argv[2], "utf8"));
const [checked, wrong] = [{}, []];
const same = (what, mine, theirs) => {
  checked[what] = (checked[what] ?? 0) + 1;
  if (JSON.stringify(mine) !== JSON.stringify(theirs)) wrong.push(`${what}: ${JSON.stringify(mine)} instead of ${JSON.stringify(theirs)}`);
};
const word = (number) => number.toString(16).padStart(16, "0");
const keysOf = ({ keys }) => kit.dictionaries.find((one) => one.sha256 === keys.sha256)?.keys ?? keys;
const schemaOf = ({ schema }) => Scales.read({ ...schema, keys: keysOf(schema) });

for (const { document, canonical: text, sha256, terms_sha256, schema_sha256 } of kit.campaigns) {
  same("canonical", json(document), text);
  same("hash", await hash(document), sha256);
  same("terms", await hash({ ...document, rounds: document.rounds.map((one) => one.enough ?? null) }), terms_sha256);
  same("schema", (await schemaOf(document)).hash, schema_sha256);
}
for (const { keys, sha256 } of kit.dictionaries) same("dictionary", await hash(keys), sha256);
const made = new Map(); // the mechanisms of the rounds, by fingerprint
for (const { campaign, document, canonical: text, sha256, fingerprint, varies } of kit.rounds) {
  same("canonical", json(document), text);
  same("hash", await hash(document), sha256);
  if (["olh", "privkv-round"].includes(document.mechanism)) continue; // which devices or this device do not answer
  const schema = await schemaOf(kit.campaigns.find((one) => one.document.name === campaign).document);
  const one = await build({ name: document.mechanism, schema, epsilon: parse(document.epsilon), options: document.options }, mechanisms);
  same("fingerprint", hex(one.fingerprint), fingerprint);
  same("report_bytes", [one.codec.size, one.codec.varies], [document.report_bytes, varies]);
  made.set(fingerprint, one);
}
const DAY = 864e5;
for (const { day, first, last, ...terms } of kit.periods.filter((one) => one.first > "0001-01-01")) { // Python has no earlier day
  same("period", [period(terms, day), period(terms, last)], [first, first]);
  if (last < "9999-12-31") same("period", Date.parse(period(terms, new Date(Date.parse(last) + DAY).toISOString().slice(0, 10))), Date.parse(last) + DAY);
}
for (const one of kit.ids) {
  same("canonical", json(one.parts), one.canonical);
  same("id", hex(await idOf(one.secret, ...one.parts)), one.id);
}
for (const one of kit.words) {
  const mine = wordOf(unhex(one.id), unhex(one.fingerprint));
  same("word", word(mine), one.word);
  for (const [bound, place] of Object.entries(one.index_below)) same("index", index(mine, Number(bound)), place);
}
for (const one of kit.partings) {
  const holds = await parting(unhex(one.campaign));
  same("part", holds(one.part.map(fraction))(unhex(one.id)), true);
  const place = BigInt(`0x${one.word}`) >> 32n; // the narrowest part that the word belongs to, and its neighbour
  const edge = (number) => [number, 1n << 32n];
  same("parting word", [holds([edge(place), edge(place + 1n)])(unhex(one.id)), holds([edge(place + 1n), edge(1n << 32n)])(unhex(one.id))], [true, false]);
}
for (const { id, fingerprint, group_fingerprint, word: theirs, payload, padded } of kit.groups) {
  same("word", word(wordOf(unhex(id), unhex(group_fingerprint))), theirs);
  same("group", hex(made.get(fingerprint).encode(payload, unhex(id))), padded);
}
const bits = (payload, length) => Array.from({ length }, (_, at) => (unhex(payload)[at >> 3] >> (at & 7)) & 1);
for (const one of kit.payloads) {
  const ones = () => { // as a fraction: the share of ones times their number
    const [whole, rest] = (one.share ?? "0.5").split(".");
    return [BigInt(whole + rest) * BigInt(one.length), 10n ** BigInt(rest.length)];
  };
  const rare = "length" in one;
  const places = (payload) => payload.flatMap((bit, place) => (bit ? [place] : []));
  const threes = (payload) => [0, ...denseMembers(one.length, one.length, one.length).bits(places(payload))];
  const shorter = (payload) => (threes(payload).length > one.length ? [1, ...payload] : threes(payload));
  const codec = one.codec === "rare bits by threes" // a form that is not chosen at this length
    ? { size: (one.length >> 3) + 2, varies: true, bits: shorter }
    : rare
    ? noisyBits(one.length, ones())
    : "outputs" in one
      ? symbol(one.outputs)
      : "labels" in one
        ? labelledKeys(one.keys, one.labels, Number(one.share))
        : members(one.symbols, one.size, one.dummies);
  const encoded = codec.bits(rare ? bits(one.payload, one.length) : one.payload);
  same("codec", [codec.varies, codec.size], [one.varies, one.report_bytes]);
  same("payload", hex(packed(encoded, (encoded.length + 7) >> 3)), one.encoded);
  same("padding", hex(packed(encoded, one.report_bytes, one.varies)), one.padded);
}
for (const { round, document, reports, packed: bytes } of kit.batches.filter((one) => one.reports.length === 1 && one.packed))
  same("packed", hex(batch({ round, document, report: reports[0].id, payload: reports[0].payload })), bytes);

/** The code with which a view is refused. */
const refusal = async (view, name, float = false) => {
  const text = JSON.stringify(view).replace('"min_reports":1000,', `"min_reports":1000${float ? ".0" : ""},`); // JSON.parse forgot it
  try {
    const get = async (path) => utf8(path.startsWith("campaigns/") ? text : JSON.stringify(kit.dictionaries[0].keys));
    await readNotice(get, name, { mechanisms, reading, prefix: "" });
    return "nothing";
  } catch (error) {
    return error.code ?? `${error}`;
  }
};
const first = kit.campaigns[0];
for (const { form, what, input, code } of kit.refused)
  if (form === "campaign") same("refused", [what, await refusal({ campaign: input, hash: await hash(first.document), state: "open", round: null }, input.name, what === "a float")], [what, code]);
  else if (form === "round") {
    const round = { number: input.round, state: "open", hash: "", document: input };
    same("refused", [what, await refusal({ campaign: first.document, hash: first.sha256, state: "open", round }, first.document.name)], [what, code]);
  }
console.log(JSON.stringify({ checked, wrong }));
