/**
 * Where a device keeps its books: one text that is replaced as a whole (`read`, `write`), a lock around it (`alone`), and
 * whether the place outlives a clearing of the browser's data as far as the browser promises (`durable`).
 */
import { demand } from "./errors.js";

/** Gone with the object. */
export class MemoryStorage {
  constructor(durable = true) {
    this.text = null;
    this.last = Promise.resolve();
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

const keepsNothing = () => demand(false, "storage/refused", "This browser keeps nothing for this page, so nothing is answered here.");

/** IndexedDB under a Web Lock: one tab at a time. */
export class BrowserStorage {
  constructor(name = "keyveil") {
    this.name = name;
  }

  async #run(mode, act) {
    const wait = (request, event = "success") =>
      new Promise((done, fail) => {
        request[`on${event}`] = () => done(request.result);
        request.onerror = request.onabort = () => fail(request.error);
      });
    let base;
    try {
      const opening = indexedDB.open(this.name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("device");
      base = await wait(opening);
      const step = base.transaction("device", mode, { durability: "strict" });
      const [found] = await Promise.all([wait(act(step.objectStore("device"))), wait(step, "complete")]);
      return found;
    } catch {
      return keepsNothing();
    } finally {
      base?.close();
    }
  }

  async read() {
    return (await this.#run("readonly", (store) => store.get("state"))) ?? null;
  }

  async write(text) {
    await this.#run("readwrite", (store) => store.put(text, "state"));
  }

  async alone(task) {
    const { locks } = globalThis.navigator ?? {};
    demand(locks, "storage/locks", "This browser cannot keep tabs apart.");
    let begun = false;
    const alone = () => ((begun = true), task());
    return locks.request(`keyveil/${this.name}`, alone).catch((reason) => (begun ? Promise.reject(reason) : keepsNothing()));
  }

  async durable() {
    const { storage } = globalThis.navigator ?? {};
    return Boolean((await storage?.persisted?.()) || (await storage?.persist?.()));
  }
}
