// The conformance kit of the wire format, as far as a device has a part in it.
import { readFileSync } from "node:fs";
import { parse } from "../../clients/javascript/src/exact.js";
import { canonical, hash, hex, periodOf, unhex } from "../../clients/javascript/src/canonical.js";
import { derivedId } from "../../clients/javascript/src/device.js";
import { packed } from "../../clients/javascript/src/upload.js";
import { holds, parting } from "../../clients/javascript/src/groups.js";
import { publicIndex, publicWord } from "../../clients/javascript/src/mechanisms.js";

const kit = JSON.parse(readFileSync(process.argv[2], "utf8"));
let [checked, wrong] = [0, []];
const same = (what, mine, theirs) => {
  checked++;
  if (JSON.stringify(mine) !== JSON.stringify(theirs)) wrong.push(`${what}: ${mine} instead of ${theirs}`);
};
const word = (number) => number.toString(16).padStart(16, "0");
for (const one of [...kit.rounds, ...kit.campaigns]) {
  if (!one.canonical) continue;
  const document = JSON.parse(one.canonical);
  same("canonical", canonical(document), one.canonical);
  if (one.hash) same("hash", await hash(document), one.hash);
}
for (const one of kit.dictionaries) same("dictionary", await hash(one.keys), one.sha256);
for (const one of kit.periods) same("period", periodOf(one, one.day), { first: one.first, last: one.last });
for (const one of kit.ids) same("id", hex(await derivedId(one.secret, ...one.parts)), one.id);
for (const one of kit.words) {
  const mine = publicWord(unhex(one.id), unhex(one.fingerprint));
  same("word", word(mine), one.word);
  for (const [bound, index] of Object.entries(one.index_below)) same("index", publicIndex(mine, Number(bound)), index);
}
for (const one of kit.partings) {
  const mine = (await parting(unhex(one.campaign)))(unhex(one.id));
  same("parting word", word(mine), one.word);
  same("part", holds(one.part.map(parse), mine), true);
}
for (const { round, document, reports, packed: bytes } of kit.batches.filter((one) => one.reports.length === 1 && one.packed))
  same("packed", hex(packed({ round, document, report: reports[0].id, payload: reports[0].payload })), bytes);
console.log(JSON.stringify({ checked, wrong }));
