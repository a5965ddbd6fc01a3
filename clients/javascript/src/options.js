/** Options of a round's document: each in its one resolved spelling; what is missing or unknown is refused. */
import { refuse } from "./errors.js";
import { parse, text } from "./exact.js";

export const wrong = (sentence) => refuse("mechanism/option", sentence);

/** @param {Record<string, any>} given @param {Record<string, (value: any, name: string) => any>} takes */
export function read(given, takes) {
  for (const name of Object.keys(given)) if (!(name in takes)) wrong(`There is no option ${name}.`);
  return Object.fromEntries(Object.entries(takes).map(([name, take]) => [name, take(given[name], name)]));
}

export const whole = (low, high) => (value, name) =>
  Number.isSafeInteger(value) && value >= low && value <= high ? value : wrong(`${name} is from ${low} to ${high}.`);

export const only = (...known) => (value, name) =>
  known.includes(value) ? value : wrong(`${name} is not one that this device knows.`);

export const orNothing = (take) => (value, name) => (value === null ? null : take(value, name));

/** An option that documents leave out where it is not given. */
export const unsaid = (take) => (value, name) => (value === undefined ? null : take(value, name));

export const exactly = (value, name) => {
  const read = parse(value);
  return typeof value === "string" && text(read) === value ? read : wrong(`${name} is an exact number.`);
};

/** `bins` and `rounding`, as mechanisms that tell points or cells of values have them. */
export const binned = (schema) => ({
  bins: (value, name) => {
    const bins = orNothing(whole(2, 256))(value, name);
    if (schema.mostLevels && bins !== 2 && bins !== schema.mostLevels) wrong(`${name} are 2, or as many as levels.`);
    return bins;
  },
  rounding: unsaid(only("grid", ...(schema.mostLevels ? [] : ["cell"]))),
});

/** Refuse a rounding without bins, and bins without one. */
export function agree({ bins, rounding }) {
  if ((bins === null) !== (rounding === null)) wrong("Rounding is told with bins, and only with them.");
}
