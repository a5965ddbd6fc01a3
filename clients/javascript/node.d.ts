import type { Storage } from "./index.js";

export * from "./index.js";

export class FileStorage implements Storage {
  constructor(path: string);
  read(): Promise<string | null>;
  write(text: string): Promise<void>;
  alone<T>(task: () => Promise<T>): Promise<T>;
  durable(): Promise<boolean>;
}
