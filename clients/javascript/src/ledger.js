/** What was released, what it cost, and how much more may be spent. Nothing is ever given back. */
import { daysBetween, demand, parse, text } from "./wire.js";

export const CAPS = { days: 30, schema_period: "2", schema_life: "8", period: "4", life: "16" };

export function changedCaps(known, changes, loosen) {
  const caps = { ...known };
  for (const [name, value] of Object.entries(changes)) {
    demand(name in CAPS, "epsilon/cap");
    demand(/^\d{1,9}(\.\d{1,30})?$/.test(value), "epsilon/invalid");
    caps[name] = name === "days" ? Number(value) : text(parse(value));
    const more = parse(caps[name]) - parse(known[name]);
    demand(loosen || (name === "days" ? more >= 0n : more <= 0n), "budget/looser");
  }
  return caps;
}

export const where = (entries, wanted) => entries.filter((one) => Object.keys(wanted).every((name) => one[name] === wanted[name]));

export const total = (list) => list.reduce((sum, one) => sum + parse(one.epsilon), 0n);

export const lines = ({ caps, entries }, { schema }, day, aside = []) =>
  Object.keys(CAPS).slice(1).map((cap) => {
    const counts = (one) => (/life/.test(cap) || daysBetween(one.day, day) < caps.days) && (!/schema/.test(cap) || one.schema === schema.hash);
    return { cap, limit: caps[cap], spent: total([...entries, ...aside].filter(counts)) };
  });

export function refuseBeyond(cost, held) {
  for (const { spent, limit } of held) demand(cost + spent <= parse(limit), "budget/exceeded");
}
