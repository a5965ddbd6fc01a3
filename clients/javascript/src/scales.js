/** Ranges for each key, logarithms, levels, other keys, keys beside the document. */
import { only, whole } from "./mechanisms.js";
import { exact, GRID, range, round, scaled, Schema } from "./schema.js";
import { hex, isObject, must, parsed, sha256 } from "./wire.js";

const rule = (holds, code) => must(holds, `schema/${code}`);

export class Scales extends Schema {
  static async read({ keys, ...values }, get) {
    return super.read({ ...values, keys: isObject(keys) ? await dictionary(keys, get) : keys });
  }

  range({ low, high, map = "linear", other, levels, ...more }, numbered) {
    rule(!Object.keys(more).length, "document");
    if (numbered && typeof other === "string" && !this.names.includes(other)) this.names.push(other);
    rule(other === undefined || this.names.includes(other), "document");
    if (other !== undefined) this.other = this.names.indexOf(other);
    const columns = [low, high, map].map((given) => {
      const each = Array.isArray(given);
      rule(!each || given.length === this.names.length, "length");
      must(!each || given.some((entry) => entry !== given[0]), "schema/document"); // equal ones are written once
      return each ? given : [given];
    });
    const rows = Math.max(...columns.map((column) => column.length));
    this.ranges = Array.from({ length: rows }, (_, row) => mapped(...columns.map((column) => of(column, row))));
    if (levels !== undefined) this.levels = placed(this, levels);
    this.mostLevels = Math.max(0, ...(this.levels ?? []).map((row) => row?.length ?? 0));
  }

  place(key, value) {
    const [z, changed] = super.place(key, value, of(this.ranges, key));
    return [z, changed || (this.levels && of(this.levels, key)?.includes(z) === false && "rounded")];
  }

  labels({ bins, rounding }) {
    if (bins === null) return super.labels();
    (this.mostLevels ? only(2, this.mostLevels) : whole(2, 256))(bins);
    const cell = (value) => Math.min(Math.floor(((GRID + value) * bins) / (2 * GRID)), bins - 1);
    const equal = Array.from({ length: bins }, (_, place) => round((2 * GRID * place) / (bins - 1)) - GRID);
    const point = (value, coins, key) => {
      const row = (bins === this.mostLevels && of(this.levels, key)) || equal;
      const lower = Math.max(row.findLastIndex((one) => one <= value), 0);
      const [rest, step] = [value - row[lower], row[lower + 1] - row[lower]];
      return lower + Number(rest > 0 && rest < step && coins.chance(rest, step));
    };
    const takes = { bins: only(bins), rounding: only("grid", this.mostLevels ? "grid" : "cell") };
    return { takes, count: bins, draw: rounding === "cell" ? cell : point };
  }
}

const of = (list, key) => list[list.length > 1 ? key : 0];

/** Levels on the grid: one row if all are alike; null for a key that has none. */
function placed(schema, given) {
  const each = given.some((row) => row === null || Array.isArray(row));
  rule(!each || given.length === schema.names.length, "length");
  return Array.from({ length: each ? given.length : schema.ranges.length }, (_, key) => {
    const row = each ? given[key] : given;
    if (row === null) return null;
    const { low, high } = of(schema.ranges, key);
    const points = row.map((level) => schema.place(key, Number(exact(level)))[0]);
    const rising = points.every((z, at) => !at || z > points[at - 1]);
    rule(row.length > 1 && row.length <= 256 && row[0] === low && row.at(-1) === high && rising, "levels");
    return points;
  });
}

function mapped(low, high, map) {
  const linear = range(low, high);
  rule(["linear", "log"].includes(map), "map");
  if (map === "linear") return linear;
  const scale = (value) => (value > 0 ? Math.log(value) : -Infinity);
  const [start, end] = [Number(low), Number(high)].map(scale);
  rule(start > -Infinity, "log");
  return scaled(low, high, (start + end) / 2, (end - start) / 2, scale);
}

async function dictionary({ sha256: given, count }, get) {
  must(/^[0-9a-f]{64}$/.test(given), "campaign/dictionary");
  const bytes = await get(`dictionaries/${given}`);
  must(hex(await sha256(bytes)) === given && parsed(bytes).length === count, "campaign/dictionary");
  return parsed(bytes);
}
