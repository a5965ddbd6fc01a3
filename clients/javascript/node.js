import { webcrypto } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";
import { must } from "./src/wire.js";

globalThis.crypto ??= /** @type {any} */ (webcrypto); // Node 18 has no global one

export * from "./index.js";

/** One file, replaced as a whole; a lock file beside it keeps processes apart. */
export class FileStorage {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    this.durable = async () => true;
  }

  async read() {
    try {
      return await readFile(this.path, "utf8");
    } catch (reason) {
      must(reason.code === "ENOENT", "storage/refused");
      return null;
    }
  }

  async write(text) {
    const file = await open(`${this.path}.new`, "w", 0o600);
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(`${this.path}.new`, this.path);
  }

  async alone(task) {
    const lock = `${this.path}.lock`;
    for (let tries = 0; ; tries++) {
      try {
        await (await open(lock, "wx", 0o600)).close();
        break;
      } catch (reason) {
        must(reason.code === "EEXIST" && tries < 200, "storage/locked");
        await new Promise((done) => setTimeout(done, 25));
      }
    }
    try {
      return await task();
    } finally {
      await rm(lock, { force: true });
    }
  }
}
