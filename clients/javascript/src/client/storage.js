/** Where a device keeps its books (index.d.ts). */
import { must } from "../wire.js";

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
    return (this.last = this.last.catch(() => {}).then(task));
  }
}

const refused = () => must(false, "storage/refused");

export class BrowserStorage {
  constructor(name = "keyveil") {
    this.name = name;
  }

  #run(act) {
    const opened = new Promise((done, fail) => {
      const request = indexedDB.open(this.name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore("device");
      request.onsuccess = () => done(request.result);
      request.onerror = fail;
    });
    const acted = (store) =>
      new Promise((done, fail) => {
        const step = store.transaction("device", "readwrite", { durability: "strict" });
        const request = act(step.objectStore("device"));
        step.oncomplete = () => done(request.result);
        step.onabort = fail;
        store.close();
      });
    return opened.then(acted).catch(refused);
  }

  async read() {
    return (await this.#run((store) => store.get("state"))) ?? null;
  }

  async write(text) {
    await this.#run((store) => store.put(text, "state"));
  }

  async alone(task) {
    const { locks } = globalThis.navigator ?? {};
    must(locks, "storage/locks");
    let turn;
    await locks.request(`keyveil/${this.name}`, () => (turn = task()).catch(() => {})).catch(refused);
    return turn;
  }

  async durable() {
    return (await globalThis.navigator?.storage?.persist?.()) ?? false;
  }
}
