import type { Storage } from "./index.js";

export * from "./index.js";

/** One file, replaced as a whole; a lock file beside it keeps processes apart. */
export class FileStorage implements Storage {
  constructor(path: string);
  path: string;
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}
