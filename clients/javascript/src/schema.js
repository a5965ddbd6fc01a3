/** Keys and ranges; a record becomes pairs [key, z] with z / 2^16 on [-1, 1]. */
import { only, upTo } from "./mechanisms.js";
import { demand, hash, isObject, isWhole, parse } from "./wire.js";

export const GRID = 1 << 16;

/** The sign of a value: 0 minus, 1 plus. */
export const signs = { count: 2, draw: (value, coins) => Number(coins.chance(GRID + value, 2 * GRID)) };

/** One linear range for all keys; src/scales.js knows more. */
export class Schema {
  static async read(document) {
    return Object.assign(new this(document), { hash: await hash(document) });
  }

  constructor({ keys, ...values }) {
    this.names = Array.isArray(keys) ? keys : upTo(isWhole(1, 1 << 16)(keys) && keys).map(String);
    this.range(values, this.names !== keys);
    this.d = this.names.length;
    demand(this.d && this.names.every((name) => typeof name === "string"), "schema/keys");
    this.places = new Map(this.names.map((name, place) => [name, place]));
    demand(this.places.size === this.d, "schema/duplicate");
  }

  range({ low, high, ...more }) {
    demand(!Object.keys(more).length, "device/options");
    this.ranges = [rangeOf(low, high)];
  }

  /** A value on the grid, and whether that is something else. */
  place(key, value) {
    const { low, high, unit } = this.ranges[this.ranges.length > 1 ? key : 0];
    return [rounded(Math.min(Math.max(unit(value), -1), 1) * GRID), (value < low || value > high) && "clamped"];
  }

  /** The labels that stand for values without bias: how many, and how one is drawn. */
  labels() {
    return { takes: { bins: only(null) }, ...signs };
  }

  /** What counts, and what does not and why. Nothing is raised: a missing report would tell. */
  look(record, cap) {
    const [pairs, ignored, entries] = [new Map(), [], entriesOf(record)];
    const note = (why, key = "") => ignored.push({ why, key: `${key}`.slice(0, 60) });
    if (!entries) note("record");
    for (const [key, given] of entries || []) {
      const named = ["string", "bigint"].includes(typeof key) || Number.isSafeInteger(key);
      const place = named ? (this.places.get(`${key}`) ?? this.other) : undefined;
      const value = ["number", "boolean", "bigint"].includes(typeof given) ? Number(given) : NaN;
      if (place === undefined) note("unknown", named ? key : typeof key);
      else if (!Number.isFinite(value)) note("unreadable", key);
      else {
        const [z, changed] = this.place(place, value);
        pairs.set(place, z);
        if (changed) note(changed, key);
      }
    }
    if (pairs.size > cap) note("surplus");
    return { pairs: [...pairs].sort((a, b) => a[0] - b[0]), ignored };
  }
}

/** Nothing for what is no record, or raises when it is looked at. */
function entriesOf(record) {
  try {
    return record instanceof Map ? [...record] : isObject(record) && Object.entries(record);
  } catch {
    return null;
  }
}

const NO_FRACTIONS = 1.5 * 2 ** 52; // beside it a double has no room for them: they are rounded, halves to even

export const rounded = (number) => number + NO_FRACTIONS - NO_FRACTIONS;

/** Decimals in their shortest form: whole numbers as numbers, others as texts. */
export function bound(given) {
  const shortest = /^(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(given);
  demand(shortest && typeof given === (Number.isSafeInteger(Number(given)) ? "number" : "string"), "campaign/document");
  return given;
}

export function rangeOf(low, high) {
  const places = Math.max(...[low, high].map((end) => `${bound(end)}`.length)); // more than they have
  const [start, end] = [low, high].map((end) => parse(end, places));
  demand(start < end, "schema/range");
  const half = (sum) => Number(`${5n * sum}e-${places + 1}`);
  return scaled(low, high, half(start + end), half(end - start));
}

export function scaled(low, high, middle, half, scale = (value) => value) {
  demand(half > Math.abs(middle) * 2 ** -50 && Number.isFinite(half), "schema/range");
  return { low, high, unit: (value) => (scale(value) - middle) / half };
}
