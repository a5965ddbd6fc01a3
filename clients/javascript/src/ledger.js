/** What was released, what it cost, and how much more may be spent. Nothing is ever given back. */
import { refuse } from "./errors.js";
import { add, ceilDivide, compare, fraction, parse, subtract, text, ZERO } from "./exact.js";
import { dayAfter } from "./notice.js";

/** The most ε that may leave a device: in any `days` days and ever, about one schema and about all. */
export const CAPS = { days: 30, schema_period: "2", schema_life: "8", period: "4", life: "16" };

const LIMITS = ["schema_period", "schema_life", "period", "life"];
const total = (entries) => entries.reduce((sum, one) => add(sum, parse(one.epsilon)), ZERO);

/** Caps with some of them changed; looser ones than before only if that is said. */
export function changedCaps(known, changes, loosen) {
  const caps = { ...known };
  for (const [name, value] of Object.entries(changes)) {
    if (!(name in CAPS)) refuse("epsilon/cap", `There is no cap ${name}; there are ${Object.keys(CAPS).join(", ")}.`);
    if (name === "days" ? !Number.isSafeInteger(value) || value < 1 : !/^\d{1,9}(\.\d{1,30})?$/.test(String(value)))
      refuse(name === "days" ? "budget/invalid" : "epsilon/invalid", `The cap ${name} is an exact number from 0.`);
    caps[name] = name === "days" ? value : text(parse(String(value)));
  }
  const looser = caps.days < known.days || LIMITS.some((name) => compare(parse(caps[name]), parse(known[name])) > 0);
  if (looser && !loosen) refuse("budget/looser", "The device's own caps would be loosened: say so, or leave it.");
  return caps;
}

/** What is set aside on a day for later rounds of campaigns, and not spent yet. */
export function reserved(state, day) {
  return state.reservations
    .filter((one) => one.until === null || one.until >= day)
    .map((one) => ({ ...one, epsilon: text(subtract(parse(one.epsilon), spentOn(state, one.series, one.campaign))) }));
}

/** What was spent on a campaign. */
export const spentOn = (state, series, campaign) =>
  total(state.entries.filter((one) => one.series === series && one.campaign === campaign));

/** Every cap that a report about a schema is held against on a day; `besides` is the campaign that has its own. */
export function lines(state, schema, day, besides = "") {
  const aside = reserved(state, day).filter((one) => one.campaign !== besides);
  const since = dayAfter(day, -state.caps.days);
  const ever = [...state.entries, ...aside];
  const recent = [...state.entries.filter((one) => one.day > since), ...aside];
  const about = (list) => list.filter((one) => one.schema === schema);
  const days = `in ${state.caps.days} days`;
  return [
    { what: `about these keys ${days}`, limit: state.caps.schema_period, spent: total(about(recent)) },
    { what: "about these keys ever", limit: state.caps.schema_life, spent: total(about(ever)) },
    { what: `about everything ${days}`, limit: state.caps.period, spent: total(recent) },
    { what: "about everything ever", limit: state.caps.life, spent: total(ever) },
  ];
}

/** Refuse a report that would exceed one of the caps. */
export function refuseBeyond(cost, held) {
  for (const { what, limit, spent } of held)
    if (compare(add(cost, spent), parse(limit)) > 0)
      refuse("budget/exceeded", `The device does not answer: epsilon ${shown(cost)} would exceed what it may release (${what}: ${shown(spent)} of ${limit}).`);
}

/** ε for people: six places, rounded up; what is stored and compared is exact. */
export const shown = ([above, below]) => text(fraction(ceilDivide(above * 1000000n, below), 1000000n));
