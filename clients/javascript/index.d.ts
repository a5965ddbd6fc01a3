/** A part of a record that does not count, or not as it is. */
export interface Ignored {
  /** no record; a key that nobody asks about; a value that is no number, out of range, or between two levels; too many pairs */
  why: "record" | "unknown" | "unreadable" | "clamped" | "rounded" | "surplus";
  key: string;
}

/** What became of a call of `report`; decimals are strings. */
export interface Outcome {
  campaign: string;
  state: "sent" | "waiting" | "refused" | "not-asked" | "between" | "closed";
  round: number | null;
  /** spent by this call */
  epsilon: string;
  /** its id */
  report: string | null;
  code: string | null;
  /** whether this call's record was read: an earlier report is sent again whatever the record is */
  used: boolean;
  ignored: Ignored[];
  /** between two rounds: the first day of the next one, if it is named */
  opens: string | null;
}

/** What a campaign asks, and what answering it now would mean. */
export interface Facts {
  name: string;
  hash: string;
  consent: "given" | "withdrawn" | null;
  agreed: boolean;
  durable: boolean;
  /** the latest day ever seen, if the clock is behind it: until then no period of a cap ends */
  clock: string | null;
  /** the code with which an answer would be refused now */
  refusal: string | null;
  /** what counts against each cap: `spent` in units of 10^-1100 */
  spent: { cap: keyof Caps; limit: string; spent: bigint }[];
  notice: unknown;
}

/** The same with words: show `text` to the person. */
export interface Explanation extends Facts {
  text: string;
  /** what the open round costs, by this device's own computation */
  epsilon: string | null;
}

/** What a report would see of a record: pairs of key and place of the value from -65536 to 65536; one possible report. */
export interface Preview {
  pairs: [number, number][];
  ignored: Ignored[];
  report: { id: string; payload: string };
}

/** One report in the ledger, with what was sent and what became of it. */
export interface Entry {
  name: string;
  series: string;
  campaign: string;
  schema: string;
  terms: string;
  round: number;
  document: string;
  day: string;
  mechanism: string;
  epsilon: string;
  free: boolean;
  report: string;
  payload: string | null;
  first: string | null;
  state: "sent" | "waiting" | "refused" | "withdrawn";
  code: string | null;
  whole: string | null;
  until: string | null;
}

/** Where a device keeps its books: one text that is replaced as a whole, and a lock around it. */
export interface Storage {
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  /** runs a task while nobody else does */
  alone<T>(task: () => Promise<T>): Promise<T>;
  /** whether the place outlives a clearing of the browser's data, as far as the browser promises */
  durable(): Promise<boolean>;
}

/** The most epsilon that may leave a device: in any `days` days and ever, about one schema and about all. */
export interface Caps {
  days: number;
  schema_period: string;
  schema_life: string;
  period: string;
  life: string;
}

export interface Transport {
  request(method: string, path: string, body?: Uint8Array, headers?: Record<string, string>): Promise<{ status: number; headers: Headers; body: Uint8Array }>;
}

export interface DeviceOptions {
  /** address, such as https://collector.example */
  collector?: string;
  storage: Storage;
  mechanisms?: Record<string, unknown>;
  caps?: Partial<Caps>;
  transport?: Transport;
  coins?: Coins;
  now?: () => Date;
  /** tries of an upload, its first and longest pause, and the pace of fresh reports; seconds */
  patience?: Partial<{ tries: number; first: number; longest: number; pace: number }>;
  sleep?: (seconds: number) => Promise<void>;
  /** answer although Global Privacy Control or Do Not Track is set */
  ignoreSignals?: boolean;
  /** the words of an explanation, in the language of the page; `keyveil/explain` has English ones, `keyveil/small` none */
  explained?: (facts: Facts) => string;
}

export type KeyValueRecord = Record<string, unknown> | Map<string | number | bigint, unknown>;

export class Device {
  constructor(given: DeviceOptions);
  storage: Storage;
  mechanisms: Record<string, unknown>;
  transport: Transport;
  prefix: string;
  coins: Coins;
  now: () => Date;
  patience: { tries: number; first: number; longest: number; pace: number };
  sleep: (seconds: number) => Promise<void>;
  ignoreSignals: boolean;
  explained: (facts: Facts) => string;
  /** What a campaign asks now, at what price, and why it would be refused; changes nothing of the ledger. */
  explain(name: string): Promise<Explanation>;
  /** Agree to what was shown, or else to what the collector serves now. */
  consent(name: string, shown?: Explanation): Promise<void>;
  /** Delete unsent reports, and count what has begun as answered; the ledger stays. Gives how many were deleted. */
  withdraw(name: string): Promise<number>;
  /** What a report would see of a record, what it would not, and one possible report; nothing is spent or sent. */
  preview(name: string, record: KeyValueRecord): Promise<Preview>;
  /** Answer the open round, at most once; what cannot be sent now waits for `flush`. */
  report(name: string, record: KeyValueRecord, more?: { token?: string | null; shown?: Explanation }): Promise<Outcome>;
  /** Try again to send what waits; if the collector cannot be reached, those after it wait too. */
  flush(): Promise<Outcome[]>;
  /** Everything that was paid for, or repeated for free, oldest first, with what became of it. */
  ledger(): Promise<Entry[]>;
  /** Ledger, caps and consents; no secrets and no tokens. */
  export(): Promise<Record<string, unknown>>;
  /** Change some caps for good; looser ones than before only with `loosen`. */
  limit(changes: Partial<Caps>, loosen?: boolean): Promise<void>;
  /** Take the clock's day for right, however far it is ahead of the latest day seen. */
  trustClock(): Promise<void>;
}

/** Uniform whole numbers from a source of bytes; without one from Web Crypto. */
export class Coins {
  constructor(bytes?: (count: number) => Uint8Array);
  bytes: (count: number) => Uint8Array;
  below<T extends number | bigint>(bound: T): T;
  belowEach(bound: number | bigint, count: number): bigint[];
  pick(runs: [number, bigint][]): [number, number];
  choose(weights: bigint[]): number;
  chance<T extends number | bigint>(numerator: T, denominator: T): boolean;
  subset<T>(size: number, list: T[]): T[];
}

/** An error with a stable code, such as "budget/exceeded"; `keyveil/explain` has words for those that people meet. */
export class KeyveilError extends Error {
  constructor(code: string);
  code: string;
}

/** For tests and simulation: gone with the object. */
export class MemoryStorage implements Storage {
  constructor(durable?: boolean);
  text: string | null;
  last: Promise<unknown>;
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}

/** IndexedDB under a Web Lock: one tab at a time. */
export class BrowserStorage implements Storage {
  constructor(name?: string);
  name: string;
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}

/** The programs of this device by the names that documents have for them. */
export const mechanisms: Record<string, unknown>;
