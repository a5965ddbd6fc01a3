/** What was released, what it cost, and how much more may be spent. Nothing is ever given back. */
import { dayAfter } from "./canonical.js";
import { demand } from "./errors.js";
import { add, atMost, ceilDivide, parse, subtract, text } from "./exact.js";

/** The most ε that may leave a device: in any `days` days and ever, about one schema and about all. */
export const CAPS = { days: 30, schema_period: "2", schema_life: "8", period: "4", life: "16" };

export function changedCaps(known, changes, loosen) {
  const caps = { ...known };
  for (const [name, value] of Object.entries(changes)) {
    demand(name in CAPS, "epsilon/cap", `There are the caps ${Object.keys(CAPS).join(", ")}.`);
    const fits = name === "days" ? Number.isSafeInteger(value) && value > 0 : /^\d{1,9}(\.\d{1,30})?$/.test(value);
    demand(fits, name === "days" ? "budget/invalid" : "epsilon/invalid", `The cap ${name} is an exact number from 0.`);
    caps[name] = name === "days" ? value : text(parse(value));
    const both = [parse(caps[name]), parse(known[name])];
    const tighter = name === "days" ? atMost(both[1], both[0]) : atMost(...both);
    demand(loosen || tighter, "budget/looser", `The device's own ${name} would be loosened: say so, or leave it.`);
  }
  return caps;
}

const total = (list) => list.reduce((sum, one) => add(sum, parse(one.epsilon)), [0n, 1n]);

export function ofCampaign({ entries }, { series, hash, document }) {
  const own = entries.filter((one) => one.series === series && one.campaign === hash);
  return { what: "for this campaign", limit: document.protocol.epsilon, spent: total(own), count: own.length };
}

/** For later rounds of other campaigns that are agreed to. */
function aside(state, own, day) {
  const begun = state.entries.filter(({ series, campaign, whole, until }) => {
    const { state: consent, campaign: latest } = state.consents[series];
    return whole && series !== own && consent === "given" && latest === campaign && (until ?? day) >= day;
  });
  const each = new Map(begun.map((one) => [one.series, one])).values();
  return [...each].map(({ series, campaign, schema, whole }) => {
    const { spent } = ofCampaign(state, { series, hash: campaign, document: { protocol: {} } });
    return { schema, epsilon: text(subtract(parse(whole), spent)) };
  });
}

export function lines(state, { series, schema }, day) {
  const { caps, entries } = state;
  const others = aside(state, series, day);
  const [ever, recent] = [[...entries, ...others], [...entries.filter((one) => one.day > dayAfter(day, -caps.days)), ...others]];
  const line = (what, cap, list) => ({ what, limit: caps[cap], spent: total(list) });
  const same = (list) => list.filter((one) => one.schema === schema.hash);
  return [
    line(`about these keys in ${caps.days} days`, "schema_period", same(recent)),
    line("about these keys ever", "schema_life", same(ever)),
    line(`about everything in ${caps.days} days`, "period", recent),
    line("about everything ever", "life", ever),
  ];
}

export function refuseBeyond(cost, held) {
  for (const line of held) {
    const sentence = `The device does not answer: epsilon ${shown(cost)} would exceed what it may release (${spelled(line)}).`;
    demand(atMost(add(cost, line.spent), parse(line.limit)), "budget/exceeded", sentence);
  }
}

export const spelled = ({ what, spent, limit }) => `${what}: ${shown(spent)} of ${limit}`;

/** ε for people: six places, rounded up; what is stored and compared is exact. */
export const shown = ([above, below]) => text([ceilDivide(above * 1000000n, below), 1000000n]);
