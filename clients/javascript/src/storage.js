/**
 * Where a device keeps its books: one text that is replaced as a whole, and a lock around it. `durable` says whether
 * the place outlives a clearing of the browser's data as far as the browser promises.
 */
import { refuse } from "./errors.js";

/**
 * @typedef {object} Storage
 * @property {() => Promise<string | null>} read
 * @property {(text: string) => Promise<void>} write
 * @property {<T>(task: () => Promise<T>) => Promise<T>} alone runs a task while nobody else does
 * @property {() => Promise<boolean>} durable
 */

/** For tests and simulation: gone with the object. @implements {Storage} */
export class MemoryStorage {
  constructor(durable = true) {
    /** @type {string | null} */ this.text = null;
    /** @type {Promise<unknown>} */ this.last = Promise.resolve();
    this.durable = async () => durable;
  }
  async read() {
    return this.text;
  }
  async write(text) {
    this.text = text;
  }
  alone(task) {
    const turn = this.last.then(task);
    this.last = turn.catch(() => {});
    return turn;
  }
}

const keepsNothing = () => refuse("storage/refused", "This browser keeps nothing for this page, so nothing is answered here.");

/** IndexedDB under a Web Lock: one tab at a time. @implements {Storage} */
export class BrowserStorage {
  constructor(name = "keyveil") {
    this.name = name;
  }

  async _run(mode, act) {
    const wait = (request) =>
      new Promise((done, fail) => {
        request.onsuccess = () => done(request.result);
        request.onerror = () => fail(request.error);
      });
    let base;
    try {
      const opening = globalThis.indexedDB.open(this.name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("device");
      base = await wait(opening);
      const step = base.transaction("device", mode, { durability: "strict" });
      const over = new Promise((done, fail) => {
        step.oncomplete = () => done(undefined);
        step.onabort = step.onerror = () => fail(step.error);
      });
      const [found] = await Promise.all([wait(act(step.objectStore("device"))), over]);
      return found;
    } catch {
      return keepsNothing();
    } finally {
      base?.close();
    }
  }

  async read() {
    return (await this._run("readonly", (store) => store.get("state"))) ?? null;
  }

  async write(text) {
    await this._run("readwrite", (store) => store.put(text, "state"));
  }

  async alone(task) {
    const { locks } = globalThis.navigator ?? {};
    if (!locks) refuse("storage/locks", "This browser cannot keep tabs apart.");
    let begun = false;
    const alone = () => ((begun = true), task());
    return locks.request(`keyveil/${this.name}`, alone).catch((reason) => (begun ? Promise.reject(reason) : keepsNothing()));
  }

  async durable() {
    const { storage } = globalThis.navigator ?? {};
    return Boolean((await storage?.persisted?.()) || (await storage?.persist?.()));
  }
}
