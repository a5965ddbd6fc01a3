/** The device with every mechanism; `keyveil/small` has two, `keyveil/node` files. */
import { Device as Base } from "./src/device.js";
import { explained } from "./src/explain.js";
import { reading } from "./src/rounds.js";
import { mechanisms } from "./src/table.js";

export { Coins } from "./src/coins.js";
export { BrowserStorage, MemoryStorage } from "./src/storage.js";
export { KeyveilError } from "./src/wire.js";
export { mechanisms };

export class Device extends Base {
  constructor(given) {
    super({ mechanisms, explained, reading, ...given });
  }
}
