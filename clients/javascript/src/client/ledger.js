/** What was released and may be: nothing is ever given back. */
import { must, parse, span, text } from "../wire.js";

export const CAPS = { days: 30, schema_period: "2", schema_life: "8", period: "4", life: "16" };

export function capsOf(known, changes, loose) {
  const caps = { ...known };
  for (const [name, value] of Object.entries(changes)) {
    must(name in CAPS, "epsilon/cap");
    must(/^\d{1,9}(\.\d{1,30})?$/.test(value), "epsilon/invalid");
    const days = name === "days";
    caps[name] = days ? Number(value) : text(parse(value));
    must(loose || (days ? value >= known.days : parse(value) <= parse(known[name])), "budget/looser");
  }
  return caps;
}

export const where = (list, given) => list.filter((one) => Object.keys(given).every((name) => one[name] === given[name]));

export const total = (list) => list.reduce((sum, one) => sum + parse(one.epsilon), 0n);

export const lines = (state, campaign, day, { aside = () => [] }) =>
  Object.keys(CAPS).slice(1).map((cap) => {
    const fits = (one) => (/life/.test(cap) || span(one.day, day) < state.caps.days) && (!/schema/.test(cap) || one.schema === campaign.schema.hash);
    return { cap, limit: state.caps[cap], spent: total([...state.entries, ...aside(state, campaign, day)].filter(fits)) };
  });

export const refuseBeyond = (cost, list) => must(list.every(({ spent, limit }) => cost + spent <= parse(limit)), "budget/exceeded");
