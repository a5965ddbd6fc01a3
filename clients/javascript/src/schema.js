/** Keys and ranges; a record becomes pairs [key, z] with z / 2^16 on [-1, 1]. */
import { only, upTo } from "./mechanisms.js";
import { hash, isObject, isWhole, must, parse } from "./wire.js";

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
    must(this.names.every((name) => typeof name === "string") && this.d, "schema/keys");
    this.places = new Map(this.names.map((name, at) => [name, at]));
    must(this.places.size === this.d, "schema/duplicate");
  }

  range({ low, high, ...more }) {
    must(!Object.keys(more).length, "device/options");
    this.ranges = [range(low, high)];
  }

  /** A value on the grid, and whether that is something else. */
  place(key, value, { low, high, unit } = this.ranges[0]) {
    return [round(Math.min(Math.max(unit(value), -1), 1) * GRID), (value < low || value > high) && "clamped"];
  }

  /** The labels that stand for values without bias: how many, and how one is drawn. */
  labels() {
    return { takes: { bins: only(null) }, ...signs };
  }

  /** What counts, and what does not and why. Nothing is raised: a missing report would tell. */
  look(record, cap) {
    const [pairs, ignored, entries] = [new Map(), [], entriesOf(record)];
    const say = (why, key = "") => ignored.push({ why, key: `${key}`.slice(0, 60) });
    if (!entries) say("record");
    for (const [key, given] of entries || []) {
      const known = /string|bigint/.test(typeof key) || Number.isSafeInteger(key);
      const at = known ? (this.places.get(`${key}`) ?? this.other) : undefined;
      const value = /number|boolean|bigint/.test(typeof given) ? Number(given) : NaN;
      if (at === undefined) say("unknown", known ? key : typeof key);
      else if (!Number.isFinite(value)) say("unreadable", key);
      else {
        const [z, changed] = this.place(at, value);
        pairs.set(at, z);
        if (changed) say(changed, key);
      }
    }
    if (pairs.size > cap) say("surplus");
    return { pairs: [...pairs].sort((a, b) => a[0] - b[0]), ignored };
  }
}

/** Nothing for what is no record, or raises. */
function entriesOf(given) {
  try {
    return given instanceof Map ? [...given] : isObject(given) && Object.entries(given);
  } catch {}
}

const WHOLE = 1.5 * 2 ** 52; // beside it doubles are whole: sums are rounded, halves to even

export const round = (number) => number + WHOLE - WHOLE;

/** Decimals in their shortest form: whole numbers as numbers, others as texts. */
export function exact(given) {
  const whole = Number.isSafeInteger(Number(given));
  must(/^(?!-0$)-?(0|[1-9]\d*)(\.\d*[1-9])?$/.test(given) && typeof given === (whole ? "number" : "string"), "campaign/document");
  return given;
}

export function range(low, high) {
  const size = `${exact(low)}${exact(high)}`.length; // more than they have
  const [start, end] = [low, high].map((end) => parse(end, size));
  must(start < end, "schema/range");
  const half = (sum) => Number(`${5n * sum}e-${size + 1}`);
  return scaled(low, high, half(start + end), half(end - start));
}

export function scaled(low, high, mean, half, scale = Number) {
  must(half > Math.abs(mean) * 2 ** -50 && Number.isFinite(half), "schema/range");
  return { low, high, unit: (value) => (scale(value) - mean) / half };
}
