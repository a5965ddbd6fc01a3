/** What was released, what it cost, and how much more may be spent. Nothing is ever given back. */
import { dayAfter } from "./days.js";
import { demand } from "./errors.js";
import { add, ceilDivide, compare, fraction, parse, subtract, text, ZERO } from "./exact.js";

/** The most ε that may leave a device: in any `days` days and ever, about one schema and about all. */
export const CAPS = { days: 30, schema_period: "2", schema_life: "8", period: "4", life: "16" };

const total = (entries) => entries.reduce((sum, one) => add(sum, parse(one.epsilon)), ZERO);

/** Caps with some of them changed; looser ones than before only if that is said. */
export function changedCaps(known, changes, loosen) {
  const caps = { ...known };
  for (const [name, value] of Object.entries(changes)) {
    demand(name in CAPS, "epsilon/cap", `There are the caps ${Object.keys(CAPS).join(", ")}.`);
    if (name === "days") demand(Number.isSafeInteger(value) && value > 0, "budget/invalid", "Days are a whole number from 1.");
    else demand(/^\d{1,9}(\.\d{1,30})?$/.test(value), "epsilon/invalid", `The cap ${name} is an exact number from 0.`);
    caps[name] = name === "days" ? value : text(parse(value));
    const looser = compare(parse(caps[name]), parse(known[name])) * (name === "days" ? -1 : 1) > 0;
    demand(loosen || !looser, "budget/looser", `The device's own ${name} would be loosened: say so, or leave it.`);
  }
  return caps;
}

/** What was spent on a campaign. */
export const spentOn = (state, series, campaign) =>
  total(state.entries.filter((one) => one.series === series && one.campaign === campaign));

/** What is set aside on a day for later rounds of campaigns, and not spent yet. */
export const reserved = (state, day) =>
  state.reservations
    .filter((one) => one.until === null || one.until >= day)
    .map((one) => ({ ...one, epsilon: text(subtract(parse(one.epsilon), spentOn(state, one.series, one.campaign))) }));

/** Every cap that a report about a campaign's schema is held against on a day; its own reservation does not count. */
export function lines(state, { series, hash, schema }, day) {
  const { caps, entries } = state;
  const aside = reserved(state, day).filter((one) => one.series !== series || one.campaign !== hash);
  const ever = [...entries, ...aside];
  const recent = [...entries.filter((one) => one.day > dayAfter(day, -caps.days)), ...aside];
  const line = (what, cap, list) => ({ what, limit: caps[cap], spent: total(list) });
  const same = (list) => list.filter((one) => one.schema === schema.hash);
  return [
    line(`about these keys in ${caps.days} days`, "schema_period", same(recent)),
    line("about these keys ever", "schema_life", same(ever)),
    line(`about everything in ${caps.days} days`, "period", recent),
    line("about everything ever", "life", ever),
  ];
}

/** Refuse a report that would exceed one of the caps. */
export function refuseBeyond(cost, held) {
  for (const line of held)
    demand(
      compare(add(cost, line.spent), parse(line.limit)) <= 0,
      "budget/exceeded",
      `The device does not answer: epsilon ${shown(cost)} would exceed what it may release (${spelled(line)}).`,
    );
}

/** A cap beside what was spent of it, in words for the owner. */
export const spelled = ({ what, spent, limit }) => `${what}: ${shown(spent)} of ${limit}`;

/** ε for people: six places, rounded up; what is stored and compared is exact. */
export const shown = ([above, below]) => text(fraction(ceilDivide(above * 1000000n, below), 1000000n));
