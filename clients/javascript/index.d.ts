export interface Ignored { why: string; key: string; sentence: string }

export interface Outcome {
  campaign: string;
  state: "sent" | "waiting" | "refused" | "not-asked" | "between" | "closed" | "withdrawn";
  round: number | null;
  epsilon: string;
  report: string | null;
  code: string | null;
  used: boolean;
  ignored: Ignored[];
}

export interface Explanation {
  name: string;
  text: string;
  epsilon: string | null;
  hash: string;
  consent: "given" | "withdrawn" | null;
  agreed: boolean;
  durable: boolean;
  remarks: string[];
  refusal: string | null;
  notice: unknown;
}

export interface Storage {
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}

export interface Caps { days: number; schema_period: string; schema_life: string; period: string; life: string }

export interface DeviceOptions {
  collector?: string;
  storage: Storage;
  mechanisms?: Record<string, Function>;
  caps?: Partial<Caps>;
  transport?: { request(method: string, path: string, body?: Uint8Array, headers?: Record<string, string>): Promise<unknown> };
  coins?: Coins;
  now?: () => Date;
  patience?: Partial<{ tries: number; first: number; longest: number; pace: number }>;
  sleep?: (seconds: number) => Promise<void>;
  ignoreSignals?: boolean;
}

export type KeyValueRecord = Record<string, number | boolean> | Map<string | number, number | boolean>;

export class Device {
  constructor(given: DeviceOptions);
  explain(name: string): Promise<Explanation>;
  consent(name: string, shown?: Explanation): Promise<void>;
  withdraw(name: string): Promise<number>;
  preview(name: string, record: KeyValueRecord): Promise<{ pairs: [number, number][]; ignored: Ignored[]; report: { id: string; payload: string } }>;
  report(name: string, record: KeyValueRecord, more?: { token?: string | null; shown?: Explanation }): Promise<Outcome>;
  flush(): Promise<Outcome[]>;
  ledger(): Promise<Record<string, unknown>[]>;
  export(): Promise<Record<string, unknown>>;
  limit(changes: Partial<Caps>, loosen?: boolean): Promise<void>;
  trustClock(): Promise<void>;
}

export class Coins {
  constructor(bytes?: (count: number) => Uint8Array);
  bytes(count: number): Uint8Array;
}

export class KeyveilError extends Error {
  constructor(code: string, sentence: string);
  code: string;
}

export class MemoryStorage implements Storage {
  constructor(durable?: boolean);
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}

export class BrowserStorage implements Storage {
  constructor(name?: string);
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}

export const mechanisms: Record<string, Function>;
