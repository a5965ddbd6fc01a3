import { Device as Base } from "./src/client/device.js";
import { explained } from "./src/client/explain.js";
import { reading } from "./src/client/rounds.js";
import { mechanisms } from "./src/table.js";

export { Coins } from "./src/coins.js";
export { BrowserStorage, MemoryStorage } from "./src/client/storage.js";
export { KeyveilError } from "./src/wire.js";
export { mechanisms };

export class Device extends Base {
  constructor(given) {
    super({ mechanisms, explained, reading, ...given });
  }
}
