/** Where a device keeps its books: one text that is replaced as a whole, under a lock (index.d.ts). */
import { demand } from "./wire.js";

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

const refused = () => demand(false, "storage/refused");

/** IndexedDB under a Web Lock: one tab at a time. */
export class BrowserStorage {
  constructor(name = "keyveil") {
    this.name = name;
  }

  #run(mode, act) {
    const opened = new Promise((done, fail) => {
      const opening = indexedDB.open(this.name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("device");
      opening.onsuccess = () => done(opening.result);
      opening.onerror = fail;
    });
    const acted = (base) =>
      new Promise((done, fail) => {
        const step = base.transaction("device", mode, { durability: "strict" });
        const request = act(step.objectStore("device"));
        step.oncomplete = () => done(request.result);
        step.onabort = fail;
        base.close();
      });
    return opened.then(acted).catch(refused);
  }

  async read() {
    return (await this.#run("readonly", (store) => store.get("state"))) ?? null;
  }

  async write(text) {
    await this.#run("readwrite", (store) => store.put(text, "state"));
  }

  async alone(task) {
    const { locks } = globalThis.navigator ?? {};
    demand(locks, "storage/locks");
    let running;
    await locks.request(`keyveil/${this.name}`, () => (running = task()).catch(() => {})).catch(refused);
    return running;
  }

  async durable() {
    const { storage } = globalThis.navigator ?? {};
    return Boolean((await storage?.persisted?.()) || (await storage?.persist?.()));
  }
}
