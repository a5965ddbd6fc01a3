/** Options of a round's document: each in its one resolved spelling; what is missing or unknown is refused. */
import { demand } from "./errors.js";
import { parse, text } from "./exact.js";

export const rule = (holds, name) => demand(holds, "mechanism/option", `The option ${name} is not one that this device knows.`);

/** Every option by its own reader; readers that are `unsaid` give null where documents leave the option out. */
export function read(given, takes) {
  for (const name in given) rule(Object.hasOwn(takes, name), name);
  return Object.fromEntries(Object.entries(takes).map(([name, take]) => [name, take(given[name], name)]));
}

const reader = (fits) => (value, name) => (rule(fits(value), name), value);

export const whole = (low, high) => reader((value) => Number.isSafeInteger(value) && value >= low && value <= high);
export const only = (...known) => reader((value) => known.includes(value));
export const orNull = (take) => (value, name) => (value === null ? null : take(value, name));
export const unsaid = (take) => (value, name) => (value === undefined ? null : take(value, name));
export const exactly = (value, name) => {
  rule(typeof value === "string" && text(parse(value)) === value, name);
  return parse(value);
};

/** `bins` and `rounding`, as mechanisms that tell points or cells of values have them. */
export const binned = ({ mostLevels }, { bins }) => ({
  bins: orNull(mostLevels ? only(2, mostLevels) : whole(2, 256)),
  rounding: bins === null ? only(undefined) : only("grid", ...(mostLevels ? [] : ["cell"])),
});
